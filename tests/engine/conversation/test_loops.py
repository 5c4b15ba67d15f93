"""Answers that go round in circles are told from those that do not."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversation.loops import loops

TOKENS = st.integers(0, 50_000)
CIRCLES = st.lists(TOKENS, min_size=1, max_size=120)


def various(count, *, seed=0):
    """Tokens of which hardly four in a row come twice."""
    return random.Random(seed).choices(range(50_000), k=count)


@given(st.lists(TOKENS, max_size=300), CIRCLES, st.data())
def test_a_circle_is_told_once_it_has_come_often_enough(before, circle, data):
    rounds = 2 + -(-80 // len(circle)) + 1
    begun = data.draw(st.integers(0, len(circle)))
    assert loops([*before, *circle * rounds, *circle[:begun]])


EXAMPLES = {
    "twice": (various(100) * 2, False),
    "three times": (various(100) * 3, True),
    "begun": ([*various(300), *[1, 2, 3, 4, 5] * 11], False),
    "counting": ([t for n in range(12) for t in (n, *various(17))], True),
    "rows": ([t for n in range(40) for t in (1, 2, 3, 60 + n, 4, 5, 6, 160 + n)], False),
    "long": (various(170) * 3, True),
}


@pytest.mark.parametrize(("tokens", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_a_circle_is_told_from_what_is_only_alike(tokens, expected):
    """Each number of the module is judged by one of these."""
    assert loops(tokens) == expected
