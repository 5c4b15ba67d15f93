"""The duties of a Qt process in Python besides showing its window.

It ends on the system's signals, opens the files it is given, leaves copied texts on the clipboard,
and collects garbage while no one waits. Knows Qt and Python; nothing of Slipstream.
"""

import gc
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QSocketNotifier, QTimer, Signal
from PySide6.QtGui import QClipboard, QFileOpenEvent, QGuiApplication
from PySide6.QtWidgets import QApplication

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_YOUNG_COLLECTION_MS = 250
_FEW = 500  # fewer new objects are not worth a collection
_REST_SECONDS = 5.0  # the user reads an answer right after waiting for it


class SignalWatch(QObject):
    """Calls `act` after each signal that asks the process to end: Ctrl-C in the terminal, or a
    shutdown. For the main thread.

    Python's signal handlers run only while Python code runs, and an idle window runs none. So a
    socket wakes the event loop.
    """

    def __init__(self, act: Callable[[], object], *, parent: QObject) -> None:
        super().__init__(parent)
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._notifier = QSocketNotifier(
            self._reader.fileno(), QSocketNotifier.Type.Read, parent=self
        )
        self._act = act
        self._notifier.activated.connect(self._wake)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda number, frame: None)

    def _wake(self) -> None:
        self._reader.recv(64)
        self._act()


class Program(QApplication):
    """Signals: `file_given(Path)`: open this file or folder; it was dropped on the icon in a Mac's
    Dock, for example."""

    file_given = Signal(Path)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent) and event.file():
            self.file_given.emit(Path(event.file()))
            return True
        return super().event(event)


class GcScheduler(QObject):
    """Collects garbage in place of Python, from its construction until `close`.

    Python's own collector goes through every object whenever many new ones have been made. A trace
    is made of many objects, so a long answer would stop for a tenth of a second. This collector
    looks at new objects four times a second, and at all objects when nothing is being written. Most
    garbage needs no collector: only objects that refer to themselves do. It runs in the window's
    thread only: Python collects in any thread that makes objects, and Qt crashes if widgets are
    destroyed there.

    `busy` returns whether the user would notice: then a full collection waits.
    """

    def __init__(self, busy: Callable[[], bool], *, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._busy = busy
        self._full_wanted_since: float | None = None
        gc.disable()
        gc.freeze()  # objects that exist now, mainly modules, stay to the end
        self._timer = QTimer(self, interval=_YOUNG_COLLECTION_MS)
        self._timer.timeout.connect(self.collect)
        self._timer.start()

    def request_full(self) -> None:
        """Look at all objects at the next idle moment: much was released."""
        self._full_wanted_since = time.monotonic()

    def collect(self) -> None:
        """Collect garbage now."""
        since = self._full_wanted_since
        if since is not None and self._busy():
            self.request_full()
        elif since is not None and time.monotonic() - since >= _REST_SECONDS:
            self._full_wanted_since = None
            gc.collect()
        if gc.get_count()[0] >= _FEW:
            gc.collect(1)


def leave_texts() -> None:
    """Copy the clipboard's texts to the system, before the application quits.

    Qt destroys the contents of its clipboard after Python has ended, so they must not be a Python
    object.
    """
    clipboard = QGuiApplication.clipboard()
    for mode in (QClipboard.Mode.Clipboard, QClipboard.Mode.Selection):
        text = clipboard.text(mode)
        if text:
            clipboard.setText(text, mode)
        else:
            clipboard.clear(mode)
