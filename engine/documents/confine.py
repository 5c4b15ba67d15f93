"""Confines a process that reads a file: its rights, its time and its memory.

Neither the file nor the libraries that read it are trusted. So the process can open no connection,
start no program and write no file, and it ends if it takes more time or memory than allowed.
"""

import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.documents.limits import Effort

TOO_MUCH_MEMORY = 66
"""The exit status of a process that took too much memory."""

_REFUSED = (
    "socket.", "subprocess.", "pty.", "os.system", "os.exec", "os.posix_spawn", "os.spawn",
    "os.fork", "os.kill", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.chown",
    "os.chflags", "os.link", "os.symlink", "os.truncate", "os.utime", "os.setxattr",
    "os.removexattr", "shutil.", "tempfile.", "urllib.", "http.", "ftplib.", "smtplib.", "poplib.",
    "imaplib.", "webbrowser.", "sqlite3.", "ctypes.dlopen", "pickle.find_class",
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LOOKS_APART_SECONDS = 0.02


def confine(effort: Effort) -> None:
    """Confine the whole process, for good. A refused operation raises PermissionError.

    Loading a library by ctypes is refused too, so load it before. A thread watches the memory. On
    Linux the system limits addresses too, so that no allocation can outrun the thread.
    """
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    seconds = int(effort.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))  # the second one kills
    if sys.platform == "linux":
        most = _address_bytes() + 2 * effort.memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    sys.addaudithook(_refuse)
    watch_memory(effort.memory_bytes)


def watch_memory(memory_bytes: int) -> None:
    """End the process with `TOO_MUCH_MEMORY` as soon as it has more of the machine's memory."""
    watcher = threading.Thread(target=_watch, args=(memory_bytes,), daemon=True)
    watcher.start()


def _watch(memory_bytes: int) -> None:
    for taken in _peak_bytes():
        if taken > memory_bytes:
            os._exit(TOO_MUCH_MEMORY)
        time.sleep(_LOOKS_APART_SECONDS)


def _peak_bytes() -> Iterator[int]:
    """Yield the peak memory of the process so far, each time it is asked."""
    if sys.platform == "linux":  # where getrusage counts the process before exec too
        with Path("/proc/self/status").open("rb", buffering=0) as status:
            while True:
                status.seek(0)
                text = status.read(4096)
                yield int(text.partition(b"VmHWM:")[2].split()[0]) * 1024
    while True:
        yield resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _address_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_REFUSED) or (event == "open" and arguments[2] & _WRITING):
        raise PermissionError(f"a process that reads a document may not: {event}")
