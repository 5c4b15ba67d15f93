"""The acceptance rules, alone: exact in distribution, and mutants of them are found out.

What is checked is the joint distribution of all tokens that a round may commit, against its exact
enumeration, with 100,000 rounds of the real functions at once (`mx.vmap`). Trees:
`test_accept_trees.py`.
"""

from dataclasses import dataclass, replace
from itertools import pairwise, product
from random import Random

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.core.accept import AcceptanceRule, as_written, by_block, by_token, last_accepted
from engine.core.sampling import distribution
from engine.request import Sampling
from engine.tree import Tree
from tests.support.engine.accept_mutants import MUTANTS, block_with_plain_residual, paper
from tests.support.engine.acceptance import Drawing, Verdict, drawing
from tests.support.engine.chi_square import excess
from tests.support.engine.trees import random_trees
from tests.support.mostly_slow import examples, mostly_slow

ROUNDS = 100_000
RULES = [by_token, by_block]

# --- A world: what the target and the drafter would say in every situation of a round


@dataclass(frozen=True)
class World:
    """`p` (n + 1, vocabulary, vocabulary) and `q` (n, ...): by position and the token before.

    `drawn` is what the drafter really draws from: `q`, were it honest.
    """

    p: mx.array
    q: mx.array
    drawn: mx.array

    @property
    def drafted(self) -> int:
        return len(self.q)

    @property
    def vocabulary(self) -> int:
        return self.p.shape[-1]


PLAIN = Sampling(temperature=1.0)
CHAINS = {
    "temperature 0.6": Sampling(temperature=0.6),
    "temperature 1.7": Sampling(temperature=1.7),
    "top-k": Sampling(temperature=1.0, top_k=3),
    "top-p": Sampling(temperature=1.0, top_p=0.8),
    "min-p": Sampling(temperature=1.0, min_p=0.15),
    "all": Sampling(temperature=0.8, top_k=4, top_p=0.9, min_p=0.05),
    "one left": Sampling(temperature=1.0, top_k=1),
}
DRAFTERS = ["self", "noisy", "random", "hostile", "certain"]


def world(
    drafter: str, sampling: Sampling = PLAIN, *, drafted: int = 2, vocabulary: int = 5
) -> World:
    shape = (drafted + 1, vocabulary, vocabulary)
    target_key, other_key = mx.random.split(mx.random.key(11))
    logits = 1.5 * mx.random.normal(shape, key=target_key)
    other = 1.5 * mx.random.normal(shape, key=other_key)
    guess = {
        "self": logits,
        "noisy": logits + 0.4 * other,
        "random": other,
        "hostile": -2.0 * logits,
        "certain": mx.where(other == mx.max(other, axis=-1, keepdims=True), 0.0, -mx.inf),
    }[drafter][:-1]
    p, q = (distribution(x.reshape(-1, vocabulary), sampling) for x in (logits, guess))
    q = q.reshape(guess.shape)
    return World(p.reshape(shape), q, q)


def simulate(
    rule: Drawing, world: World, *, rounds: int = ROUNDS, seed: int = 0
) -> NDArray[np.int_]:
    """Counts of what `rounds` rounds wrote, one axis per position. The first token before is 0.

    Every round is drafted and judged; what it leaves unwritten the target writes by itself.
    """
    n = world.drafted

    def write(key: mx.array) -> mx.array:
        draft_key, rule_key, rest_key = mx.random.split(key, 3)
        drafted = [mx.array(0)]
        for rows, step_key in zip(world.drawn, mx.random.split(draft_key, n), strict=True):
            drafted.append(mx.random.categorical(mx.log(rows[drafted[-1]]), key=step_key))
        p = mx.stack([rows[token] for rows, token in zip(world.p, drafted, strict=True)])
        q = mx.stack([rows[token] for rows, token in zip(world.q, drafted[:-1], strict=True)])
        outcome = rule(mx.stack(drafted[1:]).astype(mx.int32), p, q, rule_key)

        written = [mx.array(0)]
        for i, step_key in enumerate(mx.random.split(rest_key, n + 1)):
            own = mx.random.categorical(mx.log(world.p[i][written[-1]]), key=step_key)
            own = mx.where(outcome.accepted == i, outcome.next, own)
            draft = drafted[min(i, n - 1) + 1]
            written.append(mx.where(outcome.accepted > i, draft, own))
        return mx.stack(written[1:])

    texts = np.array(mx.vmap(write)(mx.random.split(mx.random.key(seed), rounds)))
    counts = np.zeros((world.vocabulary,) * (n + 1), dtype=np.int_)
    np.add.at(counts, tuple(texts.T), 1)
    return counts


