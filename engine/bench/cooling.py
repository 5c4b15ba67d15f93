"""Finds whether heat slows the machine during a benchmark, and how long it should rest.

`SlowdownMonitor` gets the speed of the same small piece of work again and again, and whether the
system reports heat. A machine that is slow without heat is busy with other programs, and a rest
does not help. Knows no clock.
"""

import re
import statistics
import subprocess
import sys
from dataclasses import dataclass

_THERMAL_PRESSURE = "com.apple.system.thermalpressurelevel"

_FEW = 3  # measurements of a median: one alone may be an accident
_REST_SECONDS = 10.0
_MOST_RESTING = 0.1  # share of the time so far: heat may last


@dataclass(frozen=True, slots=True)
class Cooling:
    """The slowdown and the rests of a benchmark, for its report.

    `fall`: the largest loss of speed, as a share of the first speed; None if too little was
    measured. `limit`: the loss from which on the system was asked about heat. `hot`: whether it
    ever reported heat; None if it was not asked, or does not report it.
    """

    fall: float | None
    limit: float
    rests: int
    rest_seconds: float
    hot: bool | None = None


class SlowdownMonitor:
    """Compares the speeds of the same work. `limit`: the loss that calls for a rest; 0: never."""

    def __init__(self, *, limit: float) -> None:
        self._limit = limit
        self._speeds: list[float] = []
        self._worst: float | None = None
        self._rests = 0
        self._rested_seconds = 0.0
        self._hot: bool | None = None

    def measured(self, speed: float) -> None:
        """Add a speed of the work, in any unit."""
        if speed > 0:
            self._speeds.append(speed)
        if self.fall is not None:
            self._worst = max(self.fall, self._worst or 0.0)

    @property
    def fall(self) -> float | None:
        """The present loss, as a share of the first speed; None until enough is measured."""
        if len(self._speeds) <= _FEW:
            return None
        first, latest = (statistics.median(s) for s in (self._speeds[:_FEW], self._speeds[-_FEW:]))
        return max(0.0, 1.0 - latest / first)

    @property
    def slow(self) -> bool:
        """Whether the present loss is above the limit."""
        return bool(self._limit) and self.fall is not None and self.fall > self._limit

    def rest_due(self, *, hot: bool | None, elapsed_seconds: float) -> float:
        """Return the seconds to rest now, 0 for none, and count them as rested.

        `elapsed_seconds`: since the benchmark began. `hot`: whether the system reports heat; None
        if it does not say.
        """
        if not self.slow:
            return 0.0
        self._hot = hot if self._hot is None else self._hot or bool(hot)
        rest = min(_REST_SECONDS, elapsed_seconds * _MOST_RESTING - self._rested_seconds)
        if not hot or rest < 1.0:  # a shorter rest does not help
            return 0.0
        self._rests += 1
        self._rested_seconds += rest
        return rest

    def reading(self) -> Cooling:
        """The slowdown and the rests so far."""
        return Cooling(self._worst, self._limit, self._rests, self._rested_seconds, hot=self._hot)


def is_hot() -> bool | None:
    """Whether the system reports that heat slows it; None if it does not report that.

    A Mac reports it, under a name that Apple has not documented: untested. Linux is not asked.
    """
    if sys.platform != "darwin":
        return None
    command = ["/usr/bin/notifyutil", "-g", _THERMAL_PRESSURE]
    try:
        return hot_in_notifyutil(subprocess.run(command, capture_output=True, text=True).stdout)
    except OSError:
        return None


def hot_in_notifyutil(printed: str) -> bool | None:
    """Parse the output of macOS's notifyutil: a name and a level; 0 is normal."""
    level = re.fullmatch(rf"{re.escape(_THERMAL_PRESSURE)} (\d+)", printed.strip())
    return None if level is None else int(level[1]) > 0
