"""End to end: what the loop writes has the target's distribution, whatever drafts and how far.

Two kinds of evidence, both against exact enumeration (see `tests.support.engine.markov`): the joint
distribution of the first three tokens of many short texts, and every next token of one long text,
given the two before it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from unittest import mock

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from numpy.typing import NDArray

import engine.drafters.cascade
import engine.speculate
from engine.accept import VerdictArrays, by_block, by_token
from engine.decoder import Decoder
from engine.draft_length import DraftCandidate, DraftChoice, DraftLengthPolicy, MeasuredRound
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.drafters import DraftArrays, Drafter, NoDrafter, Untaught, chain
from engine.drafters.cascade import Cascade
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.recycling import RecyclingDrafter
from engine.drafters.suffix import SuffixDrafter
from engine.request import Sampling
from engine.sampling import distribution, log_weights, noise, scores
from engine.speculate import AcceptanceRule, RoundDraft, RoundVerdict, Task, speculate
from engine.tree import Tree
from tests.engine.test_accept import CHAINS
from tests.engine.test_sampling import slow_scores
from tests.support.engine.accept_mutants import (
    block_stops_at_first_fall,
    bonus_from_q,
    resampled_from_p,
    too_willing,
)
from tests.support.engine.branching import Branching, TakenForReplaced
from tests.support.engine.chi_square import excess, excess_between
from tests.support.engine.markov import (
    Markov,
    decoder,
    drafting_tables,
    exact,
    joint,
    random_table,
)
from tests.support.engine.tiny import build, noisy
from tests.support.engine.tree_papers import (
    Mistake,
    Paper,
    mistaken,
    recursive_rejection,
    traversal_verification,
)
from tests.support.engine.trees import Shaped
from tests.support.mostly_slow import mostly_slow

VOCABULARY = 5
TABLE = random_table(VOCABULARY)
DRAFTING = drafting_tables(TABLE)
WARM = Sampling(temperature=0.8)
PROMPT = [2, 1]
SHORT = 3  # tokens of a short text


def no_ends(
    sampling: Sampling, *, seed: int, length: int, accept: AcceptanceRule = by_block
) -> Task:
    return Task(sampling, seed=seed, max_tokens=length, ends=frozenset(), accept=accept)


def write(
    target: Decoder, drafter: Drafter, policy: DraftLengthPolicy, task: Task, prompt: list[int]
) -> tuple[list[int], list[RoundVerdict]]:
    """A text by models that have read nothing yet, and what was ruled on the way."""
    target.rewind(0)
    drafter.rewind(0)
    tokens = list(prompt)
    items = list(speculate(target, drafter, policy, tokens, task))
    return tokens[len(prompt) :], [item for item in items if isinstance(item, RoundVerdict)]


def short_texts(
    drafter: Drafter,
    policy: DraftLengthPolicy,
    sampling: Sampling,
    *,
    texts: int,
    accept: AcceptanceRule = by_block,
    first_seed: int = 0,
) -> NDArray[np.int_]:
    """Counts of short texts, one axis per token."""
    target = decoder(TABLE)
    counts = np.zeros((VOCABULARY,) * SHORT, dtype=np.int_)
    for seed in range(first_seed, first_seed + texts):
        task = no_ends(sampling, seed=seed, length=SHORT, accept=accept)
        counts[tuple(write(target, drafter, policy, task, PROMPT)[0])] += 1
    return counts


def long_text(
    drafter: Drafter,
    policy: DraftLengthPolicy,
    sampling: Sampling,
    *,
    length: int,
    accept: AcceptanceRule = by_block,
    table: mx.array = TABLE,
    seed: int = 0,
) -> tuple[NDArray[np.int_], list[RoundVerdict]]:
    """Counts of every token by the two before it, and what was ruled on the way."""
    task = no_ends(sampling, seed=seed, length=length, accept=accept)
    text, rulings = write(decoder(table), drafter, policy, task, PROMPT)
    tokens = np.array(PROMPT + text)
    counts = np.zeros(table.shape, dtype=np.int_)
    np.add.at(counts, (tokens[:-2], tokens[1:-1], tokens[2:]), 1)
    return counts, rulings


def model_drafter(table: mx.array, vocabulary: int = VOCABULARY) -> ModelDrafter:
    return ModelDrafter(decoder(table), vocabulary=vocabulary)


def accepted(rulings: list[RoundVerdict]) -> int:
    return sum(verdict.accepted for verdict in rulings)


# --- The first tokens together


@pytest.mark.parametrize("drafting", ["noisy", "hostile"])
def test_first_three_tokens(drafting: str) -> None:
    counts = short_texts(model_drafter(DRAFTING[drafting]), Fixed(2), WARM, texts=1_000)

    assert excess(counts.ravel(), joint(exact(TABLE, WARM), PROMPT, SHORT).ravel()) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("rule", [by_token, by_block])
@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("drafting", DRAFTING)
def test_first_three_tokens_of_many_texts(drafting: str, length: int, rule: AcceptanceRule) -> None:
    drafter = model_drafter(DRAFTING[drafting])

    counts = short_texts(drafter, Fixed(length), WARM, texts=3_000, accept=rule)

    assert excess(counts.ravel(), joint(exact(TABLE, WARM), PROMPT, SHORT).ravel()) < 1.0


@pytest.mark.parametrize("length", [0, 3])
def test_first_three_tokens_of_repeatable_texts(length: int) -> None:
    """Over all seeds; with one seed there is one text, whatever is drafted."""
    repeatable = replace(WARM, repeatable=True)
    drafter = model_drafter(DRAFTING["noisy"])
    counts = short_texts(drafter, Fixed(length), repeatable, texts=1_000)
    assert excess(counts.ravel(), joint(exact(TABLE, WARM), PROMPT, SHORT).ravel()) < 1.0


@pytest.mark.parametrize("drafting", DRAFTING)
def test_a_repeatable_text_does_not_depend_on_its_drafts(drafting: str) -> None:
    task = no_ends(replace(WARM, repeatable=True), seed=5, length=60)
    plain, _ = write(decoder(TABLE), NoDrafter(), Fixed(0), task, PROMPT)
    for length in (1, 3, 5):
        drafter = model_drafter(DRAFTING[drafting])
        assert write(decoder(TABLE), drafter, Fixed(length), task, PROMPT)[0] == plain
    for broken in ("position", "rows"):  # noise of the wrong place would be noticed

        def wrong(seed: int, position: int, rows: int, broken: str = broken) -> mx.array:
            drawn = noise(seed, position + (rows > 1), rows)
            return drawn if broken == "position" else drawn[::-1]

        with mock.patch.object(engine.speculate, "noise", wrong):
            drafter = model_drafter(DRAFTING[drafting])
            assert write(decoder(TABLE), drafter, Fixed(3), task, PROMPT)[0] != plain


PENALIZED = replace(
    WARM, repetition_penalty=1.4, frequency_penalty=0.8, penalty_window=3, logit_bias={2: 1.0}
)


def joint_with_penalties() -> NDArray[np.float64]:
    table = np.array(TABLE, dtype=np.float64)
    expected = np.ones((VOCABULARY,) * SHORT)
    for text in np.ndindex(expected.shape):
        for i in range(SHORT):
            history = [*PROMPT, *text[:i]]
            row = slow_scores(table[history[-2], history[-1]].tolist(), history, PENALIZED)
            weights = np.exp(np.array(row) / PENALIZED.temperature)
            expected[text] *= weights[text[i]] / weights.sum()
    return expected


def test_first_three_tokens_with_penalties() -> None:
    unpenalized = joint(exact(TABLE, WARM), PROMPT, SHORT)

    counts = short_texts(model_drafter(DRAFTING["noisy"]), Fixed(2), PENALIZED, texts=1_000)

    assert excess(counts.ravel(), joint_with_penalties().ravel()) < 1.0
    assert excess(counts.ravel(), unpenalized.ravel()) > 1.0


def test_another_length_or_drafter_is_another_text_of_the_same_distribution() -> None:
    texts = 500
    plain = short_texts(NoDrafter(), Fixed(0), WARM, texts=texts)
    for policy, drafting in [(Fixed(4), "noisy"), (Fixed(1), "random")]:
        drafter = model_drafter(DRAFTING[drafting])
        drafted = short_texts(drafter, policy, WARM, texts=texts, first_seed=texts)
        assert excess_between(plain.ravel(), drafted.ravel()) < 1.0
    hotter = replace(WARM, temperature=1.2)
    other = short_texts(NoDrafter(), Fixed(0), hotter, texts=texts, first_seed=texts)
    assert excess_between(plain.ravel(), other.ravel()) > 1.0  # it would have shown


# --- Every token of a long text, given the two before


@pytest.mark.parametrize(
    ("drafting", "rule"),
    [
        *((drafting, by_block) for drafting in DRAFTING),
        *((drafting, by_token) for drafting in ("self", "noisy")),
        pytest.param("random", by_token, marks=pytest.mark.slow),
        pytest.param("hostile", by_token, marks=pytest.mark.slow),
    ],
)
def test_every_token_of_a_long_text(drafting: str, rule: AcceptanceRule) -> None:
    drafter = model_drafter(DRAFTING[drafting])

    counts, rulings = long_text(drafter, Fixed(4), WARM, length=1_200, accept=rule)

    assert counts.sum() == 1_200
    assert excess(counts, exact(TABLE, WARM)) < 1.0
    if drafting == "self":
        assert all(verdict.accepted == len(verdict.p) for verdict in rulings)


@pytest.mark.parametrize("chain_name", CHAINS)
def test_long_text_behind_every_filter(chain_name: str) -> None:
    sampling = CHAINS[chain_name]
    drafter = model_drafter(DRAFTING["noisy"])

    counts, rulings = long_text(drafter, Fixed(3), sampling, length=1_000)

    possible = exact(TABLE, sampling)
    assert counts[possible == 0].sum() == 0
    if chain_name != "one left":
        assert accepted(rulings) > 300
        assert excess(counts, possible) < 1.0


class Erratic(Untaught):
    """Another length every round, plain ones in between."""

    def __init__(self) -> None:
        self._lengths = np.random.default_rng(0).integers(0, 7, size=10_000).tolist()

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, beside: int = 0
    ) -> DraftChoice:
        length = self._lengths.pop()
        return DraftChoice(min(length, most), rounds=1 if length else 3)

    def observe(self, measured: MeasuredRound) -> None:
        pass

    def restart(self) -> None:
        pass


@pytest.mark.parametrize("policy", [Erratic, Automatic])
@pytest.mark.parametrize("kind", ["lookup", "suffix", "lookahead", "recycling", "cascade"])
def test_drafters_and_lengths_that_change(
    kind: str, policy: Callable[[], DraftLengthPolicy]
) -> None:
    # Copies are certain; what is copied depends on what was written before.
    drafters: dict[str, Callable[[], Drafter]] = {
        "lookup": LookupDrafter,
        "suffix": SuffixDrafter,
        "lookahead": LookaheadDrafter,
        "recycling": RecyclingDrafter,
        "cascade": lambda: Cascade(LookupDrafter(), model_drafter(DRAFTING["noisy"])),
    }
    drafter = drafters[kind]()
    cold = replace(WARM, temperature=0.5)

    counts, rulings = long_text(drafter, policy(), cold, length=1_200)

    assert excess(counts, exact(TABLE, cold)) < 1.0
    if policy is Erratic:
        assert accepted(rulings) > 120


@pytest.mark.parametrize("rule", [by_token, by_block])
@pytest.mark.parametrize("kind", [LookaheadDrafter, RecyclingDrafter])
def test_trees_of_what_the_target_saw(kind: Callable[[], Drafter], rule: AcceptanceRule) -> None:
    cold = replace(WARM, temperature=0.5)
    target = Decoder(Markov(TABLE), trial=lambda: True)
    text, rulings = write(
        target, kind(), FixedTree(12), no_ends(cold, seed=0, length=800, accept=rule), PROMPT
    )
    tokens = np.array(PROMPT + text)
    counts = np.zeros(TABLE.shape, dtype=np.int_)
    np.add.at(counts, (tokens[:-2], tokens[1:-1], tokens[2:]), 1)

    assert excess(counts, exact(TABLE, cold)) < 1.0
    assert accepted(rulings) > 300
    assert sum(bool(verdict.parents) for verdict in rulings) > 300


class Shuffled(Untaught):
    """A model drafter whose ids mean other tokens to the target."""

    name = "shuffled"

    def __init__(self, order: list[int]) -> None:
        self._inner = model_drafter(DRAFTING["noisy"])
        self._to_target = mx.array(order)

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        return iter(())

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return (DraftCandidate(self.name, 16),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        proposal = self._inner.propose(tokens, choice, sampling, key)
        assert proposal is not None
        assert proposal.distributions is not None
        back = mx.argsort(self._to_target)
        return DraftArrays(
            self._to_target[proposal.tokens].astype(mx.int32),
            proposal.q,
            proposal.distributions[:, back],
            self.name,
        )

    def accept(self, path: Sequence[int]) -> None:
        self._inner.accept(path)

    def rewind(self, length: int) -> None:
        self._inner.rewind(length)


@pytest.mark.parametrize("columns", [VOCABULARY - 2, VOCABULARY, VOCABULARY + 3])
@pytest.mark.parametrize("known", [VOCABULARY - 2, VOCABULARY + 3])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_drafter_with_another_vocabulary(columns: int, known: int, temperature: float) -> None:
    # `known`: ids it can read, `columns`: ids it can propose.
    wide = random_table(VOCABULARY + 3, seed=103)
    wide[:VOCABULARY, :VOCABULARY, :VOCABULARY] = DRAFTING["noisy"]
    drafter = model_drafter(wide[:known, :known, :columns])
    sampling = Sampling(temperature=temperature)

    counts, rulings = long_text(drafter, Fixed(3), sampling, length=600)

    if temperature:
        assert excess(counts, exact(TABLE, sampling)) < 1.0
        assert accepted(rulings) > 60
    else:
        plain, _ = long_text(NoDrafter(), Fixed(0), sampling, length=600)
        assert (counts == plain).all()


def test_drafter_with_a_shuffled_vocabulary() -> None:
    counts, _ = long_text(Shuffled([3, 0, 4, 1, 2]), Fixed(3), WARM, length=1_000)

    assert excess(counts, exact(TABLE, WARM)) < 1.0


# --- Trees

LOW = Tree((-1, -1, -1, 0, 0, 1))
HIGH = Tree((-1, 0, 1, 0, -1, 4, -1))
STEEP = Tree((-1, 0, 1, -1))


@pytest.mark.parametrize("rule", [by_token, by_block])
@pytest.mark.parametrize("sampling", [WARM, replace(WARM, top_p=0.8)])
def test_first_three_tokens_of_trees(rule: AcceptanceRule, sampling: Sampling) -> None:
    drafter = Branching(DRAFTING["noisy"])

    counts = short_texts(drafter, Shaped(LOW), sampling, texts=600, accept=rule)

    expected = joint(exact(TABLE, sampling), PROMPT, SHORT)
    assert counts[expected == 0].sum() == 0
    assert excess(counts.ravel(), expected.ravel()) < 1.0


def test_first_three_tokens_of_trees_with_penalties() -> None:
    # A history of one token less, or of a token beside, would give another distribution.
    counts = short_texts(Branching(DRAFTING["noisy"]), Shaped(LOW), PENALIZED, texts=1_000)

    assert excess(counts.ravel(), joint_with_penalties().ravel()) < 1.0


@pytest.mark.parametrize("guesses", [False, True])
@pytest.mark.parametrize("rule", [by_token, by_block])
def test_long_text_of_trees(rule: AcceptanceRule, guesses: bool) -> None:
    drafter = Branching(DRAFTING["random"], guesses=guesses)

    counts, rulings = long_text(drafter, Shaped(LOW, HIGH), WARM, length=1_000, accept=rule)

    assert excess(counts, exact(TABLE, WARM)) < 1.0
    assert accepted(rulings) > 300


@pytest.mark.slow
@pytest.mark.parametrize("drafting", ["noisy", "hostile"])
@pytest.mark.parametrize("rule", [by_token, by_block])
@pytest.mark.parametrize("sampling", CHAINS.values(), ids=CHAINS)
def test_long_texts_of_trees(drafting: str, rule: AcceptanceRule, sampling: Sampling) -> None:
    drafter = Branching(DRAFTING[drafting])

    counts, _ = long_text(drafter, Shaped(LOW, HIGH), sampling, length=1_000, accept=rule)

    possible = exact(TABLE, sampling)
    assert counts[possible == 0].sum() == 0
    if sampling.top_k != 1:
        assert excess(counts, possible) < 1.0


@pytest.mark.parametrize("drafting", DRAFTING)
@pytest.mark.parametrize("sampling", [Sampling(), replace(WARM, repeatable=True), PENALIZED])
def test_a_certain_text_does_not_depend_on_trees(drafting: str, sampling: Sampling) -> None:
    if not sampling.greedy:
        sampling = replace(sampling, repeatable=True)
    task = no_ends(sampling, seed=5, length=60)
    plain, _ = write(decoder(TABLE), NoDrafter(), Fixed(0), task, PROMPT)

    text, rulings = write(
        decoder(TABLE), Branching(DRAFTING[drafting]), Shaped(LOW, HIGH), task, PROMPT
    )

    assert text == plain
    if drafting in {"noisy", "random"}:  # some later alternatives are right
        trees = [Tree(ruling.parents) for ruling in rulings]
        paths = zip(trees, (ruling.path for ruling in rulings), strict=True)
        assert any(tree.ranks[token] for tree, path in paths for token in path)


@pytest.mark.parametrize(
    ("paper", "mistake"),
    mostly_slow(
        product([recursive_rejection, traversal_verification], [None, *Mistake]),
        quick=[(traversal_verification, mistake) for mistake in [None, *Mistake]],
    ),
)
def test_mistakes_with_trees_are_refuted(paper: Paper, mistake: Mistake | None) -> None:
    drafting, tree = "random", LOW
    if mistake is Mistake.COUNTED_TWICE:  # which shows where paths are long
        drafting, tree = "noisy", STEEP
    rule = mistaken(paper, mistake)

    counts, _ = long_text(
        Branching(DRAFTING[drafting]), Shaped(tree), WARM, length=2_500, accept=rule
    )

    assert (excess(counts, exact(TABLE, WARM)) > 1.0) == (mistake is not None)


def test_drafter_that_takes_its_alternatives_for_replaced_is_refuted() -> None:
    for drafter, refuted in [(Branching, False), (TakenForReplaced, True)]:
        policy = Shaped(LOW)
        counts, _ = long_text(drafter(DRAFTING["random"]), policy, WARM, length=2_000)
        assert (excess(counts, exact(TABLE, WARM)) > 1.0) == refuted


# --- Joint drafts


def copier_and(kind: str) -> Cascade:
    """What is copied, which is certain, beside what is drawn or certain too."""
    others: dict[str, Callable[[], Drafter]] = {
        "tree": lambda: Branching(DRAFTING["noisy"]),
        "hostile tree": lambda: Branching(DRAFTING["hostile"]),
        "chain": lambda: model_drafter(DRAFTING["noisy"]),
        "recycling": RecyclingDrafter,
    }
    return Cascade(SuffixDrafter(), others[kind]())


def long_text_of_joint_drafts(
    kind: str, *, rule: AcceptanceRule = by_block, size: int = 6, length: int = 1_000
) -> tuple[NDArray[np.int_], list[RoundVerdict]]:
    return long_text(copier_and(kind), FixedTree(size), COLD, length=length, accept=rule)


COLD = replace(WARM, temperature=0.5)


@pytest.mark.parametrize("rule", [by_token, by_block])
@pytest.mark.parametrize("kind", ["tree", "hostile tree", "chain", "recycling"])
def test_long_text_of_a_copy_beside_another_draft(kind: str, rule: AcceptanceRule) -> None:
    counts, rulings = long_text_of_joint_drafts(kind, rule=rule)

    assert excess(counts, exact(TABLE, COLD)) < 1.0
    together = [each for each in rulings if "+" in each.reason.drafter]
    assert len(together) > 100
    assert any(each.path[:1] == (0,) for each in together)  # the copy
    assert any(each.path and each.path[0] > 0 for each in together)  # the other


@pytest.mark.parametrize("kind", ["tree", "chain"])
def test_first_three_tokens_of_a_copy_beside_another_draft(kind: str) -> None:
    prompt = [2, 1, 0, 4, 2, 1]  # so that there is something to copy
    counts = np.zeros((VOCABULARY,) * SHORT, dtype=np.int_)
    target, drafter = decoder(TABLE), copier_and(kind)
    for seed in range(1_000):
        task = no_ends(WARM, seed=seed, length=SHORT)
        counts[tuple(write(target, drafter, FixedTree(6), task, prompt)[0])] += 1

    expected = joint(exact(TABLE, WARM), prompt[-2:], SHORT)
    assert excess(counts.ravel(), expected.ravel()) < 1.0


def the_copy_is_said_to_be_drawn(drafts: Sequence[DraftArrays]) -> list[mx.array]:
    """Its rows are those of the other: a one-hot row is missing."""
    whole = whole_distributions(drafts)
    rows = [each[mx.minimum(mx.arange(len(whole[0])), len(each) - 1)] for each in whole[1:]]
    return [*rows, *whole[1:]]


def in_another_order(drafts: Sequence[DraftArrays]) -> list[mx.array]:
    """Of the parts: rows are not those of their tokens."""
    return whole_distributions(drafts)[::-1]


whole_distributions = engine.drafters.cascade._distributions


@pytest.mark.parametrize("mutant", [the_copy_is_said_to_be_drawn, in_another_order])
def test_parts_that_say_what_is_not_so_are_refuted(
    mutant: Callable[[Sequence[DraftArrays]], list[mx.array]],
) -> None:
    with mock.patch.object(engine.drafters.cascade, "_distributions", mutant):
        counts, _ = long_text_of_joint_drafts("tree", length=2_000)
    assert excess(counts, exact(TABLE, COLD)) > 1.0


# --- Seeds


@pytest.mark.parametrize("length", [0, 4])
def test_same_seed_same_text(length: int) -> None:
    def text(seed: int) -> list[int]:
        drafter = model_drafter(DRAFTING["noisy"])
        task = no_ends(WARM, seed=seed, length=100)
        return write(decoder(TABLE), drafter, Fixed(length), task, PROMPT)[0]

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_rounds_do_not_share_their_luck() -> None:
    # Were a key used twice, the first tokens of two texts that differ in nothing but the round
    # they were written in would go together.
    flat = mx.zeros((VOCABULARY, VOCABULARY, VOCABULARY))
    hot = Sampling(temperature=1.0)
    for drafter, policy in [
        (NoDrafter(), Fixed(0)),
        (model_drafter(DRAFTING["random"]), Fixed(1)),
        (model_drafter(DRAFTING["hostile"]), Fixed(3)),
    ]:
        task = no_ends(hot, seed=3, length=1_000)
        text = np.array(write(decoder(flat), drafter, policy, task, PROMPT)[0])
        for distance in (1, 2, 3, 4):
            counts = np.zeros((VOCABULARY, VOCABULARY), dtype=np.int_)
            np.add.at(counts, (text[:-distance], text[distance:]), 1)
            assert excess(counts.ravel(), np.full(VOCABULARY**2, VOCABULARY**-2.0)) < 1.0


def test_no_key_is_used_twice() -> None:
    used: list[tuple[int, ...]] = []

    class Noting(ModelDrafter):
        def propose(
            self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
        ) -> DraftArrays | None:
            used.append(tuple(key.tolist()))
            return super().propose(tokens, choice, sampling, key)

    def noting(
        drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None
    ) -> VerdictArrays:
        used.append(tuple(key.tolist()))
        return by_block(drafted, p, q, key, tree)

    drafter = Noting(decoder(DRAFTING["noisy"]), vocabulary=VOCABULARY)
    write(
        decoder(TABLE),
        drafter,
        Fixed(2),
        no_ends(WARM, seed=0, length=60, accept=noting),
        PROMPT,
    )

    assert len(used) >= 40
    assert len(set(used)) == len(used)


# --- Mutants of the loop's parts


@pytest.mark.parametrize(
    ("mutant", "drafting", "length"),
    [
        (resampled_from_p, "random", 2),
        (bonus_from_q, "noisy", 1),
        (block_stops_at_first_fall, "noisy", 2),
    ],
)
def test_mutants_of_the_rule_are_refuted(
    mutant: AcceptanceRule, drafting: str, length: int
) -> None:
    drafter = model_drafter(DRAFTING[drafting])

    counts, _ = long_text(drafter, Fixed(length), WARM, length=1_500, accept=mutant)

    assert excess(counts, exact(TABLE, WARM)) > 1.5


@pytest.mark.slow
def test_five_percent_more_acceptance_is_refuted() -> None:
    table = random_table(3)
    drafter = model_drafter(drafting_tables(table)["noisy"], vocabulary=3)
    for rule, refuted in [(by_token, False), (too_willing, True)]:
        counts, _ = long_text(drafter, Fixed(2), WARM, length=15_000, accept=rule, table=table)
        assert (excess(counts, exact(table, WARM)) > 1.0) == refuted


def test_drafter_that_draws_hotter_than_it_says_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def careless(weights: mx.array, p: mx.array, sampling: Sampling, key: mx.array) -> mx.array:
        at_one = weights * sampling.temperature
        return mx.random.categorical(at_one, key=key).astype(mx.int32)

    cold = replace(WARM, temperature=0.5)
    drafter = model_drafter(DRAFTING["noisy"])
    honest, _ = long_text(drafter, Fixed(2), cold, length=1_500)
    monkeypatch.setattr(chain, "choose", careless)
    mutant, _ = long_text(drafter, Fixed(2), cold, length=1_500)

    assert excess(honest, exact(TABLE, cold)) < 1.0
    assert excess(mutant, exact(TABLE, cold)) > 1.5


def test_drafter_that_forgets_the_chain_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    cold = replace(WARM, temperature=0.4)

    def raw(weights: mx.array) -> mx.array:
        return mx.softmax(weights * cold.temperature, axis=-1)

    def cold_draw(weights: mx.array, p: mx.array, sampling: Sampling, key: mx.array) -> mx.array:
        return mx.random.categorical(weights, key=key).astype(mx.int32)

    monkeypatch.setattr(chain, "distribution", raw)  # draws at 0.4, reports q at temperature 1
    monkeypatch.setattr(chain, "choose", cold_draw)
    drafter = model_drafter(DRAFTING["noisy"])

    counts, _ = long_text(drafter, Fixed(2), cold, length=1_500)

    assert excess(counts, exact(TABLE, cold)) > 1.5


def test_drafter_that_loses_its_place_changes_nothing() -> None:
    class Lost(ModelDrafter):
        def propose(
            self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
        ) -> DraftArrays | None:
            return super().propose([*tokens[:-2], 0, 0], choice, sampling, key)

    drafter = Lost(decoder(DRAFTING["self"]), vocabulary=VOCABULARY)

    counts, _ = long_text(drafter, Fixed(3), WARM, length=1_000)

    assert excess(counts, exact(TABLE, WARM)) < 1.0


# --- Real architectures


def first_two(model: nn.Module, sampling: Sampling, prompt: list[int]) -> NDArray[np.float64]:
    """The exact joint distribution of two tokens after `prompt`."""

    def rows(batch: mx.array) -> NDArray[np.float64]:
        weights = log_weights(scores(model(batch)[:, -1], None, sampling), sampling)
        return np.array(distribution(weights), dtype=np.float64)

    first = rows(mx.array([prompt]))[0]
    second = rows(mx.array([[*prompt, token] for token in range(len(first))]))
    return first[:, None] * second


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "qwen3_5", "mamba"])
@pytest.mark.parametrize("kind", ["noisy", "early-exit"])
def test_first_two_tokens_of_real_architectures(architecture: str, kind: str) -> None:
    size = 8
    model = build(architecture, vocabulary=size)
    target = Decoder(model)
    drafter: Drafter
    if kind == "noisy":
        drafter = ModelDrafter(Decoder(noisy(model)), vocabulary=size)
    else:
        drafter = EarlyExitDrafter(target, layers=2)
    sampling = Sampling(temperature=1.5, top_k=6)
    prompt = [1, 2, 3, 4, 5, 6]
    counts = np.zeros((size, size), dtype=np.int_)
    for seed in range(2_000):
        task = no_ends(sampling, seed=seed, length=3)
        counts[tuple(write(target, drafter, Fixed(2), task, prompt)[0][:2])] += 1

    assert excess(counts.ravel(), first_two(model, sampling, prompt).ravel()) < 1.0


def test_guesses_are_shown_before_they_are_judged() -> None:
    drafter = model_drafter(DRAFTING["noisy"])
    tokens = list(PROMPT)
    task = no_ends(WARM, seed=0, length=50)
    before = tokens
    for item in speculate(decoder(TABLE), drafter, Fixed(3), tokens, task):
        if isinstance(item, RoundDraft):
            before = list(tokens)
            guess = item
        elif item.p:
            stood = guess.tokens[: item.accepted]
            assert tokens == [*before, *stood, item.own]
            assert len(item.p) == len(item.chance) == len(guess.tokens) == len(guess.q)
            assert all(0.0 <= value <= 1.0 for value in (*guess.q, *item.p, *item.chance))
            assert item.own_p > 0.0
