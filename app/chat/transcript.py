"""The transcript: the messages of a conversation, one below the other.

Writes what has come about thirty times a second, within a budget for each frame, so that the
window answers however much there is to write. Stays at the newest line only while it is there.
Knows messages; not where they come from.
"""

import time

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPalette, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.chat.message import Ending, MessageWidget
from app.markdown.formats import Formats
from app.rounds.trace import Piece
from app.theme.hover_button import HoverButton
from engine.request import Role

FRAME_MILLISECONDS = 33
_BUDGET_SECONDS = 0.008  # of writing in a frame
WIDEST_TEXT = 820  # pixels
_NEAR = 24  # pixels from the bottom that still count as there


class Transcript(QScrollArea):
    """Messages, newest last.

    Signals:
        added: a message was put in; connect to what it asks for.
        all_written: all that had come is written.
    """

    added = Signal(MessageWidget)
    all_written = Signal()

    def __init__(self, formats: Formats) -> None:
        super().__init__()
        self._formats = formats
        self._messages: list[MessageWidget] = []
        self._waiting: list[MessageWidget] = []  # have text to write; the last is written first
        self._streaming: MessageWidget | None = None
        self._slot: QWidget | None = None
        self._pinned = True
        self._rest_until = 0.0
        self._provenance = False
        self._shift = 0  # what grew above the first visible line
        self.setAccessibleName("Conversation")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # One that comes makes the page narrower, and all of its text is laid out again.
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.verticalScrollBar().setSingleStep(24)
        self.verticalScrollBar().setEnabled(False)
        self._page = QWidget()
        self._column = QVBoxLayout()
        self._column.setContentsMargins(0, 16, 0, 24)
        self._column.setSpacing(14)
        self._column.addStretch(1)
        inner = QWidget()
        inner.setMaximumWidth(WIDEST_TEXT)
        inner.setLayout(self._column)
        row = QHBoxLayout(self._page)
        row.setContentsMargins(16, 0, 16, 0)
        row.addStretch(1)
        row.addWidget(inner, 100)
        row.addStretch(1)
        self.setWidget(self._page)
        self._empty: QWidget = _plain_label("Nothing here yet. Write something below.")
        self._empty.setParent(self.viewport())
        self._jump = HoverButton(
            "\u2193  Newest", parent=self, font=formats.font, colours=formats.colours
        )
        self._jump.set_raised()
        self._jump.setAccessibleName("Jump to the newest line")
        self._jump.clicked.connect(self.jump_to_newest)
        self._jump.hide()
        self._timer = QTimer(self)
        self._timer.setInterval(FRAME_MILLISECONDS)
        self._timer.timeout.connect(self.write_frame)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.verticalScrollBar().rangeChanged.connect(self._grown)
        self._show_formats()

    @property
    def messages(self) -> tuple[MessageWidget, ...]:
        """From the oldest to the newest."""
        return tuple(self._messages)

    @property
    def pinned(self) -> bool:
        """Whether the newest line is kept in sight."""
        return self._pinned

    @property
    def streaming(self) -> MessageWidget | None:
        """The message that is being written."""
        return self._streaming

    def add(self, role: Role, *, name: str, text: str, ending: Ending | None) -> MessageWidget:
        """A new message at the end. Without an ending it is the one being written."""
        message = MessageWidget(role, name=name, formats=self._formats)
        self._messages.append(message)
        self._column.insertWidget(self._column.count() - 1, message)
        self._empty.hide()
        message.provenance.set_shown(self._provenance)
        if text:
            message.append(text)
        if ending is None:
            self._streaming = message
            self._place_slot()
        else:
            message.end(ending)
        self._write_soon(message)
        self.added.emit(message)
        return message

    def append(self, delta: str) -> None:
        """More of the message that is being written; shown with the next frame."""
        if self._streaming is not None:
            self._streaming.append(delta)
            self._write_soon(self._streaming)

    def set_pieces(self, message: MessageWidget, pieces: tuple[Piece, ...]) -> None:
        """The tokens of a message, for its provenance; shown with the next frame."""
        message.provenance.set_pieces(pieces)
        self._write_soon(message)

    def show_provenance(self, shown: bool) -> None:
        """Tell the tokens of all messages apart, those to come included, or not."""
        self._provenance = shown
        for message in self._messages:
            message.provenance.set_shown(shown)
            self._write_soon(message)

    def end(self, ending: Ending) -> None:
        """The message that was being written is over."""
        if self._streaming is not None:
            message, self._streaming = self._streaming, None
            message.end(ending)
            self._write_soon(message)
            self._place_slot()

    def cut(self, count: int) -> None:
        """Keep the first `count` messages: the others are on another branch now."""
        for message in self._messages[count:]:
            if message is self._streaming:
                self._streaming = None
            if message in self._waiting:
                self._waiting.remove(message)
            self._column.removeWidget(message)
            message.hide()
            message.deleteLater()
        del self._messages[count:]
        self._place_slot()
        self._empty.setVisible(not self._messages)

    def set_slot(self, widget: QWidget | None) -> None:
        """A widget under the message that is being written; hidden while there is none."""
        if self._slot is not None:
            self._column.removeWidget(self._slot)
            self._slot.setParent(None)
        self._slot = widget
        self._place_slot()

    def set_empty(self, widget: QWidget) -> None:
        """What is shown while there are no messages."""
        self._empty.hide()
        self._empty.deleteLater()
        self._empty = widget
        widget.setParent(self.viewport())
        widget.setVisible(not self._messages)
        self._place_over()

    def set_formats(self, formats: Formats) -> None:
        """Other colours or another font, for all messages."""
        self._formats = formats
        self._show_formats()
        for message in self._messages:
            message.set_formats(formats)
            self._write_soon(message)

    def jump_to_newest(self) -> None:
        """Show the newest line, and stay there."""
        self._pinned = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self._jump.hide()

    def write_frame(self) -> None:
        """Write what is waiting, for as long as one frame may take."""
        begin = time.monotonic()
        if begin < self._rest_until:
            return
        top = self.verticalScrollBar().value()
        touched: dict[MessageWidget, int] = {}
        while self._waiting and time.monotonic() - begin < _BUDGET_SECONDS:
            message = self._waiting[-1]
            touched.setdefault(message, message.height())
            if not message.step():
                self._waiting.pop()
        for message, height in touched.items():
            message.refresh()
            if not self._pinned and message.geometry().bottom() < top:
                self._shift += message.sizeHint().height() - height
            message.updateGeometry()
        if touched:
            self._column.activate()
        # A frame that took long, at one slow block, is followed by some rest for other work.
        took = time.monotonic() - begin
        self._rest_until = begin + 3 * took if took > 2 * _BUDGET_SECONDS else 0.0
        if not self._waiting:
            self._timer.stop()
            self.all_written.emit()

    def write_all(self) -> None:
        """Write all that is waiting, now."""
        while self._waiting:
            self._rest_until = 0.0
            self.write_frame()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_over()

    def _write_soon(self, message: MessageWidget) -> None:
        if message not in self._waiting:
            self._waiting.append(message)
        if not self._timer.isActive():
            self._timer.start()

    def _place_slot(self) -> None:
        if self._slot is None:
            return
        if self._streaming is None:
            self._slot.hide()
            return
        self._column.removeWidget(self._slot)
        self._column.insertWidget(self._column.indexOf(self._streaming) + 1, self._slot)
        self._slot.show()

    def _place_over(self) -> None:
        """Put what lies over the messages where it belongs."""
        self._empty.setGeometry(self.viewport().rect().adjusted(24, 24, -24, -24))
        size = self._jump.sizeHint()
        box = self.viewport().geometry()
        self._jump.move(box.center().x() - size.width() // 2, box.bottom() - size.height() - 10)
        self._jump.raise_()

    def _scrolled(self, value: int) -> None:
        bar = self.verticalScrollBar()
        self._pinned = value >= bar.maximum() - _NEAR
        self._jump.setVisible(not self._pinned)

    def _grown(self, minimum: int, maximum: int) -> None:
        bar = self.verticalScrollBar()
        bar.setEnabled(maximum > minimum)
        if self._pinned:
            bar.setValue(maximum)
        elif self._shift:
            bar.setValue(bar.value() + self._shift)
        self._shift = 0

    def _show_formats(self) -> None:
        colours = self._formats.colours
        palette = self.palette()
        for role in (QPalette.ColorRole.Window, QPalette.ColorRole.Base):
            palette.setColor(role, QColor(colours.paper))
        palette.setColor(QPalette.ColorRole.WindowText, QColor(colours.muted))
        self.setPalette(palette)
        self.viewport().setPalette(palette)
        self._page.setPalette(palette)
        self._jump.set_appearance(self._formats.font, colours)


def _plain_label(text: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setWordWrap(True)
    return label
