"""A child process that is replaced, dies, is given up and is stopped: real processes, one at a
time."""

import sys

import psutil
import pytest

from app.engine_client.child_process import ChildProcess
from engine.process.supervision import Supervisor

LISTEN = "import sys; print('ready', flush=True); sys.stdin.read()"
DEAF = "import time; print('ready', flush=True); time.sleep(3600)"
DIE = "raise SystemExit(3)"


class Lives:
    """The lives of a child. Attributes: `child`; `pids`, `said` and `ends` so far."""

    def __init__(self, code, pauses_seconds):
        self.pids = []
        self.said = []
        self.ends = []
        self.supervisor = Supervisor(pauses_seconds)
        self.child = ChildProcess(
            (sys.executable, "-c", code), limit=100, supervisor=self.supervisor
        )
        self.child.began.connect(self._on_began)
        self.child.said.connect(self.said.append)
        self.child.ended.connect(lambda reason, status: self.ends.append(reason))
        self.child.start()

    def _on_began(self):
        assert not any(map(psutil.pid_exists, self.pids)), "never two"
        self.pids.append(self.child.pid)


@pytest.fixture
def live(qtbot):
    began = []

    def live(code, *pauses_seconds):
        began.append(Lives(code, pauses_seconds))
        return began[-1]

    yield live
    for one in began:
        one.child.close(kill=True)
        assert not one.child.running


@pytest.mark.parametrize("kill", [True, False])
def test_another_starts_once_the_first_has_ended(kill, live, until):
    one = live(LISTEN)
    until(lambda: one.said)
    one.child.replace(kill=kill)
    one.child.replace(kill=kill)
    assert one.child.pid == 0
    until(lambda: len(one.said) == 2)
    assert len(one.pids) == 2
    assert one.child.death is None


def test_a_killed_one_says_nothing_more(live, until):
    one = live("print('first', flush=True); print('second', flush=True); " + DEAF)
    one.child.said.connect(lambda line: one.child.stop(kill=True))
    until(lambda: one.ends)
    assert one.said == [b"first\n"]


def test_deaths_are_counted_until_it_is_given_up(live, until):
    one = live(DIE, 0.01, 0.02)
    until(lambda: one.supervisor.plan == "given up" and not one.child.running)
    assert len(one.pids) == len(one.ends) == 3
    one.child.command = (sys.executable, "-c", LISTEN)
    one.child.start()
    until(lambda: one.said)
    assert len(one.pids) == 4


def test_one_that_does_not_work_is_killed_and_started_again(live, until):
    one = live(DEAF, 0.0)
    until(lambda: one.said)
    death = one.child.fail()
    assert death.count == 1
    assert one.child.fail() is None
    until(lambda: len(one.said) == 2)
    assert one.child.fail(for_good=True) is not None
    until(lambda: not one.child.running)
    assert one.supervisor.plan == "given up"


def test_a_stop_ends_the_wait_for_another(live, until, qtbot):
    one = live(DIE, 0.01)
    until(lambda: one.supervisor.plan == "waiting")
    one.child.stop()
    qtbot.wait(50)
    assert len(one.pids) == 1


def test_a_start_while_it_is_closed_has_no_effect(live, until):
    one = live(LISTEN)
    until(lambda: one.said)
    one.child.ended.connect(lambda: one.child.start())
    one.child.close()
    assert len(one.pids) == 1
    assert not one.child.running


@pytest.mark.slow
def test_the_end_of_patience_with_one_is_not_that_with_the_next(live, qtbot):
    one = live(LISTEN)
    qtbot.waitUntil(lambda: len(one.said) == 1)
    one.child.replace()
    qtbot.waitUntil(lambda: len(one.said) == 2)
    qtbot.wait(2_000)
    assert psutil.pid_exists(one.pids[-1])
