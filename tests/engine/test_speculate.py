"""The loop, with drafts that are chains or trees: where it ends, what it leaves behind, when it
waits, and what it costs."""

import functools
from contextlib import closing
from dataclasses import replace
from itertools import product
from unittest import mock

import mlx.core as mx
import psutil
import pytest

import engine.core.judging
import engine.core.rounds
from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.core.rounds import RoundDraft, RoundVerdict, Unconstrained
from engine.draft_length import DraftCandidate, DraftChoice
from engine.draft_length.policy import Fixed, FixedTree
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
    QUANTIZED,
    Known,
    Scripted,
    assert_as_fresh,
    build_wide,
    decoder,
    ids_held,
    now_and_then,
    plainly,
    read_prompt,
    task,
    write,
)
from tests.support.engine.tiny import noisy, shallow
from tests.support.engine.trees import Guessing
from tests.support.engine.waits import Waits
from tests.support.mostly_slow import mostly_slow

SAMPLED = Sampling(temperature=0.8, top_p=0.95)
END = 63
COUNT = 24
BRANCHING = ("llama", "gemma3_text")
BLOCK = 64  # of caches that read trees
SIZES = (2, 5, 9, 16)
SCRIPT = [*range(1, 13), *range(20, 60), *range(20, 60)]  # the prompt, then what is wanted


@functools.cache
def noisy_model(architecture):
    return noisy(shallow(architecture))


@functools.cache
def expected_of(architecture, count=COUNT, block=16):
    return plainly(shallow(architecture), count=count, block=block)


def guessing(text, **options):
    return Guessing([*PROMPT, *text], **options)


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
TREES = {"trees": lambda target: guessing(expected_of(target.model.model_type))}


# Ends


@pytest.mark.parametrize("length", [0, 1, 4])
def test_end_of_text_at_each_place_of_a_draft(length):
    """Drafted and accepted, written as a bonus or plainly; in the first round and the second. The
    prompt's own, where a template closes a turn, is none."""
    prompt = 12
    for where in range(7):
        script = SCRIPT[:]
        script[prompt - 1] = script[prompt + where] = END
        target, tokens = Decoder(Scripted(script)), script[:prompt]

        run = write(target, Known(script), Fixed(length), tokens, task(40, ends=[END]))

        assert run.tokens == script[prompt : prompt + where + 1]
        _, last = run.rounds[-1]
        place = where % (length + 1)
        assert last.accepted == (place + 1 if place < length else length)
        assert (last.own is None) == (place < length)
        assert ids_held(target) == tokens[: target.length]
        assert target.length <= len(tokens)


@pytest.mark.parametrize("length", mostly_slow([0, 1, 2, 3, 5, 8], quick=[0, 1, 3, 5]))
def test_max_tokens_up_to_a_draft_and_two(length):
    for count in range(1, length + 3):
        for wrong in ((), EVERYWHERE, now_and_then(count)):
            target, tokens = Decoder(Scripted(SCRIPT)), SCRIPT[:12]
            run = write(target, Known(SCRIPT, wrong=wrong), Fixed(length), tokens, task(count))
            assert run.tokens == SCRIPT[12 : 12 + count]
            assert ids_held(target) == tokens[: target.length]


@pytest.mark.parametrize("kind", DRAFTERS)
def test_a_prompt_may_end_with_an_id_that_the_target_has_no_logits_for(kind):
    """It is read as the vocabulary's last token, as a tokenizer may know more."""
    texts = []
    for end in (63, 1 << 20):
        target = decoder(shallow("llama"))
        run = write(target, DRAFTERS[kind](target), Fixed(3), [*PROMPT, end], task(6))
        texts.append(run.tokens)
    assert texts[0] == texts[1]


# Closed early


