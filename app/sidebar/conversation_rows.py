"""Draws the lines of the sidebar: conversations, folders, and the hits of a search.

Knows records. The conversation that is shown is bold, and the selected ones are tinted. The match
in a hit is bold and tinted.
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
    QTextLine,
    QTextOption,
)
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.chat.activity import Activity, AwaitingModel, AwaitingTurn
from app.conversations.records import Excerpt
from app.markdown.page import utf16
from app.sidebar.conversation_model import (
    ACTIVITY,
    CONVERSATION,
    ELSEWHERE,
    GROUP,
    HIT,
    INSIDE,
    SECTION,
    SHOWN,
    UNTITLED,
    Group,
    Index,
)
from app.theme.icons import draw_sign
from app.theme.palette import Palette, palette_for, tinted
from app.theme.style import scaled_font, small_font
from models.in_words import clean

MORE_WIDTH = 28  # of the menu button at the right of a line
_HIT_LINES = 2
_PAD = 12
_INDENT = 16  # of a conversation in a folder
_LONGEST_EXCERPT = 400  # characters: more than two lines ever show


class ConversationRows(QStyledItemDelegate):
    """Draws a title or a folder's name, below a heading if it is the first of its section."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        heading = _heading_height(option.font) if index.data(SECTION) else 0
        return QSize(120, heading + _line_height(option.font))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        colours = _colours(option)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # the title's own
        if heading := str(index.data(SECTION)):
            self._draw_heading(painter, option, heading)
        line = line_box(option.rect, option.font)
        hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        shown = bool(index.data(SHOWN))
        _draw_ground(painter, line, colours, option=option, shown=shown)
        words = line.adjusted(_PAD + (_INDENT if index.data(INSIDE) else 0), 0, -8, 0)
        sign = QRectF(line.right() - MORE_WIDTH + 5, line.center().y() - 6, 14, 14)
        group: Group | None = index.data(GROUP)
        if group is not None:
            _draw_arrow(painter, words, colours, group=group)
            words.setLeft(words.left() + _INDENT)
        if hovered and has_menu(index):
            draw_sign(painter, "more", sign, colours.text)
            words.setRight(words.right() - MORE_WIDTH + 4)
        elif group is not None:
            words.setRight(_draw_count(painter, words, option, group=group))
        elif (activity := index.data(ACTIVITY)) is not None:
            _draw_activity(painter, sign, activity, colours)
            words.setRight(words.right() - MORE_WIDTH + 4)
        elif index.data(ELSEWHERE):
            draw_sign(painter, "window", sign, colours.muted)
            words.setRight(words.right() - MORE_WIDTH + 4)
        elif index.data(CONVERSATION).pinned:
            draw_sign(painter, "pin", sign, colours.muted)
            words.setRight(words.right() - MORE_WIDTH + 4)
        font = QFont(option.font)
        font.setBold(shown)  # to show it by more than colour
        painter.setFont(font)
        painter.setPen(QColor(colours.text))
        title = QFontMetrics(font).elidedText(
            f"\u2068{index.data()}", Qt.TextElideMode.ElideRight, words.width()
        )
        painter.drawText(words, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, title)
        painter.restore()

    def createEditor(
        self, parent: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> QLineEdit:
        editor = QLineEdit(parent)
        editor.setAccessibleName("New name" if index.data(GROUP) else "New title")
        editor.setMaxLength(200)
        return editor

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> None:
        indent = _INDENT if index.data(GROUP) or index.data(INSIDE) else 0
        editor.setGeometry(line_box(option.rect, option.font).adjusted(4 + indent, 1, -4, -1))

    def _draw_heading(self, painter: QPainter, option: QStyleOptionViewItem, heading: str) -> None:
        painter.setFont(scaled_font(option.font, 0.85, bold=True))
        painter.setPen(QColor(_colours(option).muted))
        box = QRect(option.rect)
        box.setHeight(_heading_height(option.font))
        box.adjust(_PAD, 0, 0, -4)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, heading)


