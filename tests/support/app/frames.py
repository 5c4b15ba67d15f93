"""Frames: what the window's thread worked between one paint and the next; or, where nothing is to
be painted, in the time of a frame.

Waiting is not counted, in whatever call of the event loop it is; a call that worked is, whole. So a
frame is too long where its work does not fit between two pictures of the screen.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import shiboken6
from PySide6.QtCore import QAbstractEventDispatcher, QCoreApplication, QEvent, QEventLoop, QObject

from app.chat.transcript import FRAME_MILLISECONDS
from app.housekeeping import GcScheduler
from app.window import Window

_NAP_SECONDS = 0.0005  # where there is nothing to do; a frame's work does not count it
_DELETED = QEvent.Type.DeferredDelete.value
_UNSEEN = FRAME_MILLISECONDS / 1000  # without a paint, a frame ends after so many seconds
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Frame:
    """The work up to a paint, by the clock and by what the processor gave to the thread.

    The clock is what the user feels; the processor's time is free of whatever else runs here.
    `characters` is how long the answer was.
    """

    seconds: float
    processor_seconds: float
    characters: int


def milliseconds(seconds: Sequence[float]) -> tuple[float, float, float]:
    """The median of times, what 99 of 100 do not exceed, and the longest."""
    ordered = sorted(1000 * each for each in seconds)
    last = len(ordered) - 1
    return ordered[len(ordered) // 2], ordered[min(last, int(0.99 * len(ordered)))], ordered[last]


def let_python_collect(scheduler: GcScheduler) -> None:
    """End what collects garbage in Python's place."""
    shiboken6.delete(scheduler)
    gc.unfreeze()
    gc.enable()


class Meter(QObject):
    """Turns the event loop, and keeps a `Frame` for each paint of a window."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self._window = window
        self._painted = False
        self._seconds = self._processor = self._begin = 0.0
        self._length = 0
        window.installEventFilter(self)

    def turn(self, until: Callable[[], object]) -> None:
        """Let the window live until something holds. Raises TimeoutError if it never does."""
        dispatcher = QAbstractEventDispatcher.instance()
        flags = QEventLoop.ProcessEventsFlag.AllEvents
        heard, shown = time.monotonic(), self._shown()
        while not until():
            begin, processor = time.perf_counter(), time.thread_time()
            worked = dispatcher.processEvents(flags)
            if worked:
                self._begin = self._begin or begin
                self._seconds += time.perf_counter() - begin
                self._processor += time.thread_time() - processor
            length, before, shown = self._look(), shown, self._shown()
            if (length, shown) != (self._length, before):
                self._length, heard = length, time.monotonic()
            elif time.monotonic() - heard > _PATIENCE_SECONDS:
                raise TimeoutError(f"Nothing happened for {_PATIENCE_SECONDS:.0f} s.")
            if self._painted or (self._begin and time.perf_counter() - self._begin > _UNSEEN):
                self._close()
            if not worked:
                # Left to itself only a loop of Qt's own does this.
                QCoreApplication.sendPostedEvents(None, _DELETED)
                time.sleep(_NAP_SECONDS)

    def rest(self, seconds: float) -> None:
        """Let the window live for a while."""
        end = time.monotonic() + seconds
        self.turn(lambda: time.monotonic() >= end)

    def take(self) -> tuple[Frame, ...]:
        """The frames so far, which are then forgotten; work that no paint followed is the last."""
        self._close()
        frames, self.frames = tuple(self.frames), []
        return frames

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.UpdateRequest:
            self._painted = True
        return False

    def _look(self) -> int:
        """How long the answer is; as it was, where it has ended."""
        writing = self._window.conversation.writing
        return len(writing.text) if writing else self._length

    def _shown(self) -> int:
        """How much of the last message is written: on a busy machine that goes on for long."""
        messages = self._window.transcript.messages
        return messages[-1].view.document().characterCount() if messages else 0

    def _close(self) -> None:
        if self._seconds:
            self.frames.append(Frame(self._seconds, self._processor, self._length))
        self._seconds = self._processor = self._begin = 0.0
        self._painted = False
