"""Shows the draft of a round in the answer, where its words would appear.

The words lie over the message, after its last line: nothing of the text is changed or moved for
them. A tree is shown as its most promising branch. Before the first round, shows a status line.
Knows rounds and a view; not when a round is shown (`app.rounds.pace`).
"""

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from PySide6.QtCore import QEvent, QObject, QPointF, QRectF, Qt, QTimer
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QHideEvent,
    QPainter,
    QPaintEvent,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextLayout,
    QTextLine,
    QTextOption,
)
from PySide6.QtWidgets import QWidget

from app.markdown.formats import CODE_PADDING, PANEL, SHAPE
from app.markdown.page import Shape, utf16
from app.markdown.view import TextView
from app.rounds.explained import describe
from app.rounds.marks import flat
from app.theme.palette import Palette
from engine.conversation.rounds import Fate, Round

_FRAME_MS = 16
_HELD_SECONDS, _FOLD_SECONDS = 0.12, 0.28  # a rejected draft, and its way out
_BAR_WIDTH, _BAR_HEIGHT, _BAR_ABOVE = 220.0, 4.0, 8.0  # pixels
_MOST_LINES, _PADDING = 12, 7  # pixels, of the ground below code
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})\s*\Z")  # that ends a code block


@dataclass(frozen=True, slots=True)
class _Edge:
    """The end of the text: where the next word would appear, and how lines continue.

    `first` is the rest of the last line, `rest` the first line below it; both are as high as a
    line. `breaks`: the line ends at the end of the text that are not shown yet. `gap` is the pixels
    between this line and a paragraph below it; None in code, where each line end begins a line.
    `ground` is the left edge of the ground of code.
    """

    first: QRectF
    rest: QRectF
    font: QFont
    direction: Qt.LayoutDirection
    wraps: bool
    breaks: int
    gap: float | None
    ground: float = 0.0


