"""The suffix drafter: what it copies always followed something, and what is taken back was never
there."""

from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import earlier_answers
from engine.draft_length import DraftChoice
from engine.drafters.copying import Continuation, SuffixDrafter
from engine.earlier_answers import EarlierAnswers
from engine.request import Sampling
from engine.tree import Tree
from tests.support.engine.helpers import up_to

KEY = mx.random.key(0)
VOCABULARY = {str(i): i for i in range(200)}
TEXT = st.lists(st.integers(0, 2), min_size=1, max_size=60)
ANSWERS = st.lists(st.lists(st.integers(0, 2), min_size=8, max_size=30), max_size=3)


def propose(drafter: SuffixDrafter, tokens: list[int], limit: int = 16) -> list[int]:
    """What is proposed, after a look at the form of it; empty for nothing."""
    candidates = drafter.candidates(tokens)
    draft = drafter.propose(tokens, up_to(limit), Sampling(), KEY)
    assert len(candidates) == (draft is not None)
    if draft is None:
        return []
    (candidate,) = candidates
    ids: list[int] = draft.tokens.tolist()
    assert list(draft.copied) == ids
    assert 1 <= len(ids) == min(limit, candidate.most)
    assert draft.distributions is None
    assert draft.q.tolist() == [1.0] * len(ids)
    assert draft.match == candidate.match >= 2
    assert draft.drafter == candidate.drafter == "suffix"
    return ids


def kept(folder: Path, answers: list[list[int]]) -> EarlierAnswers:
    earlier_answers.begin(folder)
    earlier = EarlierAnswers(folder, VOCABULARY, size=200)
    for answer in answers:
        earlier.learn(answer)
    return earlier


def followed(text: list[int], before: list[int], token: int) -> bool:
    """Whether `token` stands somewhere in `text` behind what ends `before`."""
    behind = [*before[-2:], token]
    return any(text[i : i + len(behind)] == behind for i in range(len(text) - len(behind) + 1))


