"""When a parked drafter is asked again, and what drafting may lose."""

import pytest

from engine.parking import FIRST, LONGEST, Ledger, Parking


def wait_of(parking: Parking) -> int:
    assert parking.left is not None
    return parking.left


def fail(parking: Parking, loss: float) -> int:
    """A series of probes, none of which stands; how many there were."""
    for probes in range(1, 20):
        parking.probed(stood=False, loss=loss)
        if wait_of(parking) > 1:
            return probes
    raise AssertionError("no end of probes")


def test_probes_that_fail_become_rarer() -> None:
    parking = Parking()
    parking.park(1.0)
    waits, probes = [wait_of(parking)], []
    while waits[-1] < LONGEST:
        probes.append(fail(parking, 1.0))
        waits.append(wait_of(parking))
    assert waits == [4, 8, 16, 32, 64, 128, 256, 512]
    assert probes == [1, 2, 3, 3, 3, 3, 3]
    fail(parking, 1.0)
    assert wait_of(parking) == LONGEST


@pytest.mark.parametrize(("loss", "longest"), [(-0.3, FIRST), (0.001, FIRST), (0.06, 40)])
def test_cheap_ones_stay_frequent(loss: float, longest: int) -> None:
    parking = Parking()
    for _ in range(9):
        fail(parking, loss)
    assert wait_of(parking) == longest


def test_a_probe_that_stood_is_soon_followed_by_another() -> None:
    parking = Parking()
    for _ in range(4):
        fail(parking, 0.5)
    parking.probed(stood=True, loss=0.5)
    assert wait_of(parking) == FIRST
    fail(parking, 0.5)
    assert wait_of(parking) == 2 * FIRST


def test_what_cannot_be_afforded_waits() -> None:
    parking = Parking()
    for tokens, wait in [(0, FIRST), (50, 50), (9999, LONGEST)]:
        parking.postpone(tokens)
        assert wait_of(parking) == wait


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
    assert ledger.wait_for(1.0) == 0
    lost = 0
    while not ledger.in_debt:
        ledger.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 3.0
    assert ledger.wait_for(1.0) > 100
    for _ in range(10_000):
        ledger.count(1, 1.0)
    for _ in range(1_000):
        ledger.count(4, 1.0)  # great gains
    lost = 0
    while not ledger.in_debt:
        ledger.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 5.0  # are not to be gambled away
