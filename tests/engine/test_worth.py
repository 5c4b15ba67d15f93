"""What a draft is worth, by hand."""

import pytest

from engine.costs import DraftCosts
from engine.worth import Offer, Pace, offers, with_stops

PASSES = [0.02, 0.03, 0.05]


def test_offers_by_hand() -> None:
    draft = DraftCosts("head", 0, start_seconds=0.004, step_seconds=0.002)
    one, two = offers("head", [0.5, 0.8], PASSES, draft)
    assert (one.length, two.length) == (1, 2)
    assert one.tokens == pytest.approx(1.5)
    assert two.tokens == pytest.approx(1.9)
    assert one.cost == pytest.approx((0.03 + 0.004 + 0.002) / 0.02)
    assert two.cost == pytest.approx((0.05 + 0.004 + 0.004) / 0.02)
    assert one.gain == pytest.approx(1.5 / 1.8)


def test_what_time_is_worth_elsewhere_decides() -> None:
    short, long = Offer("a", 1, 1.9, 1.0), Offer("a", 4, 3.0, 2.0)
    assert short.gain > long.gain
    assert short.value(1.9) > long.value(1.9)
    assert long.value(1.0) > short.value(1.0)  # here the rich moment is to be made use of


def test_pace_follows_what_is_written() -> None:
    pace = Pace()
    assert pace.speed(1.3) == pytest.approx(1.3)
    for _ in range(100):
        pace.count(4, 2.0)
    assert 1.6 < pace.speed(1.3) < 2.0
    for _ in range(300):
        pace.count(1, 2.0)
    assert pace.speed(0.5) == 1.0  # plain decoding can always be had


def test_where_to_stop() -> None:
    draft = DraftCosts("head", 0, start_seconds=0.0, step_seconds=0.001)
    offered = offers("head", [0.8] * 8, [0.02 + 0.002 * i for i in range(9)], draft)
    longest, floor = with_stops(offered[1], offered, speed=2.0, watch=0.0)
    assert longest == 6
    # A token more takes 0.15 of a plain pass, worth 0.3 tokens; it stands with chance 0.8.
    assert floor == pytest.approx(0.3 / 0.8)
    assert with_stops(offered[1], offered, speed=2.0, watch=0.1)[1] > floor
    assert with_stops(offered[1], offered[:1], speed=2.0, watch=0.0)[0] == 1
    assert with_stops(offered[1], offered, speed=90.0, watch=0.0)[1] == 1.0
