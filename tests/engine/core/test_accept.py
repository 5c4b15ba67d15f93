"""The acceptance rule is exact: every outcome of every draft, so that nothing is left to chance.

For trees, of which a chain is one, and over candidates alone; and the laws that it keeps for every
p and q.
"""

from itertools import product

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.accept import as_written, by_block, last_accepted, outcomes
from engine.core.sampling import Candidates
from engine.tree import COMMITTED, Tree
from tests.support.engine import small_worlds
from tests.support.engine.acceptance import drawing, enumerated
from tests.support.engine.small_worlds import (
    GUESSING,
    all_drafts,
    judged,
    without_replacement,
    written,
)
from tests.support.engine.tree_papers import traversal_verification
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
    ("vocabulary", "seed", "zeros"),
    mostly_slow(
        [*product([3], [1, 2], [False]), (4, 3, False), *product([4], range(4), [True])],
        quick=[(3, 1, False), *product([4], range(4), [True])],
    ),
)
def test_a_tree_commits_exactly_what_the_target_would(vocabulary, seed, zeros):
    """`zeros`: with tokens that are impossible."""
    wrong = {}
    few = product(["two", "twice two", "three high", "chain"], [without_replacement])
    for shape, guessing in few if zeros else product(SHAPES, GUESSING):
        behind = small_worlds.world(vocabulary, SHAPES[shape].height, seed=seed, zeros=zeros)
        drafts = all_drafts(behind, SHAPES[shape], guessing)
        assert drafts.likely.sum() == pytest.approx(1.0)
        committed = written(drafts, judged(by_block, drafts))
        off = np.abs(committed - behind.texts()).max()
        if not off < 1e-7 or committed[behind.texts() == 0.0].any():
            wrong[shape, guessing.__name__] = off
    assert wrong == {}


def test_what_was_drawn_from_nothing_is_not_accepted():
    """A drafter that has fewer tokens than alternatives."""
    tree, p = Tree((-1, -1, -1)), mx.array([[0.5, 0.5]] * 4)
    q = mx.array([[0.5, 0.5], [0.0, 1.0], [0.0, 0.0]])
    drafted = mx.array([0, 1, 0])
    for seed in range(20):
        verdict = drawing(by_block)(drafted, p, q, mx.random.key(seed), tree)
        assert verdict.accepted.item() in (1, 2)
        assert verdict.chance[2].item() == 0.0


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


WEIGHTS = [0.0, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.3, 1.0, 3.0]
CHAINS = st.sampled_from([1, 2, 3, 5, 16]).map(Tree.chain)


def normalized(rows):
    weights = np.array(rows)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


@st.composite
def rounds(draw, trees, *, least=1e-4):
    """(tree, drafted, p, q): what is drafted has more than this chance of being drawn, or is
    certain, if there is a least one."""
    tree, vocabulary = draw(trees), draw(st.integers(2, 6))
    row = st.lists(st.sampled_from(WEIGHTS), min_size=vocabulary, max_size=vocabulary).filter(any)
    p = normalized(draw(st.lists(row, min_size=len(tree) + 1, max_size=len(tree) + 1)))
    q = normalized(draw(st.lists(row, min_size=len(tree), max_size=len(tree))))
    drafted = [int(draw(st.sampled_from(list(np.flatnonzero(row > least))))) for row in q]
    if least:
        for i in draw(st.sets(st.integers(0, len(tree) - 1))):
            q[i] = np.eye(vocabulary, dtype=np.float32)[drafted[i]]
    return tree, drafted, p, q


def own_row(may_come, accepted):
    row = np.array(may_come.own[accepted], dtype=np.float64)
    return row / row.sum()


@given(round_=rounds(CHAINS | random_trees(most=8)))
def test_outcomes_are_those_of_the_papers(round_):
    tree, drafted, p, q = round_
    ids = mx.array(drafted, dtype=mx.int32)

    may_come = enumerated(by_block, ids, mx.array(p), mx.array(q), tree)
    ends, own = traversal_verification(drafted, p.astype(np.float64), q.astype(np.float64), tree)

    got = np.array(may_come.ends, dtype=np.float64)
    assert got == pytest.approx(ends, abs=1e-5)
    assert got.sum() == pytest.approx(1.0, abs=1e-5)
    held = np.zeros(len(tree))  # the chance of each token: that it, or one after it, is the last
    for last, ended in enumerate(ends):
        held[list(tree.path(last - 1))] += ended
    assert may_come.chance.tolist() == pytest.approx(held, abs=1e-5)
    for accepted in np.flatnonzero(got > 1e-3).tolist():
        assert own_row(may_come, accepted) == pytest.approx(own[accepted], abs=1e-3)


@given(
    round_=rounds(CHAINS, least=0.0) | rounds(random_trees(most=8)),
    seed=st.integers(0, 1 << 30),
)
def test_laws(round_, seed):
    tree, drafted, p, q = round_
    ids = mx.array(drafted, dtype=mx.int32)

    verdict = drawing(by_block)(ids, mx.array(p), mx.array(q), mx.random.key(seed), tree)

    assert verdict.accepted.shape == verdict.next.shape == ()
    assert verdict.chance.shape == (len(drafted),)
    assert verdict.accepted.dtype == verdict.next.dtype == mx.int32
    accepted, chance = int(verdict.accepted), verdict.chance.tolist()
    path = tree.path(accepted - 1)
    assert all(p[tree.parents[i] + 1, drafted[i]] > 0 for i in path)
    assert p[accepted, int(verdict.next)] > 0
    assert all(0.0 <= c <= 1.0 for c in chance)  # and no NaN
    assert all(chance[i] > 0 for i in path)
    if tree.is_chain and accepted < len(drafted):
        assert chance[accepted] < 1.0
    for parent in range(COMMITTED, len(tree)):
        behind = sum(chance[i] for i in tree.children(parent))
        whole = 1.0 if parent == COMMITTED else chance[parent]
        assert behind <= whole + 1e-5


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


@given(ends=st.lists(st.sampled_from(WEIGHTS), min_size=1, max_size=6).filter(any))
def test_a_round_ends_as_often_as_it_should(ends):
    points = 10_000
    ended = [last_accepted(ends, (i + 0.5) / points) for i in range(points)]

    share = np.bincount(ended, minlength=len(ends)) / points
    assert share == pytest.approx(np.array(ends) / sum(ends), abs=2 / points)
    for point in (0.0, 1.0):
        assert ends[last_accepted(ends, point)] > 0.0
    assert not share[np.array(ends) == 0.0].any()


@given(
    tree=random_trees(most=12) | st.integers(1, 16).map(Tree.chain),
    chance=st.randoms(use_true_random=False),
)
def test_of_a_tree_the_deepest_path_that_is_written_is_taken(tree, chance):
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
