"""On a device that works beside the host, as a GPU does: what is waited for, and who is charged.

Passes are slow, all else costs next to nothing. Times are compared with those of a pass, in medians
of several rounds and with a wide margin: something else may keep this machine busy.
"""

import time
from dataclasses import replace
from itertools import pairwise
from statistics import median

import mlx.core as mx
import pytest

from engine.conversation.scheduler import Job, Scheduler
from engine.conversation.session import Session
from engine.core.decoder import Decoder
from engine.core.loop import alone, draft_and_verify, show_verdicts_during_next_pass, speculate
from engine.core.rounds import Company, RoundDraft, RoundVerdict
from engine.device import CPU, GPU, begin, fetch
from engine.draft_length import DraftChoice
from engine.draft_length.policy import Fixed
from engine.drafters import NoDrafter
from engine.events import Verdict
from engine.process.host import failure
from engine.request import Prompt, Request, Sampling
from tests.support.engine.backends import computing_as
from tests.support.engine.helpers import Known, Scripted, task
from tests.support.engine.sessions import loaded
from tests.support.engine.slow_passes import ManyProducts, SlowDrafts, SlowPasses, seconds_left

SCRIPT = [(7 * i) % 60 for i in range(200)]
PROMPT = SCRIPT[:12]
SHARE = 0.2  # of a pass: more is as much as all of it, less is as little as nothing

pytestmark = pytest.mark.usefixtures("beside")


@pytest.fixture
def beside():
    with computing_as(GPU):
        yield


@pytest.fixture(scope="module")
def model():
    return SlowPasses(SCRIPT)


@pytest.fixture(scope="module", params=["8B", pytest.param("27B", marks=pytest.mark.slow)])
def large(request):
    """A target whose pass is 300 products, or 1,000: so many times what MLX lets be under way."""
    if request.param == "8B":
        return ManyProducts(SCRIPT, layers=36, products=8, elements=160_000_000)
    return ManyProducts(SCRIPT, layers=64, products=15, elements=320_000_000)


def test_a_fetch_waits_for_nothing_that_was_begun_later(model):
    """Not even where one of its arrays is empty, and was not begun."""
    left = []
    for _ in range(3):
        values = mx.ones((4,)) * 3
        begin(values)
        begin(model(mx.array([[1]])))
        assert fetch(values, values[:0], mx.zeros((2, 0))) == [[3.0] * 4, [], [[], []]]
        left.append(seconds_left())
    assert median(left) > SHARE * model.pass_seconds


def test_a_draft_is_shown_before_its_pass_has_ended_and_not_charged_for_it(model):
    """What is waited for after it is its verdict."""
    left, verdicts, tokens = list[float](), list[RoundVerdict](), list(PROMPT)
    for item in speculate(Decoder(model), Known(SCRIPT), Fixed(3), tokens, task(20)):
        if isinstance(item, RoundDraft):
            left.append(seconds_left())
        else:
            verdicts.append(item)
    assert tokens == SCRIPT[: len(PROMPT) + 20]
    assert len(left) == len(verdicts) == 5
    assert median(left) > SHARE * model.pass_seconds
    assert median(each.draft_seconds for each in verdicts) < SHARE * model.pass_seconds
    assert median(each.verify_seconds for each in verdicts) > SHARE * model.pass_seconds


def test_a_verdict_is_told_while_the_next_pass_is_under_way(model):
    """Where others have turns nothing may be under way then, and it is told at once."""

    def left_at_verdicts(company):
        decoder, tokens = Decoder(model), list(PROMPT)
        asked = replace(task(20), company=company)
        loop = draft_and_verify(decoder, Known(SCRIPT), Fixed(3), tokens, asked)
        items = alone(decoder, show_verdicts_during_next_pass(loop, company))
        left = [seconds_left() for item in items if isinstance(item, RoundVerdict)]
        assert tokens == SCRIPT[: len(PROMPT) + 20]
        return left

    *before, last = left_at_verdicts(Company())
    assert len(before) == 4
    assert median(before) > SHARE * model.pass_seconds > last
    assert median(left_at_verdicts(Company(in_turns=True))) < SHARE * model.pass_seconds


def test_a_plain_token_is_written_before_the_next_pass_has_ended_and_charged_for_one(model):
    left, after_the_last, charged = list[float](), list[float](), list[float]()
    began = time.perf_counter()
    for _ in range(3):
        items = speculate(Decoder(model), NoDrafter(), Fixed(0), list(PROMPT), task(4))
        *before, last = [(seconds_left(), item.verify_seconds) for item in items]
        left += [each for each, _ in before]
        after_the_last.append(last[0])
        charged += [seconds for _, seconds in (*before, last)]
    each = (time.perf_counter() - began) / len(charged)
    assert len(left) == 9
    assert median(left) > SHARE * model.pass_seconds > median(after_the_last)
    assert SHARE * model.pass_seconds < median(charged) < 2 * each


