"""A child process that a command talks to line by line."""

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
    """The engine ended before the answer, mostly because the connection to a Mac was lost."""


class LineChild:
    """A child process; `end` ends it. Ctrl-C in the terminal reaches only its parent."""

    def __init__(self, command: Sequence[str], *, longest_bytes: int) -> None:
        """`longest_bytes`: the length of the longest line that is read."""
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
        """Send lines. If the process has ended, the next `line` reports it."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(data)

    def line(self, seconds: float) -> bytes | None:
        """Return the next line; None if none comes within `seconds`, b"" if the process ended."""
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
        """Close its input and wait for its end; after `grace_seconds`, kill it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
