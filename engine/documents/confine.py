"""What a process that reads a file may do, and how much it may take.

The file is not to be trusted, nor are the libraries that read it. So the process opens no
connection, starts nothing, writes no file, and ends where it takes more than it may.
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
"""The exit status of a process that took too much."""

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
    """For good, and for the whole process. Whatever is refused raises PermissionError.

    Loading a library by ctypes is refused too, so that must have happened before. A thread watches
    the memory. Where the system limits addresses (Linux does), it cannot be taken unawares.
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
    """The most memory that the process has had so far, whenever it is asked."""
    if sys.platform == "linux":  # where getrusage tells of the process before exec, too
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
