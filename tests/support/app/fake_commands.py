"""Replaces the commands on models, in this process: a test says what they answer, and when."""

from PySide6.QtCore import QObject, QTimer, Signal

from app.commands import CommandRunner
from models.answers import Changed, Opened, Rated
from models.errors import Problem


class FakeCommand(QObject):
    """A command that was started. Attributes: `words`; `dropped`; `over`."""

    line_received = Signal(object)
    done = Signal(object)
    failed = Signal(object)

    def __init__(self, words, parent):
        super().__init__(parent)
        self.words, self.dropped, self.over = words, False, False

    def drop(self):
        self.dropped = self.over = True

    def tell(self, line):
        self.line_received.emit(line)

    def download(self, download):
        self.tell(Changed(download))

    def answer(self, answer=None):
        self.over = True
        self.done.emit(answer)

    def fail(self, message, remedy):
        self.over = True
        self.failed.emit(Problem(message, remedy))


class FakeCommandRunner(CommandRunner):
    """Attributes: `started`, all commands; `closed`, how it was closed, None before."""

    def __init__(self):
        super().__init__(("no", "such", "command"))
        self.started = []
        self.closed = None

    def start(self, *words):
        self.started.append(FakeCommand(words, self))
        return self.started[-1]

    def close(self, *, patient=()):
        self.closed = tuple(patient)

    def asked(self, *words):
        """The latest command that has all these words, and is not over."""
        return next(
            one for one in reversed(self.started) if not one.over and {*words} <= {*one.words}
        )

    def waits(self, *words):
        return any(not one.over and {*words} <= {*one.words} for one in self.started)

    def answer_all(self, inventory, offers, candidates=None):
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

    def __init__(self, opening):
        super().__init__()
        self._opening = opening

    def start(self, *words):
        command = super().start(*words)
        QTimer.singleShot(0, self, lambda: self._answer(command))
        return command

    def _answer(self, command):
        if self.closed is not None:
            return
        try:
            command.answer(Opened(str(self._opening(command.words[-1]))))
        except Problem as problem:
            command.fail(problem.message, problem.remedy)


def commands_of(window):
    """Return the fake commands that a window was made with."""
    found = window.library.commands
    assert isinstance(found, FakeCommandRunner)
    return found
