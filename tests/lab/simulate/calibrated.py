"""What a calibration would have found on an imagined machine, before anything was written there.

Its clock is as noisy as all others there: of three readings it keeps the middle one.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median

from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from tests.lab.simulate.conditions import Conditions, Noise

_DEPTH = 64
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
_BEFORE = -1  # where the noise starts: no answer does there


def calibrated(conditions: Conditions, drafters: Iterable[str]) -> Calibration:
    """The costs of passes, and of drafting with each of `drafters`, before any were dear."""
    conditions = replace(conditions, dear_from=0)
    noise = Noise(conditions, start=_BEFORE)

    def measured(seconds: float) -> float:
        return median(noise.reading(seconds) for _ in range(3))

    seconds = tuple(
        measured(conditions.verify_seconds(rows, context=_DEPTH, progress=0.0)) for rows in _ROWS
    )
    drafts = tuple(_drafting(conditions, name, measured) for name in drafters)
    return Calibration(PassCosts(_DEPTH, _ROWS, seconds), drafts)


def _drafting(
    conditions: Conditions, drafter: str, measured: Callable[[float], float]
) -> DraftCosts:
    one, two, behind = (
        conditions.draft_seconds(drafter, n, context=_DEPTH, progress=0.0, behind=b)
        for n, b in ((1, 0), (2, 0), (1, 1))
    )
    start = 2 * one - two
    return DraftCosts(
        drafter,
        start_seconds=measured(start) if start > 1e-9 else 0.0,
        step_seconds=measured(two - one),
        read_seconds=measured(behind - one),
    )
