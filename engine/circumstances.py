"""What else is going on on this machine while something is measured here."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

OVERLOADED = 1.2  # processes a core that want to run, from which on figures mean little

_WAITED = 0.15  # of the time that our threads could have run
_TELLING_SECONDS = 0.2  # of less, nothing can be told
_THREADS = Path("/proc/self/task")

# By thread: seconds that it ran, and that it waited for a processor.
Scheduled = Mapping[str, tuple[float, float]]


class Contention:
    """Whether other programs have kept the processors busy since this was made."""

    def __init__(self, read: Callable[[], Scheduled] = lambda: scheduled()) -> None:
        self._read = read
        self._began = read()

    @property
    def heavy(self) -> bool:
        """Whether so much that seconds measured meanwhile are not this machine's."""
        now = self._read()
        if not now:
            return os.getloadavg()[0] > OVERLOADED * (os.cpu_count() or 1)
        ran, waited = (
            sum(now[thread][i] - self._began.get(thread, (0.0, 0.0))[i] for thread in now)
            for i in (0, 1)
        )
        return ran + waited > _TELLING_SECONDS and waited > _WAITED * (ran + waited)


def scheduled(threads: Path = _THREADS) -> Scheduled:
    """Of this process, since it began. Only Linux says; elsewhere it is empty."""
    found = {}
    with suppress(OSError):  # no such folder
        for folder in threads.iterdir():
            with suppress(OSError, ValueError):  # a thread that has ended since
                ran, waited, *_ = map(int, (folder / "schedstat").read_text().split())
                found[folder.name] = (1e-9 * ran, 1e-9 * waited)
    return found


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
