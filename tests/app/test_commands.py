"""CommandRunner on models run as children: their lines, their ends, and their deaths."""

import sys

import psutil
import pytest

from app.commands import CommandRunner
from models.answers import ANSWERS, Freed, Refused
from models.errors import Problem


class Heard:
    """A command, and what it said."""

    def __init__(self, running):
        self.running = running
        self.pid = running.pid
        self.lines = []
        self.ends = []
        running.line_received.connect(self.lines.append)
        running.done.connect(self.ends.append)
        running.failed.connect(self.ends.append)

    @property
    def problem(self):
        (end,) = self.ends
        assert isinstance(end, Problem)
        return end


@pytest.fixture
def commands(qapp):
    commands = CommandRunner((sys.executable, "-c"))
    yield commands
    commands.close()


@pytest.fixture
def start(commands):
    """Starts a program."""
    return lambda program: Heard(commands.start(program))


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


def test_a_problem_crosses_the_pipe_with_its_remedy(start, until):
    heard = start(f"{printing(Refused('No network.', 'Connect.'))}; raise SystemExit(2)")
    until(lambda: heard.ends)
    assert (heard.problem.message, heard.problem.remedy) == ("No network.", "Connect.")
    assert heard.lines == []


@pytest.mark.parametrize(
    ("program", "fact"),
    [
        (f"{printing(Freed(1))}; import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("raise SystemExit(3)", "status 3"),
    ],
)
def test_a_process_that_dies_is_a_problem(start, until, program, fact):
    heard = start(program)
    until(lambda: heard.ends)
    assert fact in heard.problem.message
    assert heard.problem.remedy


def test_a_dropped_command_ends_and_emits_nothing(start, until):
    heard = start(f"import time; {printing(Freed(1))}; time.sleep(3600)")
    until(lambda: heard.lines)
    child = psutil.Process(heard.running.pid)
    heard.running.drop()
    heard.running._child.said.emit(ANSWERS.to_line(Freed(2)))  # it was on its way already
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
