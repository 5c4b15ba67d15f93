"""When a child is due, in whatever order requests, starts and ends come. No process."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.process.interrupts import Interrupted, noting, stoppable, uninterrupted
from engine.process.supervision import GRACE_SECONDS, Death, Supervisor, grace_seconds, how_it_ended

PAUSES = (0.5, 1.0, 4.0)


class AnyOrder(RuleBasedStateMachine):
    """A driver that is late with everything. `told`: a child's end was asked for or reported."""

    def __init__(self):
        super().__init__()
        self.supervisor = Supervisor(PAUSES)
        self.alive = False
        self.told = False
        self.wanted = False
        self.begun = 0  # since deaths were forgotten
        self.deaths = 0

    @rule()
    def start(self):
        self.supervisor.start()
        self.wanted, self.begun, self.deaths = True, 0, 0

    @rule()
    def stop(self):
        self.supervisor.stop()
        self.wanted, self.told = False, True

    @precondition(lambda self: self.supervisor.due)
    @rule()
    def begin(self):
        assert not self.alive, "never two"
        assert self.wanted, "a stop is final"
        self.supervisor.begin()
        self.alive, self.told = True, False
        self.begun += 1
        assert self.begun <= len(PAUSES) + 1, "restarts are bounded"

    @precondition(lambda self: not self.supervisor.due)
    @rule()
    def begin_anyway(self):
        with pytest.raises(AssertionError):
            self.supervisor.begin()

    @precondition(lambda self: self.alive)
    @rule()
    def prove(self):
        self.supervisor.forget()
        self.begun, self.deaths = 0, 0

    @precondition(lambda self: self.alive)
    @rule(for_good=st.booleans())
    def fail(self, for_good):
        self.check(self.supervisor.fail(for_good=for_good), for_good=for_good)

    @precondition(lambda self: self.alive)
    @rule()
    def end(self):
        self.check(self.supervisor.end())
        self.alive = False

    @rule()
    def resume(self):
        self.supervisor.resume()

    def check(self, death, *, for_good=False):
        """One death a child, and none if its end was asked for."""
        assert (death is None) == self.told
        self.told = True
        if death is None:
            return
        pause = None if for_good or self.deaths == len(PAUSES) else PAUSES[self.deaths]
        self.deaths += 1
        assert death == Death(self.deaths, pause)
        assert self.supervisor.plan == ("given up" if pause is None else "waiting")

    @invariant()
    def what_it_says_of_the_child_and_the_plan(self):
        supervisor = self.supervisor
        assert (supervisor.child != "none") == self.alive
        assert (supervisor.child == "running") == (self.alive and not self.told)
        assert (supervisor.plan != "stopped") == self.wanted
        assert supervisor.due <= self.wanted


TestAnyOrder = AnyOrder.TestCase


def died(supervisor):
    """A child is started, and dies."""
    supervisor.resume()
    supervisor.begin()
    return supervisor.end()


def test_the_last_pause_repeats_without_an_end_and_deaths_before_a_child_that_worked_do_not_count():
    supervisor = Supervisor(PAUSES, endless=True)
    supervisor.start()
    pauses = [died(supervisor).pause_seconds for _ in range(5)]
    assert pauses == [*PAUSES, PAUSES[-1], PAUSES[-1]]
    supervisor = Supervisor(PAUSES)
    supervisor.start()
    assert died(supervisor) == Death(1, PAUSES[0])
    assert died(supervisor) == Death(2, PAUSES[1])
    supervisor.forget()
    assert died(supervisor) == Death(1, PAUSES[0])
    supervisor.resume()
    supervisor.begin()
    assert supervisor.fail(for_good=True) == Death(2, None)


def test_how_a_process_ended_and_how_much_time_it_has_to_end():
    for status, said in ((0, "status 0"), (3, "status 3"), (-9, "SIGKILL"), (-99, "signal 99")):
        assert said in how_it_ended(status)
    sizes = [0, 5 * 10**9, 15 * 10**9, 20 * 10**9, 70 * 10**9]  # of its models
    assert [grace_seconds(size) for size in sizes] == [GRACE_SECONDS, 5, 7.5, 10, 10]
    assert [grace_seconds(size, 1.5) for size in sizes] == [1.5, 2.5, 7.5, 10, 10]


# Requests to end, once and twice, and between two steps


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_the_second_acts(number):
    acted = []
    before = signal.signal(number, lambda received, _: acted.append(received))
    try:
        with stoppable() as interruption:
            interruption.check()
            assert not interruption()
            signal.raise_signal(number)
            assert interruption()
            assert interruption.signal == number
            with pytest.raises(Interrupted):
                interruption.check()
            assert acted == []
            signal.raise_signal(number)
            assert acted == [number]
        signal.raise_signal(number)
        assert acted == [number, number], "the handler is not put back"
        with noting(number) as interruption:
            for _ in range(3):
                signal.raise_signal(number)
            assert interruption.signal == number
        assert acted == [number, number]
    finally:
        signal.signal(number, before)


def test_an_interrupt_comes_at_the_end_of_a_step_and_to_the_main_thread_alone():
    before, done = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), uninterrupted():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is before
    with uninterrupted():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(ZeroDivisionError), uninterrupted():
        1 / 0  # noqa: B018
    assert signal.getsignal(signal.SIGINT) is before

    def work():
        with uninterrupted():
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(work).result() is before


def test_a_process_ends_with_a_parent_that_is_killed():
    """The child inherits standard error: that it closes says that the child is gone, too."""
    child = (
        "from engine.process.interrupts import end_with_parent; from threading import Event; "
        "end_with_parent(); print(1, flush=True); Event().wait()"
    )
    parent = (
        "import os, subprocess, sys; "
        f"child = subprocess.Popen((sys.executable, '-c', {child!r}), stdin=-1, stdout=-1); "
        "child.stdout.readline(); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", parent], stderr=subprocess.PIPE)
    assert done.returncode == -signal.SIGKILL
    assert done.stderr == b""