@pytest.mark.parametrize(
    ("architecture", "kind", "beside_host"),
    mostly_slow(
        [*product(CORE, DRAFTERS, [False, True]), *product(BRANCHING, TREES, [False, True])],
        quick=[
            ("llama", "model", False),
            ("llama", "lookahead", True),
            *product(["gemma3_text"], ["model", "trees"], [True]),
        ],
    ),
    indirect=["beside_host"],
)
@pytest.mark.usefixtures("beside_host")
def test_closed_after_any_item_leaves_what_was_committed(architecture, kind):
    model, expected = shallow(architecture), expected_of(architecture)
    policy = FixedTree(9) if kind in TREES else Fixed(4)
    for items in (1, 2, 5):
        target, tokens = decoder(model), list(PROMPT)
        states = target.record((1,)) if kind in TREES else None
        drafter = (DRAFTERS | TREES)[kind](target)
        read_prompt(target, drafter, tokens)
        with closing(speculate(target, drafter, policy, tokens, task(COUNT))) as rounds:
            for _ in range(items):
                next(rounds)

        written = tokens[len(PROMPT) :]
        assert written == expected[: len(written)]
        assert states is None or states.end == target.length
        assert_as_fresh(target, tokens, decoder(model))
        if isinstance(drafter, ModelDrafter):
            assert_as_fresh(drafter._decoder, tokens, decoder(drafter._decoder.model))


class Breaking(Unconstrained):
    """Fails where the third round is committed."""

    def __init__(self):
        self._rounds = 0

    def commit(self, tokens):
        self._rounds += 1
        if self._rounds == 3:
            raise RuntimeError("out of luck")


ERRORS = {
    "after a pass": (engine.core.rounds, "read_together"),
    "in an acceptance": (engine.core.judging, "as_written"),
}
IN_TREES = [*product(["gemma3_text"], [*ERRORS, "in a grammar"], [True])]


@pytest.mark.parametrize(
    ("architecture", "where", "trees"),
    mostly_slow(
        [*product(CORE, ["in a pass"], [False]), *IN_TREES],
        quick=[*product(CORE[1:3], ["in a pass"], [False]), *IN_TREES],
    ),
)
def test_an_error_leaves_what_was_committed(architecture, where, trees, monkeypatch):
    """In the third round."""
    model = shallow(architecture)
    expected = expected_of(architecture)
    target, tokens, to_do = decoder(model), list(PROMPT), task(COUNT)
    drafter = guessing(expected, wrong=now_and_then(5))
    read_prompt(target, drafter, tokens)
    if where == "in a grammar":
        to_do = replace(to_do, constraint=Breaking())
    else:
        place = ERRORS.get(where, (target, "read"))
        whole, calls = getattr(*place), iter(range(9))

        def failing(*arguments):
            third = next(calls) == 2
            if third and where == "in a pass":
                target.timeline.open()
                raise RuntimeError("out of luck")
            made = whole(*arguments)
            if third:
                raise RuntimeError("out of luck")
            return made

        monkeypatch.setattr(*place, failing)
    with pytest.raises(RuntimeError, match="luck"):
        list(speculate(target, drafter, FixedTree(9) if trees else Fixed(4), tokens, to_do))
    monkeypatch.undo()
    written = tokens[len(PROMPT) :]
    assert written == expected[: len(written)] != []
    assert_as_fresh(target, tokens, decoder(model))


# Policies


class Whims(Fixed):
    """A policy that wants everything, and more than there is room for."""

    def __init__(self):
        super().__init__(0)
        self._lengths = iter([0, 3, 0, 100, 1, 0, 2, 50, 0, 0, 7, *([4] * 100)])
        self.observed = []

    def choose(self, candidates, *, most, context, others=0):
        length = next(self._lengths)
        return DraftChoice(length, rounds=3 if length == 0 else 1)

    def observe(self, measured):
        self.observed.append(measured)


@pytest.mark.parametrize(
    ("architecture", "kind", "beside_host"),
    mostly_slow(
        product(CORE, ["model", "early-exit", "cascade"], [False, True]),
        quick=[("llama", "model", True), ("llama", "cascade", False)],
    ),
    indirect=["beside_host"],
)
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


def test_policy_and_drafter_are_told_what_there_was():
    class Noting(Whims):
        def choose(self, candidates, *, most, context, others=0):
            asked.append((candidates[0].drafter, most, context))
            return DraftChoice(3, drafter="known")

    asked = []
    policy, drafter, tokens = Noting(), Known(SCRIPT, wrong={17}), SCRIPT[:12]
    write(Decoder(Scripted(SCRIPT)), drafter, policy, tokens, task(9))
    assert [context for _, _, context in asked] == [12, 16, 18]
    assert asked[-1] == ("known", 2, 18)
    assert [(m.context, m.drafter, m.proposed, m.accepted, m.asked) for m in policy.observed] == [
        (12, "known", 3, 3, 3),
        (16, "known", 3, 1, 3),
        (18, "known", 2, 2, 2),
    ]
    assert drafter.settled == [3, 1, 2]
    assert drafter.rewound[-1] == len(tokens)


