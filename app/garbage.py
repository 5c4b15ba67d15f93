"""Python's collector of garbage, kept from holding the window up.

By itself it goes through every object there is whenever many new ones have come, and a trace is
many: with a long answer that is a stop of a tenth of a second, in mid-stream. Here it looks at new
objects only, four times a second, and at all of them when nothing is being written. Most garbage
needs no collector: only what refers to itself does.

Knows nothing of what is collected.
"""

import gc
import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

_GLANCE_MS = 250
_FEW = 500  # new objects that are not worth a look
_REST_SECONDS = 5.0  # after something has ended: whoever waited for it looks at it now


class Garbage(QObject):
    """Collects in place of Python, from the beginning until `close`.

    `busy` says whether someone would notice: then all objects have to wait.
    """

    def __init__(self, busy: Callable[[], bool], *, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._busy = busy
        self._marked: float | None = None
        gc.disable()
        gc.freeze()  # what is there by now, modules above all, stays to the end
        self._timer = QTimer(self, interval=_GLANCE_MS)
        self._timer.timeout.connect(self.look)
        self._timer.start()

    def mark(self) -> None:
        """Much was let go of: look at all objects, in a moment of rest."""
        self._marked = time.monotonic()

    def look(self) -> None:
        """Collect what can be collected now."""
        if self._marked is not None and self._busy():
            self.mark()
        elif self._marked is not None and time.monotonic() - self._marked >= _REST_SECONDS:
            self._marked = None
            gc.collect()
        if gc.get_count()[0] >= _FEW:
            gc.collect(1)

    def close(self) -> None:
        """Leave it to Python again."""
        self._timer.stop()
        gc.unfreeze()
        gc.enable()
