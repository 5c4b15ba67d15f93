"""Commands whose target is on several Macs: scripted ones, and for real two processes here."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import httpx2
import psutil
import pytest

from engine.process.macs import LedMacs
from engine.process.protocol import CHECKED
from models.answers import Refused
from models.errors import Problem
from tests.support.children import children_with
from tests.support.engine import scripted_host
from tests.support.engine.ended import PROMPT, ROOT, Command, assert_refused, events_of, text_of
from tests.support.engine.scripted_cluster import LOST, Connecting, ScriptedCluster
from tests.support.engine.scripted_host import command

LIMIT_SECONDS = 120  # for hangs only


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """Two ranks, which are this machine."""
    path = tmp_path / "two.json"
    macs = [{"ssh": name, "ips": ["127.0.0.1"]} for name in ("127.0.0.1", "localhost")]
    path.write_text(json.dumps(macs))
    return path


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connecting:
    connect = Connecting()
    made: Any = partial(LedMacs, connect=connect)  # type: ignore[arg-type]
    monkeypatch.setattr("engine.process.macs.LedMacs", made)
    return connect


def test_an_answer_of_several_macs_is_asked_of_a_child_process(
    generate: Command, hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cli.child_session.host_command", lambda target: command())
    ended = generate("--json", "--hosts", hosts, "--trust-network")
    assert text_of(events_of(ended)).startswith("You said: ")
    assert children_with(scripted_host.__name__) == []


def test_a_lost_mac_is_named_in_one_line(
    generate: Command, hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cli.child_session.host_command", lambda target: command())
    ended = generate("--prompt", '{"say": ["a"], "then": "lose"}', "--hosts", hosts)
    assert ended.code == 1
    assert ended.err == f"slipstream: {' '.join(scripted_host.LOST)}\n"
    assert children_with(scripted_host.__name__) == []


@pytest.mark.parametrize("options", [("--trust-network",), ("--mode", "tensor")])
def test_what_is_said_of_no_macs_is_refused(generate: Command, options: tuple[str, ...]) -> None:
    assert_refused(generate(*options), "--hosts")


def test_macs_that_cannot_be_joined_are_refused(
    run: Command, target: Path, connect: Connecting, hosts: Path
) -> None:
    connect.refusal = Problem("mini.local does not answer.", "Switch it on.")
    ended = run("bench", "--target", target, "--hosts", hosts)
    assert_refused(ended, "mini.local does not answer. Switch it on.")


def test_a_benchmark_on_several_macs_measures_our_loop_alone(
    run: Command, target: Path, connect: Connecting, hosts: Path, tmp_path: Path
) -> None:
    out, prompts = tmp_path / "out.json", tmp_path / "prompts.txt"
    prompts.write_text(PROMPT)
    ended = run(
        *("bench", "--target", target, "--drafter", "lookup", "--draft-length", 2),
        *("--prompts", prompts, "--max-tokens", 8, "--temperature", 0),
        *("--hosts", hosts, "--trust-network", "--mode", "tensor", "--out", out),
    )
    assert ended.code == 0, ended.err
    names = {answer["runner"] for answer in json.loads(out.read_text())["measured_answers"]}
    assert names == {"slipstream plain", "slipstream lookup 2"}
    (cluster,) = connect.made
    assert cluster.hosts.path == hosts
    assert [host.ssh for host in cluster.hosts.each] == ["127.0.0.1", "localhost"]
    assert cluster.trusted
    assert cluster.modes == ["tensor"], "the target is loaded once"
    assert cluster.closed


def test_check_says_how_macs_are(
    run: Command, target: Path, connect: Connecting, hosts: Path
) -> None:
    ended = run("cluster", "check", "--hosts", hosts)
    assert ended.code == 0, ended.err
    assert "mini.local" in ended.out
    assert connect.made[0].modes == []
    ended = run("cluster", "check", "--hosts", hosts, "--target", target, "--json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [rank["state"] for rank in lines[0]["ranks"]] == ["ready", "ready"]
    assert [rank["layers"] for rank in lines[-1]["ranks"]] == [[2, 4], [0, 2]]
    assert all(cluster.closed for cluster in connect.made)


def test_check_says_what_to_set_up(run: Command, connect: Connecting, hosts: Path) -> None:
    connect.refusal = Problem("mini.local does not answer.", "Switch it on.")
    assert_refused(run("cluster", "check", "--hosts", hosts), "mini.local")
    ended = run("cluster", "check", "--hosts", hosts, "--json")
    assert ended.code == 2
    last = CHECKED.read(ended.out.splitlines()[-1].encode())
    assert last == Refused("mini.local does not answer.", "Switch it on.")


def test_check_tells_programs_which_mac_was_lost(
    run: Command,
    connect: Connecting,
    hosts: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Ended(BaseException):
        pass

    def end(code: int) -> None:
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(ScriptedCluster, "__post_init__", ScriptedCluster.lose)
    with pytest.raises(Ended):
        run("cluster", "check", "--hosts", hosts, "--json")
    last = CHECKED.read(capfd.readouterr().out.splitlines()[-1].encode())
    assert last == Refused(LOST.message, LOST.remedy)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a command as a process, in a group of its own, which ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        late = Timer(LIMIT_SECONDS, process.kill)
        late.start()
        lates.append(late)
        started.append(process)
        return process

    lates: list[Timer] = []
    yield start
    for process, late in zip(started, lates, strict=True):
        late.cancel()
        process.kill()
        process.communicate()
        late.join()


def followers(pid: int) -> list[psutil.Process]:
    """What runs in the place of other Macs."""
    children = psutil.Process(pid).children(recursive=True)
    return [child for child in children if "follow" in child.cmdline()]


def gone(processes: list[psutil.Process]) -> bool:
    _, left = psutil.wait_procs(processes, timeout=LIMIT_SECONDS)
    return not left


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.mark.slow
def test_a_chat_goes_on_where_a_mac_was_lost(start: Start, target: Path, hosts: Path) -> None:
    process = start(
        *("chat", "--target", target, "--max-tokens", 2000, "--temperature", 0),  # without an end
        *("--drafter", "none", "--hosts", hosts),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    said = b""
    while b"> " not in said:
        said += os.read(process.stdout.fileno(), 1 << 16)
    os.read(process.stdout.fileno(), 1)  # the answer has begun
    (first,) = followers(process.pid)
    first.kill()
    rest, _ = process.communicate(b"/draft-length 2\n/regenerate\n/quit\n")
    assert process.returncode == 0
    assert b"The process on localhost ended" in rest
    assert b"tokens/s" in rest, "the second answer was written to its end"


@pytest.mark.slow
def test_a_server_on_several_macs_goes_on_where_one_was_lost(
    start: Start, target: Path, hosts: Path
) -> None:
    process = start(
        *("serve", "--hosts", hosts, "--target", target, "--port", 0, "--drafter", "none")
    )
    assert process.stdout is not None
    answers_at = process.stdout.readline().decode()
    address = next(word for word in answers_at.split() if word.startswith("http://"))
    server = psutil.Process(process.pid)
    others = server.children(recursive=True)
    with httpx2.Client(base_url=address, trust_env=False, timeout=LIMIT_SECONDS) as http:
        body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4}
        answer = http.post("/v1/chat/completions", json=body).json()
        assert answer["usage"]["completion_tokens"] > 0
        (other,) = followers(process.pid)
        other.kill()
        while (response := http.post("/v1/chat/completions", json=body)).status_code != 200:
            assert response.status_code >= 500
    others += server.children(recursive=True)
    process.terminate()
    process.wait()
    assert gone(others)
