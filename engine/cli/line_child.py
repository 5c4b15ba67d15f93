"""Drives the process of a client (`engine.process.asking`) for a command, which waits for it."""

import os
import select
import subprocess
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from engine.pipes import Lines
from engine.process.asking import Asking, Garbled, OtherVersion
from engine.process.client import FOLDER
from engine.process.supervision import grace_seconds, how_it_ended
from models.errors import Problem

_BLOCK_BYTES = 1 << 16


class Lost(Problem):
    """The engine failed or ended before the answer, as where the connection to a Mac was lost."""


class LineChild:
    """A child process and its lines. Ctrl-C in the terminal reaches only its parent."""

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
        self._read = deque[bytes]()

    def write(self, data: bytes) -> None:
        """Send lines. If the process has ended, the next `line` reports it."""
        assert self._process.stdin is not None
        unsent = memoryview(data)
        with suppress(OSError):
            while unsent:  # a signal may interrupt the write
                unsent = unsent[self._process.stdin.write(unsent) :]

    def line(self, seconds: float) -> bytes | None:
        """Return the next line; None if none comes within `seconds`, b"" if the process ended."""
        assert self._process.stdout is not None
        while not self._read:
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                return None
            data = os.read(self._process.stdout.fileno(), _BLOCK_BYTES)
            if not data:
                return b""
            self._read.extend(self._lines.feed(data))
        return self._read.popleft()

    def end(self, seconds: float) -> int:
        """Close its input and wait for its end; after `seconds`, kill it. Returns its status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.stdout.close()
        return self._process.wait()


class Asked[Delivery]:
    """The process of a client, one at a time, none before `begin`. Attribute: `why`, a sentence on
    how the last one ended; empty if it was ended."""

    def __init__(
        self, client: Asking[Any, Any, Delivery], command: Sequence[str], *, remedy: str = ""
    ) -> None:
        """`remedy`: for commands that are lost."""
        self._client, self._command, self._remedy = client, tuple(command), remedy
        self._child: LineChild | None = None
        self.why = ""

    @property
    def runs(self) -> bool:
        """Whether there is a process that has not been found to have ended."""
        return self._child is not None

    def begin(self) -> None:
        """Start a process."""
        self.why = ""
        self._child = LineChild(self._command, longest_bytes=self._client.longest_bytes)
        self._client.begin()

    def hear(self, seconds: float) -> list[Delivery] | None:
        """Send the waiting commands, and take the next line. Returns its delivery; if the process
        has ended or is about to, the failures of all lost commands; None after `seconds` of
        silence."""
        assert self._child is not None
        self._child.write(self._client.to_send())
        if (line := self._child.line(seconds)) is None:
            return None
        if not line:
            return self.end(None)
        try:
            delivery = self._client.hear(line)
        except (Garbled, OtherVersion) as problem:
            if isinstance(problem, Garbled) and self._client.excuses(line):
                return []
            return self.end(problem.message)
        if self._client.own_failure:  # its last word
            return self.end(self._client.own_failure)
        return [] if delivery is None else [delivery]

    def end(self, why: str | None = "") -> list[Delivery]:
        """End the process, if any; `why` is None if it ends by itself. Returns the failures of all
        commands that are lost."""
        child, self._child = self._child, None
        if child is None:
            return []
        status = child.end(grace_seconds(self._client.held_bytes))
        self.why = f"{self._client.name} ended. {how_it_ended(status)}" if why is None else why
        return self._client.lose(self.why, self._remedy, another=False)
