"""The side panel with the place in a document that words of an answer come from.

Draws the page of a PDF with boxes around the words. Of other documents it shows the text, with the
words marked. Knows documents and who draws pages; not how the words were found.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QImage,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QFrame,
    QScrollArea,
    QSizePolicy,
    QStackedWidget,
    QTextEdit,
    QWidget,
)

from app.documents.answer_words import format_place, letter
from app.documents.word_marks import colour_of_document
from app.layout import column_of, row_of, text_area
from app.markdown.page import utf16
from app.steps import Stepper, Steps, in_thread
from app.theme.labels import plain_label
from app.theme.palette import LIGHT
from app.theme.style import colours_of, sign_button
from engine.documents import Document
from engine.documents.copied import CopiedPlace, CopiedSpan
from engine.documents.page_picture import Box, PagePicture
from engine.documents.reading import Cancelled
from models.errors import Problem
from models.in_words import clean

_NARROWEST = 300  # pixels
_PICTURE_WIDTH = 1400  # pixels of a page: sharp on dense displays too
_MOST_TEXT = 40_000  # characters around the words
_MARGIN = 12  # pixels
_COLUMNS = 200  # for drawing a page
_WHITE = 250  # of 255
_SPACE = 0.03  # of the page's width
_HINT = (
    "This panel shows where the words of an answer come from. Choose words that are marked as "
    "found in a document, with the pointer or with Enter."
)


class DrawPage(Protocol):
    """Draws a page of a PDF. Raises Problem, and Cancelled soon after it was `cancelled`."""

    def __call__(
        self,
        path: Path,
        number: int,
        *,
        spans: Sequence[tuple[int, int]],
        width: int,
        cancelled: Callable[[], bool],
    ) -> PagePicture: ...


class PagePanel(QWidget):
    """Attributes: `heading`, the place; `remark` on it; `page`, a picture; `text`, shown without a
    picture.

    Signals: `close_asked()`.
    """

    close_asked = Signal()

    def __init__(self, draw: DrawPage, copy_of: Callable[[Document], Path | None]) -> None:
        """`copy_of` returns the file of a PDF, if it still exists."""
        super().__init__()
        self._draw, self._copy_of = draw, copy_of
        self._stepper = Stepper(self)
        self._places: tuple[CopiedPlace, ...] = ()
        self._documents: Mapping[int, Document] = {}
        self._at = 0
        self._shows = 0  # number of places shown, so that a late picture is ignored
        self.heading, self.remark = plain_label(wraps=True), plain_label(wraps=True, tone="warning")
        self._hint = plain_label(_HINT, wraps=True, tone="muted")
        for label in (self.heading, self.remark, self._hint):
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._count = plain_label(tone="muted")
        before, after = "Previous place with these words", "Next place with these words"
        self._before = sign_button("\u2039", before, lambda: self.step(-1))
        self._after = sign_button("\u203a", after, lambda: self.step(1))
        self._close = sign_button("\u00d7", "Close the document panel", self.close_asked.emit)
        self._count.setMinimumHeight(self._close.sizeHint().height())  # aligned with the buttons
        self.page, self.text = PageView(), text_area(name="Text of the document", fixed=True)
        self.text.setFrameShape(QFrame.Shape.NoFrame)
        self.text.document().setDocumentMargin(_MARGIN)
        self._stack = QStackedWidget()
        self.setAccessibleName("Document")
        self.setMinimumWidth(_NARROWEST)
        self._arrange()
        self.clear()

    def _arrange(self) -> None:
        parts = (self._before, self._count, self._after, self._close)
        tops = [(part, Qt.AlignmentFlag.AlignTop) for part in parts]
        head = row_of((self.heading, 1), *tops, margins=(16, 10, 8, 6), gap=4)
        self.remark.setContentsMargins(16, 0, 16, 8)
        self._hint.setContentsMargins(16, 10, 16, 0)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignTop)
        for shown in (self._hint, self.page, self.text):
            self._stack.addWidget(shown)
        column_of(head, self.remark, (self._stack, 1), on=self, margins=0, gap=0)

    @property
    def place(self) -> CopiedPlace | None:
        """The place that is shown, or None."""
        return self._places[self._at] if self._places else None

    @property
    def documents(self) -> set[int]:
        """The numbers of the documents with this place and the others with the same words."""
        return {place.document for place in self._places}

    def clear(self) -> None:
        """Show nothing: another conversation is open."""
        self._shows += 1
        self._places, self._documents = (), {}
        self._say_place()
        self._stack.setCurrentWidget(self._hint)

    def show_span(self, span: CopiedSpan, documents: Mapping[int, Document]) -> None:
        """Show the first place of these words."""
        self._places, self._documents, self._at = span.places, documents, 0
        self._show()

    def step(self, by: int) -> None:
        """Go to the next place of these words (1), or to the one before (-1)."""
        if 0 <= self._at + by < len(self._places):
            self._at += by
            self._show()

    def close_all(self) -> None:
        """Stop drawing: the window closes."""
        self._shows += 1
        self._stepper.close()

    def _show(self) -> None:
        self._shows += 1
        self._say_place()
        place = self._places[self._at]
        document = self._documents[place.document]
        copy = self._copy_of(document)
        if document.format == "pdf" and copy is not None:
            steps = self._draw_page(place, document, copy, self._shows)
            self._stepper.run(steps, failed=lambda problem: self._show_text(place, problem))
        else:
            self._show_text(place, None)

    def _draw_page(self, place: CopiedPlace, document: Document, copy: Path, number: int) -> Steps:
        at = document.section_at(place.start)
        section, start = document.sections[at], document.starts[at]
        inside = (place.start - start, min(place.end - start, len(section.text)))
        try:
            picture = yield in_thread(
                lambda: self._draw(
                    copy,
                    section.number,
                    spans=[inside],
                    width=_PICTURE_WIDTH,
                    cancelled=lambda: self._shows != number,
                )
            )
        except Cancelled:
            return
        if self._shows == number:
            self._stack.setCurrentWidget(self.page)  # a hidden widget has no size yet
            self.page.show_picture(picture, colour_of_document(place.document, LIGHT))

    def _show_text(self, place: CopiedPlace, problem: Problem | None) -> None:
        """Show the text around the place. `problem` says why no page is shown."""
        if place is not self.place:
            return
        if problem is not None:
            self.remark.setText(clean(f"The page is not drawn: {problem}"))
            self.remark.show()
        document = self._documents[place.document]
        at = document.section_at(place.start)
        begin = max(document.starts[at], place.start - _MOST_TEXT)
        end = min(document.starts[at] + len(document.sections[at].text), place.end + _MOST_TEXT)
        end = max(end, place.end)
        before = clean(document.text[begin : place.start])
        words = clean(document.text[place.start : place.end])
        self.text.setPlainText(before + words + clean(document.text[place.end : end]))
        cursor = self.text.textCursor()
        first = utf16(before)
        cursor.setPosition(first + utf16(words))
        self.text.setTextCursor(cursor)
        cursor.setPosition(first, QTextCursor.MoveMode.KeepAnchor)
        mark = QTextEdit.ExtraSelection()
        mark.cursor = cursor
        look = QTextCharFormat()
        colours = colours_of(self)
        look.setBackground(QColor(colours.found))
        look.setForeground(QColor(colours.text))
        mark.format = look
        self.text.setExtraSelections([mark])
        self._stack.setCurrentWidget(self.text)
        self.text.centerCursor()

    def _say_place(self) -> None:
        place, many = self.place, len(self._places) > 1
        self.remark.hide()
        words = ""
        if place is not None:
            where = format_place(place, self._documents[place.document])
            words = f"{letter(place.document)}  {where}"
        self.heading.setText(clean(words) or "No words chosen")
        self._count.setText(f"{self._at + 1} of {len(self._places)}" if many else "")
        for button, enabled in (
            (self._before, self._at > 0),
            (self._after, self._at + 1 < len(self._places)),
        ):
            button.setVisible(many)
            button.setEnabled(enabled)


class PageView(QScrollArea):
    """A picture of a page without its white margins, as wide as the view, with boxes on it.

    Attribute: `picture`, None before there is one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.picture: PagePicture | None = None
        self._sheet = _Sheet()
        self.setWidget(self._sheet)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        # A scroll bar would make the page narrower, and then perhaps disappear again.
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Page of the document")

    def show_picture(self, picture: PagePicture, colour: str) -> None:
        """Show a page with boxes of this colour, scrolled to the first box."""
        self.picture = picture
        self._sheet.set_picture(picture, colour)
        self._fit()
        if picture.boxes:
            first = picture.boxes[0]
            middle = round(self._sheet.scale * (first.top + first.bottom) / 2)
            self.verticalScrollBar().setValue(middle - self.viewport().height() // 3)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        if self.picture is not None:
            self._sheet.fit(max(1, self.viewport().width() - 2 * _MARGIN))


class _Sheet(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._page, self._scaled, self._colour = QImage(), QImage(), QColor()
        self._boxes: tuple[Box, ...] = ()
        self._left = 0  # of the picture, where the page is cut

    @property
    def scale(self) -> float:
        return self.width() / max(self._page.width(), 1)

    def set_picture(self, picture: PagePicture, colour: str) -> None:
        whole = QImage()
        whole.loadFromData(picture.png, "PNG")
        self._boxes, self._colour = picture.boxes, QColor(colour)
        self._left, right = _written(whole, picture.boxes)
        self._page = whole.copy(self._left, 0, right - self._left, whole.height())
        self._scaled = QImage()
        self.update()

    def fit(self, width: int) -> None:
        """Take this width."""
        page = self._page.size()
        self.setFixedSize(QSize(width, round(width * page.height() / max(page.width(), 1))))

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._page.isNull():
            return
        size = self.size() * self.devicePixelRatioF()
        if self._scaled.size() != size:  # a painter would drop thin lines
            smooth = Qt.TransformationMode.SmoothTransformation
            self._scaled = self._page.scaled(size, Qt.AspectRatioMode.IgnoreAspectRatio, smooth)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.drawImage(self.rect(), self._scaled)
            painter.setPen(self.palette().color(QPalette.ColorRole.Mid))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
            fill = QColor(self._colour)
            fill.setAlphaF(0.16)
            painter.setPen(self._colour)
            painter.setBrush(fill)
            for box in self._boxes:
                rect = QRectF(
                    box.left - self._left, box.top, box.right - box.left, box.bottom - box.top
                )
                rect = QRectF(rect.topLeft() * self.scale, rect.size() * self.scale)
                painter.drawRoundedRect(rect.adjusted(-2, -1, 2, 1), 2, 2)


def _written(page: QImage, boxes: Sequence[Box]) -> tuple[int, int]:
    """Return the left and right edge of the ink on a page, with a small margin."""
    if page.isNull():
        return 0, 0
    small = page.scaledToWidth(_COLUMNS, Qt.TransformationMode.SmoothTransformation)
    small = small.convertToFormat(QImage.Format.Format_Grayscale8)
    shades, row = bytes(small.constBits()), small.bytesPerLine()
    inked = [column for column in range(small.width()) if min(shades[column::row]) < _WHITE]
    scale = page.width() / max(small.width(), 1)
    edges = [scale * column for column in inked] + [
        edge for box in boxes for edge in (box.left, box.right)
    ]
    if not edges:
        return 0, page.width()
    space = round(_SPACE * page.width())
    left, right = round(min(edges)) - space, round(max(edges) + scale) + space
    return max(left, 0), min(right, page.width())
