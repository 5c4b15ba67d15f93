"""The transcript: the messages of a conversation, one below the other.

Only messages near the part in sight have widgets. Of the others it knows or estimates the height,
so that a long conversation opens as fast as a short one. The part in sight does not move when
something is built above it.

Writes new text about thirty times a second, within a budget for each frame, so that the window
stays responsive. Follows the newest line only while it is in sight. Knows messages; not where they
come from.
"""

import math
import time
from bisect import bisect_right
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import attrgetter

from PySide6.QtCore import QEvent, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.chat.message import MessageWidget
from app.chat.message_row import MessageRow
from app.chat.message_view import NO_COMMANDS, Ending, MessageView
from app.chat.scroll_keys import scroll_of
from app.documents.answer_words import AnswerWords
from app.markdown.blocks import BlockReader
from app.markdown.formats import Formats
from app.rounds.trace import PieceKind
from app.theme.hover_button import HoverButton
from app.theme.labels import plain_label
from engine.request import Role
from engine.stretches import Stretch

FRAME_MILLISECONDS = 33
_BUDGET_SECONDS = 0.008  # for writing in a frame
_FIRST_BUDGET_SECONDS = 0.08  # before the first paint of a conversation
_LONGEST_SECONDS = 0.2  # for writing a message that the user asked for
_LINE = 75  # characters: a longer line is hard to read
_ABOVE, _BETWEEN, _BELOW, _BESIDE = 16, 14, 24, 16  # pixels around the messages
_MARGINS = 22  # pixels next to a message's text
_KEPT_OF_A_PAGE = 48  # pixels that stay in sight, so that a reader finds the line again
_NEAR = 24  # distance from the bottom that still counts as the bottom
_MOST_BUILT = 40  # widgets kept at most; more than a few screens of short messages
_ALL = math.inf


