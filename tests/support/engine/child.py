"""A client of the engine's child process, for tests."""

import os
import sys
from unittest import mock

from engine.cli.line_child import LineChild
from engine.events import Done, Failed
from engine.process.protocol import COMMANDS, RESPONSES, Loaded

TIMEOUT_SECONDS = 120  # for hangs only
_COMMAND = 'exec "$0" -m engine.process.host 2> "$1"'


class Child(LineChild):
    """A child process, and a line to it. `log`: its standard error."""

    def __init__(self, log, environment=None):
        self.log = log
        variables = {"SLIPSTREAM_HOME": str(log.parent / "home")} | (environment or {})
        with mock.patch.dict(os.environ, variables):
            command = ("sh", "-c", _COMMAND, sys.executable, str(log))
            super().__init__(command, longest_bytes=RESPONSES.longest_bytes)
        self.process = self._process
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, *commands):
        self.write(b"".join(map(COMMANDS.to_line, commands)))

    def next(self):
        line = self.line(TIMEOUT_SECONDS)
        assert line is not None, "the child says nothing"
        return RESPONSES.read(line)

    def until(self, *kinds):
        """All responses up to the first of one of these kinds."""
        responses = [self.next()]
        while not isinstance(responses[-1], kinds):
            responses.append(self.next())
        return responses

    def ask(self, command):
        self.send(command)
        return self.until(Done, Failed, Loaded)

    def end(self, seconds=TIMEOUT_SECONDS):
        """Wait until it has ended; its exit status."""
        return self.process.wait(seconds)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()
