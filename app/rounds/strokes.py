"""How the draft lane's tokens and words are drawn. Knows a painter and colours, no time."""

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from app.rounds.layout import Cell, Label, Ruler, beyond_width
from app.rounds.marks import marked, runs
from app.theme.palette import Palette, line_of, tinted
from engine.rounds import Fate

_RADIUS = 4.0
_STYLES = {
    "solid": Qt.PenStyle.SolidLine,
    "dash": Qt.PenStyle.DashLine,
    "dot": Qt.PenStyle.DotLine,
    "strike": Qt.PenStyle.SolidLine,
    "none": Qt.PenStyle.NoPen,
}


class Strokes:
    """Draws on one painter, for one frame."""

    def __init__(self, painter: QPainter, colours: Palette, ruler: Ruler) -> None:
        self._painter, self._colours, self.ruler = painter, colours, ruler

    def card(self, whole: QRectF) -> None:
        """The lane's own surface."""
        self._painter.setPen(QPen(QColor(self._colours.edge), 1.0))
        self._painter.setBrush(QColor(self._colours.card))
        self._painter.drawRoundedRect(whole.adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)

    def token(self, cell: Cell, *, verdict: float, shift: float = 0.0) -> None:
        """A token when the verdict has come in so far, 0 to 1."""
        painter = self._painter
        if cell.own and verdict == 0.0:
            return
        look = cell.look if verdict > 0.0 else "drafted"
        box = cell.box(self.ruler, verdict, shift)
        colour, surface = QColor(self._colours.of(look)), self._surface(look)
        outer = painter.opacity()
        painter.setOpacity(outer * (verdict if cell.own else 1.0))
        painter.setPen(QPen(QColor(self._colours.edge if look != "discarded" else surface), 1))
        painter.setBrush(QColor(surface))
        painter.drawRoundedRect(box, _RADIUS, _RADIUS)
        self._text(cell.text, box, colour)
        self._line(look, box, colour, verdict)
        painter.setOpacity(outer)

    def label(self, label: Label, *, verdict: float, shift: float) -> None:
        """A small word; it comes in with the verdict."""
        painter, ruler = self._painter, self.ruler
        top = label.row * ruler.row + (0 if label.row == 2 else (ruler.row - ruler.label) / 2)
        painter.setFont(ruler.small_font)
        painter.setOpacity(max(0.0, 2 * verdict - 1.0))  # when the tokens have left its place
        muted = label.look in ("discarded", "plain")
        painter.setPen(QColor(self._colours.muted if muted else self._colours.of(label.look)))
        left = max(label.left - shift, 0.0) if label.row == 1 else label.left - shift
        box = QRectF(left, top, label.width + 2, ruler.label)
        painter.drawText(
            box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, label.text
        )
        painter.setOpacity(1.0)

    def beyond(self, count: int, *, left: float) -> None:
        """How many drafted tokens do not fit, behind the last that does."""
        painter, ruler = self._painter, self.ruler
        painter.setFont(ruler.font)
        painter.setPen(QColor(self._colours.muted))
        box = QRectF(left, ruler.row, beyond_width(ruler), ruler.row)
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, f"+{count}")

    def _surface(self, look: Fate) -> str:
        card = self._colours.card
        if look in ("drafted", "discarded", "plain"):
            return self._colours.paper if look != "discarded" else card
        return tinted(card, self._colours.of(look))

    def _text(self, text: str, box: QRectF, colour: QColor) -> None:
        """White space in muted signs, so that a dot in the text is told from a space."""
        painter = self._painter
        painter.setFont(self.ruler.font)
        left = box.left() + (box.width() - self.ruler.text.horizontalAdvance(marked(text))) / 2
        base = box.top() + (box.height() + self.ruler.text.capHeight()) / 2
        for run, sign in runs(text):
            faint = QColor(colour)
            faint.setAlphaF(0.75 if sign else 1.0)
            painter.setPen(faint)
            painter.drawText(QPointF(left, base), run)
            left += self.ruler.text.horizontalAdvance(run)

    def _line(self, look: Fate, box: QRectF, colour: QColor, verdict: float) -> None:
        """The line of the token's kind; a strike grows as the verdict comes in."""
        line = line_of(look)
        width = 1.4 if line == "strike" else 1.6
        pen = QPen(colour, width, _STYLES[line])
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        self._painter.setPen(pen)
        start, end = box.left() + 3, box.right() - 3
        if line == "strike":
            end = start + (end - start) * verdict
        y = box.center().y() + 0.5 if line == "strike" else box.bottom() - 2.5
        self._painter.drawLine(QPointF(start, y), QPointF(end, y))