@pytest.mark.usefixtures("beside_host")
def test_a_draft_and_its_pass_are_charged_apart_and_reading_what_was_forced_to_neither(monkeypatch):
    """To build a pass is a part of it, as it is of a plain one."""

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

    class Slow(Known):
        """A draft takes as long as two rows."""

        def propose(self, *asked):
            model.now += 2.0
            return super().propose(*asked)

    model, tokens = Timed(SCRIPT), SCRIPT[:12]
    monkeypatch.setattr(engine.core.rounds, "perf_counter", lambda: model.now)
    target = Decoder(model)
    read_prompt(target, NoDrafter(), tokens)
    to_do = replace(task(20), constraint=Forced())
    items = list(speculate(target, Slow(SCRIPT), Fixed(3), tokens, to_do))
    rounds = [item for item in items if isinstance(item, RoundVerdict)]
    assert [(each.draft_seconds, each.verify_seconds) for each in rounds] == [(2.0, 4.0)] * 2


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
    read_prompt(target, drafter, tokens)
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
    tokens, drafter = text[: len(PROMPT)], Known(text, wrong=EVERYWHERE)
    read_prompt(target, drafter, tokens)
    bytes_held, done = [], 0
    for item in speculate(target, drafter, Fixed(4), tokens, task(rounds)):
        if isinstance(item, RoundVerdict):
            assert item.accepted == 0
            done += 1
            if done % 100 == 0:
                bytes_held.append((mx.get_active_memory(), target.timeline.nbytes))
    assert done == rounds
    return bytes_held


@pytest.mark.parametrize(
    "architecture", mostly_slow(["", "gemma3_text", "mamba", "qwen3_5"], quick=[""])
)
def test_memory_stays_flat_through_rejections(architecture):
    """Of a scripted target, and of real caches."""
    rounds = {"": 600, "mamba": 1000}.get(architecture, 300)  # beyond, rounding may change the text
    text, model = [(7 * i) % 200 for i in range(700)], None
    if architecture:
        model, text = shallow(architecture), [*PROMPT, *expected_of(architecture, rounds)]
    target, process = decoder(model) if model else Decoder(Scripted(text)), psutil.Process()
    before = process.memory_info().rss
    bytes_held = reject_all(target, text, rounds)
    _, (active, cached), *_, (active_then, cached_then) = bytes_held
    assert active_then - active <= 2 * (cached_then - cached) + 64_000, bytes_held
    if not model:
        assert cached_then <= 2 * 4 * 32 * (768 + 256)
        assert process.memory_info().rss - before < 100_000_000


class Ending(Unconstrained):
    """Allows two tokens of a draft."""

    def allowed(self, drafted):
        return min(2, len(drafted))


def test_a_copy_ends_where_a_grammar_forbids_it():
    target, tokens = decoder(shallow("llama")), [*PROMPT, *PROMPT, *PROMPT]
    to_do = replace(task(8), constraint=Ending())
    items = list(speculate(target, LookupDrafter(), Fixed(4), tokens, to_do))
    assert max(len(item.tokens) for item in items if isinstance(item, RoundDraft)) == 2


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=1.0)])
def test_a_copy_ends_before_an_id_that_the_target_has_no_logits_for(sampling):
    target = decoder(shallow("llama"))
    tokens = [*PROMPT, target.vocabulary + 3, *PROMPT, target.vocabulary + 3, *PROMPT[:-2]]
    to_do = task(6, sampling=sampling)
    items = list(speculate(target, LookupDrafter(), Fixed(8), tokens, to_do))
    drafts = [item.tokens for item in items if isinstance(item, RoundDraft)]
    assert drafts[0] == PROMPT[-2:]


# Trees


@pytest.mark.parametrize("architecture", mostly_slow(BRANCHING, quick=["gemma3_text"]))
def test_trees_larger_than_the_room(architecture):
    """Caches that move and grow every few tokens, and become quantized in between."""
    model = build_wide(architecture)
    text = plainly(model, count=COUNT, quantized=QUANTIZED, block=8)
    target, tokens = decoder(model, quantized=QUANTIZED, block=8), list(PROMPT)
    run = write(target, guessing(text), FixedTree(16), tokens, task(COUNT))
    assert run.tokens == text
    assert len({len(guess.tokens) for guess, _ in run.rounds if guess}) > 3
    assert_as_fresh(target, tokens, decoder(model, quantized=QUANTIZED, block=8))


