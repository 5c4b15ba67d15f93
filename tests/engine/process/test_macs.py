"""What each of several Macs holds of a target, after loads that succeed and loads that do not."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from engine.cluster.hosts import ClusterHost, Hosts
from engine.process import macs, rank
from engine.process.macs import LOAD, Cluster, Division, Loaded, Refused
from engine.process.rank import Following
from models.errors import Problem

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