def joint(world: World) -> NDArray[np.float64]:
    """The probability of everything a round and the target may write, one axis per position."""
    p = np.array(world.p, dtype=np.float64)
    result = p[0, 0]
    for table in p[1:]:
        result = result[..., None] * table
    return result


def refuted(rule: Drawing, world: World) -> float:
    """How clearly the counts refute the rule: see `excess`."""
    return excess(simulate(rule, world).ravel(), joint(world).ravel())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("drafted", "vocabulary"), mostly_slow([(1, 8), (2, 5), (4, 3)], quick=[(4, 3)])
)
def test_writes_exactly_what_the_target_would(
    rule: AcceptanceRule, drafted: int, vocabulary: int
) -> None:
    worlds = {name: world(name, drafted=drafted, vocabulary=vocabulary) for name in DRAFTERS}
    found = {name: refuted(drawing(rule), each) for name, each in worlds.items()}
    assert {name: by for name, by in found.items() if by >= 1.0} == {}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drafter", mostly_slow(["noisy", "hostile"], quick=["noisy"]))
def test_exact_behind_every_filter(rule: AcceptanceRule, drafter: str) -> None:
    for chain, sampling in CHAINS.items():
        behind = world(drafter, sampling)
        counts, expected = (
            simulate(drawing(rule), behind, rounds=40_000).ravel(),
            joint(behind).ravel(),
        )
        assert counts[expected == 0].sum() == 0, chain
        if chain != "one left":
            assert excess(counts, expected) < 1.0, chain


# --- Mutants: what the test above is worth


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize(("drafted", "vocabulary"), mostly_slow([(2, 5), (3, 3)], quick=[(3, 3)]))
def test_mutants_are_refuted(mutant: Drawing, drafted: int, vocabulary: int) -> None:
    assert refuted(mutant, world("noisy", drafted=drafted, vocabulary=vocabulary)) > 2.0


def test_subtlest_mutant_is_refuted() -> None:
    # It only errs where a longer draft falls in the middle.
    assert refuted(block_with_plain_residual, world("random", drafted=4, vocabulary=3)) > 2.0


@pytest.mark.quick(1)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("chain", mostly_slow([PLAIN, CHAINS["all"]], quick=[PLAIN]))
def test_temperature_on_one_side_is_refuted(rule: AcceptanceRule, chain: Sampling) -> None:
    honest = world("noisy", chain)
    hotter = world("noisy", replace(chain, temperature=1.25 * chain.temperature))

    assert refuted(drawing(rule), honest) < 1.0
    assert refuted(drawing(rule), replace(honest, drawn=hotter.q)) > 1.0  # drawn hotter than said
    assert refuted(drawing(rule), replace(honest, q=hotter.q)) > 1.0  # said to be hotter than drawn
    assert (
        excess(simulate(drawing(rule), replace(honest, p=hotter.p)).ravel(), joint(honest).ravel())
        > 1.0
    )


def test_the_mutants_are_made_from_an_exact_rule() -> None:
    assert refuted(paper, world("noisy")) < 1.0


# --- What the rules promise, computed exactly: by enumeration of all drafts


