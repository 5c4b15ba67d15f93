"""Answers that go round in circles are told from those that do not."""

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversation import loops as module
from engine.conversation.loops import REACH, loops

TOKENS = st.integers(0, 50_000)
CIRCLES = st.lists(TOKENS, min_size=1, max_size=120)
Judge = Callable[[Sequence[int]], bool]


def various(count, *, seed=0):
    """Tokens of which hardly four in a row come twice."""
    return random.Random(seed).choices(range(50_000), k=count)


@given(st.lists(TOKENS, max_size=300), CIRCLES, st.data())
def test_a_circle_is_told_once_it_has_come_often_enough(before, circle, data):
    rounds = 2 + -(-80 // len(circle)) + 1
    behind = data.draw(st.integers(0, len(circle)))
    assert loops([*before, *circle * rounds, *circle[:behind]])


@given(CIRCLES, st.integers(0, 10_000))
def test_what_came_before_does_not_matter(circle, seed):
    answer = [*various(2 * REACH, seed=seed), *circle]
    assert not loops(answer)
    assert loops(answer) == loops(answer[-REACH:])


@given(st.integers(0, 10_000), st.integers(0, 1000))
def test_various_tokens_are_no_circle(seed, count):
    assert not loops(various(count, seed=seed))


@given(st.lists(TOKENS, min_size=64, max_size=150))
def test_what_is_said_twice_is_no_circle(paragraph):
    distinct = [token * 200 + place for place, token in enumerate(paragraph)]
    assert not loops(distinct * 2)
    assert loops(distinct * 3)


@given(st.integers(0, 10_000))
def test_a_circle_that_was_left_is_forgotten(seed):
    assert not loops([*[7, 8, 9] * 100, *various(40, seed=seed)])


def test_a_number_that_counts_up_hides_no_circle():
    sentence = various(17)
    answer = [token for number in range(12) for token in (number, *sentence)]
    assert loops(answer)


def test_a_table_is_no_circle():
    """Rows of the same shape with other words in them."""
    words = iter(various(400))
    assert not loops([token for _ in range(40) for token in (1, 2, next(words), 3, next(words), 4)])


def changed(name, value):
    def judge(tokens):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, value)
            return loops(tokens)

    return judge


EXAMPLES: tuple[tuple[str, list[int], bool], ...] = (
    ("twice", various(100) * 2, False),
    ("three times", various(100) * 3, True),
    ("begun", [*various(300), *[1, 2, 3, 4, 5] * 11], False),
    ("counting", [t for n in range(12) for t in (n, *various(17))], True),
    ("rows", [t for n in range(40) for t in (1, 2, 3, 60 + n, 4, 5, 6, 160 + n)], False),
    ("long", various(170) * 3, True),
)


@pytest.mark.parametrize(
    ("name", "value"),
    [("_BEFORE", 1), ("_BEFORE", 3), ("_TAIL", 16), ("_SHARE", 0.95), ("_RUN", 1), ("REACH", 350)],
)
def test_other_numbers_would_judge_an_example_otherwise(name, value):
    assert all(loops(tokens) == expected for _, tokens, expected in EXAMPLES)
    mutant = changed(name, value)
    assert any(mutant(tokens) != expected for _, tokens, expected in EXAMPLES)
