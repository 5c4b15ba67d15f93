"""Whether the machine has slowed down since the benchmark began, and how long to let it rest.

Pure: told how fast the same small piece of work went, again and again. Knows no clock, and cannot
tell heat from other programs: it says how much slower, never why.
"""

import statistics
from dataclasses import dataclass

_FEW = 3  # one measurement may be an accident; a median of a few is not
_REST_SECONDS = 10.0
_MOST_RESTING = 0.5  # of the time that went into measuring: other programs may stay


@dataclass(frozen=True, slots=True)
class Cooling:
    """For the report. `fall`: the most that the speed had fallen, a share of the first one's;
    None where too little was measured. `limit`: the share from which on there were rests."""

    fall: float | None
    limit: float
    rests: int
    rest_seconds: float


class Thermometer:
    """Remembers how fast the same work went. `limit` 0: never rest."""

    def __init__(self, *, limit: float) -> None:
        self._limit = limit
        self._speeds: list[float] = []
        self._worst: float | None = None
        self._rests = 0
        self._rested_seconds = 0.0

    def measured(self, speed: float) -> None:
        """It went at `speed`, in any unit."""
        if speed > 0:
            self._speeds.append(speed)
        if self.fall is not None:
            self._worst = max(self.fall, self._worst or 0.0)

    @property
    def fall(self) -> float | None:
        """How much of the first speed is lost now; None before there is anything to compare."""
        if len(self._speeds) <= _FEW:
            return None
        first, latest = (statistics.median(s) for s in (self._speeds[:_FEW], self._speeds[-_FEW:]))
        return max(0.0, 1.0 - latest / first)

    def rest_due(self, *, working_seconds: float) -> float:
        """Seconds to rest now, 0 for none, after so many of work; counts them as rested."""
        if not self._limit or self.fall is None or self.fall <= self._limit:
            return 0.0
        left = working_seconds * _MOST_RESTING - self._rested_seconds
        rest = min(_REST_SECONDS, left)
        if rest < 1.0:  # no rest worth the name
            return 0.0
        self._rests += 1
        self._rested_seconds += rest
        return rest

    def reading(self) -> Cooling:
        """What there is to say so far."""
        return Cooling(self._worst, self._limit, self._rests, self._rested_seconds)
