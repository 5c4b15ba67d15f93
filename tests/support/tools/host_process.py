"""The process that runs tools, as whoever starts it sees it."""

import os
import subprocess
import sys
from pathlib import Path

from engine.tools.protocol import (
    COMMANDS,
    OWN,
    RESPONSES,
    Call,
    Ready,
    Response,
    Result,
    Start,
    State,
)

ROOT = Path(__file__).parents[3]
DIRECTLY = ("-c", "from engine.tools.host import main; main()")  # sooner than the command


class HostProcess:
    """The host, which keeps its logs in `home`."""

    def __init__(self, home, words=DIRECTLY):
        self.process = subprocess.Popen(
            (sys.executable, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "SLIPSTREAM_HOME": str(home)},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._calls = 0
        self.next(Ready)

    def send(self, *commands):
        for command in commands:
            self.stdin.write(COMMANDS.to_line(command))
        self.stdin.flush()

    def next[Kind: Response](self, kind):
        """The next response of this kind."""
        while not isinstance(found := RESPONSES.read(self.stdout.readline()), kind):
            pass
        return found

    def start(self, *servers, folders=()):
        """Start these servers, and return how each is once it is no longer starting."""
        self.send(Start(servers, folders))
        found = {}
        while not all(server.name in found for server in servers):
            state = self.next(State)
            if state.state != "starting" and state.server != OWN:
                found[state.server] = state
        return found

    def call(self, server, tool, arguments="{}", *, seconds=60):
        self._calls += 1
        self.send(Call(str(self._calls), server, tool, arguments, seconds))
        while (result := self.next(Result)).id != str(self._calls):
            pass
        return result

    def close(self):
        """End it, if it still runs."""
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()
