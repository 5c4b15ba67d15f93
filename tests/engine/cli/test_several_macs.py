"""Commands whose target is on several Macs: for real, two processes here."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from threading import Timer

import httpx2
import psutil
import pytest

from tests.support.children import children_with
from tests.support.engine import scripted_host
from tests.support.engine.ended import PROMPT, ROOT, assert_refused
from tests.support.engine.launched import gone, hostfile
from tests.support.engine.scripted_host import command

LIMIT_SECONDS = 300  # for hangs only


@pytest.fixture
def hosts(tmp_path):
    return hostfile(tmp_path)


def test_a_lost_mac_is_named_in_one_line(generate, hosts, monkeypatch):
    monkeypatch.setattr("engine.cli.sessions.host_command", lambda target: command())
    ended = generate("--prompt", '{"say": ["a"], "then": "lose"}', "--hosts", hosts)
    assert ended.code == 1
    assert ended.err == f"slipstream: {' '.join(scripted_host.LOST)}\n"
    assert children_with(scripted_host.__name__) == []


def test_what_is_said_of_no_macs_is_refused(generate, run):
    assert_refused(generate("--mode", "tensor"), "--hosts")
    assert_refused(run("cluster", "check"), "--hosts")


@pytest.mark.slow
def test_check_says_how_macs_are_and_what_to_set_up(run, target, hosts, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    ended = run("cluster", "check", "--hosts", hosts, "--target", target, "--json")
    assert ended.code == 0, ended.err
    (line,) = (json.loads(line) for line in ended.out.splitlines())
    assert [rank["layers"] for rank in line["ranks"]] == [[1, 2], [0, 1]]
    assert all(rank["chip"] and rank["needed_bytes"] for rank in line["ranks"])
    (tmp_path / "ssh").write_text("#!/bin/sh\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    apart = hostfile(tmp_path, ("127.0.0.1", "mini.local"))
    ended = run("cluster", "check", "--hosts", apart)
    assert_refused(ended, "mini.local could not be started")


@pytest.fixture
def start(tmp_path):
    """Starts a command as a process, in a group of its own, which ends with the test."""
    started = []

    def start(*arguments):
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

    lates = []
    yield start
    for process, late in zip(started, lates, strict=True):
        late.cancel()
        process.kill()
        process.communicate()
        late.join()


def rank_1(pid):
    """What runs in the place of another Mac."""
    children = psutil.Process(pid).children(recursive=True)
    (found,) = (each for each in children if each.environ().get("MLX_RANK") == "1")
    return found


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.mark.slow
def test_a_chat_goes_on_where_a_mac_was_lost(start, target, hosts):
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
    rank_1(process.pid).kill()
    rest, _ = process.communicate(b"/draft-length 2\n/regenerate\n/quit\n")
    assert process.returncode == 0
    assert b"The process on 127.0.0.1 (rank 1) ended" in rest
    assert b"tokens/s" in rest, "the second answer was written to its end"


@pytest.mark.slow
def test_a_server_on_several_macs_goes_on_where_one_was_lost(start, target, hosts):
    process = start(
        *("serve", "--hosts", hosts, "--target", target, "--port", 0, "--drafter", "none")
    )
    answers_at = process.stdout.readline().decode()
    address = next(word for word in answers_at.split() if word.startswith("http://"))
    server = psutil.Process(process.pid)
    others = server.children(recursive=True)
    with httpx2.Client(base_url=address, trust_env=False, timeout=LIMIT_SECONDS) as http:
        body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4}
        answer = http.post("/v1/chat/completions", json=body).json()
        assert answer["usage"]["completion_tokens"] > 0
        rank_1(process.pid).kill()
        while (response := http.post("/v1/chat/completions", json=body)).status_code != 200:
            assert response.status_code >= 500
    others += server.children(recursive=True)
    process.terminate()
    process.wait()
    assert gone(others, LIMIT_SECONDS)
