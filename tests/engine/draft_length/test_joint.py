"""Joint drafts: when a policy asks for a copy and another draft in one tree, and what it learns."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length import (
    LONGEST,
    DraftCandidate,
    DraftChoice,
    DraftLengthPolicy,
    DraftPart,
    MeasuredRound,
    Why,
)
from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from engine.draft_length.options import DraftOptions, draft_options, joint_options, tree_options
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.draft_length.trees import best_trees
from engine.tree import COMMITTED, Tree, side_by_side
from tests.support.mostly_slow import mostly_slow

COPY = DraftCandidate("suffix", 8, match=3, alternatives=1)
HEAD = DraftCandidate("head", LONGEST, behind=1, alternatives=4)
JOINT = DraftCandidate.joint(COPY, HEAD)
LATER = (0.25, 0.15, 0.1)
ROOM = 64


def flat(rows: int) -> float:
    return 0.05 + 0.0001 * rows


def steep(rows: int) -> float:
    return 0.01 + 0.04 * rows


@dataclass(frozen=True)
class World:
    """The acceptance of the first `copied` token, and of each one that is `copied_on` behind it; of
    those that are `drafted`, and `rescued`, of the first one where that of a copy is rejected."""

    pass_seconds: Callable[[int], float]
    copied: float = 0.5
    copied_on: float = 0.95
    drafted: float = 0.6
    rescued: float = 0.6

    def accepted(self, choice: DraftChoice, chance: np.random.Generator) -> tuple[int, ...]:
        """The accepted path of a draft."""
        alone = DraftPart(choice.drafter, tuple(range(len(choice.shape))))
        parts = parts_of(choice) or (alone,)
        for i, (part, asked) in enumerate(zip(parts, choice.parts or (choice,), strict=True)):
            begins, goes_on = self.rescued if i else self.drafted, self.drafted
            if part.drafter == COPY.drafter:
                begins, goes_on = self.copied, self.copied_on
            if path := _path(asked.shape, begins, goes_on, chance):
                return tuple(part.numbers[token] for token in path)
        return ()


def _path(
    tree: Tree, begins: float, goes_on: float, chance: np.random.Generator
) -> tuple[int, ...]:
    path = [COMMITTED]
    for likely in (begins, *[goes_on] * (tree.height - 1)):
        for token in tree.children(path[-1]):
            rank = tree.ranks[token]
            worth = LATER[rank - 1] * likely / goes_on if rank else likely
            if chance.random() < worth:
                path.append(token)
                break
        else:
            break
    return tuple(path[1:])


def parts_of(choice: DraftChoice) -> tuple[DraftPart, ...]:
    """Where each part's tokens are in the tree."""
    made, start = [], 0
    for part in choice.parts:
        end = start + len(part.shape)
        made.append(DraftPart(part.drafter, tuple(range(start, end))))
        start = end
    return tuple(made)


@dataclass
class Run:
    choices: list[DraftChoice] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds

    @property
    def together(self) -> list[DraftChoice]:
        return [choice for choice in self.choices if choice.parts]


STEP = 0.001


def run(policy: DraftLengthPolicy, world: World, *, joint: bool, tokens: int = 1_000) -> Run:
    """As the loop does. Two rounds of three there is something to copy."""
    chance = np.random.default_rng(0)
    ran = Run()
    while ran.tokens < tokens:
        copies = chance.random() < 2 / 3
        candidates = [*([COPY] if copies else []), HEAD, *([JOINT] if copies and joint else [])]
        choice = policy.choose(candidates, most=ROOM, context=ran.tokens)
        ran.choices.append(choice)
        if not choice.length:
            for _ in range(choice.rounds):
                seconds = world.pass_seconds(1)
                policy.observe(MeasuredRound(0, 0, 0.0, seconds, ran.tokens))
                ran.tokens, ran.seconds = ran.tokens + 1, ran.seconds + seconds
            continue
        path, shape = world.accepted(choice, chance), choice.shape
        drafting = sum(
            STEP * part.length for part in choice.parts or (choice,) if part.drafter == HEAD.drafter
        )
        seconds = world.pass_seconds(len(shape) + 1)
        policy.observe(
            MeasuredRound(
                len(shape),
                len(path),
                drafting,
                seconds,
                ran.tokens,
                drafter=choice.drafter,
                match=0 if choice.drafter == HEAD.drafter else COPY.match,
                tree=None if shape.is_chain else shape,
                path=path,
                parts=parts_of(choice),
            )
        )
        ran.tokens, ran.seconds = ran.tokens + len(path) + 1, ran.seconds + seconds + drafting
    return ran


