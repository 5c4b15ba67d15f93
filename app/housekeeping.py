"""What a Qt process in Python has to do besides showing its window.

It ends when the system asks it to, takes the files that it is given, leaves behind what was copied,
and collects garbage while nobody waits. Knows Qt and Python; nothing of Slipstream.
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
_FEW = 500  # so many new objects are not worth a collection
_REST_SECONDS = 5.0  # a person who waited for an answer looks at it now


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
    """Signals: `file_given(Path)`: a file or folder to be opened, dropped on the icon in a Mac's
    Dock, say."""

    file_given = Signal(Path)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent) and event.file():
            self.file_given.emit(Path(event.file()))
            return True
        return super().event(event)


class GcScheduler(QObject):
    """Collects garbage in place of Python, from its construction until `close`.

    Python's own collector goes through every object whenever many new ones have been made. A trace
    is made of many objects, so a long answer would stop for a tenth of a second in mid-stream.
    Here only new objects are looked at, four times a second; all of them are when nothing is being
    written. Most garbage needs no collector: only what refers to itself does. And it happens in the
    window's thread only: Python collects in whichever thread makes objects, and Qt does not survive
    it when widgets are destroyed there.

    `busy` says whether a person would notice: then a full collection waits.
    """

    def __init__(self, busy: Callable[[], bool], *, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._busy = busy
        self._full_wanted_since: float | None = None
        gc.disable()
        gc.freeze()  # what exists by now, modules above all, stays to the end
        self._timer = QTimer(self, interval=_YOUNG_COLLECTION_MS)
        self._timer.timeout.connect(self.collect)
        self._timer.start()

    def request_full(self) -> None:
        """Much was let go of: look at all objects in a moment of rest."""
        self._full_wanted_since = time.monotonic()

    def collect(self) -> None:
        """Collect what can be collected now."""
        since = self._full_wanted_since
        if since is not None and self._busy():
            self.request_full()
        elif since is not None and time.monotonic() - since >= _REST_SECONDS:
            self._full_wanted_since = None
            gc.collect()
        if gc.get_count()[0] >= _FEW:
            gc.collect(1)

    def close(self) -> None:
        """Leave collecting to Python again."""
        self._timer.stop()
        gc.unfreeze()
        gc.enable()


def leave_texts() -> None:
    """Hand copied texts to the clipboard itself, when the application is about to quit.

    Qt destroys what its clipboard holds after Python has ended, so an object that Python made must
    not be among it.
    """
    clipboard = QGuiApplication.clipboard()
    for mode in (QClipboard.Mode.Clipboard, QClipboard.Mode.Selection):
        text = clipboard.text(mode)
        if text:
            clipboard.setText(text, mode)
        else:
            clipboard.clear(mode)
