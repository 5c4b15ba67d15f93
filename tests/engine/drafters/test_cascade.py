"""Joint drafts: what each drafter has in the tree, what it is told, what is committed."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import mlx.core as mx
import mlx.nn as nn
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length import DraftCandidate, DraftChoice, DraftPart, Reason, Why
from engine.draft_length.policy import Fixed, FixedTree
from engine.drafters import DraftArrays, Drafter
from engine.drafters.cascade import Cascade
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.recycling import RecyclingDrafter
from engine.request import Sampling
from engine.tree import COMMITTED, Tree
from tests.support.engine.copying import Copying
from tests.support.engine.heads import untrained_drafter
from tests.support.engine.helpers import (
    GREEDY,
    PROMPT,
    Known,
    assert_as_fresh,
    decoder,
    now_and_then,
    plainly,
    task,
    up_to,
    write,
)
from tests.support.engine.tiny import noisy, shallow
from tests.support.engine.trees import Guessing, random_trees
from tests.support.mostly_slow import mostly_slow

KEY = mx.random.key(0)
HOT = Sampling(temperature=0.8)
FORKED = Tree((-1, 0, -1, 0))


class Fixture(Drafter):
    """Proposes always the same, and notes what it is asked and told."""

    def __init__(self, name: str, draft: DraftArrays | None, *, match: int = 0) -> None:
        self.name, self.learns = name, 1
        self._draft, self._match = draft, match
        self.asked: list[DraftChoice] = []
        self.paths: list[tuple[int, ...]] = []
        self.lessons: list[tuple[list[int], list[list[int]]]] = []

    def prepare(self, tokens: list[int]) -> Sequence[int]:  # type: ignore[override]
        return ()

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return (DraftCandidate(self.name, 8, self._match, behind=2, alternatives=3),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        self.asked.append(choice)
        return self._draft

    def learn(self, tokens: list[int], likeliest: list[list[int]]) -> None:
        self.lessons.append((tokens, likeliest))

    def accept(self, path: Sequence[int]) -> None:
        self.paths.append(tuple(path))

    def rewind(self, length: int) -> None:
        pass


def drafted(
    name: str, ids: Sequence[int], *, tree: Tree | None = None, rows: mx.array | None = None
) -> DraftArrays:
    """Certain, where there are no `rows`."""
    tokens = mx.array(list(ids), dtype=mx.int32)
    q = mx.ones(tokens.shape) if rows is None else mx.full(tokens.shape, 0.5)
    copied = tuple(ids) if name == "copy" else ()
    match = 5 if name == "copy" else 0
    return DraftArrays(tokens, q, rows, name, match=match, copied=copied, tree=tree)


def both(copied: int = 3, tree: Tree = FORKED) -> DraftChoice:
    parts = [DraftChoice(copied, drafter="copy"), DraftChoice(2, drafter="head", tree=tree)]
    return DraftChoice.joint(parts, reason=Reason(Why.FIXED), drafter="copy+head")


def cascade(copy: DraftArrays | None, head: DraftArrays | None) -> tuple[Cascade, list[Fixture]]:
    drafters = [Fixture("copy", copy, match=5), Fixture("head", head)]
    return Cascade(*drafters), drafters


def test_a_copy_and_another_can_draft_jointly() -> None:
    joint, _ = cascade(None, None)
    copy, head, together = joint.candidates([1, 2])
    assert (copy.parts, head.parts) == ((), ())
    assert together == DraftCandidate(
        "copy+head", 8, 5, behind=4, alternatives=4, parts=(copy, head)
    )
    heads = Cascade(Fixture("a", None), Fixture("b", None))
    assert not any(each.parts for each in heads.candidates([1, 2]))
    copies = Cascade(Fixture("a", None, match=2), Fixture("b", None, match=2))
    assert not any(each.parts for each in copies.candidates([1, 2]))


def test_certain_guesses_that_begin_alike_are_one() -> None:
    joint, (copy, head) = cascade(
        drafted("copy", [7, 8, 9]), drafted("head", [7, 5, 6, 8], tree=FORKED)
    )
    draft = joint.propose([1, 2], both(), GREEDY, KEY)
    assert draft is not None
    assert draft.tokens.tolist() == [7, 8, 9, 5, 6]
    assert draft.tree == Tree((-1, 0, 1, 0, -1))
    assert draft.parts == (DraftPart("copy", (0, 1, 2)), DraftPart("head", (0, 3, 4, 1)))
    assert (draft.drafter, draft.match, draft.copied) == ("copy+head", 5, ())
    assert draft.distributions is None
    assert [each.drafter for each in copy.asked + head.asked] == ["copy", "head"]

    joint.accept((0, 1))
    assert (copy.paths, head.paths) == ([(0, 1)], [(0, 3)])


def test_what_is_drawn_stays_by_itself() -> None:
    rows = mx.softmax(mx.random.normal((4, 12), key=KEY), axis=-1)
    joint, (copy, head) = cascade(
        drafted("copy", [7, 8, 9]), drafted("head", [7, 5, 6, 8], tree=FORKED, rows=rows)
    )
    draft = joint.propose([1, 2], both(), HOT, KEY)
    assert draft is not None
    assert draft.tokens.tolist() == [7, 8, 9, 7, 5, 6, 8]
    assert draft.tree == Tree((-1, 0, 1, -1, 3, -1, 3))
    assert draft.q.tolist() == [1.0] * 3 + [0.5] * 4
    assert draft.distributions is not None
    assert mx.array_equal(draft.distributions[:3], mx.eye(12)[mx.array([7, 8, 9])])
    assert mx.array_equal(draft.distributions[3:], rows)
    assert head.asked[0].tried == (7,)

    joint.accept((3, 4))
    assert (copy.paths, head.paths) == ([()], [(0, 1)])


def test_confidence_stands_beside_the_probability_of_a_copy() -> None:
    head = replace(drafted("head", [5]), confidence=mx.array([0.25]))
    joint, _ = cascade(drafted("copy", [7, 8]), head)
    draft = joint.propose([1, 2], both(2, Tree.chain(1)), GREEDY, KEY)
    assert draft is not None
    assert draft.confidence is not None
    assert draft.confidence.tolist() == [1.0, 1.0, 0.25]


@pytest.mark.parametrize("silent", ["copy", "head"])
def test_where_one_has_nothing_the_other_drafts_alone(silent: str) -> None:
    drafts = {name: drafted(name, [5, 6]) for name in ("copy", "head") if name != silent}
    joint, drafters = cascade(drafts.get("copy"), drafts.get("head"))
    draft = joint.propose([1, 2], both(), GREEDY, KEY)
    assert draft is not None
    assert (draft.drafter, draft.parts) == (*drafts, ())
    joint.accept((0,))
    assert {each.name: each.paths for each in drafters} == {silent: [], draft.drafter: [(0,)]}

    nobody, _ = cascade(None, None)
    assert nobody.propose([1, 2], both(), GREEDY, KEY) is None


def test_each_learns_as_if_its_tokens_were_the_last() -> None:
    joint, (copy, head) = cascade(
        drafted("copy", [7, 8]), drafted("head", [7, 5, 6, 8], tree=FORKED)
    )
    draft = joint.propose([1, 2], both(2), GREEDY, KEY)
    assert draft is not None
    assert draft.tokens.tolist() == [7, 8, 5, 6]
    joint.learn([1, 2, 7, 8, 5, 6], [[i, 0] for i in range(6)])
    assert copy.lessons == [([1, 2, 5, 6, 7, 8], [[0], [1], [4], [5], [2], [3]])]
    assert head.lessons == [([1, 2, 7, 5, 6, 8], [[0], [1], [2], [4], [5], [3]])]

    joint.accept(())
    joint.learn([3], [[9]])
    assert copy.lessons[1:] == head.lessons[1:] == [([3], [[9]])]


def test_a_cascade_in_a_cascade_stands_for_its_drafters() -> None:
    """A prediction in front of several drafters is not asked for what one of them was chosen."""
    inner, (_, head) = cascade(None, drafted("head", [5]))
    front = Fixture("front", drafted("front", [9]), match=32)
    outer = Cascade(front, inner)
    assert outer.name == "front+copy+head"
    draft = outer.propose([1, 2], up_to(1, drafter="head"), GREEDY, KEY)
    assert draft is not None
    assert (draft.drafter, len(head.asked), front.asked) == ("head", 1, [])
    assert outer.candidates([1, 2])[-1].drafter == "front+head"


# What of an accepted path is whose


@st.composite
def two_drafts(draw: st.DrawFn) -> tuple[DraftArrays, DraftArrays]:
    """A chain and a tree, in which no two alternatives are alike, of few tokens."""
    ids = st.integers(0, 5)
    chain = draw(st.lists(ids, min_size=1, max_size=4))
    tree = draw(random_trees(most=8).filter(lambda tree: max(tree.ranks) < 5))
    first = draw(st.lists(ids, min_size=len(tree), max_size=len(tree)))
    families = {parent: first[tree.children(parent)[0]] for parent in tree.parents}
    tokens = [
        (families[parent] + rank) % 6 for parent, rank in zip(tree.parents, tree.ranks, strict=True)
    ]
    return drafted("copy", chain), drafted("head", tokens, tree=tree)


@given(two_drafts(), st.booleans(), st.data())
def test_each_accepts_its_own_part_of_a_path(
    drafts: tuple[DraftArrays, DraftArrays], drawn: bool, data: st.DataObject
) -> None:
    copied, tree = drafts
    if drawn:
        tree = replace(tree, distributions=mx.ones((tree.tokens.size, 6)) / 6)
    joint, drafters = cascade(copied, tree)
    choice = both(copied.tokens.size, tree.shape)
    draft = joint.propose([1, 2], choice, HOT if drawn else GREEDY, KEY)
    assert draft is not None
    ids = draft.tokens.tolist()
    path = draft.shape.path(data.draw(st.integers(COMMITTED, len(ids) - 1)))

    joint.accept(path)

    text = [ids[i] for i in path]
    for each, part in zip(drafters, (copied, tree), strict=True):
        (own,) = each.paths
        own_ids = part.tokens.tolist()
        parents = [part.shape.parents[i] for i in own]
        assert parents == [COMMITTED, *own][: len(own)]
        assert [own_ids[i] for i in own] == text[: len(own)]
        if not drawn and len(own) < len(path):  # it did not propose what came next
            behind = part.shape.children(own[-1] if own else COMMITTED)
            assert text[len(own)] not in [own_ids[i] for i in behind]
    lengths = [len(each.paths[0]) for each in drafters]
    assert max(lengths) == len(path)
    if drawn:
        assert sorted(lengths) == [0, len(path)]


# In the loop


def copying(text: Sequence[int], seed: int) -> Copying:
    return Copying([*PROMPT, *text], wrong=now_and_then(seed), silent=now_and_then(seed + 50))


OTHERS = ("model", "early-exit", "head", "lookahead", "recycling", "tree")


@cache
def told(architecture: str = "llama") -> tuple[nn.Module, list[int]]:
    """A target, and what it writes."""
    model = shallow(architecture)
    return model, plainly(model, count=40, block=64)


@pytest.mark.parametrize(
    ("architecture", "other"),
    mostly_slow(
        product(("llama", "gemma3_text"), OTHERS),
        quick=[("llama", "model"), ("gemma3_text", "head")],
    ),
)
def test_jointly_they_write_what_the_target_writes(architecture: str, other: str) -> None:
    """And target and drafter hold afterwards what was committed."""
    model, text = told(architecture)
    own = decoder(noisy(model), block=64)
    shared = 0
    for seed in range(2):
        target, tokens = decoder(model, block=64), list(PROMPT)
        others: dict[str, Drafter] = {
            "lookahead": LookaheadDrafter(),
            "recycling": RecyclingDrafter(),
            "tree": Guessing([*PROMPT, *text], seed=seed, wrong=now_and_then(seed + 9)),
        }
        match other:
            case "model":
                others[other] = ModelDrafter(own, vocabulary=64)
            case "early-exit":
                others[other] = EarlyExitDrafter(target, layers=len(model.layers) - 1)
            case "head":
                others[other] = untrained_drafter(target)
        drafter = Cascade(copying(text, seed), others[other])
        run = write(target, drafter, FixedTree(8), tokens, task(40))
        assert run.tokens == text
        assert_as_fresh(target, tokens, decoder(model, block=64))
        if other == "model":
            assert_as_fresh(own, tokens, decoder(noisy(model), block=64))
            own = decoder(noisy(model), block=64)
        guesses = [guess for guess, _ in run.rounds if guess]
        shared += sum("+" in guess.drafter and bool(guess.parents) for guess in guesses)
    assert shared > 6


def test_both_have_tokens_accepted() -> None:
    model, text = told()
    second = Guessing([*PROMPT, *text], seed=1)
    copy = Copying([*PROMPT, *text], wrong=now_and_then(1))
    run = write(
        decoder(model, block=64), Cascade(copy, second), FixedTree(8), list(PROMPT), task(40)
    )
    assert run.tokens == text
    assert len(copy.settled) == len(second.paths) == sum(bool(guess) for guess, _ in run.rounds)
    assert max(copy.settled) > 0
    assert any(path and not told for path, told in zip(second.paths, copy.settled, strict=True))


@pytest.mark.parametrize("architecture", ["llama", "qwen3_5"])
def test_jointly_only_where_the_target_reads_trees(architecture: str) -> None:
    model, text = told(architecture)
    target = decoder(model)
    drafter = Cascade(copying(text, 1), Known([*PROMPT, *text]))
    run = write(target, drafter, FixedTree(8), list(PROMPT), task(40))
    assert run.tokens == text
    together = any("+" in guess.drafter for guess, _ in run.rounds if guess)
    assert together == target.branches == (architecture == "llama")


def test_a_fixed_length_is_a_chain_of_one_of_them() -> None:
    model, text = told()
    drafter = Cascade(copying(text, 1), Known([*PROMPT, *text]))
    run = write(decoder(model), drafter, Fixed(4), list(PROMPT), task(40))
    assert run.tokens == text
    assert {guess.drafter for guess, _ in run.rounds if guess} == {"copy", "known"}
