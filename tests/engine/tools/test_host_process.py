"""The process itself: however it ends, nothing that it started goes on."""

import json
from contextlib import closing

import psutil
import pytest

from engine.tools.protocol import OWN, Call, Result, Start
from tests.support.tools.host_process import HostProcess
from tests.support.tools.hosted import TIMEOUT_SECONDS, scripted


@pytest.fixture
def host(tmp_path, monkeypatch):
    """As the Finder starts it: without a terminal, so that a login shell is asked for the path."""
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nexport PATH="/their/bin:$PATH"\neval "$2"\n')
    shell.chmod(0o755)
    monkeypatch.setenv("SHELL", str(shell))
    monkeypatch.delenv("TERM", raising=False)
    with closing(HostProcess(tmp_path)) as host:
        yield host


def with_a_child(host):
    """A stubborn server that has started a child: both, and the rest of the host's children."""
    assert host.start(scripted("stubborn"))["s"].state == "running"
    result = host.call("s", "leave_child")
    path = json.loads(host.call("s", "environment").text)["PATH"]
    assert path.startswith("/their/bin:")
    children = psutil.Process(host.process.pid).children(recursive=True)
    assert int(result.text) in [each.pid for each in children]
    return children


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["killed", "end of input", "terminated"])
def test_nothing_is_left_running(host, how):
    """And lines that are no commands are named, and the rest is done."""
    long = json.dumps({"command": "call", "arguments": "x" * (9 << 20)}).encode()
    host.stdin.write(b"\n[]\nnot json\n{}\n" + long + b"\n" + b'{"command": "cancel"}\n')
    host.send(Start((), ()), Call("a", "nobody", "x", "{}"), Call("b", OWN, "x", "[]"))
    for id in ("a", "b"):
        result = host.next(Result)
        assert (result.id, result.ending) == (id, "failed")
    children = with_a_child(host)
    assert len(children) == 3  # the server, its child, and what ends them if the host cannot
    match how:
        case "killed":
            host.process.kill()
        case "end of input":
            host.stdin.close()
        case "terminated":
            host.process.terminate()
    assert host.process.wait(TIMEOUT_SECONDS) in ((0,) if how == "end of input" else (-9, -15))
    _, alive = psutil.wait_procs(children, TIMEOUT_SECONDS)
    assert not alive