def judge_all(
    rule: AcceptanceRule, world: World
) -> tuple[NDArray[np.int_], NDArray[np.float64], Verdict]:
    """Every possible draft, its probability, and its outcome, (drafts, ...)."""
    drafts = np.array(list(product(range(world.vocabulary), repeat=world.drafted)))
    before = np.concatenate([np.zeros((len(drafts), 1), dtype=int), drafts], axis=1)
    positions = np.arange(world.drafted + 1)
    p = np.array(world.p)[positions, before]
    q = np.array(world.q)[positions[:-1], before[:, :-1]]
    likelihood = np.take_along_axis(q, drafts[:, :, None], axis=2)[:, :, 0].prod(axis=1)
    possible = likelihood > 0
    drafts, p, q = drafts[possible], p[possible], q[possible]

    def judge(drafted: mx.array, p: mx.array, q: mx.array) -> tuple[mx.array, ...]:
        outcome = drawing(rule)(drafted, p, q, mx.random.key(0))
        return outcome.accepted, outcome.next, outcome.chance

    arrays = mx.vmap(judge)(mx.array(drafts, dtype=mx.int32), mx.array(p), mx.array(q))
    return drafts, likelihood[possible].astype(np.float64), Verdict(*arrays)


def standing(world: World, drafts: NDArray[np.int_]) -> NDArray[np.float64]:
    """min(w_{i-1} p_i/q_i, 1) with w_0 = 1, (drafts, n): what a prefix should stand with."""
    weights = np.ones((len(drafts), world.drafted + 1))
    for i in range(world.drafted):
        before = drafts[:, i - 1] if i else np.zeros(len(drafts), dtype=int)
        ratio = np.array(world.p)[i, before, drafts[:, i]] / np.array(world.q)[
            i, before, drafts[:, i]
        ].astype(np.float64)
        weights[:, i + 1] = np.minimum(weights[:, i] * ratio, 1.0)
    return weights[:, 1:]


def test_block_accepts_each_prefix_as_often_as_can_be() -> None:
    # Sun et al., lemma 3: over all continuations, a drafted prefix stands with chance w_i.
    for case in product(DRAFTERS, ["temperature 0.6", "all"]):
        behind = world(case[0], CHAINS[case[1]], drafted=3)
        drafts, likelihood, outcome = judge_all(by_block, behind)
        chance, weights = np.array(outcome.chance), standing(behind, drafts)
        for i in range(behind.drafted):
            _, prefixes = np.unique(drafts[:, : i + 1], axis=0, return_inverse=True)
            mass = np.bincount(prefixes, weights=likelihood)
            stands = np.bincount(prefixes, weights=likelihood * chance[:, i]) / mass
            assert stands[prefixes] == pytest.approx(weights[:, i], abs=1e-4), case


def test_block_accepts_at_least_as_many_as_token_by_token() -> None:
    for case in product(DRAFTERS, [1, 2, 4], ["temperature 1.7", "top-k"]):
        drafter, drafted, chain = case
        behind = world(drafter, CHAINS[chain], drafted=drafted, vocabulary=4)
        _, likelihood, token = judge_all(by_token, behind)
        _, _, block = judge_all(by_block, behind)

        one_by_one = likelihood @ np.cumprod(np.array(token.chance), axis=1).sum(axis=1)
        as_a_block = likelihood @ np.array(block.chance).sum(axis=1)

        if drafted == 1 or drafter in {"self", "certain"}:  # then they are the same rule
            assert as_a_block == pytest.approx(one_by_one, rel=1e-5), case
        elif drafter == "noisy" or chain == "temperature 1.7":
            assert as_a_block > one_by_one + 1e-3, case
        else:
            assert as_a_block >= one_by_one - 1e-6, case


