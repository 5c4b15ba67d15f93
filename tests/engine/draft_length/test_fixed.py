"""How many tokens to draft where a person says it: `Fixed`, `FixedTree`, and what is copied."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length import LONGEST, DraftCandidate, MeasuredRound, Reason, Why
from engine.draft_length.policy import Fixed, FixedTree, MatchThreshold
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
        policy.observe(measured)
        assert policy.choose([HEAD], most=most, context=0) == choice


def test_fixed_at_zero_says_so():
    assert Fixed(0).choose([HEAD], most=10, context=0).reason == Reason(Why.OFF)


def lookup(match, most=100):
    return DraftCandidate("lookup", most, match)


def copied(accepted, *, proposed=2):
    return MeasuredRound(proposed, accepted, 0.0, 0.05, drafter="lookup", match=4)


def test_more_is_copied_the_more_matched():
    threshold = MatchThreshold()
    assert [threshold.most(lookup(match)) for match in (1, 2, 3, 5)] == [0, 4, 6, 10]
    assert threshold.most(lookup(5, most=3)) == 3
    assert threshold.most(HEAD) == HEAD.most


def test_a_longer_match_is_required_while_copies_fall():
    threshold = MatchThreshold()
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


def test_fixed_copies_what_passes_and_else_asks_the_next():
    policy = Fixed(6)
    candidates = [lookup(2), HEAD]
    first = policy.choose(candidates, most=16, context=0)
    assert (first.length, first.drafter) == (4, "lookup")
    for _ in range(10):
        policy.observe(copied(0))
    second = policy.choose(candidates, most=16, context=0)
    assert (second.length, second.drafter) == (6, "head")


def test_a_fixed_tree_has_as_many_tokens_as_there_is_room_for():
    policy = FixedTree(8)
    choice = policy.choose([WIDE], most=16, context=0)
    assert not choice.tree.is_chain
    assert (len(choice.tree), choice.tree.height) == (8, choice.length)
    assert max(choice.tree.ranks) < WIDE.alternatives
    assert (choice.reason.tokens, choice.reason.length) == (8, choice.length)
    little = policy.choose([WIDE], most=5, context=0).tree
    assert little is not None
    assert len(little) == 5
    assert policy.choose([WIDE], most=0, context=0).reason == Reason(Why.NO_ROOM)
    flat_ = policy.choose([replace(WIDE, most=1)], most=16, context=0).tree
    assert (len(flat_), flat_.height) == (4, 1)


def test_a_fixed_tree_is_a_chain_as_high_where_there_are_no_alternatives():
    tree, chain = (FixedTree(16).choose([each], most=64, context=0) for each in (WIDE, HEAD))
    assert chain.tree is None
    assert chain.length == tree.length < 16


def test_a_fixed_tree_goes_where_tokens_are_accepted():
    policies = [FixedTree(8), FixedTree(8)]
    for policy, path in zip(policies, [(0, 1, 2), (1,)], strict=True):
        for _ in range(200):
            shape = Tree((-1, 0, 1)) if len(path) == 3 else Tree((-1, -1))
            policy.observe(
                MeasuredRound(
                    len(shape), len(path), 0.01, 0.05, drafter="head", tree=shape, path=path
                )
            )
    policies += [policy.another() for policy in policies]
    trees = [policy.choose([WIDE], most=16, context=0).tree for policy in policies]
    deep, wide, *again = (tree or Tree.chain(8) for tree in trees)
    assert deep.height > wide.height
    assert wide.children(COMMITTED)[:2] == (0, 1)
    assert again == [deep, wide]
    policies[0].restart()
    assert policies[0].choose([WIDE], most=16, context=0) == FixedTree(8).choose(
        [WIDE], most=16, context=0
    )


def test_a_fixed_tree_copies_what_passes_and_else_asks_the_next():
    policy = FixedTree(8)
    candidates = [replace(lookup(2), alternatives=3), HEAD]
    first = policy.choose(candidates, most=16, context=0)
    assert (first.drafter, first.length <= 4) == ("lookup", True)
    for _ in range(10):
        policy.observe(copied(0))
    assert policy.choose(candidates, most=16, context=0).drafter == "head"
    waiting = policy.choose([lookup(2)], most=16, context=0)
    assert (waiting.length, waiting.wake) == (0, 8)


def test_fixed_waits_for_a_match():
    policy = Fixed(6)
    for _ in range(5):
        policy.observe(copied(0))
    waiting = policy.choose([lookup(2)], most=16, context=0)
    assert waiting.length == 0
    assert waiting.rounds > 1
    assert waiting.wake == 4
    policy.restart()
    assert policy.choose([lookup(2)], most=16, context=0).length == 4
