"""Two answers in turns: each has its own time, and what slows the machine slows both."""

from collections.abc import Iterator
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Done, Event, Stats, Verdict
from engine.stats import tally
from engine.turns import Racer, TurnClock, in_turns


class World:
    """A machine whose `now` only goes on while something is computed, `load` times as slowly."""

    def __init__(self, load: list[float]) -> None:
        self.now = 0.0
        self._load = load

    def work(self, seconds: float) -> None:
        spell = int(self.now) % len(self._load)
        self.now += seconds * self._load[spell]

    def answer(
        self, name: str, clock: TurnClock, *, rounds: int, seconds: float
    ) -> Iterator[Event]:
        stats, last = Stats(), clock()
        for number in range(rounds):
            self.work(seconds)
            now = clock()
            verdict = Verdict(name, number, 0, (), None, 0.0, 0.0, now - last, "")
            last = now
            yield verdict
        yield Done(name, "stop", stats)

    def race(self, *, rounds: int, plain: float, speculative: float) -> list[Event]:
        clocks = TurnClock(self.read), TurnClock(self.read)
        racers = [
            Racer(self.answer(name, clock, rounds=count, seconds=seconds), clock)
            for name, clock, count, seconds in (
                ("plain", clocks[0], rounds, plain),
                ("speculative", clocks[1], rounds // 2, speculative),
            )
        ]
        return list(in_turns(racers[0], racers[1], settle=lambda: self.work(0.0)))

    def read(self) -> float:
        return self.now


def _seconds(events: list[Event], name: str) -> float:
    return tally(event for event in events if event.generation == name).decode_seconds


def test_the_clocks_rest_between_turns_and_miss_nothing() -> None:
    world = World([1.0])
    events = world.race(rounds=100, plain=0.02, speculative=0.025)
    assert _seconds(events, "plain") == pytest.approx(2.0)
    assert _seconds(events, "speculative") == pytest.approx(1.25)
    assert world.now == pytest.approx(3.25)
    assert [event.generation for event in events[-2:]] == ["plain", "speculative"]
    assert all(isinstance(event, Done) for event in events[-2:])
    turns = [name for name, _ in groupby(event.generation for event in events[:-2])]
    assert len(turns) > 10, "they do not take turns"


def test_what_is_still_under_way_belongs_to_the_turn_that_began_it() -> None:
    world = World([1.0])
    clocks = TurnClock(world.read), TurnClock(world.read)
    racers = [
        Racer(world.answer(name, clock, rounds=20, seconds=0.05), clock)
        for name, clock in zip(("plain", "speculative"), clocks, strict=True)
    ]
    events = list(in_turns(racers[0], racers[1], settle=lambda: world.work(0.01)))
    counted = _seconds(events, "plain") + _seconds(events, "speculative")
    assert counted > 2.0, "nobody has paid for what was under way"
    assert clocks[0]() + clocks[1]() == pytest.approx(world.now)


@given(load=st.lists(st.floats(1.0, 8.0), min_size=2, max_size=9))
def test_a_load_that_changes_meets_both(load: list[float]) -> None:
    world = World(load)
    events = world.race(rounds=400, plain=0.02, speculative=0.02)
    spent = {"plain": 0.0, "speculative": 0.0}
    for event in events:
        if isinstance(event, Verdict):
            spent[event.generation] += event.seconds
            assert abs(spent["plain"] - spent["speculative"]) <= 0.1 + 0.02 * 8.0 + 1e-9
            if event.generation == "speculative" and event.round == 199:
                break
