"""Runs `slipstream models ...`, each time as a child of its own, and says what it answers.

Knows processes and JSON lines; not what the answers mean. Nothing here waits, `close` apart.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.engine_client.child_process import ChildProcess
from models.errors import Problem

JsonObject = dict[str, Any]

_FOLDER = Path(__file__).parents[1]  # where `-m engine` is found, and nobody else's
_LONGEST_LINE_BYTES = 1 << 24
_WELL = "It ended with status 0."  # the status alone is also that of one that was killed


def models_command() -> tuple[str, ...]:
    """What the words of a command are added to; in a bundle this is the Python inside it."""
    return (sys.executable, "-m", "engine", "models")


class RunningCommand(QObject):
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
        self._last: JsonObject = {}
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


class CommandRunner(QObject):
    """Starts commands, any number at a time."""

    def __init__(self, command: Sequence[str] = (), *, parent: QObject | None = None) -> None:
        """`command` stands in for `models_command()`."""
        super().__init__(parent)
        self._command = tuple(command) or models_command()

    def start(self, *words: str) -> RunningCommand:
        """Run a command with these words; it answers after this has returned."""
        return RunningCommand((*self._command, *words), parent=self)

    def drop(self, running: RunningCommand | None) -> None:
        """It is not wanted any more, if it is there at all."""
        if running is not None:
            running.drop()

    def close(self, *, patient: Sequence[RunningCommand] = ()) -> None:
        """End all of them. Takes 1.5 seconds for each of `patient` that does not hear."""
        children = self.findChildren(RunningCommand)
        for running in children:
            running.close(patient=running in patient)


class Question[T](QObject):
    """Attributes: `value`, the latest answer; `problem`, why there is none that is newer;
    `asking`; `answered`, whether there ever was one since it was forgotten.

    Signals: `changed()`, any of these.
    """

    changed = Signal()

    def __init__(
        self, commands: CommandRunner, read: Callable[[JsonObject], T], *, empty: T, parent: QObject
    ) -> None:
        """`read` makes a value of an answer, or raises Problem; `empty` is the value before."""
        super().__init__(parent)
        self._commands, self._read, self._empty = commands, read, empty
        self._running: RunningCommand | None = None
        self.value = empty
        self.problem: Problem | None = None
        self.answered = False

    @property
    def asking(self) -> bool:
        return self._running is not None

    def ask(self, *words: str) -> None:
        """Ask; an older question is dropped. The value stays until there is another."""
        self._commands.drop(self._running)
        self.problem = None
        self._running = running = self._commands.start(*words)
        running.done.connect(lambda answer: self._on_done(running, answer))
        running.failed.connect(lambda problem: self._on_failed(running, problem))
        self.changed.emit()

    def forget(self) -> None:
        """As before it was ever asked."""
        self._commands.drop(self._running)
        self._running = None
        self.value, self.problem, self.answered = self._empty, None, False
        self.changed.emit()

    def _on_done(self, running: RunningCommand, answer: JsonObject) -> None:
        if running is not self._running:
            return
        try:
            value = self._read(answer)
        except Problem as problem:
            self._on_failed(running, problem)
            return
        self._running = None
        self.value, self.answered = value, True
        self.changed.emit()

    def _on_failed(self, running: RunningCommand, problem: Problem) -> None:
        if running is self._running:
            self._running = None
            self.problem = problem
            self.changed.emit()


def read_line(line: bytes) -> JsonObject | None:
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


def read_records[R](kind: type[R], answer: JsonObject, key: str) -> tuple[R, ...]:
    return tuple(read_record(kind, plain) for plain in read_items(answer, key))


def read_items(answer: JsonObject, key: str) -> Iterable[Any]:
    items = answer.get(key)
    if not isinstance(items, list):
        raise _misunderstood()
    return items


def read_record[R](kind: type[R], plain: object) -> R:
    if not isinstance(plain, dict):
        raise _misunderstood()
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    given = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in plain.items()
        if key in known
    }
    try:
        return kind(**given)
    except TypeError as error:
        raise _misunderstood() from error


def _misunderstood() -> Problem:
    return Problem(
        "The answer of a command on models is not as it should be.",
        "Install Slipstream again, so that all its parts are of one version.",
    )
