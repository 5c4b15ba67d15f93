"""Draws the lines of the sidebar: conversations, and the hits of a search.

Knows records and how they are drawn. The match in a hit is bold and tinted.
"""

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QPainter,
    QPalette,
    QPen,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import (
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.chat.activity import Activity, AwaitingModel, AwaitingTurn
from app.conversations.records import Excerpt, Hit
from app.sidebar.conversation_model import (
    ACTIVITY,
    CONVERSATION,
    HIT,
    SECTION,
    SHOWN,
    UNTITLED,
    Index,
)
from app.theme.icons import draw_sign
from app.theme.palette import Palette, palette_for, tinted
from models.in_words import clean

MORE_WIDTH = 28  # of the menu button at the right of a line
_HIT_LINES = 2
_PAD = 12
_LONGEST_EXCERPT = 400  # characters: more than two lines ever show


class ConversationRows(QStyledItemDelegate):
    """A title, below the heading where it is the first of its section."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        heading = _heading_height(option.font) if index.data(SECTION) else 0
        return QSize(120, heading + _line_height(option.font))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        colours = _colours(option)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if heading := str(index.data(SECTION)):
            self._draw_heading(painter, option, heading)
        line = line_box(option.rect, option.font)
        hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        shown = bool(index.data(SHOWN))
        _draw_ground(painter, line, colours, option=option, shown=shown)
        words = line.adjusted(_PAD, 0, -8, 0)
        sign = QRectF(line.right() - MORE_WIDTH + 5, line.center().y() - 6, 14, 14)
        if hovered:
            draw_sign(painter, "more", sign, colours.text)
            words.setRight(words.right() - MORE_WIDTH + 4)
        elif (activity := index.data(ACTIVITY)) is not None:
            _draw_activity(painter, sign, activity, colours)
            words.setRight(words.right() - MORE_WIDTH + 4)
        elif index.data(CONVERSATION).pinned:
            draw_sign(painter, "pin", sign, colours.muted)
            words.setRight(words.right() - MORE_WIDTH + 4)
        font = QFont(option.font)
        font.setBold(shown)  # not by colour alone
        painter.setFont(font)
        painter.setPen(QColor(colours.text))
        title = QFontMetrics(font).elidedText(
            str(index.data()), Qt.TextElideMode.ElideRight, words.width()
        )
        painter.drawText(words, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, title)
        painter.restore()

    def createEditor(
        self, parent: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> QLineEdit:
        editor = QLineEdit(parent)
        editor.setAccessibleName("New title")
        editor.setMaxLength(200)
        return editor

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> None:
        editor.setGeometry(line_box(option.rect, option.font).adjusted(4, 1, -4, -1))

    def _draw_heading(self, painter: QPainter, option: QStyleOptionViewItem, heading: str) -> None:
        painter.setFont(_small(option.font, bold=True))
        painter.setPen(QColor(_colours(option).muted))
        box = QRect(option.rect)
        box.setHeight(_heading_height(option.font))
        box.adjust(_PAD, 0, 0, -4)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, heading)


class HitRows(QStyledItemDelegate):
    """The title of the conversation, and below it the text around the match."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        small = QFontMetrics(_small(option.font)).height()
        words = QFontMetrics(option.font).lineSpacing()
        return QSize(120, 8 + small + 2 + _HIT_LINES * words + 8)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        hit: Hit = index.data(HIT)
        colours = _colours(option)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRect(option.rect)
        _draw_ground(painter, box, colours, option=option, shown=False)
        box.adjust(_PAD, 8, -_PAD, -8)
        small = _small(option.font)
        painter.setFont(small)
        painter.setPen(QColor(colours.muted))
        place = "Title" if hit.message is None else " ".join(clean(hit.title).split()) or UNTITLED
        title = QFontMetrics(small).elidedText(place, Qt.TextElideMode.ElideRight, box.width())
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, title)
        box.setTop(box.top() + QFontMetrics(small).height() + 2)
        painter.setPen(QColor(colours.text))
        layout = _excerpt_layout(hit.excerpts, option.font, box.width(), colours)
        layout.draw(painter, QPointF(box.topLeft()))
        last = layout.lineAt(layout.lineCount() - 1)
        if last.isValid() and last.textStart() + last.textLength() < len(layout.text()):
            end = QPointF(last.naturalTextWidth(), last.y() + last.ascent())
            painter.drawText(QPointF(box.topLeft()) + end, "…")
        painter.restore()


def line_box(row: QRect, font: QFont) -> QRect:
    """The part of a row below the heading."""
    height = _line_height(font)
    return QRect(row.left(), row.bottom() + 1 - height, row.width(), height)


def _excerpt_layout(
    excerpts: tuple[Excerpt, ...], font: QFont, width: int, colours: Palette
) -> QTextLayout:
    """A few lines with the match in bold."""
    text, formats = "", []
    for part in excerpts:
        if len(text) > _LONGEST_EXCERPT:
            break
        piece = clean(part.text[:_LONGEST_EXCERPT]).replace("\n", " ")
        if part.match:
            style = QTextCharFormat()
            style.setFontWeight(QFont.Weight.Bold)
            style.setBackground(QColor(tinted(colours.paper, colours.link)))
            stretch = QTextLayout.FormatRange()
            stretch.start, stretch.length = _units(text), _units(piece)
            stretch.format = style
            formats.append(stretch)
        text += piece
    layout = QTextLayout(text, font)
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.setFormats(formats)
    layout.beginLayout()
    y = 0.0
    for _ in range(_HIT_LINES):
        line = layout.createLine()
        if not line.isValid():
            break
        line.setLineWidth(width)
        line.setPosition(QPointF(0, y))
        y += line.height()
    layout.endLayout()
    return layout


def _draw_activity(painter: QPainter, box: QRectF, activity: Activity, colours: Palette) -> None:
    """A dot while the engine is at an answer, a ring while the answer waits for its turn."""
    waits = isinstance(activity, AwaitingModel | AwaitingTurn)
    painter.setPen(QPen(QColor(colours.link), 1.6))
    painter.setBrush(Qt.BrushStyle.NoBrush if waits else QColor(colours.link))
    painter.drawEllipse(box.center(), 3.6, 3.6)


def _draw_ground(
    painter: QPainter,
    box: QRect,
    colours: Palette,
    *,
    option: QStyleOptionViewItem,
    shown: bool,
) -> None:
    """The background of a line: tinted where shown or hovered, outlined where it has the focus."""
    hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
    focused = bool(option.state & QStyle.StateFlag.State_HasFocus)
    if not (hovered or focused or shown):
        return
    painter.setBrush(QColor(colours.hover if shown or hovered else colours.paper))
    painter.setPen(QColor(colours.link) if focused else Qt.PenStyle.NoPen)
    painter.drawRoundedRect(box.toRectF().adjusted(4.5, 1.5, -4.5, -1.5), 6, 6)


def _colours(option: QStyleOptionViewItem) -> Palette:
    return palette_for(option.palette.color(QPalette.ColorRole.Window).name())


def _small(font: QFont, *, bold: bool = False) -> QFont:
    small = QFont(font)
    small.setPointSizeF(font.pointSizeF() * 0.85)
    small.setBold(bold)
    return small


def _line_height(font: QFont) -> int:
    return QFontMetrics(font).height() + 14


def _heading_height(font: QFont) -> int:
    return QFontMetrics(_small(font)).height() + 18


def _units(text: str) -> int:
    """Its length in UTF-16 units, which Qt counts."""
    return len(text.encode("utf-16-le")) // 2
