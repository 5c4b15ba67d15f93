"""Runs Slipstream's own commands as child processes, which answer in lines of JSON.

Knows processes and how lines are read; not the meaning of answers. Nothing waits, except `close`.
"""

import sys
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal

from app.engine_client.child_process import ChildProcess
from models.answers import ANSWERS, Refused
from models.errors import Problem

Read = Callable[[bytes], object]


def models_command() -> tuple[str, ...]:
    """Return the beginning of every command on models. In a bundle it uses the bundle's Python."""
    return (sys.executable, "-m", "engine", "models")


class RunningCommand(QObject):
    """A command that was started.

    Signals:
        line_received(object): a line of its answer.
        done(object): it ended with status 0; its last line, or None.
        failed(Problem): it reported a problem, or ended in another way.
    """

    line_received = Signal(object)
    done = Signal(object)
    failed = Signal(object)

    def __init__(self, command: Sequence[str], *, name: str, read: Read, parent: QObject) -> None:
        """`name` is the subject of the error message "... exited with status 1"; `read`: as for
        `CommandRunner`."""
        super().__init__(parent)
        self._name, self._read = name, read
        self._last: object = None
        self._problem: Problem | None = None
        self._dropped = False
        self._child = ChildProcess(command, limit=ANSWERS.longest_bytes, parent=self)
        self._child.said.connect(self._on_line)
        self._child.ended.connect(self._on_ended)
        self._child.start()

    @property
    def pid(self) -> int:
        """The id of its process; 0 while it does not run."""
        return self._child.pid

    def drop(self) -> None:
        """Kill it, and send no more signals."""
        self._dropped = True
        self._child.stop(kill=True)

    def close(self, *, patient: bool) -> None:
        """End it, wait for that, and send no more signals. `patient` lets it finish its writes."""
        self._dropped = True
        self._child.close(kill=not patient)

    def _on_line(self, line: bytes) -> None:
        if self._dropped:
            return
        try:
            answer = self._read(line)
        except (ValueError, RecursionError):  # other output, such as a library's
            return
        if isinstance(answer, Refused):
            self._problem = Problem(answer.message, answer.remedy)
            return
        self._last = answer
        self.line_received.emit(answer)

    def _on_ended(self, reason: str, status: int | None) -> None:
        if self._dropped:
            pass
        elif self._problem is not None:
            self.failed.emit(self._problem)
        elif status == 0:
            self.done.emit(self._last)
        else:
            self.failed.emit(Problem(f"{self._name} exited. {reason}", "Try again."))
        self.deleteLater()


class CommandRunner(QObject):
    """Starts commands; several can run at once."""

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        name: str = "The model manager",
        read: Read = ANSWERS.read,
        parent: QObject | None = None,
    ) -> None:
        """`command` replaces `models_command()`. `name` is its name in messages. `read` reads a
        line of its output, or raises ValueError."""
        super().__init__(parent)
        self._name, self._read = name, read
        self.command = tuple(command) or models_command()

    def start(self, *words: str) -> RunningCommand:
        """Start the command with these arguments. Signals come after this returns."""
        command = (*self.command, *words)
        return RunningCommand(command, name=self._name, read=self._read, parent=self)

    def drop(self, running: RunningCommand | None) -> None:
        """Drop a command; does nothing for None."""
        if running is not None:
            running.drop()

    def close(self, *, patient: Sequence[RunningCommand] = ()) -> None:
        """End all commands. Takes up to 1.5 seconds for each of `patient` that does not end."""
        children = self.findChildren(RunningCommand)
        for running in children:
            running.close(patient=running in patient)


class Question[T](QObject):
    """A question for commands, asked again and again. Only the latest answer counts.

    Attributes: `value`, the latest answer; `problem`, why the latest question failed; `asking`;
    `answered`, whether there was an answer since `forget`.

    Signals: `changed()`: any of these changed.
    """

    changed = Signal()

    def __init__(
        self,
        commands: CommandRunner,
        read: Callable[[object], T],
        *,
        empty: T,
        parent: QObject,
    ) -> None:
        """`read` converts an answer, or raises Problem. `empty` is the value before the first
        answer."""
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
        """Ask, and drop an older question. The value stays until the answer comes."""
        self._commands.drop(self._running)
        self.problem = None
        self._running = running = self._commands.start(*words)
        running.done.connect(lambda answer: self._on_done(running, answer))
        running.failed.connect(lambda problem: self._on_failed(running, problem))
        self.changed.emit()

    def forget(self) -> None:
        """Return to the state before the first question."""
        self._commands.drop(self._running)
        self._running = None
        self.value, self.problem, self.answered = self._empty, None, False
        self.changed.emit()

    def _on_done(self, running: RunningCommand, answer: object) -> None:
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


def expect[T](kind: type[T], answer: object) -> T:
    """The answer, if it is of this kind. Raises Problem."""
    if isinstance(answer, kind):
        return answer
    raise Problem(
        "The answer of a command could not be read.",
        "Install Slipstream again, so that all its parts have one version.",
    )