@pytest.mark.parametrize("rule", RULES)
def test_chance_is_how_often_a_token_stands(rule: AcceptanceRule) -> None:
    behind = world("noisy", drafted=3, vocabulary=3)
    drafts = np.array(list(product(range(3), repeat=3)))
    each = 4_000
    position = mx.arange(4)

    def judge(drafted: mx.array, key: mx.array) -> tuple[mx.array, mx.array]:
        before = mx.concatenate([mx.array([0]), drafted])
        q = behind.q[position[:-1], before[:-1]]
        outcome = drawing(rule)(drafted, behind.p[position, before], q, key)
        return outcome.accepted, outcome.chance

    keys = mx.random.split(mx.random.key(5), len(drafts) * each)
    accepted, chance = mx.vmap(judge)(mx.array(drafts.repeat(each, axis=0)), keys)

    stood = np.array(accepted).reshape(-1, each, 1) > np.arange(3)
    expected = np.array(chance, dtype=np.float64).reshape(-1, each, 3)[:, 0]
    if rule is by_token:  # there it is the chance of one token, given the ones before
        expected = np.cumprod(expected, axis=1)
    counts = np.stack([stood.sum(axis=1), each - stood.sum(axis=1)], axis=-1)
    certain = np.clip(np.stack([expected, 1 - expected], axis=-1), 0.0, 1.0)
    for i in range(3):  # one position at a time: the three are not independent
        assert excess(counts[:, i], certain[:, i]) < 1.0


# --- What must hold of every p and q

WEIGHTS = [0.0, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.3, 1.0, 3.0]


@st.composite
def rounds(draw: st.DrawFn) -> tuple[list[int], NDArray[np.float32], NDArray[np.float32], int]:
    """(drafted, p, q, seed): what is drafted has a chance of being drawn."""
    n = draw(st.sampled_from([1, 2, 3, 5, 16]))
    vocabulary = draw(st.integers(2, 6))
    row = st.lists(st.sampled_from(WEIGHTS), min_size=vocabulary, max_size=vocabulary).filter(any)
    p = normalized(draw(st.lists(row, min_size=n + 1, max_size=n + 1)))
    q = normalized(draw(st.lists(row, min_size=n, max_size=n)))
    drafted = [draw(st.sampled_from(list(np.flatnonzero(row)))) for row in q]
    return drafted, p, q, draw(st.integers(0, 1 << 30))


def normalized(rows: list[list[float]]) -> NDArray[np.float32]:
    weights = np.array(rows)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def judge(
    rule: AcceptanceRule,
    drafted: list[int],
    p: NDArray[np.float32],
    q: NDArray[np.float32],
    seed: int,
) -> tuple[int, int, list[float]]:
    ids = mx.array([int(token) for token in drafted], dtype=mx.int32)
    outcome = drawing(rule)(ids, mx.array(p), mx.array(q), mx.random.key(seed))
    assert outcome.accepted.shape == outcome.next.shape == ()
    assert outcome.chance.shape == (len(drafted),)
    assert outcome.accepted.dtype == outcome.next.dtype == mx.int32
    return int(outcome.accepted), int(outcome.next), outcome.chance.tolist()


