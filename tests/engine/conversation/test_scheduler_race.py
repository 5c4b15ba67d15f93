"""A race is two answers in turns: each has its own time, and what slows the machine slows both."""

from dataclasses import dataclass, field, replace
from itertools import count, groupby
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.conversation.scheduler
import engine.conversation.session
from engine.conversation.scheduler import Job, Scheduler
from engine.conversation.session import Control, Session
from engine.conversation.stats import tally
from engine.core.cache import QuantizedCaches
from engine.drafters import NoDrafter
from engine.events import Done, Event, Failed, Prefill, Stats, Verdict
from engine.process.host import failure
from engine.request import Request, asked
from tests.support.engine.sessions import loaded, new_session, tiny_model, tokens_of

RACE = Job("drafted", asked("Tell me"), Request(max_tokens=18), rival="plain")
ROOM = 1 << 20


class World:
    """A machine whose `now` only goes on while something is computed, `load` times as slowly."""

    def __init__(self, load, *, under_way=0.0):
        """`under_way`: seconds that the device still works at the end of a turn."""
        self.now = 0.0
        self._load = load
        self._under_way = under_way

    def work(self, seconds):
        spell = int(self.now) % len(self._load)
        self.now += seconds * self._load[spell]

    def read(self):
        return self.now

    def finish(self):
        self.work(self._under_way)

    def race(self, *, plain, drafted):
        """The events of a race in which each answer has so many rounds of so many seconds."""
        answering = Answering(self, *drafted, rival=Answering(self, *plain))
        of = Scheduler(answering, parallel=1, room=ROOM, batching=False, fail=failure)
        events = list(of.add(RACE))
        with (
            mock.patch.object(engine.conversation.scheduler, "perf_counter", self.read),
            mock.patch.object(engine.conversation.scheduler, "finish", self.finish),
        ):
            while of.busy:
                events += of.step()
        return events


@dataclass(slots=True)
class Answering:
    """Answers in so many `rounds` of so many `seconds`, in the place of a session."""

    world: World
    rounds: int
    seconds: float
    rival: "Answering | None" = None
    length: int = 0
    decoder: None = None
    tokens: tuple[int, ...] = ()
    generation: str = ""
    most_tokens: int = 1

    def prepare(self, prompt, request, *, generation):
        self.generation = generation
        return self

    def plain(self):
        return self.rival

    def shared(self, prompt):
        return 0

    def begin(self, answer, control, **others):
        clock = control.clock
        last = clock()
        for number in range(self.rounds):
            self.world.work(self.seconds)
            now = clock()
            yield Verdict(self.generation, number, 0, (), None, 0.0, 0.0, now - last, "")
            last = now
        yield Done(self.generation, "stop", Stats())


def _seconds(events, name):
    return tally(event for event in events if event.generation == name).decode_seconds


def test_what_is_still_under_way_belongs_to_the_turn_that_began_it():
    world = World([1.0], under_way=0.01)
    events = world.race(plain=(20, 0.05), drafted=(20, 0.05))
    counted = _seconds(events, "plain") + _seconds(events, "drafted")
    assert counted > 2.0, "nobody has paid for what was under way"
    assert counted == pytest.approx(world.now, abs=0.03)


@given(load=st.lists(st.floats(1.0, 8.0), min_size=2, max_size=9))
def test_a_load_that_changes_meets_both(load):
    events = World(load).race(plain=(400, 0.02), drafted=(200, 0.02))
    spent = {"plain": 0.0, "drafted": 0.0}
    for event in events:
        if isinstance(event, Verdict):
            spent[event.generation] += event.seconds
            assert abs(spent["plain"] - spent["drafted"]) <= 0.1 + 0.02 * 8.0 + 1e-9
            if event.generation == "drafted" and event.round == 199:
                break


# With sessions


@dataclass(slots=True)
class Heard:
    """A scheduler, and all `events` of it so far."""

    of: Scheduler
    events: list[Event] = field(default_factory=list)

    def ask(self, *jobs):
        for job in jobs:
            self.events += self.of.add(job)

    def run(self, until=lambda: False):
        while self.of.busy and not until():
            self.events += self.of.step()
        return self.events

    def of_generation(self, name):
        return [event for event in self.events if event.generation == name]


@pytest.fixture
def heard(tokenizer):
    session = new_session(tokenizer)
    return Heard(Scheduler(session, parallel=4, room=ROOM, batching=False, fail=failure))


def other(name):
    return Job(name, asked("How long?"), Request(max_tokens=12))


def test_nothing_runs_beside_a_race(heard):
    heard.ask(other("before"))
    heard.run(until=lambda: any(isinstance(event, Verdict) for event in heard.events))
    heard.ask(RACE, other("behind"))
    heard.run()
    working = (e for e in heard.events if isinstance(e, Prefill | Verdict | Done))
    whose = ("before", "race", "race", "behind")
    names = dict(zip(("before", "plain", "drafted", "behind"), whose, strict=True))
    assert [name for name, _ in groupby(names[e.generation] for e in working)] == [
        *("before", "race", "behind")
    ]
    plain, drafted = heard.of_generation("plain"), heard.of_generation("drafted")
    assert tokens_of(plain) == tokens_of(drafted) != []
    for events in (plain, drafted):
        assert events[-1].stats.accompanied == 0
        assert bool(events[-1].stats.proposed) == (events is drafted)


def test_a_race_that_fails_ends_with_one_failure(heard):
    whole, begun = engine.conversation.session.draft_and_verify, count()

    def failing(*arguments):
        breaks = next(begun) == 1
        for number, item in enumerate(whole(*arguments)):
            if breaks and number == 9:
                raise RuntimeError("out of luck")
            yield item

    with mock.patch.object(engine.conversation.session, "draft_and_verify", failing):
        heard.ask(RACE)
        *events, last = heard.run()
    assert last.generation == "drafted"
    assert not any(isinstance(event, Done | Failed) for event in events)
    before = heard.of_generation("plain")
    heard.events = []
    heard.ask(RACE)
    heard.run()
    again = tokens_of(heard.of_generation("drafted"))
    assert again[: len(tokens_of(before))] == tokens_of(before), "a failed answer changes no other"


def test_a_race_is_cancelled_as_a_whole(heard):
    begun = Control(lambda: any(isinstance(event, Verdict) for event in heard.events))
    heard.ask(replace(RACE, control=begun))
    ends = [event for event in heard.run() if isinstance(event, Done | Failed)]
    assert {end.generation: end.reason for end in ends} == {
        "plain": "cancelled", "drafted": "cancelled",
    }  # fmt: skip


def test_both_of_a_race_have_the_same_caches(tokenizer):
    """Else they may differ, and one reads more memory than the other."""
    caches = QuantizedCaches(bits=8, group_size=32)
    session = Session(loaded(tiny_model("llama"), tokenizer), drafter="lookup", quantized=caches)
    plain = session.plain()
    assert plain.decoder.timeline.quantized == caches
    assert isinstance(plain.drafter, NoDrafter)
