"""What a pass over n rows costs, relative to one row: as published for Metal, not as measured here.

Linear between the published points and beyond them. Knows no clock.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from models.errors import Problem

_KEPT = 66  # rows that are worked out once: more are not asked for


@dataclass(frozen=True, slots=True)
class CostCurve:
    """`points`: (rows, cost), rising, from (1, 1.0) on. `source`: who published it, of what."""

    name: str
    source: str
    points: tuple[tuple[int, float], ...]
    _costs: tuple[float, ...] = field(init=False, repr=False, compare=False)  # by rows, from 0

    def __post_init__(self) -> None:
        rows = [row for row, _ in self.points]
        if self.points[0] != (1, 1.0) or rows != sorted(set(rows)) or len(rows) < 2:
            raise ValueError(f"the curve {self.name} does not rise from one row at cost 1")
        object.__setattr__(self, "_costs", tuple(map(self._between, range(_KEPT))))

    def cost(self, rows: int) -> float:
        """The cost of one pass over `rows`, in passes over one row."""
        return self._costs[rows] if rows < _KEPT else self._between(rows)

    def _between(self, rows: int) -> float:
        right = min(max(bisect_right(self.points, (rows, -1.0)), 1), len(self.points) - 1)
        (r0, c0), (r1, c1) = self.points[right - 1], self.points[right]
        return c0 + (c1 - c0) * (rows - r0) / (r1 - r0)


def _published(name: str, source: str, *points: tuple[int, float]) -> CostCurve:
    base = points[0][1] if points[0][0] == 1 else 1.0
    rest = [(rows, cost / base) for rows, cost in points if rows > 1]
    return CostCurve(name, source, ((1, 1.0), *rest))


PUBLISHED: tuple[CostCurve, ...] = (
    _published(
        "m4-pro",
        "M4 Pro, 4-bit, mlx 0.32 (ml-explore/mlx 3839)",
        *((2, 1.03), (3, 1.22), (4, 1.47), (6, 2.07), (8, 2.69)),
    ),
    _published(
        "m4-pro-mlx-0.31",
        "M4 Pro, 4-bit, mlx 0.31.2 (ml-explore/mlx 3839)",
        *((4, 1.89), (8, 3.44)),
    ),
    _published(
        "4-bit",
        "4-bit, chip not named (ml-explore/mlx 3852)",
        *((2, 0.99), (3, 1.13), (4, 1.43), (5, 1.75), (8, 2.84), (10, 4.5)),
    ),
    _published(
        "2-bit",
        "2-bit, chip not named (ml-explore/mlx 3852)",
        *((3, 1.82), (4, 2.34), (8, 4.53)),
    ),
    _published(
        "m3-ultra",
        "M3 Ultra, 4-bit (ml-explore/mlx 4265)",
        *((2, 1.83), (4, 3.26), (8, 6.12)),
    ),
    _published(
        "m5-70b",
        "M5, 70B, from milliseconds (ml-explore/mlx 3791)",
        *((1, 76.0), (3, 85.0), (5, 113.0), (8, 171.0), (12, 241.0)),
    ),
)


def find_curves(names: Sequence[str]) -> tuple[CostCurve, ...]:
    """The curves with these names; all of `PUBLISHED` where none is named. Raises `Problem`."""
    by_name = {curve.name: curve for curve in PUBLISHED}
    for name in names:
        if name not in by_name:
            raise Problem(
                f"There is no published curve {name!r}.", f"Choose from {', '.join(by_name)}."
            )
    return tuple(by_name[name] for name in dict.fromkeys(names)) or PUBLISHED
