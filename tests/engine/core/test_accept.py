"""The laws that the acceptance rule keeps for every p and q.

That it is exact in distribution, for chains and trees: `test_accept_trees.py`.
"""

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.accept import as_written, by_block, last_accepted
from engine.tree import Tree
from tests.support.engine.acceptance import drawing
from tests.support.engine.trees import random_trees

# --- What must hold of every p and q

WEIGHTS = [0.0, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.3, 1.0, 3.0]


@st.composite
def rounds(draw):
    """(drafted, p, q, seed): what is drafted has a chance of being drawn."""
    n = draw(st.sampled_from([1, 2, 3, 5, 16]))
    vocabulary = draw(st.integers(2, 6))
    row = st.lists(st.sampled_from(WEIGHTS), min_size=vocabulary, max_size=vocabulary).filter(any)
    p = normalized(draw(st.lists(row, min_size=n + 1, max_size=n + 1)))
    q = normalized(draw(st.lists(row, min_size=n, max_size=n)))
    drafted = [draw(st.sampled_from(list(np.flatnonzero(row)))) for row in q]
    return drafted, p, q, draw(st.integers(0, 1 << 30))


def normalized(rows):
    weights = np.array(rows)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def judge(drafted, p, q, seed):
    ids = mx.array([int(token) for token in drafted], dtype=mx.int32)
    outcome = drawing(by_block)(ids, mx.array(p), mx.array(q), mx.random.key(seed))
    assert outcome.accepted.shape == outcome.next.shape == ()
    assert outcome.chance.shape == (len(drafted),)
    assert outcome.accepted.dtype == outcome.next.dtype == mx.int32
    return int(outcome.accepted), int(outcome.next), outcome.chance.tolist()


@given(round_=rounds())
def test_laws(round_):
    drafted, p, q, seed = round_

    accepted, own, chance = judge(drafted, p, q, seed)

    assert 0 <= accepted <= len(drafted)
    assert all(0.0 <= c <= 1.0 for c in chance)  # and no NaN
    assert all(p[i, drafted[i]] > 0 for i in range(accepted))
    assert p[accepted, own] > 0
    if accepted < len(drafted):
        assert chance[accepted] < 1.0
    # Where a longer prefix stands, so does a shorter one.
    assert all(a >= b - 1e-6 for a, b in pairwise(chance))


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
