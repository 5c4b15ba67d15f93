"""The loop: where it ends, what it leaves behind, when it waits, and what it costs."""

import functools
from dataclasses import replace
from itertools import product
from unittest import mock

import mlx.core as mx
import pytest

import engine.core.loop
import engine.core.rounds
from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.core.rounds import RoundDraft, RoundVerdict, Unconstrained
from engine.draft_length import DraftCandidate, DraftChoice
from engine.draft_length.policy import Fixed
from engine.drafters import NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from engine.request import Sampling
from tests.support.engine.helpers import (
    CORE,
    EVERYWHERE,
    GREEDY,
    PROMPT,
    Known,
    Scripted,
    assert_as_fresh,
    decoder,
    ids_held,
    now_and_then,
    plainly,
    read_prompt,
    resident_bytes,
    task,
    write,
)
from tests.support.engine.tiny import noisy, shallow
from tests.support.engine.waits import Waits
from tests.support.mostly_slow import mostly_slow

SAMPLED = Sampling(temperature=0.8, top_p=0.95)
END = 63
SCRIPT = [*range(1, 13), *range(20, 60), *range(20, 60)]  # the prompt, then what is wanted


def script_ending_at(position):
    return [*SCRIPT[:position], END, *SCRIPT[position + 1 :]]


@functools.cache
def noisy_model(architecture):
    return noisy(shallow(architecture))


@functools.cache
def expected_of(architecture, count):
    return plainly(shallow(architecture), count=count)


def model_drafter(target):
    block = next((layer.block for layer in target.timeline.layers if hasattr(layer, "block")), 1)
    own = decoder(noisy_model(target.model.model_type), block=block)
    return ModelDrafter(own, vocabulary=target.vocabulary)


def early_exit(target):
    return EarlyExitDrafter(target, layers=len(target.model.layers) - 1)


DRAFTERS = {
    "model": model_drafter,
    "early-exit": early_exit,
    "lookup": lambda _: LookupDrafter(),
    "lookahead": lambda _: LookaheadDrafter(),
    "cascade": lambda target: Cascade(LookupDrafter(), model_drafter(target)),
    "none": lambda _: NoDrafter(),
}


# Ends


@pytest.mark.parametrize("length", [0, 1, 4])
def test_end_of_text_at_each_place_of_a_draft(length):
    """Drafted and accepted, written as a bonus or plainly; in the first round and the second."""
    prompt = 12
    for where in range(7):
        script = script_ending_at(prompt + where)
        target, tokens = Decoder(Scripted(script)), script[:prompt]

        run = write(target, Known(script), Fixed(length), tokens, task(40, ends=[END]))

        assert run.tokens == script[prompt : prompt + where + 1]
        _, last = run.rounds[-1]
        place = where % (length + 1)
        assert last.accepted == (place + 1 if place < length else length)
        assert (last.own is None) == (place < length)
        assert ids_held(target) == tokens[: target.length]
        assert target.length <= len(tokens)


def test_prompt_may_end_with_an_end():
    """As a chat's does, where the template closes a turn."""
    script = [1, 2, END, *SCRIPT]
    run = write(Decoder(Scripted(script)), Known(script), Fixed(3), script[:3], task(9, ends=[END]))
    assert run.tokens == SCRIPT[:9]


@pytest.mark.parametrize("length", mostly_slow([0, 1, 2, 3, 5, 8], quick=[0, 1, 3, 5]))
def test_max_tokens_up_to_a_draft_and_two(length):
    for count in range(1, length + 3):
        for wrong in ((), EVERYWHERE, now_and_then(count)):
            target, tokens = Decoder(Scripted(SCRIPT)), SCRIPT[:12]
            run = write(target, Known(SCRIPT, wrong=wrong), Fixed(length), tokens, task(count))
            assert run.tokens == SCRIPT[12 : 12 + count]
            assert ids_held(target) == tokens[: target.length]


def test_drafter_is_told_what_stood():
    drafter, tokens = Known(SCRIPT, wrong={13, 16}), SCRIPT[:12]
    write(Decoder(Scripted(SCRIPT)), drafter, Fixed(3), tokens, task(9))
    assert drafter.settled == [1, 2, 3]
    assert drafter.rewound[-1] == len(tokens)


