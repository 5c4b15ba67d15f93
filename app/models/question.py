"""Something that is asked of the commands again and again; only the latest answer counts.

Knows how asking stands: not asked, asking, answered, failed. Not what is asked.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.models.commands import Commands, Plain, Running
from models.errors import Problem


class Question[T](QObject):
    """Attributes: `value`, the latest answer; `problem`, why there is none that is newer;
    `asking`; `answered`, whether there ever was one since it was forgotten.

    Signals: `changed()`, any of these.
    """

    changed = Signal()

    def __init__(
        self, commands: Commands, read: Callable[[Plain], T], *, empty: T, parent: QObject
    ) -> None:
        """`read` makes a value of an answer, or raises Problem; `empty` is the value before."""
        super().__init__(parent)
        self._commands, self._read, self._empty = commands, read, empty
        self._running: Running | None = None
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

    def _on_done(self, running: Running, answer: Plain) -> None:
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

    def _on_failed(self, running: Running, problem: Problem) -> None:
        if running is self._running:
            self._running = None
            self.problem = problem
            self.changed.emit()
