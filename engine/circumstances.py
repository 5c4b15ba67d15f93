"""What else is going on on this machine while something is measured here."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

OVERLOADED = 1.2  # processes a core that want to run, from which on figures mean little

_OTHERS = 0.2  # of what all processors could have done
_TELLING_SECONDS = 0.2  # of less, nothing can be told
_STATISTICS = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class ProcessorTimes:
    """Seconds of all processors together: all there were, those that were `busy`, and for us."""

    whole: float
    busy: float
    own: float


class Contention:
    """Whether other programs have kept the processors busy since this was made.

    Our own threads wait for each other too, so it is not their waiting that tells.
    """

    def __init__(
        self, read: Callable[[], ProcessorTimes | None] = lambda: processor_times()
    ) -> None:
        self._read = read
        self._began = read()

    @property
    def heavy(self) -> bool:
        """Whether so much that seconds measured meanwhile are not this machine's."""
        began, now = self._began, self._read()
        if began is None or now is None:
            return os.getloadavg()[0] > OVERLOADED * (os.cpu_count() or 1)
        whole, others = now.whole - began.whole, now.busy - began.busy - (now.own - began.own)
        return whole > _TELLING_SECONDS and others > _OTHERS * whole


def processor_times(statistics: Path = _STATISTICS) -> ProcessorTimes | None:
    """Since the system began. Only Linux says; elsewhere None."""
    with suppress(OSError, ValueError, IndexError):
        name, *fields = statistics.read_text().splitlines()[0].split()
        # proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are in user
        ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in fields[:8]]
        if name == "cpu" and len(ticks) == 8:
            own = os.times()
            return ProcessorTimes(
                sum(ticks), sum(ticks) - ticks[3] - ticks[4], own.user + own.system
            )
    return None


def power_mode() -> str:
    """How a Mac weighs speed against power now; empty elsewhere. No Mac has shown it yet."""
    if sys.platform != "darwin":
        return ""
    said = subprocess.run(["/usr/bin/pmset", "-g"], capture_output=True, text=True).stdout
    return power_mode_in_pmset(said)


def power_mode_in_pmset(said: str) -> str:
    """From what `pmset -g` prints: `lowpowermode`, and on some Macs `powermode`, as they are."""
    return ", ".join(
        " ".join(pair) for pair in re.findall(r"^\s*(lowpowermode|powermode)\s+(\d+)", said, re.M)
    )
