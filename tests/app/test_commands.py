"""Processes: commands on models, run as children, with their lines, ends and deaths; and the
window's own, whose garbage is collected while no one waits, and which a copied text outlasts."""

import gc
import subprocess
import sys
import weakref
from types import SimpleNamespace

import psutil
import pytest
import shiboken6
from PySide6.QtCore import QTimer, QUrl
from PySide6.QtGui import QFileOpenEvent, QGuiApplication

from app import housekeeping
from app.commands import CommandRunner
from app.engine_client.child_process import ChildProcess
from app.housekeeping import GcScheduler
from models.answers import ANSWERS, Freed, Refused


@pytest.fixture
def commands(qapp):
    commands = CommandRunner((sys.executable, "-c"))
    yield commands
    commands.close()


@pytest.fixture
def start(commands):
    """Starts a program. Returns it, its lines, and its end: an answer or a Problem."""

    def start(program):
        heard = SimpleNamespace(running=commands.start(program), lines=[], ends=[])
        heard.running.line_received.connect(heard.lines.append)
        heard.running.done.connect(heard.ends.append)
        heard.running.failed.connect(heard.ends.append)
        return heard

    return start


def printing(*answers):
    """A program that prints these lines, with other output between them."""
    return "\n".join(
        f"print({ANSWERS.to_json(each)!r}, flush=True); print('a library prints'); print('[]')"
        for each in answers
    )


def test_every_line_is_emitted_and_the_last_is_the_answer(start, until):
    heard = start(printing(Freed(1), Freed(2)))
    assert heard.ends == []  # nothing comes before it was returned
    until(lambda: heard.ends)
    assert heard.lines == [Freed(1), Freed(2)]
    assert heard.ends == [Freed(2)]


@pytest.mark.parametrize(
    ("program", "lines", "facts"),
    [
        (f"{printing(Refused('No network.', 'Connect.'))}; raise SystemExit(2)", [],
         ["No network.", "Connect."]),
        (f"{printing(Freed(1))}; import os; os.kill(os.getpid(), 9)", [Freed(1)], ["SIGKILL"]),
        ("raise SystemExit(3)", [], ["status 3"]),
    ],
    ids=["refuses", "is killed", "ends"],
)  # fmt: skip
def test_a_process_that_refuses_or_dies_is_a_problem(start, until, program, lines, facts):
    heard = start(program)
    until(lambda: heard.ends)
    (problem,) = heard.ends
    assert all(fact in str(problem) for fact in facts)
    assert problem.remedy
    assert heard.lines == lines


def test_a_dropped_command_ends_and_emits_nothing(start, until):
    heard = start(f"import time; {printing(Freed(1))}; time.sleep(3600)")
    until(lambda: heard.lines)
    child = psutil.Process(heard.running.pid)
    heard.running.drop()
    on_its_way = ANSWERS.to_line(Freed(2))
    heard.running.findChild(ChildProcess).said.emit(on_its_way)
    until(lambda: not child.is_running())
    assert heard.ends == []
    assert heard.lines == [Freed(1)]


def test_closing_lets_downloads_finish_their_writes(commands, start, until, tmp_path):
    """Their input ends, and that is waited for; the others are killed."""
    program = "import sys; from pathlib import Path; {}; sys.stdin.read(); Path({!r}).touch()"
    paused, not_killed = tmp_path / "paused", tmp_path / "not killed"
    patient = start(program.format(printing(Freed(1)), str(paused)))
    other = start(program.format(printing(Freed(1)), str(not_killed)))
    until(lambda: patient.lines and other.lines)
    children = [psutil.Process(one.running.pid) for one in (patient, other)]
    commands.close(patient=(patient.running,))
    assert paused.exists()
    assert not not_killed.exists()
    assert not any(one.is_running() for one in children)
    assert patient.ends == other.ends == []


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


def test_young_garbage_goes_at_once_and_old_waits_until_nobody_would_notice(qtbot, monkeypatch):
    monkeypatch.setattr(housekeeping, "_REST_SECONDS", 0.0)
    busy = []  # whether the user would notice: none, or one thing that is being written
    collector = GcScheduler(lambda: bool(busy))
    assert not gc.isenabled(), "Python does not collect by itself"
    old = Cycle()
    gone = weakref.ref(old)
    gc.collect()  # it is old now
    del old
    collector.collect()
    assert gone() is not None
    busy.append("an answer")
    young, many = weakref.ref(Cycle()), [[] for _ in range(2000)]
    collector.request_full()
    collector.collect()
    assert (young(), len(many)) == (None, 2000)
    assert gone() is not None
    busy.clear()
    collector.findChild(QTimer).setInterval(5)
    qtbot.waitUntil(lambda: gone() is None)  # it looks by itself
    shiboken6.delete(collector)
    gc.unfreeze()
    gc.enable()


COPYING = """
from PySide6.QtCore import QMimeData
from PySide6.QtWidgets import QApplication
from app.housekeeping import leave_texts

application = QApplication([])
data = QMimeData()
data.setText("copied")
QApplication.clipboard().setMimeData(data)
leave_texts()
assert QApplication.clipboard().text() == "copied"
"""


def test_the_process_ends_in_order_after_a_text_was_copied():
    assert subprocess.run([sys.executable, "-c", COPYING], timeout=120).returncode == 0
    assert QGuiApplication.platformName() == "offscreen"
