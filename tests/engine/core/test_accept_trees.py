"""The acceptance rule is exact: every outcome of every draft, so that nothing is left to chance.

For trees, of which a chain is one, and over candidates alone.
"""

from itertools import product

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.accept import by_block, outcomes
from engine.core.sampling import Candidates
from engine.tree import COMMITTED, Tree
from tests.engine.core.test_accept import WEIGHTS, normalized, rounds
from tests.support.engine import small_worlds
from tests.support.engine.acceptance import by_token, drawing, enumerated
from tests.support.engine.chi_square import excess
from tests.support.engine.small_worlds import (
    GUESSING,
    accepted_tokens,
    all_certain,
    all_drafts,
    judged,
    with_replacement,
    without_replacement,
    written,
)
from tests.support.engine.tree_papers import (
    traversal_verification,
)
from tests.support.engine.trees import random_trees
from tests.support.mostly_slow import mostly_slow

SHAPES = {
    "two": Tree((-1, -1)),
    "three": Tree((-1, -1, -1)),
    "one goes on": Tree((-1, -1, 0)),
    "the second goes on": Tree((-1, -1, 1)),
    "twice two": Tree((-1, -1, 0, 0, 1, 1)),
    "twice two, branch by branch": Tree((-1, 0, 0, -1, 3, 3)),
    "uneven": Tree((-1, -1, -1, 0, 0, 1)),
    "three high": Tree((-1, 0, 1, 0, -1, 4)),
    "three high, late": Tree((-1, -1, 1, 2, 2)),
    "one token": Tree.chain(1),
    "chain": Tree.chain(3),
}


@pytest.mark.parametrize(
    ("vocabulary", "seed"), mostly_slow([(3, 1), (3, 2), (4, 3)], quick=[(3, 1)])
)
def test_a_tree_commits_exactly_what_the_target_would(vocabulary, seed):
    wrong = {}
    for shape, guessing in product(SHAPES, GUESSING):
        behind = small_worlds.world(vocabulary, SHAPES[shape].height, seed=seed)
        drafts = all_drafts(behind, SHAPES[shape], guessing)
        assert drafts.likely.sum() == pytest.approx(1.0)
        committed = written(drafts, judged(by_block, drafts))
        if not (off := np.abs(committed - behind.texts()).max()) < 1e-7:
            wrong[shape, guessing.__name__] = off
    assert wrong == {}


def test_a_tree_with_impossible_tokens():
    for shape, seed in product(["two", "twice two", "three high", "chain"], range(4)):
        tree = SHAPES[shape]
        behind = small_worlds.world(4, tree.height, seed=seed, zeros=True)
        drafts = all_drafts(behind, tree, without_replacement)

        committed = written(drafts, judged(by_block, drafts))

        assert np.abs(committed - behind.texts()).max() < 1e-7, (shape, seed)
        assert committed[behind.texts() == 0.0].sum() == 0.0, (shape, seed)


def test_what_was_drawn_from_nothing_is_not_accepted():
    """A drafter that has fewer tokens than alternatives."""
    tree, p = Tree((-1, -1, -1)), mx.array([[0.5, 0.5]] * 4)
    q = mx.array([[0.5, 0.5], [0.0, 1.0], [0.0, 0.0]])
    drafted = mx.array([0, 1, 0])
    for seed in range(20):
        verdict = drawing(by_block)(drafted, p, q, mx.random.key(seed), tree)
        assert verdict.accepted.item() in (1, 2)
        assert verdict.chance[2].item() == 0.0
    for seed in range(20):
        verdict = drawing(by_block)(drafted[2:], p[:2], q[2:], mx.random.key(seed), Branched((-1,)))
        assert verdict.accepted.item() == 0


@given(random_trees(most=6), st.integers(0, 1000), st.booleans())
def test_over_candidates_alone_it_is_the_same(tree, seed, certain):
    vocabulary, few, rows = 9, 4, np.random.default_rng(seed)
    ids = np.stack([rows.permutation(vocabulary)[:few] for _ in range(len(tree) + 1)])
    p = rows.dirichlet(np.ones(few), size=len(tree) + 1)
    likely = Candidates(mx.array(p, dtype=mx.float32), mx.array(ids))
    whole, parents = likely.over(vocabulary), [parent + 1 for parent in tree.parents]
    q = mx.array(rows.dirichlet(np.ones(vocabulary), size=len(tree)), dtype=mx.float32)
    drafted = mx.array(rows.integers(0, vocabulary, size=len(tree)), dtype=mx.int32)
    sure = mx.eye(vocabulary)[drafted]

    ours = outcomes(by_block, drafted, likely, None if certain else q, tree)
    theirs = outcomes(by_block, drafted, Candidates(whole, None), sure if certain else q, tree)

    assert mx.allclose(ours.tried, theirs.tried, atol=1e-5)
    assert mx.array_equal(ours.p, whole[mx.array(parents), drafted])
    assert mx.allclose(Candidates(ours.own, likely.ids).over(vocabulary), theirs.own, atol=1e-5)


