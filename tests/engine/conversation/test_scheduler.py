"""Answers side by side: each is what it is alone, whoever else is answered, cancelled or fails. A
race is two answers in turns: each has its own time, and what slows the machine slows both."""

import gc
import itertools
from dataclasses import replace
from unittest import mock
from weakref import WeakSet

import pytest

import engine.conversation.scheduler
import engine.conversation.session
import engine.core.loop
import engine.core.rounds
from engine.conversation.scheduler import Job, Scheduler
from engine.conversation.session import Control, Session
from engine.conversation.stats import NoRatio, against_plain
from engine.core.batch import can_share
from engine.core.decoder import Decoder
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters import NoDrafter
from engine.events import Done, Failed, Prefill, Verdict, Waiting
from engine.process.host import failure
from engine.request import Prompt, Request, Sampling, asked
from tests.support.engine.sessions import (
    DRAFTERS,
    check_laws,
    new_session,
    tokens_of,
)
from tests.support.engine.waits import Waits
from tests.support.mostly_slow import mostly_slow

LENGTH = 9
GREEDY = Request(max_tokens=LENGTH)
SEEDED = Request(
    sampling=Sampling(temperature=0.9, top_p=0.95, seed=11, repeatable=True), max_tokens=LENGTH
)
QUESTIONS = (
    "How long is a piece of string, and why?",
    "How long is a piece of rope?",
    "x",
    "Once upon a time there was a town in which nobody was ever in a hurry. " * 3,
    "Tell me",
    "How long is a piece of string, and why not?",
    "a b c d e f g h i j k l m n o p",
    "?",
)
ROOM = 1 << 20


def job(number, request=GREEDY, *, question="", cancelled=lambda: False, first=False):
    prompt = asked(question or QUESTIONS[number % len(QUESTIONS)])
    return Job(str(number), prompt, request, Control(cancelled), first=first)


def scheduler(session, *, parallel=8, batching=True, room=ROOM):
    shared = batching and can_share(session.target.model)
    return Scheduler(session, parallel=parallel, room=room, batching=shared, fail=failure)


def events_of(of, *jobs):
    """All events as they come, of jobs that are asked for at once."""
    for each in jobs:
        yield from of.add(each)
    while of.busy:
        yield from of.step()


def run(of, jobs, seen=None):
    """The events of all jobs, asked for at once, by generation; `seen` has them as they come."""
    seen = {} if seen is None else seen
    seen.update({each.generation: [] for each in jobs})
    for event in events_of(of, *jobs):
        seen[event.generation].append(event)
    return seen


def until_it_writes(of, *jobs):
    """The events up to the first round of any of these jobs."""
    events = [event for each in jobs for event in of.add(each)]
    while not any(isinstance(event, Verdict) for event in events):
        events += of.step()
    return events


def answers(events):
    return {generation: tokens_of(own) for generation, own in events.items()}


def alone(make, jobs):
    """What each job gets from a session that no one else uses."""
    told = {}
    for each in jobs:
        answer = make().answer(each.prompt.messages, each.request, generation=each.generation)
        told[each.generation] = tokens_of(list(answer))
    return told


@pytest.fixture
def make(tokenizer):
    return lambda architecture="llama", kind="model": new_session(tokenizer, architecture, kind)


ARCHITECTURES = ("llama", "gemma3_text", "qwen3_5", "lfm2")
CASES = [
    *itertools.product(ARCHITECTURES, DRAFTERS, [2], [True, False]),
    *itertools.product(ARCHITECTURES, ["model", "trees"], [8], [True]),
    ("llama", "model", 3, True),
]
QUICK = [CASES[-1], ("qwen3_5", "lookup", 2, False)]


@pytest.mark.parametrize(
    ("architecture", "kind", "count", "batching"), mostly_slow(CASES, quick=QUICK)
)
def test_together_is_alone(make, architecture, kind, count, batching):
    for request in (GREEDY, SEEDED):
        jobs = [job(number, request) for number in range(count)]
        together = run(scheduler(make(architecture, kind), batching=batching), jobs)
        for events in together.values():
            check_laws([e for e in events if not isinstance(e, Waiting)], make().target.tokenizer)
        assert answers(together) == alone(lambda: make(architecture, kind), jobs)


