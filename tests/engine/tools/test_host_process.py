"""The process itself: however it ends, nothing that it started goes on."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.tools.protocol import (
    COMMANDS,
    OWN,
    RESPONSES,
    Call,
    Command,
    Quit,
    Ready,
    Response,
    Result,
    Start,
    State,
)
from tests.support.tools.hosted import TIMEOUT_SECONDS, scripted

ROOT = Path(__file__).parents[3]


class Process:
    """The host, and its servers' processes."""

    def __init__(self, home: Path, *words: str) -> None:
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

    def send(self, *commands: Command) -> None:
        for command in commands:
            self.stdin.write(COMMANDS.to_line(command))
        self.stdin.flush()

    def next(self, kind: type[Response]) -> Response:
        while not isinstance(found := RESPONSES.read(self.stdout.readline()), kind):
            pass
        return found

    def settled(self) -> State:
        """The next state of a server of others that is not its start."""
        while True:
            state = self.next(State)
            assert isinstance(state, State)
            if state.state != "starting" and state.server != OWN:
                return state


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Process]:
    host = Process(tmp_path, "-c", "from engine.tools.host import main; main()")
    assert isinstance(host.next(Ready), Ready)
    yield host
    host.process.kill()
    host.process.wait()
    host.stdin.close()
    host.stdout.close()


def with_a_child(host: Process) -> list[psutil.Process]:
    """A stubborn server that has started a child: both, and the rest of the host's children."""
    host.send(Start((scripted("stubborn"),)))
    assert host.settled().state == "running"
    host.send(Call("1", "s", "leave_child", "{}"))
    result = host.next(Result)
    assert isinstance(result, Result)
    children = psutil.Process(host.process.pid).children(recursive=True)
    assert int(result.text) in [each.pid for each in children]
    return children


@pytest.mark.quick(2)
@pytest.mark.parametrize("how", ["killed", "end of input", "quit", "terminated"])
def test_nothing_is_left_running(host: Process, how: str) -> None:
    children = with_a_child(host)
    assert len(children) == 3  # the server, its child, and what ends them if the host cannot
    match how:
        case "killed":
            host.process.kill()
        case "quit":
            host.send(Quit())
        case "end of input":
            host.stdin.close()
        case "terminated":
            host.process.terminate()
    assert host.process.wait(TIMEOUT_SECONDS) in (0, -9, -15)
    _, alive = psutil.wait_procs(children, TIMEOUT_SECONDS)
    assert not alive


def test_a_killed_host_closes_the_input_of_its_servers(host: Process, tmp_path: Path) -> None:
    """So a server that ends with its input does, even if nothing else ended it."""
    noted = tmp_path / "noted"
    code = f"import sys; f = open({str(noted)!r}, 'w'); sys.stdin.read(); f.write('x')"
    host.send(Start((scripted(name="s", script=("-c", code)),)))
    found: list[psutil.Process] = []
    while len(found) < 2 or not noted.exists():
        found = psutil.Process(host.process.pid).children()
        time.sleep(0.01)
    guardian, server = sorted(found, key=lambda each: each.name() != "sh")
    guardian.kill()
    host.process.kill()
    host.process.wait()
    server.wait(TIMEOUT_SECONDS)
    assert noted.read_text() == "x"


def test_lines_that_are_no_commands_are_named_and_the_rest_is_done(host: Process) -> None:
    long = json.dumps({"command": "call", "arguments": "x" * (9 << 20)}).encode()
    host.stdin.write(b"\n[]\nnot json\n{}\n" + long + b"\n" + b'{"command": "cancel"}\n')
    host.send(Start((), ()), Call("1", "nobody", "x", "{}"), Call("2", OWN, "x", "[]"))
    for id in ("1", "2"):
        result = host.next(Result)
        assert isinstance(result, Result)
        assert (result.id, result.ending) == (id, "failed")
    host.send(Quit())
    assert host.process.wait(TIMEOUT_SECONDS) == 0


def test_it_is_a_command(tmp_path: Path) -> None:
    host = Process(tmp_path, "-m", "engine", "tools-host")
    assert isinstance(host.next(Ready), Ready)
    host.stdin.close()
    assert host.process.wait(TIMEOUT_SECONDS) == 0
    host.stdout.close()
