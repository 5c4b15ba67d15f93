"""Tells a person who is elsewhere that an answer has ended: by a mark on the task bar and a message
of the system's, on a Mac by its icon in the Dock alone.

Knows answers and windows; where the system has no such thing, nothing happens.
"""

import sys
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from app.chat.answers import Answers, Writing

_SHOWN_MS = 10_000
_ENDINGS = {
    "complete": "The answer is finished.",
    "length": "The answer stopped at the token limit.",
    "failed": "The answer failed.",
}
_MARKED_MS = 1_000  # without an end a Mac's icon bounces until somebody clicks it


def mark(window: QWidget) -> None:
    """Mark a window on the task bar, or its icon in the Dock, where it is not in front."""
    QApplication.alert(window, _MARKED_MS)


class Attention(QObject):
    """Signals: `chosen(int)`: the person chose the message on an answer in this conversation."""

    chosen = Signal(int)

    def __init__(
        self,
        answers: Answers,
        *,
        windows: Callable[[], Sequence[QWidget]],
        wanted: Callable[[], bool] = lambda: True,
        parent: QObject | None = None,
    ) -> None:
        """`windows` are those that are open; the first of them is marked. `wanted` says whether the
        person wants to be told."""
        super().__init__(parent)
        self._windows, self._wanted = windows, wanted
        self._conversation = 0
        self._ended: list[str] = []  # the titles of those that the message is about
        self._tray: QSystemTrayIcon | None = None
        # The icon is needed for the message alone, so it leaves with it.
        self._end = QTimer(self, singleShot=True, interval=_SHOWN_MS)
        self._end.timeout.connect(self._hide)
        answers.finished.connect(self._on_finished)

    def _on_finished(self, writing: Writing) -> None:
        windows = [window for window in self._windows() if window.isVisible()]
        line = _ENDINGS.get(writing.state)
        here = any(window.isActiveWindow() for window in windows)
        if line is None or not windows or here or not self._wanted():
            return
        mark(windows[0])
        self._ended.append(writing.title or "Slipstream")
        title = self._ended[0]
        if len(self._ended) > 1:  # a message takes the place of the one before
            title, line = f"{len(self._ended)} answers have ended.", ", ".join(self._ended)
        self.show_message(title, line, writing.message.conversation)

    def show_message(self, title: str, line: str, conversation: int) -> None:
        """Show it among the system's messages, where there is a place for it."""
        self._end.start()
        if sys.platform == "darwin":  # there it needs an icon in the menu bar, which flashes up
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
        self._ended.clear()
        if self._tray is not None:
            self._tray.hide()