def calibrated(world: World) -> Automatic:
    rows = (1, 2, 3, 4, 6, 8, 12, 17, 24, 32, 48, 65)
    passes = PassCosts(24, rows, tuple(map(world.pass_seconds, rows)))
    drafts = DraftCosts("suffix", 24, 0.0, 0.0), DraftCosts("head", 24, 0.0, STEP, 1.0)
    return Automatic(Calibration((passes,), drafts))


# Automatic


def test_where_rows_are_dear_nothing_is_as_it_is_not_without() -> None:
    world = World(steep, copied=0.85)
    without, beside = (run(calibrated(world), world, joint=joint) for joint in (False, True))
    assert beside.choices == without.choices
    assert any(choice.length for choice in beside.choices)


def test_where_nothing_is_accepted_the_same_drafters_are_parked() -> None:
    world = World(steep, copied=0.02, drafted=0.02, rescued=0.02)
    without, beside = (run(calibrated(world), world, joint=joint) for joint in (False, True))
    assert beside.choices == without.choices
    assert any(choice.reason.why is Why.PARKED for choice in beside.choices)


@pytest.mark.parametrize("copied", mostly_slow([0.4, 0.6], quick=[0.6]))
def test_where_rows_are_free_both_draft_while_the_copy_is_doubtful(copied: float) -> None:
    world = World(flat, copied=copied)
    without, beside = (run(calibrated(world), world, joint=joint) for joint in (False, True))
    assert len(beside.together) > 0.3 * len(beside.choices)
    assert not without.together
    assert beside.speed > 1.05 * without.speed


def test_a_copy_that_is_nearly_always_right_needs_nobody_beside_it() -> None:
    """Where rows cost something; the copier is not asked what it cannot improve."""
    world = World(lambda rows: 0.05 + 0.001 * rows, copied=0.99)
    run(policy := calibrated(world), world, joint=True)
    settled = run(policy, world, joint=True)
    assert len(settled.together) < 0.1 * len(settled.choices)


def test_others_that_fail_where_the_copy_does_are_given_up() -> None:
    """Both may have one fault: then what is expected beside a copy is not accepted."""
    world = World(lambda rows: 0.05 + 0.003 * rows, rescued=0.02)
    policy = calibrated(world)
    begun = run(policy, world, joint=True)
    settled = run(policy, world, joint=True)
    assert policy.acceptance.share_of_trees(JOINT.drafter) < 0.6
    assert len(settled.together) < len(begun.together)
    assert settled.speed > 0.97 * run(calibrated(world), world, joint=False).speed


def test_a_joint_round_teaches_what_was_tried_first_and_what_stood_beside_it() -> None:
    world = World(flat, copied=0.3)
    policy = calibrated(world)
    choice = next(
        choice
        for _ in range(100)
        if (choice := policy.choose([COPY, HEAD, JOINT], most=ROOM, context=0)).parts
    )
    before = policy.acceptance.to_json()
    tree, parts = choice.tree, parts_of(choice)
    assert tree is not None
    path = tree.path(parts[1].numbers[0])
    policy.observe(
        MeasuredRound(
            len(tree), 1, 0.05, 0.05, 0, JOINT.drafter, 3, tree=tree, path=path, parts=parts
        )
    )
    after = policy.acceptance.to_json()
    assert after["copied"]["suffix"] != before["copied"]["suffix"]
    assert after["drafted"] == before["drafted"]
    assert after["trees"][JOINT.drafter] != before["trees"][JOINT.drafter]
    # Slow drafting was the head's, and no drafter of the joint name has any cost.
    slow = policy.costs.draft("head", context=0, tree=not choice.parts[1].shape.is_chain)
    policy.observe(
        MeasuredRound(
            len(tree), 1, 0.05, 0.05, 0, JOINT.drafter, 3, tree=tree, path=path, parts=parts
        )
    )
    slower = policy.costs.draft("head", context=0, tree=not choice.parts[1].shape.is_chain)
    assert slower.step_seconds > slow.step_seconds
    assert not policy.costs.knows(JOINT.drafter)


def test_what_is_parked_is_not_read_for_a_joint_candidate() -> None:
    world = World(steep, copied=0.02, drafted=0.02)
    policy = calibrated(world)
    run(policy, world, joint=True)
    far = replace(HEAD, behind=100_000)
    candidates = [COPY, far, DraftCandidate.joint(COPY, far)]
    assert not policy.worth_reading(candidates, context=0)


# Options


