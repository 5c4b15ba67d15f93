"""Requests to end, once and twice, and between two steps."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.process.interrupts import Interrupted, noting, stoppable, uninterrupted


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
