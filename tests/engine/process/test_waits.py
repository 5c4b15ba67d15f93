"""What counts as a wait of a pass."""

from contextlib import contextmanager
from threading import Event, Lock, Thread
from types import SimpleNamespace

import mlx.core as mx
import pytest

from engine.core.decoder import Decoder
from engine.device import begin, fetch, finish, wait
from engine.process.rank import Waits
from tests.support.engine.tiny import build


@contextmanager
def standing(wait, *, lock):
    """A thread that has been in this wait since its lock was locked."""
    made = []
    ready = Event()

    def work():
        leader = SimpleNamespace(number=1, resting=False)
        made.append(Waits(SimpleNamespace(leader=leader, loading=False)))
        ready.set()
        wait()

    lock.acquire()
    thread = Thread(target=work)
    thread.start()
    ready.wait()
    try:
        yield made[0]
    finally:
        lock.release()
        thread.join()


def until(condition):
    while not (found := condition()):
        pass
    return found


def test_the_same_wait_is_equal_until_a_message_is_sent(monkeypatch):
    lock = Lock()
    monkeypatch.setattr(mx, "eval", lock.acquire)  # without a frame of its own, as MLX's
    with standing(fetch, lock=lock) as waits:
        first = until(waits.now)
        assert waits.now() == first
        until(lambda: waits.beat().stood)
        leader = waits._cluster.leader
        leader.number += 1
        assert waits.now() not in (None, first)
        assert (waits.beat().stood, waits.beat().works) == (pytest.approx(0.0, abs=0.1), True)
        waits._cluster.leader = None
        assert waits.now() is None
        assert not waits.beat().works


def test_what_may_begin_too_much_waits_as_well(monkeypatch):
    """MLX lets only so much be under way: a plain token behind a pass that never ends."""
    for name, call in (("async_eval", begin), ("eval", wait), ("synchronize", finish)):
        lock = Lock()
        monkeypatch.setattr(mx, name, lock.acquire)
        with standing(call, lock=lock) as waits:
            assert until(waits.now)


def test_a_drafter_that_reads_a_prompt_alone_is_no_wait(monkeypatch):
    lock, reads = Lock(), Event()
    decoder = Decoder(build("llama"))
    acquire = lock.acquire

    def read():
        monkeypatch.setattr(mx, "eval", acquire)
        reads.set()
        list(decoder.prefill([1, 2, 3, 4]))

    with standing(read, lock=lock) as waits:
        reads.wait()
        for _ in range(1000):
            assert waits.now() is None
    monkeypatch.undo()
