"""Trees, against definitions that walk from token to token."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tree import COMMITTED, Tree
from tests.support.engine.trees import random_trees


@given(random_trees())
def test_a_tree_knows_what_walking_from_token_to_token_finds(tree):
    seen = {}
    for token, parent in enumerate(tree.parents):
        path = tree.path(token)
        assert (path[-1], tree.parents[path[0]]) == (token, COMMITTED)
        assert all(tree.parents[b] == a for a, b in pairwise(path))
        assert tree.depths[token] == len(path) - 1
        assert [j for j, stands in enumerate(tree.before[token]) if stands] == list(path)
        assert tree.ranks[token] == seen.get(parent, 0)
        seen[parent] = seen.get(parent, 0) + 1
        assert tree.children(parent)[tree.ranks[token]] == token
    assert tree.path(COMMITTED) == ()
    assert tree.height == max(len(tree.path(token)) for token in range(len(tree)))
    assert sum(len(tree.children(i)) for i in range(COMMITTED, len(tree))) == len(tree)
    leaves = [token for token in range(len(tree)) if token not in tree.parents]
    assert tree.paths == tuple(map(tree.path, leaves))


@st.composite
def paths(draw):
    """A tree, and some path from the committed tokens on."""
    tree = draw(random_trees())
    return tree, tree.path(draw(st.integers(COMMITTED, len(tree) - 1)))


@given(paths(), st.booleans())
def test_what_is_judged_and_not_accepted_is_rejected(accepted, ended):
    tree, path = accepted

    rejected = tree.rejected(path, ended=ended)

    for token, parent in enumerate(tree.parents):
        reached = parent == COMMITTED or parent in path
        if ended and path and parent == path[-1]:
            reached = False
        assert (token in rejected) == (reached and token not in path)
    assert list(rejected) == sorted(set(rejected))


def test_a_token_before_its_parent_is_refused():
    for parents in ((0,), (-1, 1), (-1, 2, 0), (-2,)):
        with pytest.raises(ValueError, match="parent"):
            Tree(parents)
