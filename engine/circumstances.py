"""Finds what affects a measurement on this machine: other programs, power mode, an old system."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from models.speed import this_chip

OVERLOADED = 1.2  # processes per core that want to run: with more, figures mean little

_OTHERS = 0.2  # share of all processors' time that other programs may take
_LEAST_SECONDS = 0.2  # of processor time, below which nothing can be concluded
_STATISTICS = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class ProcessorTimes:
    """Seconds of all processors together: the whole, the `busy` ones, and this process's `own`."""

    whole: float
    busy: float
    own: float


class Contention:
    """Notices whether other programs have kept the processors busy since it was made.

    Waiting threads are not counted, because our own threads wait for each other, too.
    """

    def __init__(
        self, read: Callable[[], ProcessorTimes | None] = lambda: processor_times()
    ) -> None:
        self._read = read
        self._began = read()

    @property
    def heavy(self) -> bool:
        """Whether they took so much that timings made meanwhile are wrong."""
        began, now = self._began, self._read()
        if began is None or now is None:
            return os.getloadavg()[0] > OVERLOADED * (os.cpu_count() or 1)
        whole, others = now.whole - began.whole, now.busy - began.busy - (now.own - began.own)
        return whole > _LEAST_SECONDS and others > _OTHERS * whole


def processor_times(statistics: Path = _STATISTICS) -> ProcessorTimes | None:
    """The times since the system started. None except on Linux."""
    with suppress(OSError, ValueError, IndexError):
        name, *fields = statistics.read_text().splitlines()[0].split()
        # proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are in user
        ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in fields[:8]]
        if name == "cpu" and len(ticks) == 8:
            own = os.times()
            busy = sum(ticks) - ticks[3] - ticks[4]
            return ProcessorTimes(sum(ticks), busy, own.user + own.system)
    return None


def macos_to_update() -> str:
    """Return this Mac's version of macOS if it lacks kernels that the installed MLX takes for
    granted, as the wheel for macOS 26 does on an M5 (mlx issue 4525); else nothing."""
    chip, macos = this_chip(), platform.mac_ver()[0]
    if chip is None or chip.generation != "M5" or not re.match(r"26\.[01](\.|$)", macos):
        return ""
    wheels = (each.read_text("WHEEL") or "" for each in distributions(name="mlx-metal"))
    return macos if any("macosx_26" in wheel for wheel in wheels) else ""


def gpu_is_busy() -> bool:
    """Whether a Mac's GPU works for others, asked while it does nothing for this process. Not yet
    tried on a Mac."""
    asked = _said_by("/usr/sbin/ioreg", "-rd1", "-w0", "-c", "IOAccelerator")
    return gpu_share_in_ioreg(asked) > _OTHERS


def gpu_share_in_ioreg(output: str) -> float:
    """The share of the time in which the busiest GPU works, as `ioreg` prints it; 0 if it does
    not."""
    percent = re.findall(r'"Device Utilization %"\s*=\s*(\d+)', output)
    return max(map(int, percent), default=0) / 100


def power_mode() -> str:
    """A Mac's present power mode; empty elsewhere. Not yet tried on a Mac."""
    return power_mode_in_pmset(_said_by("/usr/bin/pmset", "-g"))


def _said_by(*command: str) -> str:
    """The output of a Mac's command; empty elsewhere."""
    if sys.platform != "darwin":
        return ""
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True).stdout
    return ""


def power_mode_in_pmset(output: str) -> str:
    """`lowpowermode`, and on some Macs `powermode`, as `pmset -g` prints them."""
    found = re.findall(r"^\s*(lowpowermode|powermode)\s+(\d+)", output, re.M)
    return ", ".join(map(" ".join, found))
