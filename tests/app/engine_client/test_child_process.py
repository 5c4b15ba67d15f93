"""Lines out of bytes, and one life of a process."""

import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QTimer

from app.engine_client.child_process import ChildProcess
from engine.pipes import Lines
from engine.process.supervision import KILLED

TIMEOUT_MILLISECONDS = 120_000  # for hangs only
SAY_AND_LISTEN = "print('ready', flush=True); import sys; sys.stdin.read()"
SAY_AND_WAIT = "print('ready', flush=True); import time; time.sleep(3600)"


class Heard:
    """A child process that runs a line of Python, and its output."""

    def __init__(self, code, qtbot, *, program=sys.executable):
        self._qtbot = qtbot
        self.said = []
        self.complained = []
        self.ends = []
        self.child = ChildProcess([program, "-c", code], folder=Path("/"), limit=20)
        self.child.said.connect(self.said.append)
        self.child.complained.connect(self.complained.append)
        self.child.ended.connect(lambda *end: self.ends.append(end))

    def until(self, holds):
        self._qtbot.waitUntil(lambda: bool(holds()), timeout=TIMEOUT_MILLISECONDS)


@pytest.fixture
def run(qtbot):
    started = []

    def run(code, **options):
        started.append(heard := Heard(code, qtbot, **options))
        heard.child.start()
        return heard

    yield run
    for heard in started:
        heard.child.close()
        assert not heard.child.running


def expected(data, limit):
    """Lines and rest, the slow way."""
    whole = [line if len(line) <= limit else line[: limit + 1] for line in _split(data)]
    rest = whole.pop()
    return (whole, rest) if len(rest) <= limit else ([*whole, rest], b"")


def _split(data):
    *ended, rest = data.split(b"\n")
    return [*(line + b"\n" for line in ended), rest]


@given(
    st.lists(st.lists(st.sampled_from([b"\n", b"\r", b"a", b"\xc3"]), max_size=9).map(b"".join)),
    st.integers(1, 12),
)
def test_lines_are_the_same_however_they_arrive(chunks, limit):
    lines = Lines(limit)
    came = [line for chunk in chunks for line in lines.feed(chunk)]
    assert (came, lines.rest()) == expected(b"".join(chunks), limit)


def test_a_line_without_an_end_is_told_early_and_not_kept():
    lines = Lines(10)
    assert lines.feed(b"x" * 11) == [b"x" * 11]
    assert [lines.feed(b"y" * 1000) for _ in range(5)] == [[]] * 5
    assert lines.rest() == b""
    assert lines.feed(b"y\nnext\n") == [b"next\n"]


def test_it_says_what_the_program_says(run):
    heard = run("import sys; print('a\\nb'); print('c', file=sys.stderr, end=''); print(end='d')")
    heard.until(lambda: heard.ends)
    assert heard.said == [b"a\n", b"b\n", b"d"]
    assert heard.complained == [b"c"]
    assert heard.ends == [("It ended with status 0.", 0)]


def test_it_is_told_what_is_written(run):
    heard = run("print(input()[::-1])")
    heard.child.write(b"abc\n")
    heard.until(lambda: heard.ends)
    assert heard.said == [b"cba\n"]
    heard.child.write(b"to nobody\n")


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("raise SystemExit(3)", ("It ended with status 3.", 3)),
        ("import os; os.abort()", ("It ended with SIGABRT.", None)),
        ("import os; os.kill(os.getpid(), 9)", (KILLED, None)),
    ],
)
def test_it_tells_how_it_ended(code, end, run):
    heard = run(code)
    heard.until(lambda: heard.ends)
    assert heard.ends == [end]


def test_a_program_that_is_missing(run):
    heard = run("", program="/no/such/program")
    assert heard.ends == []
    heard.until(lambda: heard.ends)
    ((reason, status),) = heard.ends
    assert reason.startswith("It could not be started: ")
    assert status is None


def test_a_crash_tells_where(run):
    heard = run("import os; os.abort()")
    heard.until(lambda: heard.ends)
    assert heard.complained[0] == b"Fatal Python error: Aborted\n"


def test_closing_ends_what_does_not_listen(run):
    heard = run("import signal; signal.signal(15, signal.SIG_IGN);" + SAY_AND_WAIT)
    heard.until(lambda: heard.said)
    heard.child.close()
    assert heard.ends == [(KILLED, None)]


def test_closing_hears_the_last_words(run):
    heard = run("print('ready', flush=True); input_ = __import__('sys').stdin.read(); print('bye')")
    heard.until(lambda: heard.said)
    heard.child.close()
    assert heard.said == [b"ready\n", b"bye\n"]
    assert heard.ends == [("It ended with status 0.", 0)]


def test_others_have_their_turn_while_a_flood_is_told(run):
    heard = run(f"print('x\\n' * 200, end=''); {SAY_AND_LISTEN}")
    heard.child.said.connect(lambda line: time.sleep(0.002))
    turns = set()
    timer = QTimer()
    timer.timeout.connect(lambda: turns.add(len(heard.said)))
    timer.start(0)
    heard.until(lambda: len(heard.said) == 201)
    timer.stop()
    assert heard.said == [b"x\n"] * 200 + [b"ready\n"]
    assert len(turns) > 5


def test_what_comes_in_a_flood_waits_for_its_turn(run):
    """Else the window would hear nothing but the engine, one portion right after the other."""
    heard = run(f"print('x\\n' * 200, end='', flush=True); {SAY_AND_LISTEN}")
    heard.child.said.connect(lambda line: time.sleep(0.002))
    heard.until(lambda: heard.said)
    count = len(heard.said)
    heard.child._read()  # as if more had come
    assert len(heard.said) == count < 200
    heard.until(lambda: len(heard.said) == 201)
