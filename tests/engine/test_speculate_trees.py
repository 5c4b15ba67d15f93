"""The loop with drafts that are trees: wherever it ends, is closed or fails, the models hold what
was committed."""

from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import product
from unittest import mock

import mlx.core as mx
import pytest

import engine.core.judging
import engine.core.rounds
from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.core.rounds import Unconstrained
from engine.draft_length.policy import Fixed, FixedTree
from engine.drafters import NoDrafter
from engine.request import Sampling
from engine.tree import Tree
from tests.support.engine.helpers import (
    PROMPT,
    QUANTIZED,
    Known,
    assert_as_fresh,
    build_wide,
    decoder,
    now_and_then,
    plainly,
    task,
    write,
)
from tests.support.engine.tiny import shallow
from tests.support.engine.trees import Guessing
from tests.support.mostly_slow import mostly_slow

BRANCHING = ("llama", "gemma3_text")
COUNT = 24
BLOCK = 64
SIZES = (2, 5, 9, 16)
CERTAIN = {
    "penalties": Sampling(repetition_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.3),
    "short window": Sampling(repetition_penalty=1.5, penalty_window=5),
    "repeatable": Sampling(temperature=0.9, top_p=0.95, seed=3, repeatable=True),
    "repeatable with penalties": Sampling(
        temperature=1.2, repetition_penalty=1.2, seed=4, repeatable=True
    ),
}


def guessing(text, **options):
    return Guessing([*PROMPT, *text], **options)


def branched(run):
    """How many drafts were trees, of which something was accepted that is no prefix."""
    return sum(
        verdict.path != tuple(range(verdict.accepted)) for guess, verdict in run.rounds if guess
    )


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
    model = shallow("llama")
    text = plainly(model, count=COUNT, block=BLOCK)
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


@pytest.mark.parametrize("architecture", mostly_slow(BRANCHING, quick=["gemma3_text"]))
def test_closed_after_any_item_leaves_what_was_committed(architecture):
    model = shallow(architecture)
    text = plainly(model, count=COUNT, block=BLOCK)
    for items in (1, 2, 5):
        target, tokens = decoder(model, block=BLOCK), list(PROMPT)
        states = target.record((1,))
        for _ in target.prefill(tokens):
            pass
        with closing(
            speculate(target, guessing(text), FixedTree(9), tokens, task(COUNT))
        ) as rounds:
            for _ in range(items):
                next(rounds)
        assert tokens[len(PROMPT) :] == text[: len(tokens) - len(PROMPT)]
        assert states.end == target.length
        assert_as_fresh(target, tokens, decoder(model, block=BLOCK))


class Breaking(Unconstrained):
    """Fails where the third round is committed."""

    def __init__(self):
        self._rounds = 0

    def commit(self, tokens):
        self._rounds += 1
        if self._rounds == 3:
            raise RuntimeError("out of luck")


@pytest.mark.parametrize("where", ["a pass", "an acceptance", "a grammar"])
def test_an_error_leaves_what_was_committed(where):
    model = shallow("gemma3_text")
    text = plainly(model, count=COUNT, block=BLOCK)
    target, tokens, to_do = decoder(model, block=BLOCK), list(PROMPT), task(COUNT)
    for _ in target.prefill(tokens):
        pass
    places = {
        "a pass": (engine.core.rounds, "read_together"),
        "an acceptance": (engine.core.judging, "as_written"),
    }
    broken = nullcontext()
    if where == "a grammar":
        to_do = replace(to_do, constraint=Breaking())
    else:
        whole, calls = getattr(*places[where]), iter(range(9))

        def failing(*arguments):
            made = whole(*arguments)
            if next(calls) == 2:
                raise RuntimeError("out of luck")
            return made

        broken = mock.patch.object(*places[where], failing)
    with broken, pytest.raises(RuntimeError, match="out of luck"):
        list(speculate(target, guessing(text), FixedTree(9), tokens, to_do))
    assert len(tokens) > len(PROMPT)
    assert tokens[len(PROMPT) :] == text[: len(tokens) - len(PROMPT)]
    assert_as_fresh(target, tokens, decoder(model, block=BLOCK))


