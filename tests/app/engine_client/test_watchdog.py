"""The watchdog, by hand: its own timer is too slow for a test."""

import pytest
from PySide6.QtCore import QTimer

from app.engine_client.watchdog import Watchdog

HOUR = 3600.0


@pytest.fixture
def dog(qapp):
    return Watchdog(tick_seconds=HOUR)


@pytest.fixture
def heard(dog):
    heard = []
    dog.silent.connect(lambda seconds: heard.append(f"silent {seconds / HOUR:.0f}"))
    dog.speaking.connect(lambda: heard.append("speaking"))
    return heard


@pytest.fixture
def tick(dog):
    timer = dog.findChild(QTimer)

    def tick(count):
        for _ in range(count):
            if timer.isActive():
                timer.timeout.emit()

    return tick


def test_it_barks_once(dog, heard, tick):
    dog.expect(3 * HOUR)
    tick(2)
    assert heard == []
    tick(5)
    assert heard == ["silent 3"]
    assert dog.timed_out
    dog.heard()
    assert not dog.timed_out
    tick(2)
    assert heard == ["silent 3", "speaking"]
    tick(1)
    assert heard == ["silent 3", "speaking", "silent 3"]


def test_asking_for_more_is_no_answer(dog, heard, tick):
    for _ in range(3):
        dog.expect(3 * HOUR)
        tick(1)
    assert heard == ["silent 3"]


def test_at_rest_it_never_barks(dog, heard, tick):
    tick(9)
    dog.expect(3 * HOUR)
    tick(2)
    dog.rest()
    tick(9)
    dog.expect(3 * HOUR)
    tick(2)
    assert heard == []
    tick(1)
    dog.rest()
    assert heard == ["silent 3", "speaking"]
