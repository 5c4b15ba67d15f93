"""The memory that this machine has for models.

Knows the operating system's figures; nothing of models, and nothing of MLX. The macOS part has not
been tried on a Mac.
"""

import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from models.records import Fit

_GIB = 1 << 30
_SECONDS = 10.0
# Python, its libraries and a tokenizer, and what the allocator keeps back: up to 0.38 GB measured.
OWN_BYTES = 400_000_000


@dataclass(frozen=True, slots=True)
class Machine:
    """`memory_bytes` is all memory, `available_bytes` what models may use of it.

    `unified`: graphics share the memory, and models run on Metal; else on the CPU.
    """

    name: str
    memory_bytes: int
    available_bytes: int
    unified: bool

    @property
    def usual(self) -> "Machine":
        """The same machine while no other program is busy: a figure that does not vary with the
        moment."""
        usual = self.available_bytes if self.unified else self.memory_bytes * 2 // 3
        return replace(self, available_bytes=usual)

    def once_freed(self, size_bytes: int) -> "Machine":
        """Return the same machine after this process has freed so much; Metal's limit does not
        change."""
        if self.unified:
            return self
        return replace(self, available_bytes=self.available_bytes + size_bytes)

    def beside(self, others: Iterable[Fit]) -> "Machine":
        """The same machine for a process, while others hold these pairs.

        Metal's limit is for all of them. Elsewhere their weights are no longer available anyway;
        the memory that their answers may need is left to them.
        """
        taken = (each.needed_bytes - (0 if self.unified else each.held_bytes) for each in others)
        return replace(self, available_bytes=max(self.available_bytes - sum(taken), 0))


def this_machine() -> Machine:
    if sys.platform == "darwin":
        names = ("hw.memsize", "iogpu.wired_limit_mb")
        return mac(_sysctl("machdep.cpu.brand_string"), {name: _sysctl(name) for name in names})
    return linux(Path("/"))


def mac(name: str, settings: Mapping[str, str]) -> Machine:
    """Return a Mac by its settings in sysctl. Metal may use the limit that was set, or by default
    two thirds of a memory below 36 GiB, and three quarters of a larger one. Newer systems give
    more."""
    memory, limit = _whole(settings.get("hw.memsize", "")), settings.get("iogpu.wired_limit_mb", "")
    share = memory * 3 // 4 if memory >= 36 * _GIB else memory * 2 // 3
    available = min(_whole(limit) << 20, memory) or share
    return Machine(name or "Mac", memory, available, unified=True)


def linux(root: Path) -> Machine:
    """Return this machine by /proc/meminfo under `root`, and the limits of its control groups."""
    figures = {}
    for line in _text(root / "proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        figures[key] = _whole(value.removesuffix("kB")) * 1024
    memory, free = figures.get("MemTotal", 0), figures.get("MemAvailable", 0)
    for limit, left in _control_groups(root):
        memory, free = min(memory, limit), min(free, left)
    return Machine(platform.machine(), memory, max(free - OWN_BYTES, 0), unified=False)


def _control_groups(root: Path) -> list[tuple[int, int]]:
    """Return the limit and the bytes that are left, for each control group (version 1 or 2) of this
    process that has a limit."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            base, files = "sys/fs/cgroup", ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            base = "sys/fs/cgroup/memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        group = Path(path.strip("/"))
        for place in (group, *group.parents):  # a parent's limit holds for its children
            folder = root / base / place
            limit, used = (_whole(_text(folder / name)) for name in files)
            if limit:
                found.append((limit, max(limit - used + _kept_back(folder), 0)))
    return found


def _kept_back(folder: Path) -> int:
    """Bytes of the file cache that the system can drop."""
    for line in _text(folder / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key in ("inactive_file", "total_inactive_file"):
            return _whole(value)
    return 0


def _sysctl(name: str) -> str:
    try:
        command = ["/usr/sbin/sysctl", "-n", name]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _whole(text: str) -> int:
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() else 0