@pytest.mark.parametrize("kind", DRAFTERS)
def test_a_prompt_may_end_with_an_id_that_the_target_has_no_logits_for(kind):
    """It is read as the vocabulary's last token, as a tokenizer may know more."""
    texts = []
    for end in (63, 1 << 20):
        target = decoder(shallow("llama"))
        to_do = task(6)
        texts.append(write(target, DRAFTERS[kind](target), Fixed(3), [*PROMPT, end], to_do).tokens)
    assert texts[0] == texts[1]


# Closed early


def cases(kinds, *, quick):
    """Architectures, drafters, and whether the device runs beside the host. Quick are `quick`
    drafters of a Llama either way, and a model for each other kind of cache."""
    few = [*product(CORE[:1], quick, [False, True]), *product(CORE[1:], ["model"], [True])]
    return pytest.mark.parametrize(
        ("architecture", "kind", "beside_host"),
        mostly_slow(product(CORE, kinds, [False, True]), quick=few),
        indirect=["beside_host"],
    )


@pytest.mark.quick(5)
@cases([*DRAFTERS], quick=["model", "lookahead"])
@pytest.mark.usefixtures("beside_host")
def test_closed_after_any_item_leaves_what_was_committed(architecture, kind):
    model = shallow(architecture)
    expected = expected_of(architecture, 24)
    for items in (1, 2, 5):
        target, tokens = decoder(model), list(PROMPT)
        drafter = DRAFTERS[kind](target)
        for _ in target.prefill(tokens):
            pass
        for _ in drafter.prepare(tokens):
            pass
        rounds = speculate(target, drafter, Fixed(4), tokens, task(24))
        for _ in range(items):
            next(rounds)
        rounds.close()

        written = tokens[len(PROMPT) :]
        assert written == expected[: len(written)]
        assert_as_fresh(target, tokens, decoder(model))
        if isinstance(drafter, ModelDrafter):
            assert_as_fresh(drafter._decoder, tokens, decoder(drafter._decoder.model))


@pytest.mark.parametrize("architecture", mostly_slow(CORE, quick=["gemma3_text", "qwen3_5"]))
def test_error_in_a_pass_leaves_what_was_committed(architecture):
    """The third pass of the target fails."""
    model = shallow(architecture)
    expected = expected_of(architecture, 24)
    target, tokens = decoder(model), list(PROMPT)
    for _ in target.prefill(tokens):
        pass
    read, passes = target.read, iter(range(3))

    def failing(rows):
        if next(passes) == 2:
            target.timeline.open()
            raise RuntimeError("out of memory")
        return read(rows)

    known = Known([*PROMPT, *expected], wrong=now_and_then(5))
    with (
        mock.patch.object(target, "read", failing),
        pytest.raises(RuntimeError, match="out of memory"),
    ):
        list(speculate(target, known, Fixed(4), tokens, task(24)))
    written = tokens[len(PROMPT) :]
    assert written == expected[: len(written)] != []
    assert_as_fresh(target, tokens, decoder(model))


# Policies


class Whims:
    """A policy that wants everything, and more than there is room for."""

    def __init__(self):
        self._lengths = iter([0, 3, 0, 100, 1, 0, 2, 50, 0, 0, 7, *([4] * 100)])
        self.observed = []

    def choose(self, candidates, *, most, context, others=0):
        length = next(self._lengths)
        return DraftChoice(length, rounds=3 if length == 0 else 1)

    def observe(self, measured):
        self.observed.append(measured)

    def restart(self):
        pass


@pytest.mark.quick(3)
@cases(["model", "early-exit", "cascade"], quick=["model", "cascade"])
@pytest.mark.usefixtures("beside_host")
def test_policy_may_change_its_mind(architecture, kind):
    model = shallow(architecture)
    expected = expected_of(architecture, 40)
    target, tokens = decoder(model), list(PROMPT)
    policy = Whims()
    run = write(target, DRAFTERS[kind](target), policy, tokens, task(40))
    assert run.tokens == expected
    assert_as_fresh(target, tokens, decoder(model))
    assert [(m.proposed, m.accepted) for m in policy.observed] == [
        (len(verdict.p), verdict.accepted) for _, verdict in run.rounds
    ]


