"""The lives of a process, its lines, and its silence: real processes, one at a time."""

import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QProcess, QTimer

from app.engine_client.child_process import GRACE_SECONDS, ChildProcess
from app.engine_client.watchdog import Watchdog
from engine.pipes import Lines
from engine.process.supervision import KILLED, Supervisor

SAY_AND_LISTEN = "print('ready', flush=True); import sys; sys.stdin.read()"
SAY_AND_WAIT = "print('ready', flush=True); import time; time.sleep(3600)"


class Heard:
    """A child process that runs a line of Python. Attributes: `child`; its lives and its output
    so far."""

    def __init__(self, code, program, pauses_seconds):
        self.pids = []
        self.said = []
        self.complained = []
        self.ends = []
        self.supervisor = Supervisor(pauses_seconds)
        self.child = ChildProcess(
            [program, "-c", code], folder=Path("/"), limit=20, supervisor=self.supervisor
        )
        self.child.began.connect(self._on_began)
        self.child.said.connect(self.said.append)
        self.child.complained.connect(self.complained.append)
        self.child.ended.connect(lambda *end: self.ends.append(end))
        self.child.start()

    def _on_began(self):
        assert not any(map(psutil.pid_exists, self.pids)), "never two"
        self.pids.append(self.child.pid)


@pytest.fixture
def run(qtbot):
    started = []

    def run(code, *pauses_seconds, program=sys.executable):
        started.append(Heard(code, program, pauses_seconds))
        return started[-1]

    yield run
    for heard in started:
        heard.child.close()
        assert not heard.child.running


def expected(data, limit):
    """Lines and rest, the slow way."""
    *ended, rest = data.split(b"\n")
    whole = [
        line if len(line) <= limit else line[: limit + 1]
        for line in [*(line + b"\n" for line in ended), rest]
    ]
    rest = whole.pop()
    return (whole, rest) if len(rest) <= limit else ([*whole, rest], b"")


@given(
    st.lists(st.lists(st.sampled_from([b"\n", b"\r", b"a", b"\xc3"]), max_size=9).map(b"".join)),
    st.integers(1, 12),
)
def test_lines_are_the_same_however_they_arrive(chunks, limit):
    lines = Lines(limit)
    came = [line for chunk in chunks for line in lines.feed(chunk)]
    assert (came, lines.rest()) == expected(b"".join(chunks), limit)


TALKS = "import sys; print(input()[::-1]); print('c', file=sys.stderr, end=''); print(end='d')"


@pytest.mark.parametrize(
    ("code", "end", "said", "complaint"),
    [
        (TALKS, ("It ended with status 0.", 0), [b"ab\n", b"d"], b"c"),
        ("raise SystemExit(3)", ("It ended with status 3.", 3), [], b""),
        ("import os; os.abort()", ("It ended with SIGABRT.", None), [], b"Fatal Python error: "),
        ("import os; os.kill(os.getpid(), 9)", (KILLED, None), [], b""),
    ],
    ids=["by itself", "with a status", "aborted", "killed"],
)
def test_it_says_what_the_program_says_which_hears_what_is_written_and_how_it_ended(
    code, end, said, complaint, run, until
):
    heard = run(code)
    heard.child.write(b"ba\n")
    until(lambda: heard.ends)
    assert heard.ends == [end]
    assert heard.said == said
    assert b"".join(heard.complained[:1]).startswith(complaint)
    assert bool(heard.complained) is bool(complaint)
    heard.child.write(b"to no one\n")


@pytest.mark.parametrize("program", ["/no/such/program", ""])  # Qt says the second while it starts
def test_a_program_that_is_missing(program, run, until):
    heard = run("", program=program)
    assert heard.ends == []
    until(lambda: heard.ends)
    ((reason, status),) = heard.ends
    assert reason.startswith("It could not be started: ")
    assert status is None


