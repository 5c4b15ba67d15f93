"""Notices when a response is expected and nothing is received.

Knows nothing of the other side or of its response. Counts the ticks of a timer and does not read
the clock, so that a machine that slept, or a window that was busy, is not taken for silence.
"""

from PySide6.QtCore import QObject, QTimer, Signal


class Watchdog(QObject):
    """Notices if nothing is heard of the engine for too long. It is idle until `expect` is called.

    Signals:
        silent(float): nothing was heard for this many seconds. Once per silence.
        speaking(): something was heard after that, or is not expected any more.
    """

    silent = Signal(float)
    speaking = Signal()

    def __init__(self, *, tick_seconds: float = 0.5, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tick_seconds = tick_seconds
        self._patience_seconds = 0.0
        self._ticks = 0
        self._timed_out = False
        self._timer = QTimer(self)
        self._timer.setInterval(int(tick_seconds * 1000))
        self._timer.timeout.connect(self._tick)

    @property
    def timed_out(self) -> bool:
        """Whether the silence has become too long and still lasts."""
        return self._timed_out

    def expect(self, patience_seconds: float) -> None:
        """Expect a response. A silence that already lasts goes on being counted."""
        self._patience_seconds = patience_seconds
        if not self._timer.isActive():
            self._ticks = 0
            self._timer.start()

    def heard(self) -> None:
        """Something was received, which ends the silence."""
        self._ticks = 0
        self._calm()

    def rest(self) -> None:
        """Expect nothing until the next `expect`."""
        self._timer.stop()
        self.heard()

    def _tick(self) -> None:
        self._ticks += 1
        seconds = self._ticks * self._tick_seconds
        if seconds >= self._patience_seconds and not self._timed_out:
            self._timed_out = True
            self.silent.emit(seconds)

    def _calm(self) -> None:
        if self._timed_out:
            self._timed_out = False
            self.speaking.emit()