@pytest.mark.parametrize("seed", mostly_slow(range(5), quick=[0]))
def test_traversal_accepts_at_least_as_many(seed):
    for shape, guessing in product(SHAPES, GUESSING):
        tree, case = SHAPES[shape], (shape, guessing.__name__)
        drafts = all_drafts(small_worlds.world(3, tree.height, seed=seed), tree, guessing)

        by_paths, by_tokens = (
            accepted_tokens(drafts, judged(rule, drafts)) for rule in (by_block, by_token)
        )

        if tree.height == 1 or guessing is all_certain:  # then they are the same rule
            assert by_paths == pytest.approx(by_tokens, abs=1e-6), case
        else:
            assert by_paths >= by_tokens - 1e-6, case
        if guessing is without_replacement and shape in {"twice two", "three high", "chain"}:
            assert by_paths > by_tokens + 0.01, case


def test_block_accepts_each_prefix_as_often_as_can_be():
    """Sun et al., lemma 3: over all that may follow, a prefix is accepted with its weight."""
    tree = SHAPES["chain"]
    for zeros in (False, True):
        behind = small_worlds.world(4, tree.height, seed=1, zeros=zeros)
        drafts = all_drafts(behind, tree, with_replacement)
        accepted = np.cumsum(judged(by_block, drafts).ends[:, :0:-1], axis=1)[:, ::-1]
        number, weight = np.arange(len(drafts.tokens)), np.ones(len(drafts.tokens))
        for i, token in enumerate(drafts.tokens.T):
            weight = weight * drafts.p[number, i, token] / drafts.q[number, i, token]
            weight = np.minimum(weight, 1.0)
            _, prefixes = np.unique(drafts.tokens[:, : i + 1], axis=0, return_inverse=True)
            mass = np.bincount(prefixes, weights=drafts.likely)
            share = np.bincount(prefixes, weights=drafts.likely * accepted[:, i]) / mass
            assert share[prefixes] == pytest.approx(weight, abs=1e-5), zeros


class Branched(Tree):
    """A chain that does not know that it is one."""

    is_chain = False


@given(round_=rounds())
def test_a_chain_is_judged_as_a_tree_would_be(round_):
    drafted, p, q, _ = round_
    # What is hardly ever drawn makes ratios that are too large for the sums of their logarithms.
    ids = [
        int(i) if row[i] > 1e-4 else int(row.argmax()) for i, row in zip(drafted, q, strict=True)
    ]
    arrays = mx.array(ids, dtype=mx.int32), mx.array(p), mx.array(q)

    chain = enumerated(by_block, *arrays)
    tree = enumerated(by_block, *arrays, Branched(tuple(range(-1, len(drafted) - 1))))

    for name in ("ends", "chance"):
        ours, theirs = np.array(getattr(tree, name)), np.array(getattr(chain, name))
        assert ours == pytest.approx(theirs, abs=1e-5)
    for accepted in np.flatnonzero(np.array(chain.ends) > 1e-3).tolist():
        assert own_row(tree, accepted) == pytest.approx(own_row(chain, accepted), abs=1e-3)


def own_row(may_come, accepted):
    row = np.array(may_come.own[accepted], dtype=np.float64)
    normalized = row / row.sum()
    return normalized


@st.composite
def rounds_of_trees(draw):
    """(tree, drafted, p, q): what is drafted has a chance of being drawn, or is certain."""
    tree, vocabulary = draw(random_trees(most=8)), draw(st.integers(2, 6))
    row = st.lists(st.sampled_from(WEIGHTS), min_size=vocabulary, max_size=vocabulary).filter(any)
    p = normalized(draw(st.lists(row, min_size=len(tree) + 1, max_size=len(tree) + 1)))
    q = normalized(draw(st.lists(row, min_size=len(tree), max_size=len(tree))))
    drafted = [int(draw(st.sampled_from(list(np.flatnonzero(row > 1e-4))))) for row in q]
    for i in draw(st.sets(st.integers(0, len(tree) - 1))):
        q[i] = np.eye(vocabulary, dtype=np.float32)[drafted[i]]
    return tree, drafted, p, q


