"""A store in a folder of its own, with a clock that goes a second on at each look."""

from datetime import UTC, datetime, timedelta

import pytest

from app.conversations.store import Store


class Clock:
    """Tells a time that tests choose. `now` is the last that was told."""

    def __init__(self):
        self.now = datetime(2026, 5, 9, 12, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "conversations.sqlite"


@pytest.fixture
def store(path, clock):
    with Store.open(path, clock=clock) as store:
        assert store.notice is None
        yield store
