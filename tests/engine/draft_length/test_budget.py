"""What drafting may lose, and what a draft is worth: by hand."""

import pytest

from engine.draft_length.costs import DraftCosts
from engine.draft_length.options import DraftOption, draft_options, with_stops
from engine.draft_length.policy import RegretBudget

PASSES = [0.02, 0.03, 0.05]


def test_options_by_hand() -> None:
    draft = DraftCosts("head", 0, start_seconds=0.004, step_seconds=0.002)
    one, two = draft_options("head", [0.5, 0.8], PASSES, draft)
    assert (one.length, two.length) == (1, 2)
    assert one.tokens == pytest.approx(1.5)
    assert two.tokens == pytest.approx(1.9)
    assert one.cost == pytest.approx((0.03 + 0.004 + 0.002) / 0.02)
    assert two.cost == pytest.approx((0.05 + 0.004 + 0.004) / 0.02)
    assert one.gain == pytest.approx(1.5 / 1.8)


def test_where_to_stop() -> None:
    draft = DraftCosts("head", 0, start_seconds=0.0, step_seconds=0.001)
    offered = draft_options("head", [0.8] * 8, [0.02 + 0.002 * i for i in range(9)], draft)
    longest, floor = with_stops(offered[1], offered, watch=0.0)
    assert longest == 6
    # A token more takes 0.15 of a plain pass, worth 0.15 times the gain; its own chance is 0.8.
    assert floor == pytest.approx(0.15 * offered[1].gain / 0.8)
    assert with_stops(offered[1], offered, watch=0.1)[1] > floor
    assert with_stops(offered[1], offered[:1], watch=0.0)[0] == 1
    rich = DraftOption("head", 2, 2, 90.0, 1.0)
    assert with_stops(rich, offered, watch=0.0)[1] == 1.0


def test_a_budget() -> None:
    budget = RegretBudget()
    assert budget.wait_for(1.0) == 0
    lost = 0
    while budget.required_gain(parked=True) <= 1.0:
        budget.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 3.0
    assert budget.wait_for(1.0) > 100
    for _ in range(10_000):
        budget.count(1, 1.0)
    for _ in range(1_000):
        budget.count(4, 1.0)  # great gains
    lost = 0
    while budget.required_gain(parked=True) <= 1.0:
        budget.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 5.0  # are not to be gambled away


def test_with_something_saved_a_small_loss_is_borne_and_in_debt_none() -> None:
    budget = RegretBudget()
    saved = [budget.required_gain(parked=False)]
    assert 0.85 < saved[0] < budget.required_gain(parked=True) == 1.0
    while saved[-1] <= 1.0:
        budget.count(1, 1.2)
        saved.append(budget.required_gain(parked=False))
    assert saved == sorted(saved)
    assert saved[-1] == budget.required_gain(parked=True)
