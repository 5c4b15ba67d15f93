"""Answers that go round in circles are told from those that do not."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversation import loops as module
from engine.conversation.loops import loops

TOKENS = st.integers(0, 50_000)
CIRCLES = st.lists(TOKENS, min_size=1, max_size=120)


def various(count, *, seed=0):
    """Tokens of which hardly four in a row come twice."""
    return random.Random(seed).choices(range(50_000), k=count)


@given(st.lists(TOKENS, max_size=300), CIRCLES, st.data())
def test_a_circle_is_told_once_it_has_come_often_enough(before, circle, data):
    rounds = 2 + -(-80 // len(circle)) + 1
    behind = data.draw(st.integers(0, len(circle)))
    assert loops([*before, *circle * rounds, *circle[:behind]])


@given(st.lists(TOKENS, min_size=64, max_size=150))
def test_what_is_said_twice_is_no_circle(paragraph):
    distinct = [token * 200 + place for place, token in enumerate(paragraph)]
    assert not loops(distinct * 2)
    assert loops(distinct * 3)


def changed(name, value):
    def judge(tokens):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, value)
            return loops(tokens)

    return judge


EXAMPLES = (
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
