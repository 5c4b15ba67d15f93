"""How many tokens to draft where the user says it, what is copied, and what drafting may lose."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length import LONGEST, DraftCandidate, MeasuredRound, Reason, Why
from engine.draft_length.policy import Fixed, FixedTree, MatchThreshold, RegretBudget
from engine.tree import COMMITTED, Tree
from tests.support.engine.policies import HEAD, MEASURED

WIDE = DraftCandidate("head", LONGEST, alternatives=4)


@given(
    length=st.integers(0, 40),
    mosts=st.lists(st.integers(0, 40), min_size=1, max_size=10),
    measured=MEASURED,
)
def test_fixed_is_fixed(length, mosts, measured):
    policy = Fixed(length)
    for most in mosts:
        choice = policy.choose([HEAD], most=most, context=0)
        assert choice.length == min(length, most, LONGEST)
        assert choice.rounds >= 1
        assert (choice.reason == Reason(Why.OFF)) == (length == 0)
        policy.observe(measured)
        assert policy.choose([HEAD], most=most, context=0) == choice


def lookup(match, most=100):
    return DraftCandidate("lookup", most, match, alternatives=3)


def copied(accepted):
    return MeasuredRound(2, accepted, 0.0, 0.05, drafter="lookup", match=4)


def test_more_is_copied_the_more_matched_and_a_longer_match_is_required_while_copies_fall():
    threshold = MatchThreshold()
    assert [threshold.most(lookup(match)) for match in (1, 2, 3, 5)] == [0, 4, 6, 10]
    assert threshold.most(lookup(5, most=3)) == 3
    assert threshold.most(HEAD) == HEAD.most
    required = [threshold.required]
    while threshold.required < 8:
        threshold.observe(copied(0))
        required.append(threshold.required)
    assert sorted(set(required)) == [2, 4, 8]
    assert required == sorted(required)
    assert (threshold.most(lookup(7)), threshold.most(lookup(8))) == (0, 16)

    threshold.observe(MeasuredRound(3, 0, 0.01, 0.05, drafter="head"))  # not a copy
    while threshold.required > 2:
        threshold.observe(copied(2))
    assert threshold.most(lookup(2)) == 4


@pytest.mark.parametrize("make", [Fixed, FixedTree])
def test_what_passes_is_copied_else_the_next_is_asked_or_a_match_waited_for(make):
    policy = make(6)

    def chosen(*candidates):
        return policy.choose(candidates, most=16, context=0)

    first = chosen(lookup(2), HEAD)
    assert (first.drafter, 0 < first.length <= 4) == ("lookup", True)
    for _ in range(10):
        policy.observe(copied(0))
    second, waiting = chosen(lookup(2), HEAD), chosen(lookup(2))
    assert second.drafter == "head"
    assert (waiting.length, waiting.rounds > 1, waiting.wake) == (0, True, 8)
    policy.restart()
    assert chosen(lookup(2)) == first


def test_a_fixed_tree_has_as_many_tokens_as_there_is_room_for():
    policy = FixedTree(8)
    choice = policy.choose([WIDE], most=16, context=0)
    assert not choice.tree.is_chain
    assert (len(choice.tree), choice.tree.height) == (8, choice.length)
    assert max(choice.tree.ranks) < WIDE.alternatives
    assert (choice.reason.tokens, choice.reason.length) == (8, choice.length)
    assert len(policy.choose([WIDE], most=5, context=0).tree) == 5
    assert policy.choose([WIDE], most=0, context=0).reason == Reason(Why.NO_ROOM)
    flat = policy.choose([replace(WIDE, most=1)], most=16, context=0).tree
    assert (len(flat), flat.height) == (4, 1)
    # Where there are no alternatives, a chain as high.
    tree, chain = (FixedTree(16).choose([each], most=64, context=0) for each in (WIDE, HEAD))
    assert chain.tree is None
    assert chain.length == tree.length < 16


def test_a_fixed_tree_goes_where_tokens_are_accepted():
    policies = [FixedTree(8), FixedTree(8)]
    for policy, tree, path in [
        (policies[0], Tree((-1, 0, 1)), (0, 1, 2)),
        (policies[1], Tree((-1, -1)), (1,)),
    ]:
        counts = len(tree), len(path), 0.01, 0.05
        for _ in range(200):
            policy.observe(MeasuredRound(*counts, drafter="head", tree=tree, path=path))
    policies += [policy.another() for policy in policies]
    trees = [policy.choose([WIDE], most=16, context=0).tree for policy in policies]
    deep, wide, *again = (tree or Tree.chain(8) for tree in trees)
    assert deep.height > wide.height
    assert wide.children(COMMITTED)[:2] == (0, 1)
    assert again == [deep, wide]
    fresh = FixedTree(8).choose([WIDE], most=16, context=0)
    policies[0].restart()
    assert policies[0].choose([WIDE], most=16, context=0) == fresh


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
