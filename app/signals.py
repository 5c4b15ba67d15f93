"""Ctrl-C in the terminal, and being asked to end, close the window as a person would.

Python's handlers wait for Python code to run, which an idle window has none of: so a socket wakes
the event loop.
"""

import signal
import socket
from collections.abc import Callable

from PySide6.QtCore import QObject, QSocketNotifier

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalWatch(QObject):
    """Calls `act` after each signal that asks the process to end. For the main thread."""

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
