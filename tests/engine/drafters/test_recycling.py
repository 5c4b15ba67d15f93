"""Token recycling: which successors fill a tree, what is kept of them, and that no text changes."""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.drafters.recycling
from engine.draft_length import DraftChoice
from engine.draft_length.policy import Fixed, FixedTree
from engine.drafters import DraftArrays, NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.lookup import LookupDrafter
from engine.drafters.recycling import RecyclingDrafter
from engine.request import Sampling
from engine.tree import Tree
from tests.support.engine.helpers import PROMPT, assert_as_fresh, decoder, task, up_to, write
from tests.support.engine.tiny import shallow

WARM = Sampling(temperature=0.8, repeatable=True)


def draft(drafter: RecyclingDrafter, tokens: list[int], choice: DraftChoice) -> DraftArrays | None:
    return drafter.propose(tokens, choice, Sampling(), mx.random.key(0))


def of(tree: Tree) -> DraftChoice:
    return DraftChoice(tree.height, tree=tree)


def proposed(
    drafter: RecyclingDrafter, tokens: list[int], choice: DraftChoice
) -> tuple[list[int], tuple[int, ...]] | None:
    """The draft's tokens and their parents."""
    made = draft(drafter, tokens, choice)
    if made is None:
        return None
    assert made.distributions is None
    assert made.q.tolist() == [1.0] * len(made.copied)
    assert list(made.copied) == made.tokens.tolist()
    return made.tokens.tolist(), made.shape.parents


def test_a_tree_is_filled_by_ranks() -> None:
    drafter = RecyclingDrafter()
    drafter.learn([1, 2, 3], [[2, 3, 4], [5, 6, 7], [8, 9, 1]])
    shape = Tree((-1, -1, 0, 0, 1, 2))
    # Nothing is known behind a 5: what would stand there is left out.
    assert proposed(drafter, [1], of(shape)) == ([2, 3, 5, 6, 8], (-1, -1, 0, 0, 1))
    assert proposed(drafter, [1], up_to(4)) == ([2, 5], (-1, 0))
    assert proposed(drafter, [4], of(shape)) is None


def test_alternatives_that_are_missing_leave_no_gap() -> None:
    drafter = RecyclingDrafter()
    drafter.learn([1, 2], [[7, 2], [1]])
    shape = Tree((-1, 0, -1, -1, 2, 4, 2))
    assert proposed(drafter, [1], of(shape)) == ([7, 2, 1, 7], (-1, -1, 1, 2))


def test_the_last_pass_counts() -> None:
    drafter = RecyclingDrafter()
    drafter.learn([1, 1], [[2], [3]])
    assert proposed(drafter, [1], up_to(1)) == ([3], (-1,))


def test_what_followed_in_the_text_comes_first() -> None:
    drafter = RecyclingDrafter()
    assert proposed(drafter, [1, 2, 1, 3, 1], of(Tree((-1, -1, 1)))) == ([3, 2, 1], (-1, -1, 1))
    drafter.learn([1], [[2, 3, 4]])
    assert proposed(drafter, [1, 2, 1, 3, 1], of(Tree((-1, -1)))) == ([2, 3], (-1, -1))
    assert proposed(drafter, [1, 2, 1, 3, 1, 4, 1], of(Tree((-1, -1)))) == ([4, 2], (-1, -1))


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.drafters.recycling, "_TOKENS", 10)
    drafter = RecyclingDrafter()
    drafter.learn(list(range(40)), [[7]] * 40)
    known = [token for token in range(40) if proposed(drafter, [token], up_to(1))]
    assert known == list(range(30, 40))


def test_another_conversation_begins_with_nothing() -> None:
    drafter = RecyclingDrafter()
    drafter.learn([1], [[2]])
    other = drafter.beside(decoder(shallow("llama")))
    assert isinstance(other, RecyclingDrafter)
    assert proposed(other, [1], up_to(1)) is None
    drafter.rewind(0)
    assert proposed(drafter, [1], up_to(1)) == ([2], (-1,))


IDS = st.lists(st.integers(0, 4), min_size=1, max_size=5)
SHAPES = st.lists(st.integers(0, 20), min_size=1, max_size=20).map(
    lambda picks: Tree(tuple(pick % (i + 1) - 1 for i, pick in enumerate(picks)))
)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("round"), IDS, SHAPES),
            st.tuples(st.just("rewind"), st.integers(1, 20)),
        ),
        max_size=10,
    )
)
def test_any_sequence_gives_sound_drafts(steps: list[tuple[object, ...]]) -> None:
    drafter, tokens = RecyclingDrafter(), [0]
    for _, *rest in steps:
        if isinstance(rest[0], int):
            tokens = tokens[: rest[0]]
            drafter.rewind(len(tokens))
            continue
        written, shape = rest
        assert isinstance(written, list)
        assert isinstance(shape, Tree)
        made = proposed(drafter, tokens, of(shape)) or ([], ())
        ids, parents = made
        assert len(ids) <= len(shape)
        assert Tree(parents).height <= shape.height
        assert len(set(zip(ids, parents, strict=True))) == len(ids), "tried twice"
        rows = [tokens[-1], *ids]
        drafter.learn(rows, [[(row + i) % 5, (row + i + 2) % 5] for i, row in enumerate(rows)])
        drafter.accept(())
        tokens = tokens + written


# Through the loop


@pytest.mark.parametrize(
    ("architecture", "sampling"), [("llama", WARM), ("gemma3_text", Sampling())]
)
def test_what_is_written_is_as_without(architecture: str, sampling: Sampling) -> None:
    model, block = shallow(architecture), 256
    to_do = task(30, sampling=sampling, seed=3)
    plain = write(decoder(model, block=block), NoDrafter(), Fixed(0), list(PROMPT), to_do)
    for drafter in (RecyclingDrafter(), Cascade(LookupDrafter(), RecyclingDrafter())):
        target, tokens = decoder(model, block=block), list(PROMPT)
        run = write(target, drafter, FixedTree(16), tokens, to_do)
        assert run.tokens == plain.tokens
        if isinstance(drafter, RecyclingDrafter):
            assert any(each and each.parents for each, _ in run.rounds)
        assert_as_fresh(target, tokens, decoder(model, block=block))


def test_a_cascade_teaches_it_whoever_drafts() -> None:
    recycling = RecyclingDrafter()
    cascade = Cascade(LookupDrafter(), recycling)
    assert cascade.learns == recycling.learns
    run = write(decoder(shallow("llama")), cascade, Fixed(3), list(PROMPT), task(30))
    written = {row for each, _ in run.rounds if each for row in each.tokens}
    assert written
    assert all(proposed(recycling, [token], up_to(1)) for token in written)


def test_one_seed_gives_one_text() -> None:
    model = shallow("llama")

    def text(seed: int) -> list[int]:
        to_do = task(20, sampling=Sampling(temperature=1.0), seed=seed)
        return write(decoder(model), RecyclingDrafter(), FixedTree(6), list(PROMPT), to_do).tokens

    assert text(1) == text(1) != text(2)
