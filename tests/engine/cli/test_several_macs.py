"""Commands whose target is on several Macs: for real, two processes here."""

import json
import os
import subprocess
import sys
from threading import Timer
from unittest import mock

import psutil
import pytest

from engine.process import launch
from engine.process.protocol import CHECKED
from tests.support.engine.ended import ROOT, assert_refused
from tests.support.engine.launched import hostfile

LIMIT_SECONDS = 300  # for hangs only


@pytest.fixture
def hosts(tmp_path):
    return hostfile(tmp_path)


def test_what_is_said_of_no_macs_is_refused(generate, run):
    assert_refused(generate("--mode", "tensor"), "--hosts")
    assert_refused(run("cluster", "check"), "--hosts")


def test_a_check_that_cannot_begin_is_a_line_of_the_language(run, hosts, monkeypatch):
    monkeypatch.setattr(launch, "Launch", mock.Mock(side_effect=OSError(24, "Too many open files")))
    ended = run("cluster", "check", "--hosts", hosts, "--json")
    assert (ended.code, ended.err) == (2, "")
    assert CHECKED.read(ended.out.encode()).message == "Too many open files."


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


def rank_1(pid):
    """What runs in the place of another Mac."""
    children = psutil.Process(pid).children(recursive=True)
    (found,) = (each for each in children if each.environ().get("MLX_RANK") == "1")
    return found


@pytest.mark.slow
def test_a_chat_goes_on_where_a_mac_was_lost(target, hosts):
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "engine", "chat", "--target", str(target)),
            *("--max-tokens", "2000", "--temperature", "0"),  # without an end
            *("--drafter", "none", "--hosts", str(hosts)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    late = Timer(LIMIT_SECONDS, process.kill)
    late.start()
    try:
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        said = b""
        while b"> " not in said:
            said += os.read(process.stdout.fileno(), 1 << 16)
        os.read(process.stdout.fileno(), 1)  # the answer has begun
        rank_1(process.pid).kill()
        rest, _ = process.communicate(b"/draft-length 2\n/regenerate\n/quit\n")
    finally:
        late.cancel()
        late.join()
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert b"The process on 127.0.0.1 (rank 1) ended" in rest
    assert b"tokens/s" in rest, "the second answer was written to its end"
