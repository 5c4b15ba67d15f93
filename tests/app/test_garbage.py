"""Garbage is collected while nobody waits, and in the end left to Python again."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from app import garbage
from app.garbage import Garbage


class Cycle:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.me = self


class Busy:
    """Whether someone would notice."""

    def __init__(self) -> None:
        self.now = False


@pytest.fixture
def busy() -> Busy:
    return Busy()


@pytest.fixture
def collector(busy: Busy, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Iterator[Garbage]:
    monkeypatch.setattr(garbage, "_REST_SECONDS", 0.0)
    made = Garbage(lambda: busy.now)
    yield made
    made.close()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_python_does_not_collect_by_itself(collector: Garbage) -> None:
    assert not gc.isenabled()


def test_young_garbage_goes_at_once_even_while_busy(collector: Garbage, busy: Busy) -> None:
    busy.now = True
    gone = weakref.ref(Cycle())
    many = [[] for _ in range(2000)]  # type: ignore[var-annotated]
    collector.look()
    assert gone() is None
    assert len(many) == 2000


def test_old_garbage_waits_until_nobody_would_notice(collector: Garbage, busy: Busy) -> None:
    old = Cycle()
    gone = weakref.ref(old)
    gc.collect()  # it is old now
    del old
    collector.look()
    assert gone() is not None
    busy.now = True
    collector.mark()
    collector.look()
    assert gone() is not None
    busy.now = False
    collector.look()
    assert gone() is None


def test_it_looks_by_itself(collector: Garbage, qtbot: QtBot) -> None:
    collector._timer.setInterval(5)
    gone = weakref.ref(Cycle())
    collector.mark()
    qtbot.waitUntil(lambda: gone() is None)
