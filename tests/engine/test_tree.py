"""Trees, against definitions that walk from token to token."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tree import COMMITTED, Tree
from tests.support.engine.trees import random_trees


@st.composite
def paths(draw):
    """A tree, and some path from the committed tokens on."""
    tree = draw(random_trees())
    return tree, tree.path(draw(st.integers(COMMITTED, len(tree) - 1)))


def ancestors(tree, token):
    """A token and those before it, backwards."""
    found = []
    while token != COMMITTED:
        found.append(token)
        token = tree.parents[token]
    return found


@given(random_trees())
def test_a_path_leads_to_its_token(tree):
    for token in range(len(tree)):
        path = tree.path(token)
        assert path[-1] == token
        assert tree.parents[path[0]] == COMMITTED
        assert all(tree.parents[b] == a for a, b in pairwise(path))
        assert tree.depths[token] == len(path) - 1
    assert tree.path(COMMITTED) == ()
    assert tree.height == max(len(tree.path(token)) for token in range(len(tree)))


@given(random_trees())
def test_paths_are_those_that_nothing_stands_behind(tree):
    leaves = [token for token in range(len(tree)) if token not in tree.parents]

    assert [path[-1] for path in tree.paths] == leaves
    assert all(path == tree.path(path[-1]) for path in tree.paths)


@given(random_trees())
def test_before_has_the_tokens_on_the_way(tree):
    for token in range(len(tree)):
        before = [j for j, stands in enumerate(tree.before[token]) if stands]
        assert before == sorted(ancestors(tree, token))


@given(random_trees())
def test_alternatives_have_ranks_in_their_order(tree):
    seen = {}
    for token, parent in enumerate(tree.parents):
        assert tree.ranks[token] == seen.get(parent, 0)
        seen[parent] = seen.get(parent, 0) + 1
        assert tree.children(parent)[tree.ranks[token]] == token
    assert sum(len(tree.children(i)) for i in range(COMMITTED, len(tree))) == len(tree)


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


@given(random_trees(), st.integers(0, 5))
def test_behind_a_chain(tree, count):
    longer = tree.behind(count)

    assert len(longer) == len(tree) + count
    for token in range(count):
        assert longer.path(token) == tuple(range(token + 1))
    for token in range(len(tree)):
        moved = tuple(count + i for i in tree.path(token))
        assert longer.path(count + token) == (*range(count), *moved)


def test_a_token_before_its_parent_is_refused():
    for parents in ((0,), (-1, 1), (-1, 2, 0), (-2,)):
        with pytest.raises(ValueError, match="before its parent"):
            Tree(parents)
