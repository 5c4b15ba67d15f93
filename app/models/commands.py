"""Runs `slipstream models ...`, each time as a child of its own, and says what it answers.

Knows processes and JSON lines; not what the answers mean. Nothing here waits, `close` apart.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.engine_client.child_process import ChildProcess
from models.errors import Problem

Plain = dict[str, Any]

_FOLDER = Path(__file__).parents[2]  # where `-m engine` is found, and nobody else's
_LONGEST_LINE_BYTES = 1 << 24
_WELL = "It ended with status 0."  # the status alone is also that of one that was killed


def models_command() -> tuple[str, ...]:
    """What the words of a command are added to; in a bundle this is the Python inside it."""
    return (sys.executable, "-m", "engine", "models")


class Running(QObject):
    """A command on its way.

    Signals:
        told(dict): a line of its answer.
        done(dict): its last line, once it has ended well; empty where it said nothing.
        failed(Problem): it could not, or died.
    """

    told = Signal(object)
    done = Signal(object)
    failed = Signal(object)

    def __init__(self, command: Sequence[str], *, parent: QObject) -> None:
        super().__init__(parent)
        self._last: Plain = {}
        self._problem: Problem | None = None
        self._dropped = False
        self._child = ChildProcess(command, folder=_FOLDER, limit=_LONGEST_LINE_BYTES, parent=self)
        self._child.said.connect(self._hear)
        self._child.ended.connect(self._on_ended)
        self._child.start()

    @property
    def pid(self) -> int:
        """0 where it does not run."""
        return self._child.pid

    def drop(self) -> None:
        """It is not wanted any more: end it, and hear nothing of it."""
        self._dropped = True
        self._child.kill()

    def close(self, *, patient: bool) -> None:
        """End it now, and wait for that; `patient`: it may put its things in order before."""
        self._dropped = True
        if not patient:
            self._child.kill()
        self._child.close()

    def _hear(self, line: bytes) -> None:
        answer = read_line(line)
        if answer is None or self._dropped:
            return
        if "problem" in answer:
            self._problem = _problem(answer["problem"])
            return
        self._last = answer
        self.told.emit(answer)

    def _on_ended(self, reason: str, status: int) -> None:
        if self._dropped:
            pass
        elif self._problem is not None:
            self.failed.emit(self._problem)
        elif reason == _WELL:
            self.done.emit(self._last)
        else:
            self.failed.emit(
                Problem(
                    f"What looks after the models has stopped. {reason}",
                    "Try again; what was downloaded is kept.",
                )
            )
        self.deleteLater()


class Commands(QObject):
    """Starts commands, any number at a time."""

    def __init__(self, command: Sequence[str] = (), *, parent: QObject | None = None) -> None:
        """`command` stands in for `models_command()`."""
        super().__init__(parent)
        self._command = tuple(command) or models_command()

    def start(self, *words: str) -> Running:
        """Run a command with these words; it answers after this has returned."""
        return Running((*self._command, *words), parent=self)

    def drop(self, running: Running | None) -> None:
        """It is not wanted any more, if it is there at all."""
        if running is not None:
            running.drop()

    def close(self, *, patient: Sequence[Running] = ()) -> None:
        """End all of them. Takes 1.5 seconds for each of `patient` that does not hear."""
        children = self.findChildren(Running)
        for running in children:
            running.close(patient=running in patient)


def read_line(line: bytes) -> Plain | None:
    """What a line says; None where it is something else that was printed."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _problem(told: object) -> Problem:
    match told:
        case [str(message), str(remedy)]:
            return Problem(message, remedy)
        case _:
            return Problem("A command on models failed, and did not say why.", "Try again.")