@pytest.mark.quick(1)
@pytest.mark.parametrize("batching", [True, False])
def test_one_that_is_cancelled_and_one_that_fails_leave_the_others_alone(make, batching):
    seen, of = {}, scheduler(make(), batching=batching)
    jobs = [job(number) for number in range(4)]
    whole = alone(make, jobs)
    jobs[1] = job(1, cancelled=lambda: len(tokens_of(seen["1"])) > 4)
    failing = failing_in(engine.conversation.session.draft_and_verify, number=2)
    with mock.patch.object(engine.conversation.session, "draft_and_verify", failing):
        events = run(of, jobs, seen)
    assert events["1"][-1].reason == "cancelled"
    assert events["2"][-1].cause == "engine"
    told = answers(events)
    assert 0 < len(told["1"]) < LENGTH
    assert told["1"] == whole["1"][: len(told["1"])]
    assert [told[each] for each in "03"] == [whole[each] for each in "03"]
    again = answers(run(of, [job(2)]))
    assert again["2"] == whole["2"], "a failed answer changes no other"


def failing_in(whole, *, number, rounds=1):
    """A loop that breaks after these rounds, for the answer that begins after so many others."""
    begun = itertools.count()

    def loop(*arguments):
        breaks = next(begun) == number
        judged = 0
        for item in whole(*arguments):
            yield item
            judged += isinstance(item, engine.core.rounds.RoundVerdict)
            if breaks and judged == rounds:
                raise RuntimeError("out of luck")

    return loop


def test_a_shared_pass_that_fails_is_made_one_by_one(make, capfd):
    of, jobs = scheduler(make()), [job(number) for number in range(3)]
    broken = mock.Mock(side_effect=TypeError("no way"))
    with mock.patch.object(engine.conversation.scheduler, "read_together", broken):
        events = run(of, jobs)
    assert answers(events) == alone(make, jobs)
    assert broken.call_count == 1
    assert "no way" in capfd.readouterr().err


@pytest.mark.parametrize("batching", [True, False])
def test_a_policy_sees_all_rows_of_a_shared_pass(make, batching):
    seen, asked_beside = [], []

    class Watched(Fixed):
        def another(self):
            return Watched(3)

        def choose(self, *arguments, others=0, **options):
            asked_beside.append(others)
            return super().choose(*arguments, others=others, **options)

        def observe(self, measured):
            seen.append(measured)

    session = make()
    session.policy = Watched(3)
    hours = itertools.count(step=3600.0)  # a reading of the clock by which passes are shared
    with mock.patch.object(engine.conversation.scheduler, "perf_counter", hours.__next__):
        run(scheduler(session, batching=batching), [job(number) for number in range(3)])

    shared = [each for each in seen if each.others]
    assert [each for each in seen if each.verify_seconds >= 3600.0] == shared
    if not batching:
        assert not shared
        assert not any(asked_beside)
        return
    assert {each.others for each in shared} == set(asked_beside) - {0} == {1, 2}
    assert all(each.rows > each.proposed + each.others for each in shared)
    assert not any(each.rows for each in seen if not each.others)
    assert any(each.others and not each.proposed for each in seen), "no plain round among them"


# Who begins


def test_the_first_begin_before_others_and_one_that_was_cancelled_never(make):
    firsts = job(2, first=True), job(3, first=True)
    waiting = job(4, cancelled=lambda: True)
    events = list(events_of(scheduler(make(), parallel=1), job(0), job(1), *firsts, waiting))
    ended = {event.generation: event.reason for event in events if isinstance(event, Done)}
    assert ended.pop("4") == "cancelled"
    assert all(isinstance(event, Waiting | Done) for event in events if event.generation == "4")
    assert [*ended] == ["2", "3", "0", "1"]


def test_what_has_no_room_waits(make):
    running, most = set(), 0
    for event in events_of(scheduler(make(), room=140), job(0), job(1), job(5)):
        if isinstance(event, Prefill):
            running.add(event.generation)
            most = max(most, len(running))
        elif isinstance(event, Done):
            running.discard(event.generation)
    assert most == 2, "three prompts with their answers are longer than that"


def test_a_long_prompt_holds_neither_an_answer_nor_a_short_prompt_up(make):
    """While it is read, each chunk of it is followed by a round of every other answer, or by a
    chunk of another prompt."""
    of = scheduler(make(kind="none"))
    until_it_writes(of, job(0, replace(GREEDY, max_tokens=60)))
    for each in (job(1, question="word " * 120), job(2, question="x")):
        list(of.add(each))
    reading, began = [], {}
    while of.busy:
        step = list(of.step())
        if any(isinstance(e, Prefill) and e.generation == "1" for e in step):
            reading.append(step)
        began |= {e.generation: None for e in step if isinstance(e, Verdict)}
    assert len(reading) >= 2
    assert all(any(e.generation == "0" for e in step) for step in reading)
    assert [*began] == ["0", "2", "1"]


