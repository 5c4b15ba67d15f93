"""A child process that a terminal talks to in lines, a line at a time."""

import os
import select
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from engine.pipes import Lines
from engine.process.client import FOLDER
from engine.process.supervision import GRACE_SECONDS
from models.errors import Problem

_BLOCK_BYTES = 1 << 16


class Lost(Problem):
    """The engine ended before the answer did, mostly because one of several Macs was lost."""


class LineChild:
    """Lives from its making to `end`. The terminal's Ctrl-C is its parent's alone."""

    def __init__(self, command: Sequence[str], *, longest_bytes: int) -> None:
        """`longest_bytes`: of a line that is read whole."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=FOLDER,
            bufsize=0,
            start_new_session=True,
        )
        self._lines = Lines(longest_bytes)
        self._read: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send lines. Where it has ended, the next line that is read says so."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(data)

    def line(self, seconds: float) -> bytes | None:
        """The next line; None if it does not come within these seconds, and b"" at the end."""
        assert self._process.stdout is not None
        while not self._read:
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                return None
            data = os.read(self._process.stdout.fileno(), _BLOCK_BYTES)
            if not data:
                return b""
            self._read = self._lines.feed(data)
        return self._read.pop(0)

    def end(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """End it, by the end of its input or by force, and wait for that."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