@pytest.mark.parametrize("rule", RULES)
@given(round_=rounds())
def test_laws(
    rule: AcceptanceRule, round_: tuple[list[int], NDArray[np.float32], NDArray[np.float32], int]
) -> None:
    drafted, p, q, seed = round_

    accepted, own, chance = judge(rule, drafted, p, q, seed)

    assert 0 <= accepted <= len(drafted)
    assert all(0.0 <= c <= 1.0 for c in chance)  # and no NaN
    assert all(p[i, drafted[i]] > 0 for i in range(accepted))
    assert p[accepted, own] > 0
    if accepted < len(drafted):
        assert chance[accepted] < 1.0
    ratio = p[np.arange(len(drafted)), drafted] / q[np.arange(len(drafted)), drafted]
    if rule is by_token:
        assert chance == pytest.approx(np.minimum(ratio, 1.0).tolist(), rel=1e-5)
    else:  # where a longer prefix stands, so does a shorter one
        assert all(a >= b - 1e-6 for a, b in pairwise(chance))


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=examples(50))
@given(round_=rounds())
def test_what_is_sure_to_stand_and_what_is_not(
    rule: AcceptanceRule, round_: tuple[list[int], NDArray[np.float32], NDArray[np.float32], int]
) -> None:
    drafted, p, q, seed = round_
    n = len(drafted)

    # The drafter is the target: everything stands.
    accepted, own, chance = judge(rule, drafted, np.concatenate([q, p[n:]]), q, seed)
    assert accepted == n
    assert chance == [1.0] * n
    assert p[n, own] > 0

    # Nothing that is drafted is possible: nothing stands.
    impossible = p.copy()
    impossible[np.arange(n), drafted] = 0.0
    if impossible.sum(axis=1).all():
        impossible /= impossible.sum(axis=1, keepdims=True)
        accepted, own, chance = judge(rule, drafted, impossible, q, seed)
        assert accepted == 0
        assert chance == [0.0] * n
        assert own != drafted[0]

    # A certain draft stands with the target's own probability.
    certain = np.eye(p.shape[1], dtype=np.float32)[drafted]
    accepted, own, chance = judge(rule, drafted, p, certain, seed)
    alone = p[np.arange(n), drafted]
    expected = alone if rule is by_token else np.cumprod(alone)
    if rule is by_token:
        assert chance == pytest.approx(alone.tolist(), rel=1e-6)
    else:
        assert chance[-1] == pytest.approx(expected[-1], abs=1e-6)
    if accepted < n and alone[accepted] < 1.0:
        assert own != drafted[accepted]


@pytest.mark.parametrize("rule", RULES)
def test_sixteen_drafted_tokens_that_nearly_stand(rule: AcceptanceRule) -> None:
    # Rounding, as it comes from the same model in another batch: no rejection worth its name.
    q = mx.softmax(mx.random.normal((17, 50), key=mx.random.key(1)), axis=-1)
    wobble = 1.0 + 1e-6 * mx.random.normal((17, 50), key=mx.random.key(2))
    p = q * wobble
    drafted = mx.random.categorical(mx.log(q[:-1]), key=mx.random.key(3)).astype(mx.int32)

    keys = mx.random.split(mx.random.key(4), 2_000)
    each = [mx.broadcast_to(rows, (2_000, *rows.shape)) for rows in (p, q[:-1])]
    accepted = mx.vmap(lambda key, p, q: drawing(rule)(drafted, p, q, key).accepted)(keys, *each)

    assert int(mx.sum(accepted == 16)) >= 1_998


@given(ends=st.lists(st.sampled_from(WEIGHTS), min_size=1, max_size=6).filter(any))
def test_a_round_ends_as_often_as_it_should(ends: list[float]) -> None:
    points = 10_000
    ended = [last_accepted(ends, (i + 0.5) / points) for i in range(points)]

    share = np.bincount(ended, minlength=len(ends)) / points
    assert share == pytest.approx(np.array(ends) / sum(ends), abs=2 / points)
    for point in (0.0, 1.0):
        assert ends[last_accepted(ends, point)] > 0.0
    assert not share[np.array(ends) == 0.0].any()


@settings(max_examples=examples(50))
@given(pairs=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=16))
def test_taken_is_what_the_target_writes_anyway(pairs: list[tuple[int, int]]) -> None:
    drafted, written = zip(*pairs, strict=True)
    expected = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    assert as_written(drafted, (*written, 7), Tree.chain(len(pairs))) == expected


@settings(max_examples=examples(50))
@given(tree=random_trees(most=12), chance=st.randoms(use_true_random=False))
def test_of_a_tree_the_deepest_path_that_is_written_is_taken(tree: Tree, chance: Random) -> None:
    """The first of those that are as deep."""
    drafted = [chance.randrange(2) for _ in tree.parents]
    written = [chance.randrange(2) for _ in range(len(tree) + 1)]
    paths = {number + 1: tree.path(number) for number in range(len(tree))}
    standing = [0] + [
        last
        for last, path in paths.items()
        if all(drafted[i] == written[tree.parents[i] + 1] for i in path)
    ]
    assert as_written(drafted, written, tree) == max(
        standing, key=lambda last: (len(paths[last]) if last else 0, -last)
    )