def when_shown(model, drafter, length):
    """The items of some rounds, and when each was shown, as a session shows them."""
    decoder, company = Decoder(model), Company()
    asked = task(4 * (length + 1))
    loop = draft_and_verify(decoder, drafter, Fixed(length), list(PROMPT), asked)
    items = alone(decoder, show_verdicts_during_next_pass(loop, company))
    return [(item, time.perf_counter()) for item in items]


@pytest.mark.parametrize(("make", "length"), [(lambda: Known(SCRIPT), 3), (NoDrafter, 0)])
def test_drafts_and_words_are_shown_nearly_a_large_pass_before_the_next_verdict(
    large, make, length
):
    """Though MLX lets only a part of the pass be under way: to begin it whole waits for the most of
    it. Nothing is shown late after the last verdict, so its round shows it."""
    shares = list[float]()
    for _ in range(3):
        shown = when_shown(large, make(), length)
        *ended, last = [at for item, at in shown if isinstance(item, RoundVerdict)]
        assert len(ended) == 3
        before = shown[-2][1]  # its draft, or the word before it
        shares.append((last - before) / median(b - a for a, b in pairwise(ended)))
    assert max(shares) > 0.5  # a busy machine may delay what it shows, but not the device


def test_a_large_pass_is_not_charged_for_its_draft(large):
    """A draft takes no less than a pass here."""
    told = [item for item, _ in when_shown(large, SlowDrafts(SCRIPT), 3)]
    found = [item for item in told if isinstance(item, RoundVerdict)]
    assert max(each.draft_seconds / each.verify_seconds for each in found) > 0.2


class InRuns(Fixed):
    """Plain tokens in runs of so many. Attribute: `edges`, which were told to be edges of one."""

    def __init__(self, rounds):
        super().__init__(0)
        self._rounds, self.edges = rounds, list[bool]()

    def choose(self, *args, **options):
        return DraftChoice(0, rounds=self._rounds)

    def observe(self, measured):
        self.edges.append(measured.edge)


def test_the_ends_of_a_run_of_plain_tokens_are_told():
    """Nothing runs beside the first, and nothing is built beside the last."""
    for device, edges in [(GPU, [n % 4 in (0, 3) for n in range(9)]), (CPU, [False] * 9)]:
        with computing_as(device):  # beside a CPU nothing ever does
            policy, target = InRuns(4), Decoder(Scripted(SCRIPT))
            items = list(speculate(target, NoDrafter(), policy, list(PROMPT), task(9)))
        assert policy.edges == [each.edge for each in items] == edges


def events_of(model, tokenizer, *jobs, parallel):
    """The events of answers with drafts of three, as they come."""
    session = Session(loaded(model, tokenizer), policy=Fixed(3))
    session.drafter = Known(SCRIPT)
    scheduler = Scheduler(session, parallel=parallel, room=1 << 20, batching=False, fail=failure)
    for job in jobs:
        yield from scheduler.add(job)
    while scheduler.busy:
        yield from scheduler.step()


ASKED = Prompt(tokens=tuple(PROMPT)), Request(max_tokens=8, sampling=Sampling(temperature=0.0))


def test_a_race_charges_each_answer_for_its_own_passes(model, tokenizer):
    """All the time is somebody's, and none is both's."""
    seconds = {"plain": [], "drafted": []}
    events = events_of(model, tokenizer, Job("drafted", *ASKED, rival="plain"), parallel=1)
    next(events)  # all is made
    began = time.perf_counter()
    for event in events:
        if isinstance(event, Verdict):
            seconds[event.generation].append(event.seconds)
    whole = time.perf_counter() - began
    plain, drafted = seconds.values()
    assert (len(plain), len(drafted)) == (8, 2)
    assert 0.7 * whole < sum(plain) + sum(drafted) <= whole
    for each in (plain, drafted):
        assert median(each) > SHARE * model.pass_seconds


def test_of_several_answers_none_leaves_work_to_the_turn_of_another(model, tokenizer):
    jobs = [Job(name, *ASKED) for name in ("first", "second")]
    events = events_of(model, tokenizer, *jobs, parallel=2)
    left = [seconds_left() for event in events if isinstance(event, Verdict)]
    assert len(left) == 4
    assert median(left) < SHARE * model.pass_seconds
