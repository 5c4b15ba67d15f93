"""Garbage is collected while nobody waits; a copy made in the window outlasts the process."""

import gc
import subprocess
import sys
import weakref

import pytest
import shiboken6
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent, QGuiApplication

from app import housekeeping
from app.housekeeping import GcScheduler


def test_a_file_that_is_dropped_on_the_icon_is_given(qapp, tmp_path):
    given = []
    qapp.file_given.connect(given.append)
    qapp.sendEvent(qapp, QFileOpenEvent(QUrl.fromLocalFile(str(tmp_path / "a text.txt"))))
    qapp.sendEvent(qapp, QFileOpenEvent(QUrl("https://example.org/")))
    assert given == [tmp_path / "a text.txt"]
    qapp.file_given.disconnect(given.append)


class Cycle:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self):
        self.me = self


class Busy:
    """Whether someone would notice."""

    def __init__(self):
        self.now = False


@pytest.fixture
def busy():
    return Busy()


@pytest.fixture
def collector(busy, qtbot, monkeypatch):
    monkeypatch.setattr(housekeeping, "_REST_SECONDS", 0.0)
    made = GcScheduler(lambda: busy.now)
    yield made
    shiboken6.delete(made)
    gc.unfreeze()
    gc.enable()


def test_young_garbage_goes_at_once_even_while_busy(collector, busy):
    assert not gc.isenabled(), "Python does not collect by itself"
    busy.now = True
    gone = weakref.ref(Cycle())
    many = [[] for _ in range(2000)]
    collector.collect()
    assert gone() is None
    assert len(many) == 2000


def test_old_garbage_waits_until_nobody_would_notice(collector, busy):
    old = Cycle()
    gone = weakref.ref(old)
    gc.collect()  # it is old now
    del old
    collector.collect()
    assert gone() is not None
    busy.now = True
    collector.request_full()
    collector.collect()
    assert gone() is not None
    busy.now = False
    collector.collect()
    assert gone() is None


def test_it_looks_by_itself(collector, qtbot):
    collector._timer.setInterval(5)
    gone = weakref.ref(Cycle())
    collector.request_full()
    qtbot.waitUntil(lambda: gone() is None)


COPYING = """
import sys
from PySide6.QtCore import QMimeData
from PySide6.QtWidgets import QApplication
from app.housekeeping import leave_texts

application = QApplication([])
data = QMimeData()
data.setText("copied")
QApplication.clipboard().setMimeData(data)
if sys.argv[1] == "left":
    leave_texts()
assert QApplication.clipboard().text() == "copied"
"""


def copied_and_ended(how):
    return subprocess.run([sys.executable, "-c", COPYING, how], timeout=120).returncode


def test_the_process_ends_in_order_but_would_not_without():
    assert copied_and_ended("left") == 0
    assert QGuiApplication.platformName() == "offscreen"
    assert copied_and_ended("held") != 0
