"""The text of a message on the screen: as high as it is long, selectable, without any access.

Loads and opens nothing: a link is only asked about. Paints what a document cannot: the background
of code, the bars of quotes, rules. Knows documents and formats; not messages.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from PySide6.QtCore import QEvent, QMimeData, QPoint, QRect, QRectF, QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFont,
    QGuiApplication,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QTextEdit, QToolTip

from app.markdown.asides import ASIDE_ADDRESS
from app.markdown.copying import written_text
from app.markdown.document import FOLD_ADDRESS, TextDocument
from app.markdown.formats import BARS, CODE_PADDING, PANEL, ROLE, SHAPE, UNDERLINES, Formats
from app.markdown.formulas import FormulaObjects
from app.markdown.page import TextMark
from app.markdown.sideways import Sideways
from app.markdown.streaming import StreamingMarkdown, StreamingPlainText
from app.theme.hover_button import HoverButton
from app.theme.palette import LineStyle, tinted
from models.in_words import clean

_PADDING = 7  # pixels between code and the edge of its background
_BAR = 3
_NARROWEST = 160
_LETTER, _RAISED = 0.56, 3  # of the text's size; pixels
_REWRITE_SECONDS = 0.006


@dataclass(frozen=True, slots=True)
class TextShade:
    """A line under the given text from `start` to `end`, and some of its `colour` after it if it
    is `tinted`. `letter` follows it, small."""

    start: int
    end: int
    colour: str
    line: LineStyle
    letter: str = ""
    tinted: bool = True


class TextView(QTextBrowser):
    """Shows a growing text.

    Signals:
        link_asked: a link was chosen; its full address, as it would be sent.
        code_copied: a code block was copied.
        seen_changed: another part of the text is in sight.
        chosen: the user clicked on this place of the document.
        aside_asked: show all of the aside with this index.
    """

    link_asked = Signal(str)
    code_copied = Signal()
    seen_changed = Signal()
    chosen = Signal(int)
    aside_asked = Signal(int)

    def __init__(self, formats: Formats, stream: StreamingMarkdown | StreamingPlainText) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setOpenLinks(False)
        self.setOpenExternalLinks(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextBrowserInteraction
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setWordWrapMode(self.wordWrapMode().WrapAtWordBoundaryOrAnywhere)
        self.viewport().setAutoFillBackground(False)
        self.text = TextDocument(self.document(), formats, stream)
        self.tip: Callable[[int], str] = lambda position: ""  # for a place
        self._formats = formats
        self._measured = isinstance(stream, StreamingMarkdown)  # whether lines are kept short
        self._seen = QRect()
        self._marks: tuple[TextMark, ...] = ()
        self._shades: tuple[TextShade, ...] = ()
        self._buttons: dict[int, HoverButton] = {}
        self._sideways = Sideways(self, self.text.panels, lambda: self.text.tables, below=_PADDING)
        self._rewriting = QTimer(self, interval=0)
        self._rewriting.timeout.connect(self._rewrite)
        if formats.formulas is not None:
            FormulaObjects(formats.formulas.find, self.document())
            formats.formulas.laid_out.connect(self._show_formulas)
        self._show_colours()
        self.anchorClicked.connect(self._ask)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def set_formats(self, formats: Formats) -> None:
        """Use another font and other colours. The next steps rewrite the text."""
        self._formats = formats
        for button in self._buttons.values():
            button.follow_font(formats.font)
        self._show_colours()
        self.text.set_formats(formats)

    def step(self) -> bool:
        """Write and lay out a limited piece. Returns False if nothing is left to write."""
        more = self.text.step()
        self._fit()
        return more

    def visible_places(self) -> tuple[int, int] | None:
        """Return the range of the document in sight and a screen around it; None if it is out of
        sight."""
        seen = self.visibleRegion().boundingRect()
        if seen.isEmpty():
            return None
        margin = seen.height()
        first = self.cursorForPosition(QPoint(0, seen.top() - margin)).position()
        last = self.cursorForPosition(QPoint(self.width(), seen.bottom() + margin)).position()
        return first, last

    @property
    def code_buttons(self) -> tuple[HoverButton, ...]:
        """The buttons that copy the code blocks, from the first block to the last."""
        return tuple(sorted(self._buttons.values(), key=lambda button: button.y()))

    def place_buttons(self) -> None:
        """Place a copy button on every code block, and a scroll bar under wide code and tables.

        Call this after each change of the text.
        """
        self._sideways.place()
        panels = self.text.panels()
        for panel in self._buttons.keys() - panels.keys():
            self._buttons.pop(panel).deleteLater()
        layout = self.document().documentLayout()
        for panel, position in panels.items():
            button = self._buttons.get(panel)
            if button is None:
                button = self._buttons[panel] = self._make_button(panel)
            line = layout.blockBoundingRect(self.document().findBlock(position))
            button.move(
                self.viewport().width() - button.width() - _PADDING,
                round(line.center().y() - button.height() / 2),
            )

    def set_marks(self, marks: tuple[TextMark, ...]) -> None:
        """Mark these hits, and no others."""
        if marks != self._marks:
            self._marks = marks
            self._paint_marks()

    def set_shades(self, shades: tuple[TextShade, ...]) -> None:
        """Draw these shades, and no others. Marks lie above them."""
        if shades != self._shades:
            self._shades = shades
            self._paint_marks()

    def lay_marks(self) -> None:
        """Place the marks where their text is now. Call this after each change of the text."""
        if self._marks or self._shades:
            self._paint_marks()

    def line_of(self, start: int) -> QRectF:
        """Return the rectangle of the line with the character at `start` of the given text, or with
        the next visible one."""
        ranges = self.text.ranges(start, start + 1) or self.text.ranges(start, start + 1000)
        cursor = QTextCursor(self.document())
        cursor.setPosition(ranges[0][0] if ranges else 0)
        return QRectF(self.cursorRect(cursor))

    def copy_as_written(self) -> None:
        """Copy the lines of the given text that the selection is from."""
        cursor = self.textCursor()
        given = self.text.given
        begin = self.text.source_before(cursor.selectionStart())
        end = self.text.source_before(cursor.selectionEnd())
        first = given.rfind("\n", 0, begin) + 1
        last = given.find("\n", max(begin, end - 1))
        QGuiApplication.clipboard().setText(clean(given[first : None if last < 0 else last]))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        event.ignore()  # the message has a menu of its own

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Return nothing for any request: no file is read and no address visited.

        For a picture, return a transparent point: otherwise Qt would look for a file of that name.
        """
        if kind == QTextDocument.ResourceType.ImageResource.value:
            point = QImage(1, 1, QImage.Format.Format_ARGB32)
            point.fill(Qt.GlobalColor.transparent)
            return point
        return b""

    def createMimeDataFromSelection(self) -> QMimeData:
        data = QMimeData()
        cursor = self.textCursor()
        start, end = cursor.selectionStart(), cursor.selectionEnd()
        data.setText(clean(written_text(self.document(), start, end)))
        return data

    def viewportEvent(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            self._show_tip(event)
            return True
        return super().viewportEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        # The transcript scrolls, not the message; wide code and tables do.
        event.setAccepted(self._sideways.wheel(event))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        super().keyPressEvent(event)
        self._sideways.show_cursor()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._sideways.show_cursor()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        point = event.position().toPoint()
        left = event.button() == Qt.MouseButton.LeftButton
        if left and not self.textCursor().hasSelection() and not self.anchorAt(point):
            self.chosen.emit(self.position_at(point))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
        self.place_buttons()

    def sizeHint(self) -> QSize:
        return QSize(400, self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(_NARROWEST, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        self._paint_below(painter, event.rect())
        painter.end()
        self._sideways.move_lines(event.rect())
        for part in self._sideways.parts(event.rect()):
            super().paintEvent(QPaintEvent(part))
        if self._shades:
            with QPainter(self.viewport()) as above:
                self._paint_letters(above, event.rect())
        seen = self.visibleRegion().boundingRect()
        if seen != self._seen:
            self._seen = seen
            self.seen_changed.emit()

    def position_at(self, point: QPoint) -> int:
        """Return the place of the document at a point of the viewport."""
        cursor = self.cursorForPosition(point)
        if self.cursorRect(cursor).left() > point.x():  # the right half of a character
            cursor.movePosition(QTextCursor.MoveOperation.PreviousCharacter)
        return cursor.position()

    def is_link(self, position: int) -> bool:
        """Return whether the character at a place of the document belongs to a link."""
        cursor = QTextCursor(self.document())
        cursor.setPosition(position)
        cursor.movePosition(QTextCursor.MoveOperation.NextCharacter)
        return cursor.charFormat().isAnchor()

    def _show_tip(self, event: QHelpEvent) -> None:
        tip = self.tip(self.position_at(event.pos()))
        address = self.anchorAt(event.pos())
        if address and not address.startswith((FOLD_ADDRESS, ASIDE_ADDRESS)):
            tip = f"{tip}\n{address}" if tip else address
        # Qt would take text that looks like HTML for HTML.
        text = f'<p style="white-space: pre-wrap">{escape(clean(tip))}</p>' if tip else ""
        QToolTip.showText(event.globalPos(), text, self.viewport())

    def _paint_marks(self) -> None:
        colours = self._formats.colours
        laid: list[QTextEdit.ExtraSelection] = []
        for shade in self._shades:
            look = QTextCharFormat()
            look.setUnderlineStyle(UNDERLINES[shade.line])
            look.setUnderlineColor(QColor(shade.colour))
            if shade.tinted:
                look.setBackground(QColor(tinted(colours.paper, shade.colour)))
            laid += [
                one
                for one in self._selections(shade.start, shade.end, look)
                if one.cursor.charFormat().property(ROLE) != "marker"
            ]
        for mark in self._marks:
            look = QTextCharFormat()
            look.setBackground(QColor(colours.found_now if mark.current else colours.found))
            look.setForeground(QColor(colours.text))
            laid += self._selections(mark.start, mark.end, look)
        self.setExtraSelections(laid)

    def _selections(
        self, start: int, end: int, look: QTextCharFormat
    ) -> list[QTextEdit.ExtraSelection]:
        laid = []
        for first, last in self.text.ranges(start, end):
            selection = QTextEdit.ExtraSelection()
            cursor = QTextCursor(self.document())
            cursor.setPosition(first)
            cursor.setPosition(last, QTextCursor.MoveMode.KeepAnchor)
            selection.cursor = cursor
            selection.format = look
            laid.append(selection)
        return laid

    def _paint_letters(self, painter: QPainter, clip: QRect) -> None:
        """Paint the letters of the shades, raised, after their text."""
        font = QFont(self._formats.font)
        font.setPointSizeF(_LETTER * font.pointSizeF())
        font.setBold(True)
        painter.setFont(font)
        for shade in self._shades:
            ranges = self.text.ranges(shade.start, shade.end) if shade.letter else []
            if ranges:
                cursor = QTextCursor(self.document())
                cursor.setPosition(ranges[-1][1])
                place = self.cursorRect(cursor)
                if place.intersects(clip):
                    painter.setPen(QColor(shade.colour))
                    top = max(place.top() - _RAISED, 0)
                    base = top + painter.fontMetrics().ascent()
                    painter.drawText(place.left() + 1, base, shade.letter)

    def _paint_below(self, painter: QPainter, clip: QRect) -> None:
        layout = self.document().documentLayout()
        block = self.cursorForPosition(clip.topLeft()).block()
        if block.previous().isValid():
            block = block.previous()
        paper: tuple[int, QRectF] | None = None
        while block.isValid():
            rect = layout.blockBoundingRect(block)
            if rect.top() - 40 > clip.bottom():
                break
            block_format = block.blockFormat()
            panel = block_format.property(PANEL)
            if paper and panel != paper[0]:
                self._paint_paper(painter, paper[1])
                paper = None
            if panel is not None:
                left = block_format.leftMargin() - CODE_PADDING
                here = QRectF(left, rect.top(), self.viewport().width() - left, rect.height())
                paper = (panel, paper[1].united(here) if paper else here)
            self._paint_bars(painter, block, rect)
            if block_format.property(SHAPE) == "rule":
                middle = round(rect.center().y())
                left, width = round(block_format.leftMargin()), self.viewport().width()
                colour = QColor(self._formats.colours.edge)
                painter.fillRect(QRect(left, middle, width - left, 1), colour)
            block = block.next()
        if paper:
            self._paint_paper(painter, paper[1])

    def _paint_paper(self, painter: QPainter, rect: QRectF) -> None:
        painter.setBrush(QColor(self._formats.colours.code))
        painter.drawRoundedRect(rect.adjusted(0, -_PADDING, 0, _PADDING), 6, 6)

    def _paint_bars(self, painter: QPainter, block: QTextBlock, rect: QRectF) -> None:
        bars = block.blockFormat().property(BARS)
        if not bars:
            return
        before = block.previous()
        goes_on = before.blockFormat().property(BARS) or ()
        above = self.document().documentLayout().blockBoundingRect(before).bottom()
        rtl = block.blockFormat().layoutDirection() == Qt.LayoutDirection.RightToLeft
        for bar in bars:
            left, _, tone = bar.partition(":")
            top, bottom = round(above if bar in goes_on else rect.top()), round(rect.bottom())
            edge = self.viewport().width() - self._beside() - float(left) - _BAR
            painter.setBrush(self._formats.tone(tone))  # at whole pixels, so that no seam is seen
            painter.drawRect(QRectF(edge if rtl else float(left), top, _BAR, bottom - top))

    def _beside(self) -> int:
        """Return the pixels that prose leaves free at its right."""
        widest = self._formats.measure if self._measured else self.viewport().width()
        return max(0, self.viewport().width() - widest)

    def _fit(self, *_: object) -> None:
        self.text.set_room(width=self.viewport().width(), beside=self._beside())
        height = math.ceil(self.document().size().height())
        panel = self.document().lastBlock().blockFormat().property(PANEL)
        height += _PADDING if panel is not None else 0
        if height != self.height():
            self.setFixedHeight(max(1, height))

    def _show_formulas(self, laid_out: frozenset[str]) -> None:
        if self.text.refresh_formulas(laid_out):
            self._fit()
            self.place_buttons()

    def _rewrite(self) -> None:
        """Write for the time of one frame, after a change outside of frames."""
        end = time.monotonic() + _REWRITE_SECONDS
        while self.step():
            if time.monotonic() > end:
                return
        self._rewriting.stop()
        self.place_buttons()
        self.lay_marks()
        self.seen_changed.emit()

    def _ask(self, address: QUrl) -> None:
        if address.toString().startswith(FOLD_ADDRESS):
            self.text.fold(int(address.toString().removeprefix(FOLD_ADDRESS)))
            self._rewriting.start()
            return
        if address.toString().startswith(ASIDE_ADDRESS):
            self.aside_asked.emit(int(address.toString().removeprefix(ASIDE_ADDRESS)))
            return
        self.link_asked.emit(bytes(address.toEncoded().data()).decode("ascii", "replace"))

    def _make_button(self, panel: int) -> HoverButton:
        button = HoverButton("Copy", self._formats.font, parent=self.viewport())
        button.setAccessibleName("Copy this code")
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Tab would stop at every code block
        button.clicked.connect(lambda: self._copy(panel))
        button.show()
        return button

    def _copy(self, panel: int) -> None:
        QGuiApplication.clipboard().setText(clean(self.text.code(panel)))
        self._buttons[panel].acknowledge()
        self.code_copied.emit()

    def _show_colours(self) -> None:
        colours = self._formats.colours
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Base, QColor(0, 0, 0, 0))
        palette.setColor(QPalette.ColorRole.Text, QColor(colours.text))
        self.setPalette(palette)
        self.setFont(self._formats.font)
