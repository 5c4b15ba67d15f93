"""A client of the engine's child process, for tests."""

import os
import selectors
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine.events import Done, Failed
from engine.process import host
from engine.process.protocol import COMMANDS, RESPONSES, Command, Loaded, Response

ROOT = Path(host.__file__).parents[1]
TIMEOUT_SECONDS = 120  # for hangs only


class Child:
    """A child process, and a line to it. Reads with a time limit, and without a thread."""

    def __init__(self, log: Path, environment: dict[str, str] | None = None) -> None:
        self.log = log
        self._log = log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine.process.host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            cwd=ROOT,
            env=os.environ | {"SLIPSTREAM_HOME": str(log.parent / "home")} | (environment or {}),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.stdout, selectors.EVENT_READ)
        self._pending = b""

    def send(self, *commands: Command) -> None:
        self.write("".join(COMMANDS.to_json(command) + "\n" for command in commands).encode())

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.stdin.fileno(), view) :]

    def line(self) -> bytes:
        """The next line; nothing at the end."""
        while b"\n" not in self._pending:
            assert self._selector.select(TIMEOUT_SECONDS), "the child says nothing"
            data = os.read(self.stdout.fileno(), 1 << 16)
            if not data:
                rest, self._pending = self._pending, b""
                return rest
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def next(self) -> Response:
        return RESPONSES.read(self.line())

    def until(self, *kinds: type[Any]) -> list[Response]:
        """All responses up to the first of one of these kinds."""
        responses = [self.next()]
        while not isinstance(responses[-1], kinds):
            responses.append(self.next())
        return responses

    def ask(self, command: Command) -> list[Response]:
        self.send(command)
        return self.until(Done, Failed, Loaded)

    def end(self) -> int:
        """Wait until it has ended; its exit status."""
        return self.process.wait(TIMEOUT_SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.stdin, self.stdout, self._log):
            stream.close()
        self._selector.close()
