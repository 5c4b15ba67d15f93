"""Whether there is memory for a pair, by the numbers of its files."""

import asyncio
import shutil
from pathlib import Path

import pytest

from engine.process.protocol import Load, Macs, Memory
from engine.server.pair import Room
from models.errors import Problem
from models.memory.machine import Machine

STORIES = str(Path(__file__).parents[2] / "data" / "stories260K")
PAIR = Load("l", STORIES, "lookup")


def taken(pair, machine):
    return asyncio.run(Room(lambda: machine).taken(pair))


def machine(available_bytes, *, unified=True):
    return Machine("m", 1 << 34, available_bytes, unified=unified)


def test_a_pair_takes_more_with_a_longer_context():
    short, usual = (
        taken(Load("l", STORIES, "lookup", memory=Memory(64)), machine(1 << 33)),
        taken(PAIR, machine(1 << 33)),
    )
    assert short is not None
    assert short.held_bytes == usual.held_bytes > 0
    assert short.needed_bytes < usual.needed_bytes


@pytest.mark.parametrize("unified", [True, False])
def test_it_needs_room_beside_the_others(unified):
    fit = taken(PAIR, machine(1 << 33))
    assert fit is not None

    def required(pairs, **others):
        here = machine(int(pairs * fit.needed_bytes), unified=unified)
        return Room(lambda: here).require(PAIR, **{"staying": [], **others})

    asyncio.run(required(1.1))
    for pairs, others in ((0.2, {}), (1.1, {"staying": [fit] * 9})):
        with pytest.raises(Problem) as refused:
            asyncio.run(required(pairs, **others))
        assert "available" in refused.value.message
    asyncio.run(required(10.1, staying=[fit] * 9))
    if not unified:  # where there is no limit, the weights come back
        with pytest.raises(Problem):
            asyncio.run(required(0.2))
        asyncio.run(required(0.2, leaving=[fit] * 9))


def test_what_is_not_known_is_not_refused_and_is_weighed_again(tmp_path):
    room, pair = Room(lambda: machine(1 << 33)), Load("l", str(tmp_path / "late"), "lookup")
    assert asyncio.run(room.taken(pair)) is None
    shutil.copytree(STORIES, tmp_path / "late")
    assert asyncio.run(room.taken(pair)) is not None
    none = machine(0)
    assert taken(Load("l", str(tmp_path)), none) is None
    assert taken(Load("l", STORIES, macs=Macs("/hosts.json")), none) is None
    asyncio.run(Room(lambda: none).require(Load("l", str(tmp_path)), staying=[]))