class Copies(Known):
    """Proposes only where it says that enough has matched: at positions in `matches`."""

    def __init__(self, script, *, matches):
        super().__init__(script)
        self._matches = matches

    def candidates(self, tokens):
        return (DraftCandidate(self.name, 8, match=5 if len(tokens) in self._matches else 1),)


class Patient(Whims):
    """Plain for 30 tokens, but for a match of `wake`; then drafts."""

    def __init__(self, wake):
        super().__init__()
        self._wake = wake

    def choose(self, candidates, *, most, context, others=0):
        if candidates[0].match >= 5:
            return DraftChoice(4)
        return DraftChoice(0, rounds=30, wake=self._wake)


def test_a_match_ends_a_plain_stretch(beside_host):
    matches = range(20, 23)
    for wake, drafted in [(5, True), (6, False), (0, False)]:
        policy, tokens = Patient(wake), SCRIPT[:12]
        drafter = Copies(SCRIPT, matches=matches)
        run = write(Decoder(Scripted(SCRIPT)), drafter, policy, tokens, task(30))
        assert run.tokens == SCRIPT[12:42]
        contexts = [each.context for each in policy.observed if each.proposed]
        # A pass under way when it woke has written one more token.
        woken = 21 if beside_host else 20
        assert contexts == ([woken] if drafted else [])


def test_the_policy_is_told_what_there_was():
    class Noting(Whims):
        def choose(self, candidates, *, most, context, others=0):
            asked.append((candidates[0].drafter, most, context))
            return DraftChoice(3, drafter="known")

    asked = []
    policy, tokens = Noting(), SCRIPT[:12]
    write(Decoder(Scripted(SCRIPT)), Known(SCRIPT, wrong={17}), policy, tokens, task(9))
    assert [context for _, _, context in asked] == [12, 16, 18]
    assert asked[-1] == ("known", 2, 18)
    assert [(m.context, m.drafter, m.proposed, m.accepted, m.asked) for m in policy.observed] == [
        (12, "known", 3, 3, 3),
        (16, "known", 3, 1, 3),
        (18, "known", 2, 2, 2),
    ]


def test_building_a_pass_is_a_part_of_it(monkeypatch):
    """As it is of a plain one: no part of what drafting costs."""
    now, reading, proposing = 0.0, engine.core.rounds.read_together, Known.propose

    def slow_pass(*args, **options):
        nonlocal now
        now += 5.0
        return reading(*args, **options)

    def slow_draft(*args):
        nonlocal now
        now += 2.0
        return proposing(*args)

    monkeypatch.setattr(engine.core.rounds, "perf_counter", lambda: now)
    monkeypatch.setattr(engine.core.rounds, "read_together", slow_pass)
    monkeypatch.setattr(Known, "propose", slow_draft)
    run = write(Decoder(Scripted(SCRIPT)), Known(SCRIPT), Fixed(3), SCRIPT[:12], task(8))
    assert {(v.draft_seconds, v.verify_seconds) for _, v in run.rounds} == {(2.0, 5.0)}


def test_reading_what_was_forced_is_no_part_of_a_draft(monkeypatch):
    class Forced(Unconstrained):
        left = SCRIPT[12:24]

        def forced(self, most):
            forced, self.left = self.left, []
            return forced

    class Timed(Scripted):
        """A row takes a second."""

        now = 0.0

        def __call__(self, tokens, cache=None):
            self.now += tokens.shape[1]
            return super().__call__(tokens, cache)

    model, tokens = Timed(SCRIPT), SCRIPT[:12]
    monkeypatch.setattr(engine.core.rounds, "perf_counter", lambda: model.now)
    target = Decoder(model)
    read_prompt(target, NoDrafter(), tokens)
    to_do = replace(task(20), constraint=Forced())
    items = list(speculate(target, Known(SCRIPT), Fixed(3), tokens, to_do))
    rounds = [item for item in items if isinstance(item, RoundVerdict)]
    assert [(each.draft_seconds, each.verify_seconds) for each in rounds] == [(0.0, 4.0)] * 2


