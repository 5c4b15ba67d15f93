"""Hands an answer's text and rounds on together, at a rate that an eye can follow.

`Pace` decides, `PaceTimer` waits. Knows events and rounds; not how they are drawn.
"""

import time
from collections import deque

from PySide6.QtCore import QObject, Signal

from app.steps import timer
from engine.conversation.rounds import Round
from engine.events import Text

SHOWN_SECONDS = 0.1  # for a draft, and for its verdict
GATHER_SECONDS = 0.008  # a verdict, and the text that comes right after it


class Pace:
    """Settles text as it arrives, or with drafts at most ten times a second.

    A draft is shown for a tenth of a second. If some of it is rejected, its verdict is shown for as
    long, with the text of that round alone. Of the drafts that come meanwhile the newest is shown
    next, and the text of all rounds before it settles at once. Times are seconds of the caller's
    clock.

    The tests check these laws:
        all text is handed on, in its order
        a draft is handed on with all text before its round, and with none after it
        a verdict that rejects a token is handed on with all text of its round, and with none after
    """

    def __init__(self) -> None:
        self._waiting = deque[Text | Round]()
        self._shown: Round | None = None
        self._due = 0.0

    def push(self, happening: Text | Round, now: float) -> None:
        """Take the next text, the next drafted round, or a round with its verdict."""
        if not self._waiting:
            gathers = self._shown is not None or isinstance(happening, Round)
            self._due = max(self._due, now + GATHER_SECONDS if gathers else now)
        self._waiting.append(happening)

    def due(self) -> float | None:
        """Return the time from which something can be taken; None if nothing waits."""
        return self._due if self._waiting else None

    def take(self, now: float) -> tuple[str, Round | None]:
        """Return the text to settle now, and the round to show after it: the verdict of the draft
        that is shown, or the newest round of all that waits."""
        verdict = self._length_of_verdict()
        taken = [self._waiting.popleft() for _ in range(verdict or len(self._waiting))]
        text = "".join(each.delta for each in taken if isinstance(each, Text))
        rounds = [each for each in taken if isinstance(each, Round)]
        newest = rounds[-1] if rounds else self._shown
        self._shown = newest if newest is not None and newest.drafted else None
        self._due = now + SHOWN_SECONDS if self._shown is not None else now
        return text, self._shown

    def clear(self) -> str:
        """Forget the waiting texts and rounds, and the shown one. Returns the text that waited."""
        text = "".join(each.delta for each in self._waiting if isinstance(each, Text))
        self._waiting.clear()
        self._shown, self._due = None, 0.0
        return text

    def _length_of_verdict(self) -> int:
        """Return how many waiting parts are the verdict of the shown draft, with its
        text; 0 unless it rejected a token."""
        shown, found = self._shown, False
        if shown is None or shown.verdict is not None:
            return 0
        for place, each in enumerate(self._waiting):
            if isinstance(each, Round):
                if found:
                    return place
                rejected = any(token.fate == "rejected" for token in each.drafted)
                if each.number != shown.number or not rejected:
                    return 0
                found = True
        return len(self._waiting) if found else 0


class PaceTimer(QObject):
    """Sends what a `Pace` hands on when it is due.

    Signals: `due(str, object)`: settle this text, and show this round after it, or nothing for
    None.
    """

    due = Signal(str, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pace = Pace()
        self._timer = timer(self, 0, self._take)

    def push(self, happening: Text | Round) -> None:
        """Take the next text, the next drafted round, or a round with its verdict."""
        self._pace.push(happening, time.monotonic())
        self._wait()

    def flush(self) -> None:
        """Settle all text now, and show no round after it."""
        self._timer.stop()
        self.due.emit(self._pace.clear(), None)

    def clear(self) -> None:
        """Forget all that waits."""
        self._timer.stop()
        self._pace.clear()

    def _take(self) -> None:
        self.due.emit(*self._pace.take(time.monotonic()))
        self._wait()

    def _wait(self) -> None:
        if (due := self._pace.due()) is not None and not self._timer.isActive():
            self._timer.start(max(0, round(1000 * (due - time.monotonic()))))