# What was read before


def reused(events):
    return next(event.reused for event in events if isinstance(event, Prefill))


LONG = [65 + 7 * i % 26 for i in range(160)]
GOES_ON, TURNS_OFF = [*LONG, *[66] * 20], [*LONG[:40], *[67] * 60]


def continued(tokens):
    """A prompt of tokens that is answered with two of them."""
    request = replace(GREEDY, max_tokens=2)
    return Job("t", Prompt(tokens=tuple(tokens)), request)


@pytest.mark.parametrize(
    ("limits", "turn", "shared", "cut"),
    [
        ({}, TURNS_OFF, 40, False),  # as after reasoning that a template drops
        ({}, [68] * 50, 0, False),
        ({}, [*LONG[:20], 67, 68, 69], 20, False),  # the template's own system prompt
        ({}, [*LONG[:100], 1, 2], 100, True),
        ({"parallel": 1}, TURNS_OFF, 40, True),
        ({"room": 200}, TURNS_OFF, 40, True),
    ],
)
def test_the_beginning_that_was_read_is_not_read_again(make, limits, turn, shared, cut):
    """Where little of a conversation is used again and there is room, it is kept as it is."""
    of = scheduler(make("llama", "none"), **limits)
    run(of, [continued(LONG)])
    first = of.session
    assert reused(run(of, [continued(turn)])["t"]) == shared
    assert (of.session is first) == cut
    assert reused(run(of, [continued(GOES_ON)])["t"]) == (shared if cut else 160)


def test_two_that_begin_alike_read_it_once(make):
    of, question = scheduler(make("llama", "none")), QUESTIONS[3]
    jobs = [job(0, question=question), job(1, SEEDED, question=question)]
    events = run(of, jobs)
    assert reused(events["0"]) == 0
    assert reused(events["1"]) == len(of.session.encode(asked(question))) - 1
    assert answers(events) == alone(lambda: make("llama", "none"), jobs)


def test_no_more_sessions_than_answers_at_once(make):
    of = scheduler(make("llama", "none"), parallel=3)
    made = WeakSet[Session]()
    another = Session.another

    def counting(session):
        other = another(session)
        made.add(other)
        return other

    with mock.patch.object(Session, "another", counting):
        for start in range(0, 6, 2):
            run(of, [job(number) for number in range(start, start + 2)])
    gc.collect()
    assert len(made) <= 3
    assert isinstance(of.session.drafter, NoDrafter)


@pytest.mark.parametrize("kind", ["model", "none"])
def test_an_answer_alone_is_never_waited_for(make, kind, beside_host):
    """The passes are under way as soon as by a session that knows of no others."""

    def calls(events):
        session = make(kind=kind)
        session.policy = Automatic() if kind == "none" else session.policy
        told = events(session)
        next(event for event in told if isinstance(event, Verdict))  # the prompt is read
        made, loop = mock.Mock(), engine.core.loop
        with Waits().counted() as waits:
            made.read.side_effect, made.fetch.side_effect = session.decoder.read, loop.fetch
            with (
                mock.patch.object(session.decoder, "read", made.read),
                mock.patch.object(loop, "fetch", made.fetch),
            ):
                list(told)
        assert waits.elsewhere == []
        return [name for name, *_ in made.mock_calls]

    by_itself = calls(lambda session: session.answer(job(0).prompt.messages, GREEDY))
    assert calls(lambda session: events_of(scheduler(session), job(0))) == by_itself
    if kind == "none":
        ahead = ["fetch", "read", "fetch", "fetch"]
        assert by_itself[-4:] == (ahead if beside_host else ["read", "fetch"] * 2)


@pytest.mark.usefixtures("beside_host")
def test_another_joins_a_plain_stretch(make):
    """A pass under way is the last that the first makes by itself."""
    of, events = scheduler(make(kind="none")), []
    list(of.add(job(0)))
    while len(events) < 8:
        events += of.step()
    events += events_of(of, job(1))
    seen = {name: [event for event in events if event.generation == name] for name in "01"}
    assert answers(seen) == alone(lambda: make(kind="none"), [job(0), job(1)])
    rounds = [event for event in seen["0"] if isinstance(event, Verdict)]
    assert sum(verdict.accompanied for verdict in rounds) > LENGTH // 2


