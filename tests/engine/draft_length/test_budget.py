"""What drafting may lose, and what a draft is worth: by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length.costs import DraftCosts
from engine.draft_length.options import chains, tree_steps, trees
from engine.draft_length.policy import RegretBudget
from engine.draft_length.trees import best_trees
from engine.tree import Tree

PASSES = [0.02, 0.03, 0.05]


def test_options_by_hand():
    draft = DraftCosts("head", start_seconds=0.004, step_seconds=0.002)
    one, two = chains("head", [0.5, 0.8], PASSES, draft)
    assert (one.drafted, two.drafted) == (1, 2)
    assert one.tokens == pytest.approx(1.5)
    assert two.tokens == pytest.approx(1.9)
    assert one.cost == pytest.approx((0.03 + 0.004 + 0.002) / 0.02)
    assert two.cost == pytest.approx((0.05 + 0.004 + 0.004) / 0.02)
    assert one.gain == pytest.approx(1.5 / 1.8)


def test_a_budget():
    budget = RegretBudget()
    assert budget.wait_for(1.0) == 0
    lost = 0
    while budget.required_gain(parked=True) <= 1.0:
        budget.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 3.0
    assert budget.wait_for(1.0) > 100
    for _ in range(10_000):
        budget.count(1, 1.0)
    for _ in range(1_000):
        budget.count(4, 1.0)  # great gains
    lost = 0
    while budget.required_gain(parked=True) <= 1.0:
        budget.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 5.0  # are not to be gambled away


def test_with_something_saved_a_small_loss_is_borne_and_in_debt_none():
    budget = RegretBudget()
    saved = [budget.required_gain(parked=False)]
    assert 0.85 < saved[0] < budget.required_gain(parked=True) == 1.0
    while saved[-1] <= 1.0:
        budget.count(1, 1.2)
        saved.append(budget.required_gain(parked=False))
    assert saved == sorted(saved)
    assert saved[-1] == budget.required_gain(parked=True)


def test_trees_by_hand():
    draft = DraftCosts("head", start_seconds=0.004, step_seconds=0.002)
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
