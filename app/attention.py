"""Notifies the user who is in another application when an answer ends, or asks for something.

Marks the task bar and shows a system message; on a Mac, bounces the icon in the Dock. Does nothing
on systems without these. Knows answers and windows.
"""

import sys
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from app.chat.answers import Answers
from app.chat.writing import Writing
from app.steps import timer

_SHOWN_MS = 10_000
_ENDINGS = {
    "complete": "The answer is ready.",
    "length": "The answer stopped at the token limit.",
    "failed": "The answer failed.",
}
_MARKED_MS = 1_000  # without a limit, a Mac's icon bounces until it is clicked


def mark(window: QWidget) -> None:
    """Mark a window on the task bar, or its icon in the Dock, unless the window is active."""
    QApplication.alert(window, _MARKED_MS)


class Attention(QObject):
    """Signals: `chosen(int)`: the user clicked the message about this conversation."""

    chosen = Signal(int)

    def __init__(
        self,
        answers: Answers,
        *,
        windows: Callable[[], Sequence[QWidget]],
        wanted: Callable[[], bool] = lambda: True,
        parent: QObject | None = None,
    ) -> None:
        """`windows` returns the open windows; the first is marked. `wanted` returns whether the
        user wants notifications."""
        super().__init__(parent)
        self._windows, self._wanted = windows, wanted
        self._conversation = 0
        self._told: dict[int, tuple[str, str]] = {}  # the message's titles and lines
        self._tray: QSystemTrayIcon | None = None
        # Only the message needs the icon, so both disappear together.
        self._end = timer(self, _SHOWN_MS, self._hide)
        answers.finished.connect(self._on_finished)
        answers.asked.connect(self._on_asked)

    def _on_finished(self, writing: Writing) -> None:
        self._notify(writing, _ENDINGS.get(writing.state))

    def _on_asked(self, writing: Writing) -> None:
        self._notify(writing, "Allow a tool to run?")

    def _notify(self, writing: Writing, line: str | None) -> None:
        windows = [window for window in self._windows() if window.isVisible()]
        here = any(window.isActiveWindow() for window in windows)
        if line is None or not windows or here or not self._wanted():
            return
        mark(windows[0])
        title, conversation = writing.title or "Slipstream", writing.message.conversation
        self._told[conversation] = title, line
        if len(self._told) > 1:  # a new message replaces the last one
            title = f"{len(self._told)} conversations"
            line = "\n".join(f"{name}: {said}" for name, said in self._told.values())
        self.show_message(title, line, conversation)

    def show_message(self, title: str, line: str, conversation: int) -> None:
        """Show a system message, if the system can."""
        self._end.start()
        if sys.platform == "darwin":  # needs an icon in the menu bar, which would flash
            return
        if not (QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages()):
            return
        if self._tray is None:
            self._tray = QSystemTrayIcon(QApplication.windowIcon(), self)
            self._tray.messageClicked.connect(self._on_chosen)
        self._conversation = conversation
        self._tray.show()
        self._tray.showMessage(title, line, QApplication.windowIcon(), _SHOWN_MS)

    def _on_chosen(self) -> None:
        self._hide()
        self.chosen.emit(self._conversation)

    def _hide(self) -> None:
        self._end.stop()
        self._told.clear()
        if self._tray is not None:
            self._tray.hide()
