"""What a draft is worth: by hand, and the best trees against all of as many tokens."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length.costs import DraftCosts
from engine.draft_length.options import chains, tree_steps, trees
from engine.draft_length.trees import best_trees
from engine.tree import COMMITTED, Tree

FEW = 5


def expected_tokens(tree, first, others):
    """By definition: every token's chance to be accepted, and the target's own token. A later
    alternative is no likelier than the one before it, but at most as likely."""
    worths = []
    for token, parent in enumerate(tree.parents):
        reached = 1.0 if parent == COMMITTED else worths[parent]
        share, left = first[tree.depths[token]], 1.0
        for chance in others[: tree.ranks[token]]:
            left -= share
            share = min(left * chance, share)
        worths.append(reached * share)
    return 1.0 + sum(worths)


def all_trees(tokens, *, height, width):
    for parents in product(*(range(-1, i) for i in range(tokens))):
        tree = Tree(parents)
        if tree.height <= height and max(tree.ranks) < width:
            yield tree


chances = st.floats(0.005, 0.995)


@given(
    first=st.lists(chances, min_size=1, max_size=4),
    others=st.lists(chances, max_size=3),
)
def test_no_tree_of_as_many_tokens_is_better(first, others):
    best = best_trees(first, others, most=FEW)
    for tokens in range(1, len(best.tree) + 1):
        trees = all_trees(tokens, height=len(first), width=len(others) + 1)
        most = max(expected_tokens(tree, first, others) for tree in trees)
        assert best.tokens[tokens] == pytest.approx(most)
        own = expected_tokens(best.tree.first(tokens), first, others)
        assert own == pytest.approx(best.tokens[tokens])


def test_options_by_hand():
    draft, passes = DraftCosts("head", start_seconds=0.004, step_seconds=0.002), [0.02, 0.03, 0.05]
    one, two = chains("head", [0.5, 0.8], passes, draft)
    assert (one.drafted, two.drafted) == (1, 2)
    assert (one.tokens, two.tokens) == pytest.approx((1.5, 1.9))
    assert one.cost == pytest.approx((0.03 + 0.004 + 0.002) / 0.02)
    assert two.cost == pytest.approx((0.05 + 0.004 + 0.004) / 0.02)
    assert one.gain == pytest.approx(1.5 / 1.8)

    best = best_trees([0.6, 0.5], [0.5], most=6)  # parents (-1, 0, -1, 0, 2, 2)
    passes = [0.02, 0.024, 0.03, 0.035, 0.04, 0.045, 0.05]
    assert tree_steps(best.tree, passes) == pytest.approx(1 + 0.024 / 0.02)  # two are read at once
    assert tree_steps(best.tree.first(4), passes) == pytest.approx(2)
    options = trees("head", best, passes, draft)
    assert [option.drafted for option in options] == [3, 4, 5, 6]  # the smaller ones are chains
    needing = trees("head", best, passes, draft, least=5)
    assert [option.drafted for option in needing] == [5, 6]
    three = options[0]
    assert three.tree == best.tree.first(3)
    assert three.tokens == pytest.approx(2.1)
    assert three.cost == pytest.approx((0.035 + 0.004 + 2 * 0.002) / 0.02)
    assert three.alike(options[0])
    assert not three.alike(options[1])
    assert not three.alike(chains("head", [0.5] * 3, passes, draft)[2])


@given(parents=st.lists(st.integers(-1, 30), min_size=1, max_size=30))
def test_a_tree_takes_no_fewer_steps_than_its_height(parents):
    tree = Tree(tuple(min(parent, i - 1) for i, parent in enumerate(parents)))
    assert tree_steps(tree, [1.0] * (len(tree) + 1)) == pytest.approx(tree.height)
    one_by_one = [float(rows) for rows in range(1, len(tree) + 2)]
    assert tree_steps(tree, one_by_one) == pytest.approx(len(set(tree.parents)))
