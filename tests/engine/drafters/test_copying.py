"""Drafters that copy: each copied token followed what it is drafted after, and what is taken back
was never there."""

import random
from functools import cache

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import earlier_answers
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters.copying import (
    LookupDrafter,
    PredictionDrafter,
    SuffixDrafter,
)
from engine.earlier_answers import EarlierAnswers
from engine.request import Sampling
from engine.tree import COMMITTED, Tree
from tests.support.engine.helpers import up_to
from tests.support.engine.trees import random_trees

KEY = mx.random.key(0)
TEXT = st.lists(st.integers(0, 2), min_size=1, max_size=60)
TREE = random_trees(most=9)
ANSWERS = st.lists(st.lists(st.integers(0, 2), min_size=8, max_size=30), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(0, 2), min_size=1, max_size=8)),
        st.tuples(st.just("rewind"), st.integers(1, 40)),
        st.tuples(st.just("accept"), st.integers(0, 8)),
    ),
    max_size=10,
)


def propose(drafter, tokens, limit=16):
    """The ids that are proposed, after a look at their form; empty for nothing."""
    candidates = drafter.candidates(tokens)
    draft = drafter.propose(tokens, up_to(limit), Sampling(temperature=0.8), KEY)
    assert len(candidates) == (draft is not None)
    if draft is None:
        return []
    (candidate,) = candidates
    ids = draft.tokens.tolist()
    assert list(draft.copied) == ids
    assert 1 <= len(ids) == min(limit, candidate.most)
    assert draft.distributions is None
    assert draft.q.tolist() == [1.0] * len(ids)
    assert draft.match == candidate.match >= 1
    assert draft.drafter == candidate.drafter == drafter.name
    return ids


# --- lookup


def naive_match(tokens):
    """(start, matched): where the text after the longest, then latest match starts."""
    best = (0, 0)
    for start in range(1, len(tokens)):
        matched = 0
        while matched < min(start, 32) and tokens[start - 1 - matched] == tokens[-1 - matched]:
            matched += 1
        if matched >= max(best[1], 2):
            best = (start, matched)
    return best


def naive_lookup(tokens, limit):
    start, matched = naive_match(tokens)
    return tokens[start : start + limit] if matched else []


def assert_copies(drafter, tokens, limit):
    start, matched = naive_match(tokens)
    order = next((each for each in (8, 4) if matched >= each), 2)  # shorter ones are left out then
    ends = (end for end in range(2, len(tokens)) if tokens[:end][-order:] == tokens[-order:])
    different = len({tokens[end] for end in ends})
    expected = DraftCandidate("lookup", len(tokens) - start, matched, alternatives=different)
    assert list(drafter.candidates(tokens)) == ([expected] if matched else [])
    assert propose(drafter, tokens, limit) == naive_lookup(tokens, limit)


@given(steps=STEPS, limit=st.integers(1, 16))
def test_lookup_copies_what_followed_the_longest_match(steps, limit):
    drafter, tokens = LookupDrafter(), [0]
    for kind, change in steps:
        assert_copies(drafter, tokens, limit)
        if kind == "write":
            tokens = tokens + change
        elif kind == "rewind":
            tokens = tokens[:change]
            drafter.rewind(len(tokens))
    assert_copies(LookupDrafter(), tokens, limit)


@given(tokens=TEXT, shape=TREE)
def test_lookup_proposes_what_followed_several_matches(tokens, shape):
    draft = LookupDrafter().propose(tokens, DraftChoice(shape.height, tree=shape), Sampling(), KEY)
    if not naive_match(tokens)[1]:
        assert draft is None
        return
    followed = [
        tokens[end : end + shape.height]
        for end in range(2, len(tokens))
        if tokens[end - 2 : end] == tokens[-2:]
    ]
    paths = [[draft.copied[i] for i in path] for path in draft.shape.paths]
    assert all(any(text[: len(path)] == path for text in followed) for path in paths)
    assert [draft.copied[draft.shape.children(COMMITTED)[0]]] == naive_lookup(tokens, 1)


# --- lookup and suffix: copies, with their sources

both = pytest.mark.parametrize("make", [LookupDrafter, SuffixDrafter])


@cache
def long_document():
    """Common pairs of tokens occur in it far more often than places are looked at."""
    ranks = range(1, 400)
    return random.Random(0).choices(ranks, weights=[1 / rank for rank in ranks], k=10_000)


@both
@pytest.mark.parametrize(
    ("written", "further"),
    [([1000], 1), ([1000, 1001], 3), ([1000, 1001], 0), ([], 2)],
    ids=["one replaced", "some replaced", "some put in", "some left out"],
)
def test_a_copy_from_the_beginning_of_a_long_document(make, written, further):
    document = long_document()
    tokens, drafter = [*document, 2000, *document[50:55]], make()

    def drafted():
        assert drafter.candidates(tokens)
        draft = drafter.propose(tokens, up_to(6), Sampling(), KEY)
        return list(draft.copied), draft.source

    assert drafted() == (document[55:61], 55)
    drafter.accept(range(6))
    place = 61 + further  # of the next token, after the edit
    tokens = [*tokens, *document[55:61], *written, *document[place : place + 2]]
    assert drafted() == (document[place + 2 : place + 8], place + 2)


@both
@given(tokens=TEXT, shape=st.none() | TREE)
def test_what_is_copied_stands_at_its_source(make, tokens, shape):
    choice = up_to(16) if shape is None else DraftChoice(shape.height, tree=shape)
    draft = make().propose(tokens, choice, Sampling(), KEY)
    if draft is not None:
        number, place = COMMITTED, draft.source
        while place < len(tokens) and (after := draft.shape.children(number)):
            number = after[0]
            assert draft.copied[number] == tokens[place]
            place += 1
        assert place > draft.source