@given(round_=rounds_of_trees())
def test_outcomes_are_those_of_the_papers(round_):
    tree, drafted, p, q = round_
    ids = mx.array(drafted, dtype=mx.int32)

    may_come = enumerated(by_block, ids, mx.array(p), mx.array(q), tree)
    ends, own = traversal_verification(drafted, p.astype(np.float64), q.astype(np.float64), tree)

    got = np.array(may_come.ends, dtype=np.float64)
    assert got == pytest.approx(ends, abs=1e-5)
    assert got.sum() == pytest.approx(1.0, abs=1e-5)
    for accepted in np.flatnonzero(got > 1e-3).tolist():
        assert own_row(may_come, accepted) == pytest.approx(own[accepted], abs=1e-3)


@given(round_=rounds_of_trees(), seed=st.integers(0, 1 << 30))
def test_laws_of_trees(round_, seed):
    tree, drafted, p, q = round_
    ids = mx.array(drafted, dtype=mx.int32)

    verdict = drawing(by_block)(ids, mx.array(p), mx.array(q), mx.random.key(seed), tree)

    assert verdict.accepted.shape == verdict.next.shape == ()
    assert verdict.accepted.dtype == verdict.next.dtype == mx.int32
    accepted, chance = int(verdict.accepted), verdict.chance.tolist()
    path = tree.path(accepted - 1)
    assert all(p[tree.parents[i] + 1, drafted[i]] > 0 for i in path)
    assert p[accepted, int(verdict.next)] > 0
    assert all(0.0 <= c <= 1.0 for c in chance)  # and no NaN
    assert all(chance[i] > 0 for i in path)
    for parent in range(COMMITTED, len(tree)):
        behind = sum(chance[i] for i in tree.children(parent))
        whole = 1.0 if parent == COMMITTED else chance[parent]
        assert behind <= whole + 1e-5


@pytest.mark.parametrize(
    "shape", mostly_slow(["twice two", "three high", "chain"], quick=["three high", "chain"])
)
def test_what_is_drawn_is_what_may_come(shape):
    tree = SHAPES[shape]
    drafts = all_drafts(small_worlds.world(4, tree.height, seed=3), tree, without_replacement)
    expected = judged(by_block, drafts)
    probabilities = expected.ends[..., None] * expected.own
    uncertain = np.flatnonzero(probabilities.max(axis=(1, 2)) < 0.6)
    each = 20_000
    for i in uncertain[:3].tolist():
        drafted = mx.array(drafts.tokens[i], dtype=mx.int32)
        arrays = drafted, *(mx.array(rows[i].astype(np.float32)) for rows in (drafts.p, drafts.q))
        batch = [mx.broadcast_to(array, (each, *array.shape)) for array in arrays]

        def judge(drafted, p, q, key):
            verdict = drawing(by_block)(drafted, p, q, key, tree)
            return verdict.accepted, verdict.next, verdict.chance

        keys = mx.random.split(mx.random.key(i), each)
        accepted, own, chance = (np.array(a) for a in mx.vmap(judge)(*batch, keys))

        counts = np.zeros((len(tree) + 1, 4), dtype=np.int_)
        np.add.at(counts, (accepted, own), 1)
        assert excess(counts.ravel(), probabilities[i].ravel()) < 1.0
        held = np.zeros(len(tree))
        for last, ended in enumerate(expected.ends[i]):
            held[list(tree.path(last - 1))] += ended
        assert chance[0] == pytest.approx(held, abs=1e-5)


@pytest.mark.parametrize("shape", ["twice two", "long chain"])
def test_a_tree_that_the_target_itself_drew(shape):
    # Everything that is tried first stands; rounding leaves nothing to its alternatives.
    tree = Tree.chain(16) if shape == "long chain" else SHAPES[shape]
    rows = mx.softmax(mx.random.normal((len(tree) + 1, 50), key=mx.random.key(1)), axis=-1)
    drawn_from = rows[mx.array(tree.parents) + 1]
    drafted = mx.random.categorical(mx.log(drawn_from), key=mx.random.key(2)).astype(mx.int32)

    wobbling = rows * (1.0 + 1e-6 * mx.random.normal(rows.shape, key=mx.random.key(3)))
    for p, seed in product((rows, wobbling), range(10)):
        verdict = drawing(by_block)(drafted, p, drawn_from, mx.random.key(seed), tree)
        assert int(verdict.accepted) - 1 == tree.paths[0][-1]