# Waiting for the device


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("kind", "sampling"),
    mostly_slow(
        product(DRAFTERS, [GREEDY, SAMPLED]),
        quick=[*product(DRAFTERS, [SAMPLED]), ("model", GREEDY), ("none", GREEDY)],
    ),
)
@pytest.mark.usefixtures("beside_host")
def test_two_waits_a_drafted_round_and_one_a_plain_one(kind, sampling):
    """One for the draft, one for the verdict, and no hidden one.

    Where caches move and grow, a pass may have to be cut in two, which costs a third; here
    they do not.
    """
    target, tokens = Decoder(shallow("llama")), [*PROMPT, *PROMPT]
    drafter = DRAFTERS[kind](target)
    for _ in target.prefill(tokens):
        pass
    for _ in drafter.prepare(tokens):
        pass
    drafted = plain = fetched = 0
    with Waits().counted() as waits:
        for item in speculate(target, drafter, Fixed(3), tokens, task(30, sampling=sampling)):
            if isinstance(item, RoundDraft):
                assert waits.fetches == fetched + 1, "the verdict did not wait for the guess"
                continue
            rows = 2 if item.p else 1
            drafted, plain = drafted + (rows == 2), plain + (rows == 1)
            fetched += rows
            assert waits.fetches == fetched
        assert waits.elsewhere == []
    assert (drafted > 0) == (kind != "none")
    assert plain > 0 or kind not in ("none", "lookup")


# What it costs


def reject_all(target, text, rounds):
    """Active and cache bytes after every 100th round, none of whose drafts stands."""
    tokens = text[: len(PROMPT)]
    for _ in target.prefill(tokens):
        pass
    drafter = Known(text, wrong=EVERYWHERE)
    bytes_held = []
    done = 0
    for item in speculate(target, drafter, Fixed(4), tokens, task(rounds)):
        if isinstance(item, RoundVerdict):
            assert item.accepted == 0
            done += 1
            if done % 100 == 0:
                bytes_held.append((mx.get_active_memory(), target.timeline.nbytes))
    assert done == rounds
    return bytes_held


def assert_flat(bytes_held):
    """That memory grew by what the tokens need, and the host's own hardly at all."""
    active = [both[0] for both in bytes_held]
    cached = [both[1] for both in bytes_held]
    slack = 64_000
    assert active[-1] - active[1] <= 2 * (cached[-1] - cached[1]) + slack, bytes_held


def test_memory_stays_flat_through_rejections():
    text = [(7 * i) % 200 for i in range(700)]
    target = Decoder(Scripted(text))
    before = resident_bytes()
    bytes_held = reject_all(target, text, 600)
    assert_flat(bytes_held)
    assert bytes_held[-1][1] <= 2 * 4 * 32 * (768 + 256)
    assert resident_bytes() - before < 100_000_000


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["gemma3_text", "mamba", "qwen3_5"])
def test_memory_of_real_caches_stays_flat_through_rejections(architecture):
    rounds = 1000 if architecture == "mamba" else 300  # beyond, rounding may change the text
    model = shallow(architecture)
    text = [*PROMPT, *expected_of(architecture, rounds)]
    target = decoder(model)
    assert_flat(reject_all(target, text, rounds))


# What a grammar does to copies


class Ending(Unconstrained):
    """Allows so many tokens of a draft."""

    def __init__(self, most):
        self.most = most

    def allowed(self, drafted):
        return min(self.most, len(drafted))


@pytest.mark.parametrize("most", [0, 2, 9])
def test_a_copy_ends_where_a_grammar_forbids_it(most):
    target, tokens = decoder(shallow("llama")), [*PROMPT, *PROMPT, *PROMPT]
    to_do = replace(task(8), constraint=Ending(most))
    items = list(speculate(target, LookupDrafter(), Fixed(4), tokens, to_do))
    lengths = [len(item.tokens) for item in items if isinstance(item, RoundDraft)]
    assert max(lengths, default=0) == min(most, 4)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=1.0)])
def test_a_copy_ends_before_an_id_that_the_target_has_no_logits_for(sampling):
    target = decoder(shallow("llama"))
    tokens = [*PROMPT, target.vocabulary + 3, *PROMPT, target.vocabulary + 3, *PROMPT[:-2]]
    to_do = task(6, sampling=sampling)
    items = list(speculate(target, LookupDrafter(), Fixed(8), tokens, to_do))
    drafts = [item.tokens for item in items if isinstance(item, RoundDraft)]
    assert drafts[0] == PROMPT[-2:]
