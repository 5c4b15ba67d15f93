"""Staying awake while busy, and the limit of open files."""

import resource
import subprocess
import sys
import time

import psutil

from models.this_process import Awake, open_many_files

SLEEPS = (sys.executable, "-S", "-c", "import time; time.sleep(600)")


def children():
    return [child.pid for child in psutil.Process().children()]


def test_a_program_runs_while_it_is_busy():
    awake, before = Awake(SLEEPS), children()
    awake.keep(False)
    assert children() == before
    awake.keep(True)
    begun = children()
    assert len(begun) == len(before) + 1
    awake.keep(True)
    assert children() == begun
    awake.keep(False)
    assert children() == before
    with awake:
        assert len(children()) == len(before) + 1
    assert children() == before


def test_a_program_that_has_ended_or_is_not_there_is_not_missed(tmp_path, monkeypatch):
    awake, before = Awake((sys.executable, "-S", "-c", "")), children()
    awake.keep(True)
    (child,) = (psutil.Process(pid) for pid in set(children()) - set(before))
    while child.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    awake.keep(False)
    assert children() == before
    popen, started = subprocess.Popen, []
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(a) or popen(*a, **k))
    awake = Awake((str(tmp_path / "missing"),))
    for _ in range(3):  # as at each step of an answer
        awake.keep(True)
    assert children() == before
    assert len(started) == 1


def test_many_files_may_be_open(monkeypatch):
    limits, endless = {}, resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, new: limits.update(now=new))
    for soft, hard, opened in ((256, 1000, 1000), (1000, 1000, 1000), (256, endless, 4096)):
        limits["now"] = (soft, hard)
        open_many_files()
        assert limits["now"] == (opened, hard), soft
