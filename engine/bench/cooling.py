"""Whether the machine has slowed down since the benchmark began, and how long to let it rest.

Pure: told how fast the same small piece of work went, again and again, and whether the system
says that it is hot. Slow without heat is other programs' doing, which no rest mends. Knows no
clock.
"""

import statistics
from dataclasses import dataclass

_FEW = 3  # one measurement may be an accident; a median of a few is not
_REST_SECONDS = 10.0
_MOST_RESTING = 0.1  # of all the time so far: heat may stay


@dataclass(frozen=True, slots=True)
class Cooling:
    """For the report. `fall`: the most that the speed had fallen, a share of the first one's;
    None where too little was measured. `limit`: the share from which on heat was asked about.
    `hot`: whether there was any then; None where nobody was asked, or the system does not say."""

    fall: float | None
    limit: float
    rests: int
    rest_seconds: float
    hot: bool | None = None


class Thermometer:
    """Remembers how fast the same work went. `limit` 0: never rest."""

    def __init__(self, *, limit: float) -> None:
        self._limit = limit
        self._speeds: list[float] = []
        self._worst: float | None = None
        self._rests = 0
        self._rested_seconds = 0.0
        self._hot: bool | None = None

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

    @property
    def slow(self) -> bool:
        """Whether it is past the limit now."""
        return bool(self._limit) and self.fall is not None and self.fall > self._limit

    def rest_due(self, *, hot: bool | None, elapsed_seconds: float) -> float:
        """Seconds to rest now, 0 for none, after so many in all; counts them as rested.

        `hot`: what the system says, None where it says nothing.
        """
        if not self.slow:
            return 0.0
        self._hot = hot if self._hot is None else self._hot or bool(hot)
        rest = min(_REST_SECONDS, elapsed_seconds * _MOST_RESTING - self._rested_seconds)
        if not hot or rest < 1.0:  # no rest worth the name
            return 0.0
        self._rests += 1
        self._rested_seconds += rest
        return rest

    def reading(self) -> Cooling:
        """What there is to say so far."""
        return Cooling(self._worst, self._limit, self._rests, self._rested_seconds, hot=self._hot)