@pytest.mark.parametrize("size", mostly_slow(SIZES, quick=[5]))
def test_the_text_ends_inside_a_tree(size):
    model, text = shallow("llama"), expected_of("llama", block=BLOCK)
    for count in (1, 2, 5, 13):
        target, tokens = decoder(model, block=BLOCK), list(PROMPT)
        run = write(target, guessing(text, seed=count), FixedTree(size), tokens, task(count))
        assert run.tokens == text[:count]
        end = text[count]
        target, tokens = decoder(model, block=BLOCK), list(PROMPT)
        drafter = guessing(text, seed=count)
        run = write(target, drafter, FixedTree(size), tokens, task(COUNT, ends=[end]))
        assert run.tokens == text[: text.index(end) + 1]
        assert_as_fresh(target, tokens, decoder(model, block=BLOCK))


@pytest.mark.parametrize("unread", mostly_slow([1, 2, 3, 7], quick=[3]))
def test_more_than_one_unread_token_in_front_of_a_tree(unread):
    model, text = shallow("gemma3_text"), expected_of("gemma3_text", block=BLOCK)
    target, tokens = decoder(model, block=BLOCK), list(PROMPT)
    list(target.prefill(tokens[: len(PROMPT) - unread + 1]))
    assert len(tokens) - target.length == unread
    spied = mock.Mock(wraps=engine.core.rounds.read_together)
    with mock.patch.object(engine.core.rounds, "read_together", spied):
        list(speculate(target, guessing(text), FixedTree(9), tokens, task(COUNT)))
    _, _, (tree,) = spied.call_args_list[0].args
    assert tree.parents[:unread] == tuple(range(-1, unread - 1))
    assert tokens[len(PROMPT) :] == text
    assert_as_fresh(target, tokens, decoder(model, block=BLOCK))


class Alternating(Unconstrained):
    """A grammar: after a token only those come that are further from it by an odd number."""

    def __init__(self, last):
        self._last = last

    def masks(self, drafted):
        before = mx.array([self._last, *drafted])[:, None]
        return (mx.arange(64) - before) % 2 == 1

    def commit(self, tokens):
        self._last = tokens[-1]


def test_a_grammar_is_asked_about_each_path():
    model = shallow("llama")

    def run(drafter, policy):
        to_do = replace(task(COUNT), constraint=Alternating(PROMPT[-1]))
        return write(decoder(model, block=BLOCK), drafter, policy, list(PROMPT), to_do)

    plain = run(NoDrafter(), Fixed(0)).tokens
    assert all((b - a) % 2 for a, b in zip([PROMPT[-1], *plain], plain, strict=False))
    for size in SIZES[1::2]:
        drafted = run(guessing(plain, seed=size, wrong=now_and_then(size)), FixedTree(size))
        assert drafted.tokens == plain
        assert drafted.accepted


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "architecture",
    mostly_slow(["llama", "qwen3_5", "lfm2", "mamba"], quick=["llama", "qwen3_5"]),
)
def test_where_the_target_cannot_branch_the_policy_gets_chains(architecture):
    model, text = shallow(architecture), expected_of(architecture)
    target, drafter = decoder(model), guessing(text)
    drafter.propose = mock.Mock(wraps=drafter.propose)
    run = write(target, drafter, FixedTree(9), list(PROMPT), task(COUNT))
    assert run.tokens == text
    asked = [call.args[1].tree for call in drafter.propose.call_args_list]
    assert target.branches == (architecture == "llama") == any(asked)
    assert any(guess and guess.parents for guess, _ in run.rounds) == target.branches


def test_it_is_tried_once_and_only_where_there_are_alternatives():
    trial, tokens = mock.Mock(return_value=True), list(PROMPT)
    target = Decoder(shallow("llama"), trial=trial)
    for make, tried in [(Known, 0), (Guessing, 1), (Guessing, 1)]:
        write(target, make([*tokens, 1, 2]), FixedTree(4), tokens, task(9))
        assert trial.call_count == tried