def test_closing_ends_what_does_not_listen_hears_last_words_and_starts_no_other(run, until):
    heard = run("import signal; signal.signal(15, signal.SIG_IGN);" + SAY_AND_WAIT)
    until(lambda: heard.said)
    heard.child.grace_seconds = 0.1
    heard.child.close()
    assert heard.ends == [(KILLED, None)]
    heard = run("print('ready', flush=True); input_ = __import__('sys').stdin.read(); print('bye')")
    until(lambda: heard.said)
    heard.child.ended.connect(lambda: heard.child.start())
    heard.child.close()
    assert heard.said == [b"ready\n", b"bye\n"]
    assert heard.ends == [("It ended with status 0.", 0)]
    assert len(heard.pids) == 1


def test_others_have_their_turn_while_a_flood_is_told(run, until):
    """Else the window would hear nothing but the engine, one portion right after the other."""
    heard = run(f"print('x\\n' * 60, end='', flush=True); {SAY_AND_LISTEN}")
    heard.child.said.connect(lambda line: time.sleep(0.002))
    turns = set()
    timer = QTimer()
    timer.timeout.connect(lambda: turns.add(len(heard.said)))
    timer.start(0)
    until(lambda: heard.said)
    count = len(heard.said)
    heard.child.findChild(QProcess).readyReadStandardOutput.emit()  # as if more had come
    assert len(heard.said) == count < 60
    until(lambda: len(heard.said) == 61)
    timer.stop()
    assert heard.said == [b"x\n"] * 60 + [b"ready\n"]
    assert len(turns) > 5


def test_another_starts_once_the_first_has_ended_whose_grace_is_not_its_own(run, until, qtbot):
    heard = run(SAY_AND_LISTEN)
    until(lambda: heard.said)
    for count, kill, grace in ((2, True, GRACE_SECONDS), (3, False, 0.2)):
        heard.child.grace_seconds = grace
        heard.child.replace(kill=kill)
        heard.child.replace(kill=kill)
        assert heard.child.pid == 0
        until(lambda count=count: len(heard.said) == count)
        assert (len(heard.pids), heard.child.death) == (count, None)
    qtbot.wait(250)
    assert psutil.pid_exists(heard.pids[-1])


def test_a_killed_one_says_nothing_more(run, until):
    heard = run("print('first', flush=True); print('second', flush=True); " + SAY_AND_WAIT)
    heard.child.said.connect(lambda line: heard.child.stop(kill=True))
    until(lambda: heard.ends)
    assert heard.said == [b"first\n"]


def test_one_that_does_not_work_is_killed_and_started_again(run, until):
    heard = run(SAY_AND_WAIT, 0.0)
    until(lambda: heard.said)
    assert heard.child.fail().count == 1
    assert heard.child.fail() is None
    until(lambda: len(heard.said) == 2)
    assert heard.child.fail(for_good=True) is not None
    until(lambda: not heard.child.running)
    assert heard.supervisor.plan == "given up"


def test_a_stop_ends_the_wait_for_another(run, until, qtbot):
    heard = run("raise SystemExit(3)", 0.01)
    heard.child.ended.connect(lambda: heard.child.stop())
    until(lambda: heard.ends)
    qtbot.wait(50)
    assert len(heard.pids) == 1


HOUR = 3600.0


def test_silence_is_told_once_never_at_rest_and_asking_for_more_is_not_an_answer(qapp):
    dog = Watchdog(tick_seconds=HOUR)  # by hand: its own timer is too slow for a test
    timer, barked = dog.findChild(QTimer), []
    dog.silent.connect(lambda seconds: barked.append(f"silent {seconds / HOUR:.0f}"))
    dog.speaking.connect(lambda: barked.append("speaking"))

    def tick(count):
        for _ in range(count):
            if timer.isActive():
                timer.timeout.emit()

    dog.expect(3 * HOUR)
    tick(2)
    assert barked == []
    tick(5)
    assert barked == ["silent 3"]
    assert dog.timed_out
    dog.heard()
    assert not dog.timed_out
    tick(2)
    assert barked == ["silent 3", "speaking"]
    tick(1)
    assert barked == ["silent 3", "speaking", "silent 3"]
    dog.rest()
    barked.clear()
    tick(9)
    dog.expect(3 * HOUR)
    tick(2)
    dog.rest()
    tick(9)
    for barks in ([], [], ["silent 3"]):
        dog.expect(3 * HOUR)
        tick(1)
        assert barked == barks
    dog.rest()
    assert barked == ["silent 3", "speaking"]
