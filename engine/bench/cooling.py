"""Whether the machine has slowed down since the benchmark began, and how long to let it rest.

`SlowdownMonitor` is given the speed of the same small piece of work again and again, and whether
the system reports heat. Slow without heat is caused by other programs, and no rest mends that.
Knows no clock.
"""

import re
import statistics
import subprocess
import sys
from dataclasses import dataclass

_THERMAL_PRESSURE = "com.apple.system.thermalpressurelevel"

_FEW = 3  # one measurement may be an accident; a median of a few is not
_REST_SECONDS = 10.0
_MOST_RESTING = 0.1  # of all the time so far: heat may stay


@dataclass(frozen=True, slots=True)
class Cooling:
    """What the report says of it. `fall`: how far the speed fell at most, as a share of the first
    speed; None where too little was measured. `limit`: from which share on the system was asked
    whether it is hot. `hot`: whether it ever was; None where it was not asked, or does not say."""

    fall: float | None
    limit: float
    rests: int
    rest_seconds: float
    hot: bool | None = None


class SlowdownMonitor:
    """Remembers the speeds of the same work. `limit` 0: never rest."""

    def __init__(self, *, limit: float) -> None:
        self._limit = limit
        self._speeds: list[float] = []
        self._worst: float | None = None
        self._rests = 0
        self._rested_seconds = 0.0
        self._hot: bool | None = None

    def measured(self, speed: float) -> None:
        """The work was done at `speed`, in any unit."""
        if speed > 0:
            self._speeds.append(speed)
        if self.fall is not None:
            self._worst = max(self.fall, self._worst or 0.0)

    @property
    def fall(self) -> float | None:
        """The share of the first speed that is lost now; None until there is enough to compare."""
        if len(self._speeds) <= _FEW:
            return None
        first, latest = (statistics.median(s) for s in (self._speeds[:_FEW], self._speeds[-_FEW:]))
        return max(0.0, 1.0 - latest / first)

    @property
    def slow(self) -> bool:
        """Whether more than the limit is lost now."""
        return bool(self._limit) and self.fall is not None and self.fall > self._limit

    def rest_due(self, *, hot: bool | None, elapsed_seconds: float) -> float:
        """Seconds to rest now, 0 for none, and counts them as rested.

        `elapsed_seconds`: since the benchmark began. `hot`: what the system says, None where it
        says nothing.
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
        """For the report."""
        return Cooling(self._worst, self._limit, self._rests, self._rested_seconds, hot=self._hot)


def is_hot() -> bool | None:
    """Whether the system says that heat slows it; None where it does not say.

    A Mac says so, under a name that Apple has not documented: untested. Linux is not asked.
    """
    if sys.platform != "darwin":
        return None
    command = ["/usr/bin/notifyutil", "-g", _THERMAL_PRESSURE]
    try:
        return hot_in_notifyutil(subprocess.run(command, capture_output=True, text=True).stdout)
    except OSError:
        return None


def hot_in_notifyutil(printed: str) -> bool | None:
    """From what macOS's notifyutil prints: a name and a level, of which 0 is nominal."""
    level = re.fullmatch(rf"{re.escape(_THERMAL_PRESSURE)} (\d+)", printed.strip())
    return None if level is None else int(level[1]) > 0
