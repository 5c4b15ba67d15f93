"""When a parked drafter is asked again, and what drafting may lose."""

import pytest

from engine.parking import FIRST, LONGEST, Ledger, Parking


def wait_of(parking: Parking) -> int:
    assert parking.left is not None
    return parking.left


def test_dear_probes_that_fail_become_rarer() -> None:
    parking = Parking()
    parking.park(0.06)
    waits = [wait_of(parking)]
    while waits[-1] < LONGEST:
        parking.probed(stood=False, loss=0.06)
        waits.append(wait_of(parking))
    assert waits == [8, 16, 32, 64, 128, 256, 512]
    parking.probed(stood=False, loss=0.06)
    assert wait_of(parking) == LONGEST


def test_cheap_probes_do_not() -> None:
    parking = Parking()
    for _ in range(5):
        parking.probed(stood=False, loss=0.01)
        assert wait_of(parking) == FIRST


@pytest.mark.parametrize("loss", [0.05, 0.2, 1.0, 3.0])
def test_probes_take_less_than_a_hundredth_of_the_time(loss: float) -> None:
    parking = Parking()
    parking.park(loss)
    assert loss <= 0.01 * wait_of(parking)


def test_a_probe_that_stood_is_followed_by_another() -> None:
    parking = Parking()
    for _ in range(4):
        parking.probed(stood=False, loss=0.2)
    parking.probed(stood=True, loss=0.2)
    assert wait_of(parking) == FIRST
    parking.probed(stood=False, loss=0.2)
    assert wait_of(parking) < 100  # and counted anew


def test_plain_tokens_are_waited_for() -> None:
    parking = Parking()
    parking.park(0.0)
    parking.count(drafted=True)
    assert parking.left == FIRST
    for _ in range(FIRST + 2):
        parking.count(drafted=False)
    assert parking.left == 0
    parking.resume()
    parking.count(drafted=False)
    assert parking.left is None


def test_a_ledger() -> None:
    ledger = Ledger()
    lost = 0
    while not ledger.in_debt:
        ledger.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 3.0
    for _ in range(10_000):
        ledger.count(1, 1.0)
    for _ in range(1_000):
        ledger.count(4, 1.0)  # great gains
    lost = 0
    while not ledger.in_debt:
        ledger.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 5.0  # are not to be gambled away