@given(
    copied=st.lists(st.floats(0.05, 0.95), min_size=1, max_size=8),
    drafted=st.lists(st.floats(0.05, 0.95), min_size=1, max_size=8),
    share=st.floats(0.2, 2.0),
)
def test_what_both_are_expected_to_bring(
    copied: list[float], drafted: list[float], share: float
) -> None:
    passes = [1.0 + 0.1 * rows for rows in range(33)]
    free, slow = DraftCosts("suffix", 0, 0.0, 0.0), DraftCosts("head", 0, 0.1, 0.2)
    copy = DraftOptions(draft_options("suffix", copied, passes, free), [])
    trees = tree_options("head", best_trees(drafted, LATER, most=16), passes, slow)
    head = DraftOptions(draft_options("head", drafted, passes, slow), trees)
    made = joint_options(JOINT.drafter, copy, head, passes, share=share)
    assert [each.drafted for each in made] == sorted({each.drafted for each in made})
    for each in made:
        one, two = each.parts
        assert each.drafted == one.drafted + two.drafted < len(passes)
        assert each.tree is not None
        shapes = [Tree.chain(one.drafted), two.tree or Tree.chain(two.length)]
        assert each.tree == side_by_side(shapes)
        assert each.length == each.tree.height
        beside = (1.0 - copied[0]) * share * (two.tokens - 1.0)
        assert each.tokens == pytest.approx(one.tokens + beside)
        drafting = two.cost - passes[two.drafted] / passes[0]
        assert each.cost == pytest.approx(passes[each.drafted] / passes[0] + drafting)
        divided = [
            other for other in made if other.drafted == each.drafted and other.gain > each.gain
        ]
        assert not divided


# Where a person says it


def test_a_fixed_length_is_drafted_by_one() -> None:
    choice = Fixed(4).choose([JOINT, HEAD], most=ROOM, context=0)
    assert (choice.drafter, choice.parts, choice.tree) == ("head", (), None)


@pytest.mark.parametrize("size", [2, 3, 8, 32])
def test_a_fixed_tree_is_divided(size: int) -> None:
    choice = FixedTree(size).choose([COPY, HEAD, JOINT], most=ROOM, context=0)
    copy, head = choice.parts
    assert (choice.drafter, copy.drafter, head.drafter) == ("suffix+head", "suffix", "head")
    assert choice.tree == side_by_side([copy.shape, head.shape])
    assert len(choice.shape) == choice.reason.tokens == size
    assert 1 <= copy.length <= 2 * COPY.match
    assert copy.tree is None


def test_a_fixed_tree_of_one_token_and_one_without_a_copy_are_by_one_drafter() -> None:
    for size, candidates in [(1, [COPY, HEAD, JOINT]), (8, [HEAD])]:
        choice = FixedTree(size).choose(candidates, most=ROOM, context=0)
        assert (choice.parts, choice.drafter) == ((), candidates[0].drafter)


def joint_round(
    policy: FixedTree, copy: DraftCandidate = COPY, *, copied: int = 0, beside: int = 0
) -> DraftChoice:
    """One round in which so many tokens were accepted of the copy, or beside it."""
    candidates = [copy, HEAD, DraftCandidate.joint(copy, HEAD)]
    choice = policy.choose(candidates, most=ROOM, context=0)
    if choice.parts:
        parts = parts_of(choice)
        part, count = (parts[0], copied) if copied else (parts[1], beside)
        count = min(count, len(part.numbers))
        path = choice.shape.path(part.numbers[count - 1]) if count else ()
        policy.observe(
            MeasuredRound(
                len(choice.shape),
                len(path),
                0.01,
                0.05,
                drafter=choice.drafter,
                match=copy.match,
                tree=choice.tree,
                path=path,
                parts=parts,
            )
        )
    return choice


def test_a_fixed_tree_goes_to_who_is_right() -> None:
    policies, surest = (FixedTree(8), FixedTree(8)), replace(COPY, match=8)
    for policy, copied in zip(policies, (1, 6), strict=True):
        for _ in range(12):
            joint_round(policy, surest, copied=copied)
    poor, good = (joint_round(policy, surest) for policy in policies)
    assert len(poor.parts[0].shape) < len(good.parts[0].shape)


def test_a_fixed_tree_is_the_others_where_copies_are_rejected() -> None:
    policy = FixedTree(8)
    for _ in range(40):
        joint_round(policy, beside=1)
    assert joint_round(policy).drafter == "head"


# A joint choice


@given(st.integers(1, 9), st.integers(0, 20))
def test_within_a_room_the_parts_are_still_the_tree(copied: int, room: int) -> None:
    head = DraftChoice(2, drafter="head", tree=Tree((-1, 0, -1, 1)))
    parts = [DraftChoice(copied, drafter="suffix"), head]
    whole = DraftChoice.joint(parts, reason=head.reason, drafter="suffix+head")
    choice = whole.within(room)
    assert len(choice.shape) == min(room, copied + 4)
    assert choice.length == choice.shape.height
    if room <= copied:
        assert choice.parts == ()
        assert room == 0 or choice.drafter == "suffix"
    else:
        assert choice.drafter == "suffix+head"
        assert choice.tree == side_by_side([part.shape for part in choice.parts])
