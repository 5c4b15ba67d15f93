"""Staying awake while busy, and the limit of open files."""

import resource
import subprocess
import sys
import time

import psutil
import pytest

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


def test_without_that_program_work_goes_on(tmp_path, monkeypatch):
    before, started = children(), list[object]()
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(a) or popen(*a, **k))
    awake = Awake((str(tmp_path / "missing"),))
    for _ in range(3):  # as at each step of an answer
        awake.keep(True)
    assert children() == before
    assert len(started) == 1


def test_a_program_that_has_ended_is_not_missed():
    awake, before = Awake((sys.executable, "-S", "-c", "")), children()
    awake.keep(True)
    (child,) = (psutil.Process(pid) for pid in set(children()) - set(before))
    while child.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    awake.keep(False)
    assert children() == before


@pytest.mark.parametrize(("soft", "expected"), [(256, 1000), (1000, 1000)])
def test_many_files_may_be_open(soft, expected, monkeypatch):
    limits = {"now": (soft, 1000)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, new: limits.update(now=new))
    open_many_files()
    assert limits["now"] == (expected, 1000)
    limits["now"] = (256, resource.RLIM_INFINITY)
    open_many_files()
    assert limits["now"] == (4096, resource.RLIM_INFINITY)
