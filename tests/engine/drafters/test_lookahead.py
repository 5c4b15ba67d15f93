"""Lookahead: its window, what it harvests from which row, and that it changes no text."""

import mlx.core as mx
from hypothesis import given
from hypothesis import strategies as st

import engine.drafters.lookahead
from engine.conversation.loading import load
from engine.draft_length import DraftChoice
from engine.draft_length.policy import FixedTree
from engine.drafters.lookahead import LookaheadDrafter, NGramPool
from engine.request import Sampling
from engine.tree import Tree
from models.model_folder import ModelFolder
from tests.support.engine.helpers import decoder, task, up_to, write
from tests.support.engine.story_samples import STORIES, openings


def tree_of(tokens):
    """A choice to draft a tree of so many tokens, of whatever shape."""
    return DraftChoice(1, tree=Tree((-1,) * tokens))


def propose(drafter, tokens, choice):
    """The draft's tokens and their parents."""
    draft = drafter.propose(tokens, choice, Sampling(), mx.random.key(0))
    assert draft.distributions is None
    assert draft.q.tolist() == [1.0] * len(draft.copied)
    assert list(draft.copied) == draft.tokens.tolist()
    return draft.tokens.tolist(), draft.shape.parents


def test_what_was_seen_after_a_column_is_an_n_gram():
    """A column stands after the first tokens of those before it."""
    drafter = LookaheadDrafter(window=2, size=3, most=2)
    # At first the window repeats the text: (1, 2) and (2, 3), which is one chain.
    assert propose(drafter, [1, 2, 3], tree_of(20)) == ([1, 2, 3], (-1, 0, 1))
    drafter.learn([3, 1, 2, 3], [[4], [50], [6], [7]])
    # Now (2, 6), and (3, 7) after the 2.
    assert propose(drafter, [1, 2, 3, 4], tree_of(20)) == ([2, 6, 3, 7], (-1, 0, 0, 2))
    drafter.learn([4, 2, 6, 3, 7], [[3], [50], [10], [51], [12]])
    # After a 3 came 7 and 12, and in the text 4 and 3; the window is (6, 10) and (7, 12).
    drafted = propose(drafter, [1, 2, 3, 4, 3], tree_of(20))
    assert drafted == ([4, 3, 7, 12, 6, 10, 7, 12], (-1, 0, -1, 2, -1, 4, 4, 6))


def test_the_window_moves_with_the_text():
    drafter = LookaheadDrafter(window=3, size=2, most=0)
    assert propose(drafter, [1, 2, 3], tree_of(20)) == ([1, 2, 3], (-1, 0, 1))
    drafter.learn([3, 1, 2, 3], [[1], [5], [6], [7]])
    # The first guess is accepted: the window has moved by two tokens, and ends with a guess.
    assert propose(drafter, [1, 2, 3, 1, 5], tree_of(20)) == ([6, 7, 7], (-1, 0, 1))


def test_without_trees_the_newest_n_gram_is_a_chain():
    drafter = LookaheadDrafter(window=2, size=3, most=2)
    for room, drafted in [(1, [2]), (2, [2, 4]), (9, [2, 4])]:
        chain = drafter.propose([1, 2, 3, 1, 2, 4, 1], up_to(room), Sampling(), mx.random.key(0))
        assert chain.tree is None
        assert chain.tokens.tolist() == drafted
    # Without any, the way to the last column: the window has moved by one token.
    assert propose(drafter, [1, 2, 3, 1, 2, 4, 1, 9], up_to(2))[0] == [4, 1]


def test_other_drafts_teach_it_nothing():
    drafter = LookaheadDrafter(window=2, size=3, most=2)
    propose(drafter, [1, 2, 3], tree_of(20))
    drafter.learn([3, 1, 2, 9], [[4], [5], [6], [7]])
    assert propose(drafter, [1, 2, 3, 4], tree_of(20))[0][:2] == [2, 3]
    drafter.rewind(4)
    drafter.learn([4, 2, 3], [[8], [8], [8]])
    assert 8 not in propose(drafter, [1, 2, 3, 4, 2], tree_of(20))[0]


def test_the_pool_is_bounded(monkeypatch):
    monkeypatch.setattr(engine.drafters.lookahead, "_FIRST_TOKENS", 10)
    pool = NGramPool(3)
    for i in range(200):
        pool.add((i % 40, i, i + 1))
    assert len(pool) <= 30
    assert pool.behind(0) == []
    assert pool.behind(39)[0] == (199, 200)
    none = NGramPool(0)
    none.add((1, 2))
    assert none.behind(1) == []


TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("round"), TOKENS, st.integers(1, 12), st.booleans()),
        st.tuples(st.just("plain"), TOKENS),
        st.tuples(st.just("rewind"), st.integers(1, 30)),
    ),
    max_size=12,
)


@given(steps=STEPS, sizes=st.tuples(st.integers(1, 3), st.integers(2, 4), st.integers(0, 2)))
def test_any_sequence_leaves_it_sound(steps, sizes):
    drafter, tokens = LookaheadDrafter(*sizes), [0]
    for kind, *rest in steps:
        if kind == "rewind":
            tokens = tokens[: rest[0]]
            drafter.rewind(len(tokens))
        elif kind == "plain":
            for token in rest[0]:
                drafter.learn(tokens[-1:], [[token]])
                tokens = [*tokens, token]
        else:
            written, room, branches = rest
            choice = tree_of(room) if branches else up_to(room)
            ids, parents = propose(drafter, tokens, choice)
            assert 1 <= len(ids) <= room
            assert len(set(zip(ids, parents, strict=True))) == len(ids), "tried twice"
            rows = [tokens[-1], *ids]
            drafter.learn(rows, [[(7 * row + i) % 4] for i, row in enumerate(rows)])
            drafter.accept(())
            tokens = tokens + written
    drafter.rewind(0)
    fresh = LookaheadDrafter(*sizes)
    assert propose(drafter, tokens, tree_of(40)) == propose(fresh, tokens, tree_of(40))


def test_what_is_harvested_from_its_row_saves_passes():
    """A story of 40 tokens takes 32 passes without it, or with what another row shows."""
    target = load(ModelFolder(STORIES))
    reader, tokens = decoder(target.model, block=256), target.tokenizer.encode(openings(21)[20])
    assert (
        len(write(reader, LookaheadDrafter(5, 3, 5), FixedTree(50), tokens, task(40)).rounds) < 30
    )