class Transcript(QScrollArea):
    """Messages, newest last.

    Attribute: `commands`, of the messages' buttons and menus.

    Signals:
        built: a message has a new widget; connect to its signals.
        all_written: all text that is near the part in sight is written.
    """

    built = Signal(MessageRow)
    all_written = Signal()
    _added = Signal()

    def __init__(self, formats: Formats) -> None:
        super().__init__()
        self._formats, self.commands = formats, NO_COMMANDS
        self._metrics = QFontMetricsF(formats.font)
        self._reader = BlockReader()
        self._rows: list[MessageRow] = []
        self._waiting: list[MessageRow] = []  # with text to write; the last is written first
        self._streaming: MessageRow | None = None
        self._pinned = True
        self._placing = False
        self._column = (0, 0)  # the left edge and the width of messages
        self._rest_until = 0.0
        self._held: tuple[MessageRow, int] | None = None  # and the place of its buttons
        self._tokens = self._marked = False
        self.setAccessibleName("Conversation")
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)  # Tab stops at the messages
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # If a scroll bar appeared, the page would be narrower, and all text be laid out again.
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.verticalScrollBar().setSingleStep(24)
        self.verticalScrollBar().setEnabled(False)
        self._page = TranscriptPage()
        self._page.changed.connect(self._place)
        self.setWidget(self._page)
        self._empty: QWidget = plain_label(
            "No messages yet. Write one below.", wraps=True, centred=True, tone="muted"
        )
        self._empty.setParent(self.viewport())
        self._jump = HoverButton("\u2193  Newest", formats.font, parent=self)
        self._jump.set_raised()
        self._jump.setAccessibleName("Jump to the latest")
        self._jump.clicked.connect(self.jump_to_newest)
        self._jump.hide()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.write_frame)
        # Queued, it comes before the next paint.
        self._added.connect(self._write_first, Qt.ConnectionType.QueuedConnection)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.verticalScrollBar().rangeChanged.connect(self._grown)
        self._show_formats()

    @property
    def messages(self) -> tuple[MessageRow, ...]:
        """All messages, oldest first."""
        return tuple(self._rows)

    @property
    def widest(self) -> int:
        """The width of a message in a wide window, in pixels."""
        sample = "the quick brown fox jumps over a lazy dog "
        letter = self._metrics.horizontalAdvance(sample) / len(sample)
        return round(_LINE * letter) + _MARGINS

    @property
    def pinned(self) -> bool:
        """Whether the newest line is kept in sight."""
        return self._pinned

    @property
    def streaming(self) -> MessageRow | None:
        """The message that is being written."""
        return self._streaming

    def add(
        self,
        role: Role,
        *,
        name: str,
        text: str,
        ending: Ending | None,
        id: int = 0,
        stretches: tuple[Stretch, ...] = (),
        created: datetime | None = None,
        model: str = "",
    ) -> MessageRow:
        """Add a message at the end. Without an ending, it is the message being written."""
        shown = MessageView(
            ending=ending, stretches=stretches, tokens=self._tokens, marked=self._marked
        )
        row = MessageRow(
            role, id=id, name=name, model=model, created=created, shown=shown, build=self._build
        )
        if text:
            row.append(text)
        if not self._rows:
            self._added.emit()
        self._rows.append(row)
        self._empty.hide()
        if ending is None:
            self._streaming = row
        self._run(0)
        return row

    def append(self, delta: str) -> None:
        """Add text to the message that is being written. The next frame shows it."""
        if self._streaming is not None:
            self._streaming.append(delta)
            self._write_soon(self._streaming)

    def show_view(self, row: MessageRow, view: MessageView) -> None:
        """Show a message so, with the next frame."""
        if row.show(view):
            self._place()
        if row is self._streaming and view.ending is not None:
            self._streaming = None
        self._write_soon(row)

    def set_words(self, row: MessageRow, words: AnswerWords) -> None:
        """Show which words of a message documents have or lack, with the next frame."""
        if words != row.shown.words:
            self.show_view(row, replace(row.shown, words=words))

    def mark_words(self, marked: bool) -> None:
        """Mark, or do not mark, words that documents have or lack; in later messages too."""
        self._marked = marked
        for row in self._rows:
            row.show(replace(row.shown, marked=marked))

    def show_tokens(self, shown: bool) -> None:
        """Show or hide the tokens of all messages, later ones too."""
        self._tokens = shown
        for row in self._rows:
            self.show_view(row, replace(row.shown, tokens=shown))

    def hold(self, row: MessageRow) -> None:
        """Keep the buttons of a message in their place while its text changes, so that they stay
        under the pointer; until the user scrolls."""
        if row.widget is not None:
            place = row.top + row.widget.below_text - self.verticalScrollBar().value()
            self._held, self._pinned = (row, place), False

    def cut(self, count: int) -> None:
        """Keep the first `count` messages. The others are on another branch now."""
        self._held = None
        for row in self._rows[count:]:
            if row is self._streaming:
                self._streaming = None
            if row in self._waiting:
                self._waiting.remove(row)
            row.fold()
        del self._rows[count:]
        self._place()
        self._empty.setVisible(not self._rows)

    def set_empty(self, widget: QWidget) -> None:
        """Set the widget that is shown in an empty conversation."""
        self._empty.hide()
        self._empty.deleteLater()
        self._empty = widget
        widget.setParent(self.viewport())
        widget.setVisible(not self._rows)
        self._place_over()

    def set_formats(self, formats: Formats) -> None:
        """Use another font and other colours for all messages."""
        self._formats = formats
        self._metrics = QFontMetricsF(formats.font)
        self._show_formats()
        for row in self._rows:
            row.set_formats(formats)
            self._write_soon(row)
        self._place()

    def jump_to_newest(self) -> None:
        """Show the newest line, and follow it."""
        self._pinned = True
        self._place()

    def scroll_by_key(self, event: QKeyEvent) -> bool:
        """Scroll by a page, to the start or to the end. Returns whether the key does that."""
        bar, page = self.verticalScrollBar(), self.viewport().height() - _KEPT_OF_A_PAGE
        match scroll_of(event):
            case "page up":
                bar.setValue(bar.value() - page)
            case "page down":
                bar.setValue(bar.value() + page)
            case "start":
                bar.setValue(0)
            case "end":
                self.jump_to_newest()
            case None:
                return False
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self.scroll_by_key(event):
            super().keyPressEvent(event)

    def reveal(self, row: MessageRow, *, place: int | None = None) -> None:
        """Show a message from its beginning, or its line with the character at `place` a third of
        the way down. Its text is written at once, at least up to there."""
        if place is not None and row.view.text.hides(place):
            row.view.text.reveal(place)
        self._write_out(row, place or 0)
        bar, height = self.verticalScrollBar(), self.viewport().height()
        if place is None:
            target = row.top - _ABOVE
        else:
            line = row.view.line_of(place)
            target = row.top + row.view.y() + round(line.center().y()) - height // 3
        self._pinned = False
        bar.setValue(target)
        self._scrolled(bar.value())
        self._work(until=time.monotonic() + _FIRST_BUDGET_SECONDS, near=False)
        self._run(0)

    def in_sight(self, row: MessageRow, place: int) -> bool:
        """Whether the line with the character at `place` of a message's text is in sight."""
        line = self._line_of(row, place)
        return line is not None and 0 <= line.top() <= self.viewport().height() - line.height()

    def is_above(self, row: MessageRow, place: int) -> bool:
        """Whether that line is above the part in sight."""
        line = self._line_of(row, place)
        if line is None:
            return row.top < self.verticalScrollBar().value()
        return line.top() < 0

    def first_in_sight(self) -> int:
        """The number of the message at the upper edge."""
        return self._number_at(self.verticalScrollBar().value())

    def _line_of(self, row: MessageRow, place: int) -> QRectF | None:
        """Return the rectangle of the line with that character in the part in sight; None before it
        is laid out."""
        if row.widget is None:
            return None
        text = row.view.text
        if text.hides(place) or (row in self._waiting and text.settled_until() <= place):
            return None
        down = row.top + row.view.y() - self.verticalScrollBar().value()
        return row.view.line_of(place).translated(0, down)

    # Writing

    def write_frame(self) -> None:
        """Write waiting text for the time of one frame."""
        begin = time.monotonic()
        if begin < self._rest_until:
            return
        more = self._work(until=begin + _BUDGET_SECONDS)
        # After a slow frame, such as one with a huge block, leave some time for other work.
        took = time.monotonic() - begin
        self._rest_until = begin + 3 * took if took > 2 * _BUDGET_SECONDS else 0.0
        if more:
            missing = self._missing(near=False)
            self._run(0 if missing is not None and not self._rest_until else FRAME_MILLISECONDS)
        else:
            self._timer.stop()
            self._fold_some()
            self.all_written.emit()

    def write_all(self) -> None:
        """Write all waiting text now."""
        self._rest_until = 0.0
        self._work(until=_ALL)
        self.write_frame()

    def _write_first(self) -> None:
        """Write the part in sight before its first paint."""
        self._work(until=time.monotonic() + _FIRST_BUDGET_SECONDS, near=False)

    def _work(self, *, until: float, near: bool = True) -> bool:
        """Write until that time; without `near`, only messages in sight. Returns whether text is
        left."""
        unfinished: MessageRow | None = None
        while (row := self._next(near=near)) is not None and time.monotonic() < until:
            widget = row.widget or self._build(row)
            if row.step():
                unfinished = row
                continue
            unfinished = None
            self._waiting.remove(row)
            widget.refresh()
            self._place()  # the height decides which are in sight
        if unfinished is not None and unfinished.widget is not None:
            unfinished.widget.refresh()
            self._place()
        return row is not None

    def _next(self, *, near: bool) -> MessageRow | None:
        """Return the message to write next: one in sight, then one with new text, then one
        nearby."""
        missing = self._missing(near=False)
        if missing is not None or not near:
            return missing
        return self._waiting[-1] if self._waiting else self._missing(near=True)

    def _missing(self, *, near: bool) -> MessageRow | None:
        """Return a message without text that is in sight, or also one nearby if `near`."""
        value, height = self.verticalScrollBar().value(), self.viewport().height()
        if self._pinned:
            value = self._page.height() - height
        margin = height if near else 0
        first = self._number_at(value - margin)
        last = self._number_at(value + height + margin)
        rows = self._rows[first : last + 1]
        # From the line that does not move: the newest, or the first in sight.
        for row in reversed(rows) if self._pinned else rows:
            if row.widget is None or (not row.measured and row in self._waiting):
                return row
        return None

    def _write_out(self, row: MessageRow, place: int) -> None:
        """Write a message now; a very long one no further than `place`."""
        widget = row.widget or self._build(row)
        until = time.monotonic() + _LONGEST_SECONDS
        while more := row.step():
            if time.monotonic() > until and row.view.text.settled_until() > place:
                break
        if row in self._waiting and not more:
            self._waiting.remove(row)
        self._place()
        widget.refresh()

    def _build(self, row: MessageRow) -> MessageWidget:
        left, width = self._column
        widget = MessageWidget(
            row.role,
            name=row.name,
            formats=self._formats,
            id=row.id,
            created=row.created,
            model=row.model,
            commands=self.commands,
            reader=self._reader,
            parent=self._page,
        )
        row.measured = False
        row.fill(widget)
        widget.provenance.kinds_chosen.connect(partial(self._show_kinds, row))
        widget.setGeometry(left, row.top, width, row.height)
        self._order(row, widget)
        widget.show()
        self._write_soon(row)
        self.built.emit(row)
        return widget

    def _show_kinds(self, row: MessageRow, hidden: frozenset[PieceKind]) -> None:
        self.hold(row)
        self.show_view(row, replace(row.shown, hidden=hidden))

    def _order(self, row: MessageRow, widget: MessageWidget) -> None:
        """Make Tab go from message to message, and then to the next widget after the transcript."""
        before: QWidget = self
        for other in self._rows:
            if other is row:
                break
            if other.widget is not None:
                before = other.widget.view
        QWidget.setTabOrder(before, widget.view)

    def _fold_some(self) -> None:
        """Remove the widgets that are farthest from the part in sight."""
        built = [row for row in self._rows if row.widget is not None]
        if len(built) <= _MOST_BUILT:
            return
        middle = self.verticalScrollBar().value() + self.viewport().height() // 2
        reach = 2 * self.viewport().height()
        far = [row for row in built if not middle - reach < row.top < middle + reach]
        far.sort(key=lambda row: -abs(row.top - middle))
        for row in far[: len(built) - _MOST_BUILT]:
            if row is not self._streaming and not row.held:
                row.fold()

    def _write_soon(self, row: MessageRow) -> None:
        if row.widget is None:
            return
        if row not in self._waiting:
            self._waiting.append(row)
        if not self._timer.isActive():
            self._run(FRAME_MILLISECONDS)

    def _run(self, milliseconds: int) -> None:
        if not self._timer.isActive() or self._timer.interval() != milliseconds:
            self._timer.start(milliseconds)

    # Positions

    def _place(self) -> None:
        """Place the messages below each other without moving the part in sight."""
        if self._placing:
            return
        self._placing = True
        bar, viewport = self.verticalScrollBar(), self.viewport()
        anchor, offset = self._anchor()
        before = anchor.height if anchor else 0
        width = max(160, min(self.widest, viewport.width() - 2 * _BESIDE))
        wrapped = width != self._column[1]
        left, _ = self._column = max(_BESIDE, (viewport.width() - width) // 2), width
        top = _ABOVE
        for row in self._rows:
            if wrapped:
                row.measured = False
            row.fit(width, self._metrics, writing=row in self._waiting)
            row.top = top
            if row.widget is not None:
                row.widget.setGeometry(left, top, width, row.height)
            top += row.height + _BETWEEN
        height, held = top - _BETWEEN + _BELOW if self._rows else 0, -1
        if self._held and self._held[0].widget is not None:
            held = self._held[0].top + self._held[0].widget.below_text - self._held[1]
            height = max(height, held + viewport.height())  # room to stay where it is
        self._page.resize(viewport.width(), height)
        if self._pinned:
            bar.setValue(bar.maximum())
        elif held >= 0:
            bar.setValue(held)
        elif anchor is not None:
            if wrapped and before:
                offset = round(offset * anchor.height / before)
            bar.setValue(anchor.top + offset)
        self._placing = False
        self._show_jump()

    def _anchor(self) -> tuple[MessageRow | None, int]:
        """Return a message in sight, and the distance of the upper edge from its top. It is the
        first message with a known height, as estimated heights change."""
        value = self.verticalScrollBar().value()
        end = value + self.viewport().height()
        rows = self._rows[self._number_at(value) :]
        found = next((row for row in rows if row.measured and row.bottom > value), None)
        if found is None or found.top >= end:
            found = rows[0] if rows else None
        return found, value - found.top if found else 0

    def _number_at(self, y: int) -> int:
        """Return the number of the message at this height of the page."""
        return max(0, bisect_right(self._rows, y, key=attrgetter("top")) - 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()
        self._place_over()
        self._run(0)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._place()
        self._run(0)

    def _place_over(self) -> None:
        """Place the widgets that lie over the messages."""
        self._empty.setGeometry(self.viewport().rect().adjusted(24, 24, -24, -24))
        size = self._jump.sizeHint()
        box = self.viewport().geometry()
        self._jump.move(box.center().x() - size.width() // 2, box.bottom() - size.height() - 10)
        self._jump.raise_()

    def _scrolled(self, value: int) -> None:
        if self._placing:
            return
        self._held = None
        self._pinned = value >= self.verticalScrollBar().maximum() - _NEAR
        self._show_jump()
        if self._missing(near=True) is not None:
            self._run(0 if self._missing(near=False) is not None else FRAME_MILLISECONDS)

    def _show_jump(self) -> None:
        """Show the button to the end while the end is out of sight."""
        bar = self.verticalScrollBar()
        self._jump.setVisible(not self._pinned and bar.value() < bar.maximum() - _NEAR)

    def _grown(self, minimum: int, maximum: int) -> None:
        bar = self.verticalScrollBar()
        bar.setEnabled(maximum > minimum)
        if self._pinned:
            bar.setValue(maximum)

    def _show_formats(self) -> None:
        colours = self._formats.colours
        palette = self.palette()
        for role in (QPalette.ColorRole.Window, QPalette.ColorRole.Base):
            palette.setColor(role, QColor(colours.paper))
        self.setPalette(palette)
        self.viewport().setPalette(palette)
        self._page.setPalette(palette)
        self._jump.follow_font(self._formats.font)


class TranscriptPage(QWidget):
    """The page with all messages. `changed` is sent when a message wants another height."""

    changed = Signal()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.changed.emit()
        return super().event(event)
