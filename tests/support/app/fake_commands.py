"""Replaces the commands on models, in this process: a test says what they answer, and when."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from PySide6.QtCore import QObject, QTimer, Signal

from app.commands import CommandRunner, RunningCommand
from app.window import Window
from models.answers import Changed, Made, Offered, Opened, Rated
from models.errors import Problem
from models.records import Download, Installed, Inventory


class FakeCommand(QObject):
    """A command that was started. Attributes: `words`; `dropped`; `over`."""

    line_received = Signal(object)
    done = Signal(object)
    failed = Signal(object)

    def __init__(self, words: tuple[str, ...], parent: QObject) -> None:
        super().__init__(parent)
        self.words, self.dropped, self.over = words, False, False

    def drop(self) -> None:
        self.dropped = self.over = True

    def tell(self, line: object) -> None:
        self.line_received.emit(line)

    def download(self, download: Download) -> None:
        self.tell(Changed(download))

    def install(self, installed: Installed) -> None:
        self.tell(Made(installed))

    def answer(self, answer: object = None) -> None:
        """End well."""
        self.over = True
        self.done.emit(answer)

    def fail(self, message: str, remedy: str) -> None:
        self.over = True
        self.failed.emit(Problem(message, remedy))


class FakeCommandRunner(CommandRunner):
    """Attributes: `started`, all commands; `closed`, how it was closed, None before."""

    def __init__(self) -> None:
        super().__init__(("no", "such", "command"))
        self.started: list[FakeCommand] = []
        self.closed: tuple[Any, ...] | None = None

    def start(self, *words: str) -> RunningCommand:
        self.started.append(FakeCommand(words, self))
        return cast(RunningCommand, self.started[-1])

    def close(self, *, patient: Any = ()) -> None:
        self.closed = tuple(patient)

    def asked(self, *words: str) -> FakeCommand:
        """The latest command that has all these words, and is not over."""
        return next(
            one for one in reversed(self.started) if not one.over and {*words} <= {*one.words}
        )

    def waits(self, *words: str) -> bool:
        """Whether there is one."""
        return any(not one.over and {*words} <= {*one.words} for one in self.started)

    def answer_all(
        self, inventory: Inventory, offers: Offered, candidates: Rated | None = None
    ) -> None:
        """Answer what is usually asked, as often as it is."""
        while any(self.waits(word) for word in ("list", "pair")):
            if self.waits("list"):
                self.asked("list").answer(inventory)
            elif self.waits("--target"):
                self.asked("--target").answer(candidates or Rated("", ()))
            else:
                self.asked("pair").answer(offers)


class OpeningCommands(FakeCommandRunner):
    """Prepares each target at once: a folder that `opening` returns, or its Problem."""

    def __init__(self, opening: Callable[[str], Path]) -> None:
        super().__init__()
        self._opening = opening

    def start(self, *words: str) -> RunningCommand:
        command = super().start(*words)
        QTimer.singleShot(0, self, lambda: self._answer(cast(FakeCommand, command)))
        return command

    def _answer(self, command: FakeCommand) -> None:
        if self.closed is not None:
            return
        try:
            command.answer(Opened(str(self._opening(command.words[-1]))))
        except Problem as problem:
            command.fail(problem.message, problem.remedy)


def commands_of(window: Window) -> FakeCommandRunner:
    """Return the fake commands that a window was made with."""
    found = window.library.commands
    assert isinstance(found, FakeCommandRunner)
    return found