def test_what_others_took_is_no_measure_of_speed(make):
    of = scheduler(make(), batching=False)
    shorter = replace(GREEDY, max_tokens=6)
    events = run(of, [job(0, replace(GREEDY, max_tokens=24)), job(1, shorter)])
    rounds = [event for event in events["0"] if isinstance(event, Verdict)]
    assert rounds[1].accompanied
    assert not rounds[-1].accompanied, "the other has ended by then"
    done = events["0"][-1]
    assert done.stats.accompanied == sum(verdict.accompanied for verdict in rounds)
    assert against_plain(done.stats) is NoRatio.ACCOMPANIED
    (lone,) = run(of, [job(2)]).values()
    assert lone[-1].stats.accompanied == 0


# Races

RACE = Job("drafted", asked("Tell me"), Request(max_tokens=18), rival="plain")


@pytest.fixture
def racing(make):
    """A scheduler whose answers take turns."""
    return scheduler(make(), parallel=4, batching=False)


@pytest.mark.parametrize("load", [(1.0,), (1.0, 8.0), (5.0, 1.0, 2.0)], ids=str)
def test_a_load_that_changes_meets_both_and_each_pays_for_its_own_turns(racing, load):
    """On a machine whose time only goes on while something is read, so many times as slowly; what
    is still under way at the end of a turn belongs to the turn."""
    now, read, gaps, both = 0.0, Decoder.read, [], 0
    spent = {"plain": 0.0, "drafted": 0.0}

    def work(seconds):
        nonlocal now
        now += seconds * load[int(now) % len(load)]

    def reading(decoder, tokens):
        work(0.02)
        return read(decoder, tokens)

    machine = {"perf_counter": lambda: now, "finish": lambda: work(0.01)}
    race = replace(RACE, request=Request(max_tokens=40))
    with (
        mock.patch.object(Decoder, "read", reading),
        mock.patch.multiple(engine.conversation.scheduler, **machine),
    ):
        for event in events_of(racing, race):
            if isinstance(event, Verdict):
                spent[event.generation] += event.seconds
                gaps.append(abs(spent["plain"] - spent["drafted"]))
                both = len(gaps) if event.generation == "plain" else both  # it ends first
    assert both > 40
    assert max(gaps[:both]) <= 0.1 + 0.12 * max(load), "a turn and a round"
    assert sum(spent.values()) == pytest.approx(now, abs=0.2 * max(load))


def test_nothing_runs_beside_a_race(racing):
    events = until_it_writes(racing, job("before", question="x"))
    events += events_of(racing, RACE, job("after", question="x"))
    working = (e for e in events if isinstance(e, Prefill | Verdict | Done))
    whose = {"plain": "race", "drafted": "race"}
    names = [whose.get(event.generation, event.generation) for event in working]
    assert [name for name, _ in itertools.groupby(names)] == ["before", "race", "after"]
    plain, drafted = ([e for e in events if e.generation == name] for name in ("plain", "drafted"))
    assert tokens_of(plain) == tokens_of(drafted) != []
    for own in (plain, drafted):
        assert own[-1].stats.accompanied == 0
        assert bool(own[-1].stats.proposed) == (own is drafted)


def test_a_race_that_fails_ends_with_one_failure(racing):
    failing = failing_in(engine.conversation.session.draft_and_verify, number=1, rounds=3)
    with mock.patch.object(engine.conversation.session, "draft_and_verify", failing):
        *events, last = events_of(racing, RACE)
    assert (type(last), last.generation) == (Failed, "drafted")
    assert not any(isinstance(event, Done | Failed) for event in events)
    before = tokens_of([event for event in events if event.generation == "plain"])
    again = [event for event in events_of(racing, RACE) if event.generation == "drafted"]
    assert tokens_of(again)[: len(before)] == before != [], "a failed answer changes no other"


def test_a_race_is_cancelled_as_a_whole(racing):
    events = []
    begun = Control(lambda: any(isinstance(event, Verdict) for event in events))
    for event in events_of(racing, replace(RACE, control=begun)):
        events.append(event)
    ends = {each.generation: each.reason for each in events if isinstance(each, Done)}
    assert ends == {"plain": "cancelled", "drafted": "cancelled"}
