"""One process for each data folder: a second start asks the first to show its window.

Knows a socket in the folder; nothing of windows. If a socket is impossible, as in a folder with a
very long path, only the store refuses the second start.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path

from PySide6.QtCore import QObject, QSocketNotifier, Signal

_NAME = "window.socket"
_SHOWN = b"shown"
_WAIT_SECONDS = 3.0  # the first window may be busy


def show_first_window(folder: Path) -> bool:
    """Ask the Slipstream that uses this folder to show its window. Returns whether there is one."""
    with socket.socket(socket.AF_UNIX) as asking, suppress(OSError):
        asking.settimeout(_WAIT_SECONDS)
        asking.connect(str(folder / _NAME))
        return asking.recv(len(_SHOWN)) == _SHOWN
    return False


class SecondStarts(QObject):
    """Listens for further starts on the same folder. Create it once this process owns the folder.

    Signals: `asked()`: another start asks to show a window.
    """

    asked = Signal()

    def __init__(self, folder: Path, *, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = folder / _NAME
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        self._notifier = QSocketNotifier(
            self._socket.fileno(), QSocketNotifier.Type.Read, parent=self
        )
        self._notifier.setEnabled(False)  # a socket that does not listen would always be ready
        self._notifier.activated.connect(self._accept)
        with suppress(OSError):
            self._path.unlink(missing_ok=True)  # a killed process leaves it
            self._socket.bind(str(self._path))
            os.chmod(self._path, 0o600)
            self._socket.listen()
            self._notifier.setEnabled(True)

    def close(self) -> None:
        """Stop listening."""
        self._notifier.setEnabled(False)
        self._socket.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        with suppress(OSError):
            asking, _ = self._socket.accept()
            with asking:
                asking.send(_SHOWN)
            self.asked.emit()