@pytest.mark.parametrize("unread", mostly_slow([1, 2, 3, 7], quick=[3]))
def test_more_than_one_unread_token_in_front_of_a_tree(unread):
    model = shallow("gemma3_text")
    text = plainly(model, count=COUNT, block=BLOCK)
    target, tokens = decoder(model, block=BLOCK), list(PROMPT)
    for _ in target.prefill(tokens[: len(PROMPT) - unread + 1]):
        pass
    assert len(tokens) - target.length == unread
    passes = []
    whole = engine.core.rounds.read_together

    def noting(decoders, rows, trees):
        passes.extend(trees)
        return whole(decoders, rows, trees)

    with mock.patch.object(engine.core.rounds, "read_together", noting):
        list(speculate(target, guessing(text), FixedTree(9), tokens, task(COUNT)))
    assert passes[0].parents[:unread] == tuple(range(-1, unread - 1))
    assert tokens[len(PROMPT) :] == text
    assert_as_fresh(target, tokens, decoder(model, block=BLOCK))


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("architecture", "name"),
    mostly_slow(
        product(BRANCHING, CERTAIN),
        quick=[("gemma3_text", "short window"), ("llama", "repeatable with penalties")],
    ),
)
def test_penalties_and_repeatable_noise_are_those_of_the_path(architecture, name):
    model = shallow(architecture)
    to_do = task(COUNT, sampling=CERTAIN[name], seed=3)
    plain = write(decoder(model, block=BLOCK), NoDrafter(), Fixed(0), list(PROMPT), to_do).tokens
    for size in SIZES:
        target, tokens = decoder(model, block=BLOCK), list(PROMPT)
        run = write(target, guessing(plain, seed=size), FixedTree(size), tokens, to_do)
        assert run.tokens == plain
        assert run.accepted > COUNT // 8


def test_log_probabilities_are_those_of_the_path():
    model = shallow("llama")
    to_do = replace(task(COUNT), logprobs=3)
    plain = write(decoder(model, block=BLOCK), NoDrafter(), Fixed(0), list(PROMPT), to_do)
    run = write(
        decoder(model, block=BLOCK),
        guessing(plain.tokens, wrong=now_and_then(3)),
        FixedTree(9),
        list(PROMPT),
        to_do,
    )
    assert branched(run)
    expected = [each for _, verdict in plain.rounds for each in verdict.logprobs]
    told = [each for _, verdict in run.rounds for each in verdict.logprobs]
    assert len(told) == len(run.tokens) == COUNT
    for ours, theirs in zip(told, expected, strict=True):
        assert ours.own == pytest.approx(theirs.own, abs=1e-4)
        assert [token for token, _ in ours.top] == [token for token, _ in theirs.top]


class Alternating(Unconstrained):
    """A grammar: behind a token only those come that are further from it by an odd number.

    `asked`: the drafted tokens that it was asked about, which must be one behind the other.
    """

    def __init__(self, last):
        self._last = last
        self.asked = []

    def masks(self, drafted):
        self.asked.append(drafted)
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


# Who cannot read trees


class Offering(Guessing):
    """Keeps the trees that it was asked for."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.trees = []

    def propose(self, tokens, choice, sampling, key):
        self.trees.append(choice.tree)
        return super().propose(tokens, choice, sampling, key)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "architecture",
    mostly_slow(["llama", "qwen3_5", "lfm2", "mamba"], quick=["llama", "qwen3_5"]),
)
def test_where_the_target_cannot_branch_the_policy_gets_chains(architecture):
    model = shallow(architecture)
    text = plainly(model, count=COUNT)
    target, drafter = decoder(model), Offering([*PROMPT, *text])
    run = write(target, drafter, FixedTree(9), list(PROMPT), task(COUNT))
    assert run.tokens == text
    assert target.branches == (architecture == "llama") == any(drafter.trees)
    assert any(guess and guess.parents for guess, _ in run.rounds) == target.branches


def test_it_is_tried_once_and_only_where_there_are_alternatives():
    trials = []
    model = shallow("llama")
    target = Decoder(model, trial=lambda: bool(trials.append(1)) or True)
    tokens = list(PROMPT)
    write(target, Known([*PROMPT, 1, 2]), FixedTree(4), tokens, task(9))
    assert not trials
    write(target, Guessing([*tokens, 1, 2]), FixedTree(4), tokens, task(9))
    assert trials == [1]


class Straight(Guessing):
    """Says of a chain that it is a tree."""

    def propose(self, tokens, choice, sampling, key):
        made = super().propose(tokens, replace(choice, tree=None), sampling, key)
        return made and replace(made, tree=Tree.chain(made.tokens.size))


def test_a_tree_that_is_a_chain_is_treated_as_one():
    model = shallow("llama")
    text = plainly(model, count=COUNT, block=BLOCK)
    drafter = Straight([*PROMPT, *text], wrong=now_and_then(2))
    run = write(decoder(model, block=BLOCK), drafter, FixedTree(5), list(PROMPT), task(COUNT))
    assert run.tokens == text
    assert not any(guess.parents for guess, _ in run.rounds if guess)
