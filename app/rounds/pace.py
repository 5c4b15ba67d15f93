"""Hands an answer's text and rounds on together, at a rate that an eye can follow.

Knows events and rounds; not how they are drawn.
"""

import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from engine.conversation.rounds import Round
from engine.events import Text

SHOWN_SECONDS = 0.1  # for a draft, and for its verdict
_GATHER_SECONDS = 0.008  # a verdict, and the text that comes right behind it


class Pace(QObject):
    """Settles text as it arrives, or with drafts at most ten times a second.

    A draft is shown for a tenth of a second. If some of it is rejected, its verdict is shown as
    long, with the text of that round alone. Of drafts that come meanwhile the newest is shown next,
    and the text of all rounds before it settles at once. No text waits longer than two such times.

    Signals: `due(str, object)`: show this text, and behind it this round, or nothing for None.
    """

    due = Signal(str, object)

    def __init__(
        self, parent: QObject | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._clock = clock
        self._waiting = deque[Text | Round]()
        self._shown: Round | None = None
        self._since = float("-inf")
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._show)

    def push(self, happening: Text | Round) -> None:
        """Take the next text, the next drafted round, or a round with its verdict."""
        self._waiting.append(happening)
        if not self._timer.isActive():
            now = self._clock()
            ready = self._since + SHOWN_SECONDS if self._shown else now
            if self._shown or isinstance(happening, Round):
                ready = max(ready, now + _GATHER_SECONDS)
            self._timer.start(max(0, int(1000 * (ready - now))))

    def clear(self) -> None:
        """Forget all that waits, and what is shown."""
        self._timer.stop()
        self._waiting.clear()
        self._shown = None

    def flush(self) -> None:
        """Show all text now, and no round behind it."""
        self._timer.stop()
        text = "".join(each.delta for each in self._waiting if isinstance(each, Text))
        self._waiting.clear()
        self._hand_on(text, None)

    def _show(self) -> None:
        """Show the verdict of the draft that is shown, or all that waits up to the newest draft."""
        text, newest = "", self._shown
        stop = self._end_of_verdict()
        for _ in range(len(self._waiting) if stop is None else stop):
            match self._waiting.popleft():
                case Text(delta=delta):
                    text += delta
                case Round() as newest:
                    pass
        self._hand_on(text, newest if newest is not None and newest.drafted else None)
        if self._waiting:
            self._timer.start(int(1000 * SHOWN_SECONDS))

    def _end_of_verdict(self) -> int | None:
        """Return how many of those that wait belong to the verdict of the draft that is shown; None
        unless it rejected a token."""
        shown, found = self._shown, False
        if shown is None or shown.verdict is not None:
            return None
        for place, each in enumerate(self._waiting):
            if isinstance(each, Round):
                if found:
                    return place
                rejected = any(token.fate == "rejected" for token in each.drafted)
                if each.number != shown.number or not rejected:
                    return None
                found = True
        return len(self._waiting) if found else None

    def _hand_on(self, text: str, round: Round | None) -> None:
        self._shown, self._since = round, self._clock()
        self.due.emit(text, round)
