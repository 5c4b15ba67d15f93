"""What each of several Macs holds of a target, after loads that succeed and loads that do not; how
it finds one, and what it waits for."""

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread
from types import SimpleNamespace

import mlx.core as mx
import pytest

from engine.cluster.hosts import ClusterHost, Hosts
from engine.core.decoder import Decoder
from engine.device import begin, fetch, finish, wait
from engine.process import macs, rank
from engine.process.macs import LOAD, Cluster, Division, Find, Loaded, Refused, digest
from engine.process.rank import Following, Waits, find
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine.ended import change_json
from tests.support.engine.tiny import build, write_folder

PART, NO, YES = SimpleNamespace(size_bytes=7), Refused("No.", "Try again."), Loaded(7)


class Ended(Exception):
    """No more is asked for."""


def test_a_part_is_held_until_the_next_begins_and_only_where_all_have_one(monkeypatch):
    divided, held = [Division("pipeline", (1, 1), expand=False)], []
    said = iter(
        [
            *([None], [], divided, [YES, YES]),
            *([None], [], [NO]),  # the next target is refused
            *([None], [], divided, [YES, NO]),
        ]
    )
    words = iter((LOAD, LOAD, LOAD))

    def next_word():
        held.append(following.follower is not None)
        if (word := next(words, None)) is None:
            raise Ended
        return word

    monkeypatch.setattr(rank, "exchange", lambda *_: next(said))
    monkeypatch.setattr(rank, "find", lambda wanted: wanted)
    monkeypatch.setattr(rank, "load_part", lambda *_, **__: (None, PART))
    following = Following(SimpleNamespace(rank=lambda: 1, size=lambda: 2), next_word)
    with pytest.raises(Ended):
        following.run()
    assert held == [False, True, True, False]


@dataclass
class Target:
    """What is loaded of one."""

    decoder: object = None


def test_no_mac_shows_layers_of_a_target_that_could_not_be_loaded(monkeypatch):
    fit = SimpleNamespace(fits=True, available_bytes=9)
    made = SimpleNamespace(
        mode="pipeline", split=(1, 1), expand=False, layers=((1, 2), (0, 1)), fits=(fit, fit)
    )
    others = {}  # what the other Mac says, where that is not the same
    monkeypatch.setattr(macs, "exchange", lambda _, own: [own, others.get(type(own).__name__, own)])
    monkeypatch.setattr(macs, "plan", lambda *_, **__: made)
    monkeypatch.setattr(macs, "load_part", lambda *_, **__: (Target(), PART))
    hosts = Hosts((ClusterHost("here.local"), ClusterHost("mini.local")))
    cluster = Cluster(None, hosts, wake=lambda word: None, torn=pytest.fail)
    folder = SimpleNamespace(path="/m", name="m", fingerprint="", config={})
    cluster.load(folder)
    assert [each.layers for each in cluster.ranks] == [(1, 2), (0, 1)]
    for kind, layers in (("Found", [(1, 2), (0, 1)]), ("Loaded", [None, None])):
        others = {kind: NO}
        with pytest.raises(Problem, match=r"mini\.local: No\."):
            cluster.load(folder)
        assert [each.layers for each in cluster.ranks] == layers


# How another Mac finds rank 0's target: by its weights and its config, wherever it is


@pytest.mark.parametrize(
    ("place", "seed", "config", "found"),
    [
        ("theirs/story", 0, {}, "story"),
        ("models/renamed", 0, {}, "renamed"),
        ("theirs/story", 1, {}, "Its story has other weights, or another config.json."),
        ("theirs/story", 0, {"rope_theta": 5e5}, "Its story has other weights, or another"),
        ("elsewhere/story", 0, {}, "story is not on it. Copy it."),
    ],
)
def test_a_model_is_found_by_its_weights_and_config(
    tmp_path, monkeypatch, place, seed, config, found
):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    theirs = ModelFolder(tmp_path / "theirs" / "story")
    write_folder("llama", theirs.path, layers=1)
    wanted = Find(theirs.fingerprint, digest(theirs), "story", str(theirs.path), "Copy it.")
    shutil.rmtree(theirs.path)
    write_folder("llama", tmp_path / place, seed=seed, layers=1)
    change_json(tmp_path / place / "config.json", **config)
    if found in place:
        assert find(wanted).path == tmp_path / place
        return
    with pytest.raises(Problem, match=found):
        find(wanted)


# What counts as a wait of a pass


@contextmanager
def standing(wait, *, lock):
    """A thread that has been in this wait since its lock was locked."""
    made, ready = [], Event()

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


def test_what_may_begin_too_much_waits_as_well_and_a_drafter_that_reads_alone_does_not(monkeypatch):
    """MLX lets only so much be under way: a plain token after a pass that never ends."""
    for name, call in (("async_eval", begin), ("eval", wait), ("synchronize", finish)):
        lock = Lock()
        with monkeypatch.context() as patch:
            patch.setattr(mx, name, lock.acquire)
            with standing(call, lock=lock) as waits:
                assert until(waits.now), name
    lock, reads, decoder = Lock(), Event(), Decoder(build("llama"))

    def read():
        monkeypatch.setattr(mx, "eval", lock.acquire)
        reads.set()
        list(decoder.prefill([1, 2, 3, 4]))

    with standing(read, lock=lock) as waits:
        reads.wait()
        for _ in range(1000):
            assert waits.now() is None
    monkeypatch.undo()
