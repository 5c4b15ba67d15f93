"""What a calibration would have found on an imagined machine, before anything was written there.

Its clock is as noisy as all others there: of three readings it keeps the middle one.
"""

from collections.abc import Callable, Iterable
from statistics import median

from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from tests.lab.simulate.conditions import Conditions, Noise

_DEPTHS = (64, 1024)
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
_BEFORE = -1  # where the noise starts: no answer does there


def calibrated(conditions: Conditions, drafters: Iterable[str]) -> Calibration:
    """The costs of passes, and of drafting with each of `drafters`."""
    noise = Noise(conditions, start=_BEFORE)

    def measured(seconds: float) -> float:
        return median(noise.reading(seconds) for _ in range(3))

    passes = [
        PassCosts(
            depth,
            _ROWS,
            tuple(
                measured(conditions.verify_seconds(rows, context=depth, progress=0.0))
                for rows in _ROWS
            ),
        )
        for depth in _DEPTHS
    ]
    drafts = [
        _drafting(conditions, name, depth, measured) for name in drafters for depth in _DEPTHS
    ]
    return Calibration(tuple(passes), tuple(drafts))


def _drafting(
    conditions: Conditions, drafter: str, depth: int, measured: Callable[[float], float]
) -> DraftCosts:
    one, two, watched, behind = (
        conditions.draft_seconds(drafter, n, context=depth, progress=0.0, watched=w, behind=b)
        for n, w, b in ((1, False, 0), (2, False, 0), (1, True, 0), (1, False, 1))
    )
    start = 2 * one - two
    return DraftCosts(
        drafter,
        depth,
        start_seconds=measured(start) if start > 1e-9 else 0.0,
        step_seconds=measured(two - one),
        watch_seconds=measured(watched - one),
        read_seconds=measured(behind - one),
    )