@given(tokens=TEXT, answers=ANSWERS)
def test_each_token_has_followed_those_before_it(
    tokens: list[int], answers: list[list[int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    earlier = kept(tmp_path_factory.mktemp("answers"), answers)
    drafted = propose(SuffixDrafter(earlier), tokens)
    for i, token in enumerate(drafted):
        text = [*tokens, *drafted[:i]]
        assert any(followed(each, text, token) for each in (text, *answers))


def test_the_most_frequent_continuation_is_copied() -> None:
    tokens = [1, 2, 3, 0, 1, 2, 4, 0, 1, 2, 3, 9, 1, 2]
    assert propose(SuffixDrafter(), tokens)[0] == 3
    # Where none has half of the votes there is no draft.
    assert propose(SuffixDrafter(), [1, 2, 3, 0, 1, 2, 4, 0, 1, 2, 5, 9, 1, 2]) == []


def test_a_longer_match_outvotes_shorter_ones() -> None:
    tokens = [5, 6, 1, 2, 3, 0, 1, 2, 4, 9, 1, 2, 4, 5, 6, 1, 2]
    assert propose(SuffixDrafter(), tokens)[0] == 3


def test_a_draft_ends_where_continuations_part() -> None:
    begin = [1, 2, 3, 4, 5, 6]
    tokens = [*begin, 10, 11, 12, 13, 14, 15, *begin, 20, 21, 22, *begin, 30, 31, 32, 1, 2, 3, 4]
    assert propose(SuffixDrafter(), tokens) == [5, 6]


def test_a_text_that_repeats_itself_is_continued_beyond_its_end() -> None:
    assert propose(SuffixDrafter(), [7, 1, 2, 3, 1, 2, 3]) == [1, 2, 3] * 5 + [1]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([99], []),  # nothing has followed it yet
        ([99, 24], [25, 26, 27]),  # in place of 23
        ([99, 23], [24, 25, 26]),  # put in before it
        ([24], [25, 26, 27]),  # 23 was left out
    ],
)
def test_a_copy_goes_on_behind_a_correction(written: list[int], expected: list[int]) -> None:
    run = list(range(10, 40))
    tokens = [*run, 99, 1, 24, 2, 23, 3, *run[:10]]
    drafter = SuffixDrafter()
    assert propose(drafter, tokens, 4) == [20, 21, 22, 23]
    drafter.accept(range(3))
    after = [*tokens, 20, 21, 22, *written]
    assert propose(drafter, after, 3) == expected
    assert propose(drafter, [*after, 150, 151], 3) == []

    drafter.rewind(len(tokens))  # the copy is forgotten
    assert propose(drafter, after, 3) != expected or not expected


def test_the_likeliest_continuations() -> None:
    tokens = [1, 2, 3, 4, 0, 1, 2, 5, 6, 0, 1, 2, 3, 4, 9, 1, 2]
    first, second = SuffixDrafter().continuations(tokens, 4)
    assert first == Continuation(first.tokens, pytest.approx(2 / 3), 2, 12, True)
    assert second == Continuation(second.tokens, pytest.approx(1 / 3), 2, 7, True)
    assert (first.tokens[:2], second.tokens[:3]) == ((3, 4), (5, 6, 0))
    assert SuffixDrafter().continuations(tokens, 1) == [first]


def test_a_tree_has_the_likeliest_continuations_side_by_side() -> None:
    tokens = [1, 2, 30, 31, 32, 33, 34, 5, 1, 2, 40, 41, 6, 1, 2, 30, 31, 7, 1, 2]
    shape = Tree((-1, 0, -1, 2, 3))
    drafter = SuffixDrafter()
    (candidate,) = drafter.candidates(tokens)
    assert candidate.alternatives == 2
    choice = DraftChoice(shape.height, tree=shape)
    draft = drafter.propose(tokens, choice, Sampling(), KEY)
    assert draft is not None
    assert draft.tokens.tolist() == [30, 31, 40, 41, 6]
    assert draft.tree == shape

    drafter.accept([2, 3, 4])  # of the second one, which goes on behind a token in place of 1
    assert propose(drafter, [*tokens, 40, 41, 6, 99, 2], 2) == [30, 31]


@given(
    answers=ANSWERS,
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.lists(st.integers(0, 2), min_size=1, max_size=8)),
            st.tuples(st.just("rewind"), st.integers(1, 40)),
            st.tuples(st.just("accept"), st.integers(0, 8)),
        ),
        max_size=10,
    ),
)
def test_after_a_rewind_it_is_as_fresh(
    answers: list[list[int]],
    steps: list[tuple[str, list[int] | int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    earlier = kept(tmp_path_factory.mktemp("answers"), answers)
    drafter, tokens = SuffixDrafter(earlier), [0]
    for kind, change in steps:
        if isinstance(change, list):
            tokens = tokens + change
        elif kind == "accept":
            drafted = propose(drafter, tokens)[:change]
            if drafter.candidates(tokens):
                drafter.accept(range(len(drafted)))
            tokens = [*tokens, *drafted, 0]
        else:
            tokens = tokens[:change]
            drafter.rewind(len(tokens))
            fresh = SuffixDrafter(earlier)
            assert propose(drafter, tokens) == propose(fresh, tokens)
            assert drafter.__dict__.keys() == fresh.__dict__.keys()
            assert vars(drafter._here) == vars(fresh._here)
        propose(drafter, tokens)


def test_another_conversation_begins_with_nothing_but_the_earlier_answers(tmp_path: Path) -> None:
    drafter = SuffixDrafter(kept(tmp_path, [list(range(20, 40))]))
    propose(drafter, [1, 2, 3, 1, 2])
    other = drafter.fork(None)  # type: ignore[arg-type] # it reads no target
    assert isinstance(other, SuffixDrafter)
    assert propose(other, [9, 1, 2]) == []
    other.rewind(0)
    assert propose(other, [9, 30, 31], 3) == [32, 33, 34]


def test_what_is_nearer_goes_first(tmp_path: Path) -> None:
    earlier = kept(tmp_path, [[20, 21, 22, 23, 24, 25, 26, 27, 28]])
    here = [22, 23, 24, 40, 41, 0]
    assert propose(SuffixDrafter(earlier), [*here, 23, 24], 2) == [40, 41]
    assert propose(SuffixDrafter(earlier), [*here, 21, 22, 23, 24], 2) == [40, 41]  # one longer
    assert propose(SuffixDrafter(earlier), [*here, 20, 21, 22, 23, 24], 2) == [25, 26]


def test_what_is_accepted_from_an_answer_keeps_it(tmp_path: Path) -> None:
    earlier = kept(tmp_path, [list(range(20, 30)), list(range(40, 50)), list(range(60, 70))])
    drafter = SuffixDrafter(earlier)
    propose(drafter, [1, *range(20, 28)])
    drafter.accept(())  # of this one nothing was
    drafter.rewind(0)
    propose(drafter, [1, 40, 41, 42])
    drafter.accept(range(2))
    earlier.learn(list(range(80, 90)))

    order = sorted(earlier._answers, key=lambda each: each.used)
    assert [each.tokens[0] for each in order] == [20, 40, 60, 80]
    assert [each.used for each in order] == [1, 3, 3, 4]


def test_answers_that_are_forgotten_while_it_drafts(tmp_path: Path) -> None:
    earlier = kept(tmp_path, [list(range(20, 60))])
    drafter = SuffixDrafter(earlier)
    assert propose(drafter, [1, 40, 41, 42], 2) == [43, 44]
    earlier_answers.forget(tmp_path)
    earlier.refresh()
    drafter.accept(range(2))
    assert propose(drafter, [1, 40, 41, 42, 43, 44, 99], 2) == []
    assert propose(drafter, [1, 40, 41, 42, 43, 44, 99, 46], 2) == []