# --- suffix


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    def keep(*answers):
        folder = tmp_path_factory.mktemp("answers")
        earlier_answers.begin(folder)
        earlier = EarlierAnswers(folder, {str(i): i for i in range(200)}, size=200)
        for answer in answers:
            earlier.learn(answer)
        return earlier

    return keep


def followed(text, before, token):
    """Whether `token` follows the last two of `before` somewhere in `text`."""
    three = [*before[-2:], token]
    return any(text[i : i + len(three)] == three for i in range(len(text) - len(three) + 1))


@given(tokens=TEXT, answers=ANSWERS)
def test_each_token_has_followed_those_before_it(kept, tokens, answers):
    drafted = propose(SuffixDrafter(kept(*answers)), tokens)
    for i, token in enumerate(drafted):
        text = [*tokens, *drafted[:i]]
        assert any(followed(each, text, token) for each in (text, *answers))


BEGIN = [1, 2, 3, 4, 5, 6]
RUN, AFTER = list(range(100, 140)), list(range(50, 90))


@pytest.mark.parametrize(
    ("make", "tokens", "limit", "drafted"),
    [
        (LookupDrafter, [*RUN, 1, 2, *RUN[5:], 3, 4, *RUN], 2, [3, 4]),  # both match 32: the later
        (LookupDrafter, [*RUN, 1, 2, *RUN[15:], 3, 4, *RUN], 2, [1, 2]),  # 25 match: the longer
        (LookupDrafter, [99, 1, 2, *AFTER, 98, 1, 2], 30, AFTER[:30]),
        (LookupDrafter, [99, 1, 2, *AFTER, 98, 1, 2], 100, [*AFTER, 98, 1, 2]),  # to its end
        (SuffixDrafter, [1, 2, 3, 0, 1, 2, 4, 0, 1, 2, 3, 9, 1, 2], 1, [3]),  # the most frequent
        (SuffixDrafter, [1, 2, 3, 0, 1, 2, 4, 0, 1, 2, 5, 9, 1, 2], 16, []),  # none has half
        # A longer match has more votes.
        (SuffixDrafter, [5, 6, 1, 2, 3, 0, 1, 2, 4, 9, 1, 2, 4, 5, 6, 1, 2], 1, [3]),
        (
            SuffixDrafter,
            [*BEGIN, *range(10, 16), *BEGIN, 20, 21, 22, *BEGIN, 30, 31, 32, 1, 2, 3, 4],
            16,
            [5, 6],
        ),
        (SuffixDrafter, [7, 1, 2, 3, 1, 2, 3], 16, [1, 2, 3] * 5 + [1]),  # on after the text's end
    ],
)
def test_the_longest_match_or_the_votes_decide(make, tokens, limit, drafted):
    assert propose(make(), tokens, limit) == drafted


def test_a_tree_has_the_likeliest_continuations_side_by_side():
    tokens = [1, 2, 30, 31, 32, 33, 34, 5, 1, 2, 40, 41, 6, 1, 2, 30, 31, 7, 1, 2]
    shape = Tree((-1, 0, -1, 2, 3))
    drafter = SuffixDrafter()
    (candidate,) = drafter.candidates(tokens)
    assert candidate.alternatives == 2
    draft = drafter.propose(tokens, DraftChoice(shape.height, tree=shape), Sampling(), KEY)
    assert draft.tokens.tolist() == [30, 31, 40, 41, 6]
    assert draft.tree == shape

    drafter.accept([2, 3, 4])  # of the second one, which goes on after a token in place of 1
    assert propose(drafter, [*tokens, 40, 41, 6, 99, 2], 2) == [30, 31]


@given(answers=ANSWERS, steps=STEPS)
def test_after_a_rewind_it_is_as_fresh(kept, answers, steps):
    earlier = kept(*answers)
    drafter, tokens = SuffixDrafter(earlier), [0]
    for kind, change in steps:
        if kind == "write":
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
            assert vars(drafter._here) == vars(fresh._here)
        propose(drafter, tokens)


def test_what_is_nearer_goes_first(kept):
    """Another conversation begins with the earlier answers alone."""
    two = kept(list(range(20, 60)), list(range(70, 90)))
    assert propose(SuffixDrafter(two), [1, *range(22, 28)], 100) == list(range(28, 60)), "its end"
    earlier = kept([20, 21, 22, 23, 24, 25, 26, 27, 28])
    here = [22, 23, 24, 40, 41, 0]
    assert propose(SuffixDrafter(earlier), [*here, 23, 24], 2) == [40, 41]
    assert propose(SuffixDrafter(earlier), [*here, 21, 22, 23, 24], 2) == [40, 41]  # one longer
    drafter = SuffixDrafter(earlier)
    assert propose(drafter, [*here, 20, 21, 22, 23, 24], 2) == [25, 26]
    other = drafter.fork(None)  # it reads no target
    assert propose(other, [9, 24, 40]) == []
    other.rewind(0)
    assert propose(other, [9, 23, 24], 3) == [25, 26, 27]


# --- prediction

PREDICTION = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 30, 31]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([], [1, 2, 3]),  # from its beginning
        ([1, 2, 3], [4, 5, 6]),
        ([1, 2, 3, 40], []),  # another way
        ([1, 2, 3, 40, 5, 6], [7, 8, 9]),  # and back
        ([40, 1, 2], [30, 31]),  # of two equally long matches the latest
        ([3], []),
        (PREDICTION, []),  # it is at its end
    ],
)
def test_a_prediction_goes_on_after_the_longest_match(answer, expected):
    drafter = PredictionDrafter(PREDICTION, start=3)
    assert propose(drafter, [1, 2, 30, *answer], 3) == expected
    assert propose(drafter.fork(None), [50, 50, 50, *answer], 3) == expected
