"""Finds words in the open conversation, and goes from one hit to the next.

Searches the texts of the messages in short slices of time, so that the window stays responsive.
Lays out only messages with the current hit. Follows an answer that grows and a branch that changes.
Knows the transcript, and has the bar with a field, a count, and buttons to move on; not where
messages come from.
"""

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QWidget

from app.chat.message_row import MessageRow
from app.chat.transcript import Transcript
from app.layout import FREE, row_of
from app.markdown.blocks import BlockReader
from app.markdown.page import TextMark
from app.markdown.searching import SearchedText, pattern_of, pattern_of_any
from app.markdown.streaming import StreamingMarkdown, StreamingPlainText
from app.theme.labels import plain_label
from app.theme.style import colours_of, figures_font, sign_button, small_font

_SLICE_SECONDS = 0.008
_NO_QUOTES = dict.fromkeys(map(ord, '"\u201c\u201d\u201e\u00ab\u00bb'), " ")
_ONE_MESSAGE_SECONDS = 0.2  # of reading a message before its hits are shown
_WIDEST_FIELD = 360  # pixels


class Finder(QObject):
    """Attributes: `bar`, shown during a search; `hits`, the number of hits."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript)
        self.bar = FindBar(search=self._search, step=self.step, close=self.close)
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
        self._follow()
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
        self._follow()
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


class FindBar(QWidget):
    """Attribute: `field`."""

    def __init__(
        self,
        *,
        search: Callable[[str], None],
        step: Callable[[int], None],
        close: Callable[[], None],
    ) -> None:
        """`search` finds a text; `step` goes to the next hit (1) or the one before (-1)."""
        super().__init__()
        self._step, self._leave = step, close
        self.setAccessibleName("Find in this conversation")
        self.field = QLineEdit()
        self.field.setPlaceholderText("Find in this conversation")
        self.field.setAccessibleName("Find in this conversation")
        self.field.setClearButtonEnabled(True)
        self.field.setMaxLength(500)
        self.field.setMaximumWidth(_WIDEST_FIELD)
        self._count = plain_label()
        self._count.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self._before = sign_button("\u2039", "Previous", lambda: step(-1), keys="Shift+Enter")
        self._after = sign_button("\u203a", "Next", lambda: step(1), keys="Enter")
        self._close = sign_button("\u00d7", "Close", lambda: close(), keys="Esc")
        parts = ((self.field, 1), self._count, self._before, self._after, FREE, self._close)
        row_of(*parts, on=self, margins=(16, 6, 10, 6), gap=6)
        self.field.textChanged.connect(search)
        self._show_fonts()
        self.set_count(0, 0, looking=False)
        self.hide()

    def set_count(self, number: int, total: int, *, looking: bool) -> None:
        """Show that hit `number` of `total` is current; 0 for none. `looking`: there may be
        more."""
        more = "\u2026" if looking else ""
        if total:
            words = f"{number:,} of {total:,}{more}" if number else f"{total:,}{more}"
        elif self.field.text().strip():
            words = "Looking\u2026" if looking else "None"
        else:
            words = ""
        self._count.setText(words)
        self._count.setAccessibleName(f"Found: {words}" if words else "")
        # Never narrower than before, so that the buttons stay under the pointer.
        wanted = self._count.fontMetrics().horizontalAdvance(words) + 4
        self._count.setFixedWidth(max(wanted, self._count.width() if words else 0, self._least))
        for button in (self._before, self._after):
            button.setEnabled(total > 0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._step(-1 if back else 1)
        elif event.key() == Qt.Key.Key_Escape:
            self._leave()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._show_fonts()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colours = colours_of(self)
        painter.fillRect(self.rect(), QColor(colours.card))
        painter.fillRect(0, self.height() - 1, self.width(), 1, QColor(colours.edge))

    def _show_fonts(self) -> None:
        self._count.setFont(figures_font(small_font(self.font(), scale=0.9)))
        self._least = self._count.fontMetrics().horizontalAdvance("00 of 000")