class HitRows(QStyledItemDelegate):
    """Draws the title of the conversation, and below it the text around the match."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        small = QFontMetrics(small_font(option.font)).height()
        words = QFontMetrics(option.font).lineSpacing()
        return QSize(120, 8 + small + 2 + _HIT_LINES * words + 8)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        hit, colours = index.data(HIT), _colours(option)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # the title's own
        box = QRect(option.rect)
        _draw_ground(painter, box, colours, option=option, shown=bool(index.data(SHOWN)))
        box.adjust(_PAD, 8, -_PAD, -8)
        shown = bool(index.data(SHOWN))
        small = scaled_font(option.font, 0.85, bold=shown)  # by more than colour
        painter.setFont(small)
        painter.setPen(QColor(colours.muted))
        place = "Title" if hit.message is None else " ".join(clean(hit.title).split()) or UNTITLED
        place = f"\u2068{place}"
        title = QFontMetrics(small).elidedText(place, Qt.TextElideMode.ElideRight, box.width())
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, title)
        box.setTop(box.top() + QFontMetrics(small).height() + 2)
        painter.setPen(QColor(colours.text))
        layout = excerpt_layout(hit.excerpts, option.font, box.width(), colours)
        layout.draw(painter, QPointF(box.topLeft()))
        painter.restore()


def has_menu(index: Index) -> bool:
    """Return whether there are commands for the line: all but the archive's have some."""
    group: Group | None = index.data(GROUP)
    return group is None or group.folder is not None


def line_box(row: QRect, font: QFont) -> QRect:
    """Return the part of a row below the heading."""
    height = _line_height(font)
    return QRect(row.left(), row.bottom() + 1 - height, row.width(), height)


def excerpt_layout(
    excerpts: tuple[Excerpt, ...], font: QFont, width: int, colours: Palette
) -> QTextLayout:
    """Return a few lines with the match in bold; longer text ends with an ellipsis."""
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
            stretch.start, stretch.length = utf16(text), utf16(piece)
            stretch.format = style
            formats.append(stretch)
        text += piece
    layout = QTextLayout(text, font)
    layout.setFormats(formats)
    _break_lines(layout, width)
    last = layout.lineAt(layout.lineCount() - 1)
    if last.isValid() and last.textStart() + last.textLength() < utf16(text):
        room = width - QFontMetrics(font).horizontalAdvance("\u2026")
        kept = last.xToCursor(room, QTextLine.CursorPosition.CursorOnCharacter)
        begin = text.encode("utf-16-le")[: 2 * kept].decode("utf-16-le", errors="ignore")
        layout.setText(begin.rstrip() + "\u2026")
        _break_lines(layout, width)
    return layout


def _break_lines(layout: QTextLayout, width: int) -> None:
    """Lay out the first lines of the text, below each other."""
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
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


def _draw_arrow(painter: QPainter, words: QRect, colours: Palette, *, group: Group) -> None:
    """Draw an arrow: down if the group is open, otherwise to the right."""
    painter.save()
    painter.translate(words.left() + 4, words.center().y() + 1)
    if group.open:
        painter.rotate(90)
    draw_sign(painter, "play", QRectF(-4.5, -4.5, 9, 9), colours.muted)
    painter.restore()


def _draw_count(
    painter: QPainter, words: QRect, option: QStyleOptionViewItem, *, group: Group
) -> int:
    """Write the number of conversations in the group, at the right. Returns its left edge."""
    font = small_font(option.font)
    painter.setFont(font)
    painter.setPen(QColor(_colours(option).muted))
    count = f"{group.count:,}"
    painter.drawText(
        words.adjusted(0, 0, -4, 0),
        Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter,
        count,
    )
    return words.right() - QFontMetrics(font).horizontalAdvance(count) - 10


def _draw_activity(painter: QPainter, box: QRectF, activity: Activity, colours: Palette) -> None:
    """Draw a dot while the engine works on an answer, or a ring while the answer waits for its
    turn."""
    waits = isinstance(activity, AwaitingModel | AwaitingTurn)
    painter.setPen(QPen(QColor(colours.link), 1.6))
    painter.setBrush(Qt.BrushStyle.NoBrush if waits else QColor(colours.link))
    painter.drawEllipse(box.center(), 3.6, 3.6)


def _draw_ground(
    painter: QPainter, box: QRect, colours: Palette, *, option: QStyleOptionViewItem, shown: bool
) -> None:
    """Draw the background of a line: tinted if selected, grey if shown or hovered; with an outline
    if it has the keyboard's focus."""
    hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
    selected = bool(option.state & QStyle.StateFlag.State_Selected)
    outlined = bool(option.state & QStyle.StateFlag.State_HasFocus)
    if not (hovered or selected or outlined or shown):
        return
    ground = colours.hover if shown or hovered else colours.code
    painter.setBrush(QColor(tinted(colours.hover, colours.link) if selected else ground))
    painter.setPen(QColor(colours.link) if outlined else Qt.PenStyle.NoPen)
    painter.drawRoundedRect(box.toRectF().adjusted(4.5, 1.5, -4.5, -1.5), 6, 6)


def _colours(option: QStyleOptionViewItem) -> Palette:
    return palette_for(option.palette.color(QPalette.ColorRole.Window).name())


def _line_height(font: QFont) -> int:
    return QFontMetrics(font).height() + 14


def _heading_height(font: QFont) -> int:
    return QFontMetrics(small_font(font)).height() + 18
