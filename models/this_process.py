"""Requests of a long process to its system: to stay awake, and to open many files."""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

_MANY_FILES = 4096


class Awake:
    """Keeps a Mac awake while work is under way. Does nothing on other systems.

    In a `with` statement: from its beginning to its end.
    """

    def __init__(self, command: Sequence[str] | None = None) -> None:
        """`command`: a program that keeps the system awake while it runs."""
        if command is None and sys.platform == "darwin":  # not yet tried on a Mac
            # -i: no sleep for want of use; -w: no longer than this process lives.
            command = ("/usr/bin/caffeinate", "-i", "-w", str(os.getpid()))
        self._command = command
        self._running: subprocess.Popen[bytes] | None = None

    def keep(self, busy: bool) -> None:
        """Stay awake from now on, or no longer. Costs nothing if nothing changes."""
        if busy == (self._running is not None) or not self._command:
            return
        if self._running is not None:
            self._running.terminate()
            self._running.wait()
            self._running = None
        else:
            try:
                self._running = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
                )
            except OSError:  # then it falls asleep; it is not tried again at every step
                self._command = None

    def __enter__(self) -> None:
        self.keep(True)

    def __exit__(self, *_: object) -> None:
        self.keep(False)


def open_many_files() -> None:
    """Raise the limit of open files, which is 256 for programs that a Mac's Finder starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if hard == resource.RLIM_INFINITY else min(_MANY_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # then fewer have to do
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
