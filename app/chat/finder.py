"""Finds words in the open conversation, and goes from one hit to the next.

Searches the texts of the messages in short slices of time, so that the window stays responsive.
Lays out only messages with the current hit. Follows an answer that grows and a branch that changes.
Knows the transcript and its bar; not where messages come from.
"""

import re
import time
from collections import Counter
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer

from app.chat.find_bar import FindBar
from app.chat.message_row import MessageRow
from app.chat.transcript import Transcript
from app.markdown.blocks import BlockReader
from app.markdown.page import TextMark
from app.markdown.searching import SearchedText, pattern_of, pattern_of_any
from app.markdown.streaming import StreamingMarkdown, StreamingPlainText

_SLICE_SECONDS = 0.008
_NO_QUOTES = dict.fromkeys(map(ord, '"\u201c\u201d\u201e\u00ab\u00bb'), " ")
_ONE_MESSAGE_SECONDS = 0.2  # of reading a message before its hits are shown


class Finder(QObject):
    """Attributes: `bar`, shown during a search; `hits`, the number of hits."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript)
        self.bar = FindBar()
        self._transcript = transcript
        self._reader = BlockReader()
        self._wanted: re.Pattern[str] | None = None
        self._rows: tuple[MessageRow, ...] = ()
        self._texts: dict[MessageRow, SearchedText] = {}
        self._lengths: dict[MessageRow, int] = {}  # of the texts that were searched
        self._found: dict[MessageRow, tuple[TextMark, ...]] = {}
        self._waiting: list[MessageRow] = []  # still to be searched, the next one last
        self._current: tuple[MessageRow, int] | None = None  # a message, and a hit's number in it
        self._eager = False  # go to the first hit as soon as there is one
        self._marked: MessageRow | None = None  # set by `show_words`
        self._slices = QTimer(self, interval=0)
        self._slices.timeout.connect(self._look)
        self.bar.changed.connect(self._search)
        self.bar.step_asked.connect(self.step)
        self.bar.closed.connect(self.close)
        transcript.all_written.connect(self._follow)

    @property
    def hits(self) -> int:
        return sum(map(len, self._found.values()))

    @property
    def looking(self) -> bool:
        """Whether some messages are still to be searched."""
        return bool(self._waiting)

    def open(self) -> None:
        """Show the bar, with the focus in its field."""
        self._unmark()
        begun = self.bar.isVisible()
        self.bar.show()
        self.bar.field.setFocus()
        self.bar.field.selectAll()
        if not begun:
            self._search(self.bar.field.text())

    def close(self) -> None:
        """Hide the bar and all marks. The focus goes to the message with the current hit."""
        row = self._current[0] if self._current else None
        self.leave()
        if row is not None and row.widget is not None:
            row.view.setFocus()
        else:
            self._transcript.setFocus()

    def leave(self) -> None:
        """Hide the bar and all marks. The focus stays."""
        self.bar.hide()
        self._forget()

    def step(self, by: int) -> None:
        """Go to the next hit (1) or the one before (-1), from either end to the other."""
        if not self.bar.isVisible():
            self.open()
            return
        places = [(row, n) for row in self._rows for n in range(len(self._found.get(row, ())))]
        if not places:
            return
        if self._current in places:
            at = (places.index(self._current) + by) % len(places)
        else:
            at = places.index(self._first(places)) if by > 0 else -1
        self._go_to(places[at])

    def show_words(self, row: MessageRow, words: str) -> bool:
        """Mark all of these words in one message, and go to the place with all of them, or else to
        the rarest. Returns whether any was found."""
        words = words.translate(_NO_QUOTES)
        wanted = pattern_of_any(words)
        self._unmark()
        text = self._text_of(row)
        until = time.monotonic() + _ONE_MESSAGE_SECONDS
        while text.step() and time.monotonic() < until:
            pass
        found = text.find(wanted) if wanted else ()
        if not found or self.bar.isVisible():
            return False
        _mark(row, found)
        self._marked = row
        together = pattern_of(words)
        phrase = text.find(together) if together else ()
        of_each = Counter(row.written[hit.start : hit.end].lower() for hit in found)
        rarest = min(found, key=lambda hit: of_each[row.written[hit.start : hit.end].lower()])
        self._transcript.reveal(row, place=(phrase[0] if phrase else rarest).start)
        return True

    # Searching

    def _search(self, text: str) -> None:
        self._wanted = pattern_of(text)
        self._current = None
        self._found.clear()
        self._lengths.clear()
        for row in self._rows:
            _mark(row, ())
        self._rows = self._transcript.messages
        # First from the messages in sight to the end, then from the beginning.
        first = self._transcript.first_in_sight()
        self._waiting = [*self._rows[first:], *self._rows[:first]][::-1] if self._wanted else []
        self._eager = True
        self._look()

    def _look(self) -> None:
        """Search for one slice of time."""
        until = time.monotonic() + _SLICE_SECONDS
        while self._waiting and self._wanted is not None and time.monotonic() < until:
            row = self._waiting[-1]
            text = self._text_of(row)
            if text.step():
                continue
            self._waiting.pop()
            self._lengths[row] = len(row.written)
            self._found[row] = text.find(self._wanted)
            self._mark(row)
            if self._eager and self._found[row]:
                self._eager = False
                self._go_to(self._first([(row, n) for n in range(len(self._found[row]))]))
        self._show_count()
        if self._waiting:
            self._slices.start()
        else:
            self._slices.stop()

    def _follow(self) -> None:
        """Search new text: another branch, or more of an answer."""
        if self._wanted is None or not self.bar.isVisible():
            return
        rows = self._transcript.messages
        if rows != self._rows:
            kept = set(rows)
            for gone in set(self._rows) - kept:
                for known in (self._texts, self._lengths, self._found):
                    known.pop(gone, None)
            if self._current is not None and self._current[0] not in kept:
                self._current = None
            self._waiting = [row for row in self._waiting if row in kept]
            new = [row for row in rows if row not in self._lengths and row not in self._waiting]
            self._rows, self._waiting = rows, [*reversed(new), *self._waiting]
        growing = self._transcript.streaming or (rows[-1] if rows else None)
        if growing is not None and growing not in self._waiting:
            grown = self._lengths.get(growing) != len(growing.written)
            self._waiting += [growing] if grown else []
        if self._waiting:
            self._slices.start()

    def _text_of(self, row: MessageRow) -> SearchedText:
        text = self._texts.get(row)
        if text is None:
            answer = row.role == "assistant"
            stream = StreamingMarkdown(self._reader) if answer else StreamingPlainText()
            text = self._texts[row] = SearchedText(stream)
        text.grow(row.written, row.shown.stretches)
        return text

    # Showing

    def _first(self, places: list[tuple[MessageRow, int]]) -> tuple[MessageRow, int]:
        """Return the first hit at or below the messages in sight."""
        numbers = {row: number for number, row in enumerate(self._rows)}
        begin = self._transcript.first_in_sight()
        for row, n in places:
            if numbers[row] > begin:
                return row, n
            start = self._found[row][n].start
            if numbers[row] == begin and not self._transcript.is_above(row, start):
                return row, n
        return places[0]

    def _go_to(self, place: tuple[MessageRow, int]) -> None:
        before, self._current = self._current, place
        row, number = place
        if before is not None and before[0] is not row:
            self._mark(before[0])
        self._mark(row)
        start = self._found[row][number].start
        if not self._transcript.in_sight(row, start):
            self._transcript.reveal(row, place=start)
        self._show_count()

    def _mark(self, row: MessageRow) -> None:
        at = self._current[1] if self._current and self._current[0] is row else -1
        found = enumerate(self._found.get(row, ()))
        _mark(row, tuple(replace(hit, current=n == at) for n, hit in found))

    def _show_count(self) -> None:
        number = 0
        if self._current is not None:
            row, at = self._current
            before = self._rows[: self._rows.index(row)]
            number = sum(len(self._found.get(other, ())) for other in before) + at + 1
        self.bar.set_count(number, self.hits, looking=self.looking)

    def _unmark(self) -> None:
        if self._marked is not None:
            _mark(self._marked, ())
            self._marked = None

    def _forget(self) -> None:
        self._slices.stop()
        for row in self._rows:
            _mark(row, ())
        self._rows, self._waiting, self._current = (), [], None
        for known in (self._texts, self._lengths, self._found):
            known.clear()


def _mark(row: MessageRow, marks: tuple[TextMark, ...]) -> None:
    row.show(replace(row.shown, marks=marks))
