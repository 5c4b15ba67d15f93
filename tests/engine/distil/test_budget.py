"""How much is done, and how long the rest takes."""

import pytest

from engine.distil.budget import WorkBudget, left


def test_minutes_are_shared_out():
    budget = WorkBudget(minutes=30, tokens=None)
    assert budget.answered(tokens=123, seconds=0) == 0
    assert budget.answered(tokens=123, seconds=630) == pytest.approx(0.5)
    assert budget.answered(tokens=123, seconds=1260) == pytest.approx(1)
    assert budget.trained(epochs=99, seconds=270, answering_seconds=1260) == pytest.approx(0.5)
    assert budget.trained(epochs=99, seconds=540, answering_seconds=1260) == pytest.approx(1)


def test_what_answering_left_over_is_trained():
    budget = WorkBudget(minutes=30, tokens=None)
    assert budget.trained(epochs=0, seconds=1700, answering_seconds=100) == pytest.approx(1)
    # And where answering took too long, there is still time to learn.
    assert budget.trained(epochs=0, seconds=270, answering_seconds=1800) == pytest.approx(0.5)


def test_tokens_and_epochs():
    budget = WorkBudget(minutes=None, tokens=4000)
    assert budget.answered(tokens=1000, seconds=1e9) == 0.25
    assert budget.trained(epochs=4, seconds=1e9, answering_seconds=1e9) == 0.5
    assert budget.trained(epochs=8, seconds=0, answering_seconds=0) == 1


def test_times_in_words():
    assert left(60, 0.25) == "3 min left"
    assert left(60, 0.01) == "1 h 39 min left"
    assert left(60, 1.5) == left(0, 0.0) == "a few seconds left"