class DraftAhead(QWidget):
    """Lies over a message while its answer is written. The pointer reaches the text below it.

    Attributes: `line`, the words before the first round; `round`, the round whose draft is shown,
    or None; `calm`: nothing moves.
    """

    def __init__(
        self,
        view: TextView,
        colours: Palette,
        *,
        over: QWidget,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`over` is the widget with the view; what lies below the view may be painted over."""
        super().__init__(over)
        self._over = over
        self._view, self._colours, self._clock = view, colours, clock
        self.line = ""
        self._share: float | None = None
        self.round: Round | None = None
        self.calm = False
        self._since = 0.0
        self._laid: QTextLayout | None = None
        self._ground = QRectF()  # below lines of code
        self._above = 0.0
        self._timer = QTimer(self, interval=_FRAME_MS)
        self._timer.timeout.connect(self._move)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName("Draft")
        over.installEventFilter(self)
        self.hide()

    def set_colours(self, colours: Palette) -> None:
        """Use other colours."""
        self._colours = colours
        self.follow()

    def say(self, line: str, *, share: float | None = None) -> None:
        """Show this line where the text will begin; with a `share` of the work, also a bar."""
        self.line, self._share = line, share
        self.follow()

    def show_round(self, round: Round | None) -> None:
        """Show the draft of a round; after its verdict, the tokens that were not accepted."""
        self.line, self._share = "", None
        self.round, self._since = round, self._clock()
        self.follow()

    def follow(self) -> None:
        """Lay out the words after the text as it is now."""
        words = self._words()
        self._laid = None
        self.setVisible(bool(words))
        self._timer.stop()
        if not words:
            self.setAccessibleDescription("")
            return
        edge = self._edge()
        top = round(self._view.y() + edge.first.top()) - 1
        self._above = self._view.y() + edge.first.top() - top  # a part of a pixel matters
        self.setGeometry(0, top, self._over.width(), self._over.height() - top)
        self.raise_()
        self._lay_out(words, edge)
        self.setAccessibleDescription(describe(self.round) if self.round else self.line)
        if self.round is not None and self.round.verdict is not None and not self.calm:
            self._timer.start()
        self.update()

    def _words(self) -> list[tuple[str, Fate]]:
        """Return the words that are not in the text, each with its fate."""
        if self.round is None:
            return [(self.line, "drafted")] if self.line else []
        reasoning = self._view.text.reasoning
        if reasoning and not reasoning.closed and self._view.text.hides(reasoning.start):
            return []
        kept = ("drafted", "rejected", "discarded")
        return [(flat(t.text), t.fate) for t in self.round.best_path if t.fate in kept]

    # Layout

    def _edge(self) -> _Edge:
        """Return where the text ends. A table ends in the last cell with words, or below it."""
        view, document, last_line = self._view, self._view.document(), self._view.text.last_line
        block, breaks = document.lastBlock(), last_line.count("\n")
        width = float(view.viewport().width())
        while not block.text() and QTextCursor(block.previous()).currentTable() is not None:
            block = block.previous()
        shape = str(block.blockFormat().property(SHAPE))
        in_table = QTextCursor(block).currentTable() is not None
        in_code = shape == "code" and not _FENCE.match(last_line)
        font = _font_of(block) if in_code or (shape == "heading" and not breaks) else None
        font = font or document.defaultFont()
        leading = block.blockFormat().lineHeight() / 100 or 1.0
        pitch = leading * math.ceil(QFontMetricsF(font).height())  # as Qt lays out lines
        if view.text.ends_in_aside:  # the text goes on below it
            top = document.documentLayout().blockBoundingRect(block).bottom()
            padding = CODE_PADDING if block.blockFormat().hasProperty(PANEL) else 0
            top += view.text.gap_below("summary") + padding
            first, left = QRectF(0.0, top, width, pitch), Qt.LayoutDirection.LeftToRight
            return _Edge(first, first.translated(0, pitch), font, left, True, 0, 0.0)
        layout, direction = block.layout(), block.textDirection()
        here, line = layout.position(), layout.lineAt(max(0, layout.lineCount() - 1))
        if in_table and breaks > 1:
            below = document.documentLayout().blockBoundingRect(document.lastBlock())
            here, line, in_table = below.topLeft(), QTextLine(), False
        if not line.isValid():  # not laid out, or an empty text
            first = QRectF(here.x(), here.y(), width, pitch)
            return _Edge(first, first.translated(0, pitch), font, direction, True, 0, 0.0)
        indent = block.blockFormat().textIndent() if line.textStart() == 0 else 0.0
        whole = QRectF(here.x() + line.x(), here.y() + line.y(), line.width(), pitch)
        if in_table:
            whole.setRight(max(whole.right(), width))
        used, first = line.naturalTextWidth(), QRectF(whole)
        if direction == Qt.LayoutDirection.RightToLeft:
            first.setRight(whole.right() - used)
        else:
            first.setLeft(whole.left() + used)
        rest = whole.adjusted(-indent, 0, 0, 0).translated(0, pitch)
        if in_code:
            for line_box in (first, rest):  # code that is wider scrolls, and a draft does not
                line_box.setRight(width - CODE_PADDING)
            ground = block.blockFormat().leftMargin() - CODE_PADDING
            return _Edge(first, rest, font, direction, True, min(breaks, 1), None, ground)
        above: Shape = "code" if shape == "code" else "heading" if shape == "heading" else "text"
        if above != "text":  # it has ended
            rest.moveTop(whole.top() + leading * line.height())
            rest.setLeft(0.0)
            breaks = max(breaks, 2 if above == "code" else 0)
        breaks = breaks if block.text() else 0
        return _Edge(first, rest, font, direction, not in_table, breaks, view.text.gap_below(above))

    def _lay_out(self, words: list[tuple[str, Fate]], edge: _Edge) -> None:
        """Lay the words out after the text, in lines as the text's."""
        text, formats, paragraphs = self._text(words, edge)
        layout = QTextLayout(text, edge.font)
        option = QTextOption()
        option.setTextDirection(edge.direction)
        mode = QTextOption.WrapMode
        option.setWrapMode(mode.WrapAtWordBoundaryOrAnywhere if edge.wraps else mode.ManualWrap)
        option.setFlags(QTextOption.Flag.IncludeTrailingSpaces)
        layout.setTextOption(option)
        layout.setFormats(formats)
        layout.beginLayout()
        place, top, pitch = edge.first, 0.0, edge.rest.top() - edge.first.top()
        for _ in range(_MOST_LINES):
            line = layout.createLine()
            if not line.isValid():
                break
            if line.textStart() in paragraphs:
                top += edge.gap or 0.0
            line.setLineWidth(max(1.0, place.width()))
            line.setPosition(QPointF(place.left(), top))
            place, top, pitch = edge.rest, top + pitch, edge.rest.height()
        layout.endLayout()
        self._laid, self._ground = layout, QRectF()
        if edge.gap is None and layout.lineCount() > 1:  # below the ground of the code so far
            right, above = self._view.viewport().width(), layout.lineAt(1).y()
            self._ground = QRectF(edge.ground, above, right - edge.ground, top - above + _PADDING)

    def _text(
        self, words: list[tuple[str, Fate]], edge: _Edge
    ) -> tuple[str, list[QTextLayout.FormatRange], set[int]]:
        """Return the words as they are laid out, their formats, and the places in it at which
        paragraphs begin: an empty line becomes a gap."""
        text, breaks = self._lead(words[0][0], edge), edge.breaks
        formats, paragraphs = list[QTextLayout.FormatRange](), set[int]()
        begun = bool(self._view.document().lastBlock().text()) or edge.gap is None
        for word, fate in words:
            made = QTextLayout.FormatRange()
            made.start = -1
            for letter in word:
                if letter == "\n":
                    breaks += begun
                    continue
                if breaks:
                    text += "\u2028" * (breaks if edge.gap is None else 1)
                    if breaks > 1:
                        paragraphs.add(utf16(text))
                    breaks = 0
                if made.start < 0 and not letter.isspace():  # a space is not struck
                    made.start = utf16(text)
                text, begun = text + letter, True
            if made.start >= 0:
                made.length = utf16(text) - made.start
                made.format = self._format(fate)
                formats.append(made)
        return text, formats, paragraphs

    def _lead(self, word: str, edge: _Edge) -> str:
        """Return what the layout puts before the first word: a space that is not shown yet, or a
        line end if the word has no room."""
        if self.round is None or edge.breaks or word.startswith("\n"):
            return ""
        last = self._view.document().lastBlock().text()
        space = " " if self._view.text.last_line.endswith(" ") and not last.endswith(" ") else ""
        head = (space + word).rstrip().split("\n")[0]
        first = head[: len(head) - len(head.lstrip())] + (head.split() or [""])[0]
        wide = QFontMetricsF(edge.font).horizontalAdvance(first)
        return "\u2028" if edge.wraps and last and wide > edge.first.width() else space

    def _format(self, fate: Fate) -> QTextCharFormat:
        made = QTextCharFormat()
        pale = fate in ("drafted", "discarded")
        made.setForeground(QColor(self._colours.faded if pale else self._colours.of(fate)))
        made.setFontStrikeOut(fate in ("rejected", "discarded"))
        return made

    # Motion and painting

    def _gone(self) -> float:
        """Return how far a rejected draft is folded away, from 0 to 1."""
        if self.round is None or self.round.verdict is None or self.calm:
            return 0.0
        passed = self._clock() - self._since - _HELD_SECONDS
        return min(1.0, max(0.0, passed / _FOLD_SECONDS))

    def _move(self) -> None:
        if self._gone() >= 1.0:
            self._timer.stop()
            self.hide()
        else:
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._laid is None:
            return
        gone = self._gone()
        corner = QPointF(self._view.x(), self._above)
        with QPainter(self) as painter:
            painter.setOpacity(1.0 - gone)
            painter.fillRect(self._ground.translated(corner), QColor(self._colours.code))
            for number in range(self._laid.lineCount()):
                line = self._laid.lineAt(number)
                painter.save()
                if gone:  # the line closes towards the text
                    box = line.naturalTextRect().translated(corner)
                    box.setWidth(box.width() * (1.0 - gone))
                    painter.setClipRect(box.adjusted(-2, -2, 2, 2))
                line.draw(painter, corner)
                painter.restore()
            if self._share is not None:
                self._draw_bar(painter, corner)

    def _draw_bar(self, painter: QPainter, corner: QPointF) -> None:
        assert self._laid is not None
        lines = map(self._laid.lineAt, range(self._laid.lineCount()))
        box = reduce(QRectF.united, (line.naturalTextRect() for line in lines)).translated(corner)
        painter.setPen(Qt.PenStyle.NoPen)
        for width, colour in ((1.0, self._colours.edge), (self._share, self._colours.link)):
            painter.setBrush(QColor(colour))
            bar = QRectF(
                box.left(), box.bottom() + _BAR_ABOVE, (width or 0.0) * _BAR_WIDTH, _BAR_HEIGHT
            )
            painter.drawRoundedRect(bar, _BAR_HEIGHT / 2, _BAR_HEIGHT / 2)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and not self.isHidden():
            self.follow()
        return super().eventFilter(watched, event)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()


def _font_of(block: QTextBlock) -> QFont:
    """Return the font at the end of a block."""
    cursor = QTextCursor(block)
    cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock)
    return cursor.charFormat().font().resolve(block.document().defaultFont())
