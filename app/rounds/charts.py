"""Two small charts: acceptance by position, and where the decoding time went.

Knows figures and colours; nothing of events. Every value is also written next to its bar.
"""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetricsF,
    QHelpEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.rounds.explained import FIGURES, as_tip
from app.rounds.figures import PositionAcceptance, TimeShare, percent, seconds
from app.theme.palette import Palette, tinted
from app.theme.style import colours_of, figures_font, small_font

_PLOT_HEIGHT = 64.0
_WIDEST_COLUMN = 34.0
_BAR_HEIGHT = 12.0


class PositionChart(QWidget):
    """A bar for each position in the draft, as high as the share accepted there."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._columns: tuple[PositionAcceptance, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Acceptance by position")
        self.show_positions(())

    def show_positions(self, columns: tuple[PositionAcceptance, ...]) -> None:
        self._columns = columns
        words = [f"position {c.position}: {percent(c.rate)} of {c.proposed:,}" for c in columns]
        self.setAccessibleDescription(", ".join(words) or "Nothing was drafted.")
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(220, round(_PLOT_HEIGHT + 2 * self._small_height() + 6))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            tip = self.tip_at(event.pos().x()) or as_tip(FIGURES["positions"])
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def tip_at(self, x: float) -> str:
        """Return the counts of the bar at `x`; empty if there is none."""
        for column, box in zip(self._columns, self._boxes(), strict=True):
            if box.left() <= x <= box.right():
                of = f"{column.accepted:,} of {column.proposed:,} accepted"
                few = ", too few to mean much" if column.few else ""
                return f"Position {column.position}: {of}{few}"
        return ""

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            base = self._small_height() + _PLOT_HEIGHT + 2
            painter.setPen(QColor(colours.edge))
            for y in (base, base - _PLOT_HEIGHT):  # 0 and 100 per cent
                painter.drawLine(QPointF(0, y + 0.5), QPointF(self.width(), y + 0.5))
            if not self._columns:
                painter.setPen(QColor(colours.muted))
                plot = QRectF(0, base - _PLOT_HEIGHT, self.width(), _PLOT_HEIGHT)
                painter.drawText(plot, Qt.AlignmentFlag.AlignCenter, "nothing drafted yet")
            for column, box in zip(self._columns, self._boxes(), strict=True):
                self._paint_column(painter, colours, column, box)

    def _paint_column(
        self, painter: QPainter, colours: Palette, column: PositionAcceptance, box: QRectF
    ) -> None:
        base = self._small_height() + _PLOT_HEIGHT + 2
        height = max(1.0, column.rate * _PLOT_HEIGHT)
        gap = min(4.0, box.width() / 6)
        bar = QRectF(box.left() + gap, base - height, box.width() - 2 * gap, height)
        accepted = QColor(colours.accepted)
        painter.fillRect(bar, QColor(tinted(colours.paper, colours.accepted)))
        if column.few:  # an outline, so that a few drafts do not look like many
            painter.setPen(QPen(accepted, 1.0, Qt.PenStyle.DashLine))
            painter.drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5))
        else:
            painter.fillRect(bar, accepted)
        painter.setFont(self._value_font(box.width()))
        middle = Qt.AlignmentFlag.AlignHCenter
        above = QRectF(box.left(), bar.top() - self._small_height(), box.width(), 0.0)
        above.setHeight(self._small_height())
        painter.setPen(QColor(colours.muted if column.few else colours.text))
        # The title says "%": sixteen signs would leave no room for the figures.
        value = f"{column.rate * 100:.0f}"
        place = middle | Qt.AlignmentFlag.AlignBottom
        written = painter.boundingRect(above, place, value)
        painter.fillRect(written.adjusted(-2, 2, 2, -1), QColor(colours.paper))  # hides the line
        painter.drawText(above, place, value)
        below = QRectF(box.left(), base + 3, box.width(), self._small_height())
        painter.setPen(QColor(colours.muted))
        painter.drawText(below, middle | Qt.AlignmentFlag.AlignTop, str(column.position))

    def _boxes(self) -> list[QRectF]:
        """The area of each position."""
        number = max(len(self._columns), 1)
        width = min(_WIDEST_COLUMN, self.width() / number)
        return [QRectF(i * width, 0, width, self.height()) for i in range(len(self._columns))]

    def _value_font(self, room: float) -> QFont:
        """Return the largest font in which "100" fits."""
        font = figures_font(small_font(self.font()))
        while QFontMetricsF(font).horizontalAdvance("100") > room and font.pointSizeF() > 5.5:
            font.setPointSizeF(font.pointSizeF() - 0.5)
        return font

    def _small_height(self) -> float:
        return QFontMetricsF(small_font(self.font())).height()


class TimeBar(QWidget):
    """A bar divided into shares, with the name, time and percentage of each below it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: tuple[TimeShare, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Decoding time")
        self.setToolTip(as_tip(FIGURES["time"]))
        self.show_shares(())

    def show_shares(self, parts: tuple[TimeShare, ...]) -> None:
        self._parts = parts
        words = [f"{p.name} {seconds(p.seconds)}, {percent(p.share)}" for p in parts]
        self.setAccessibleDescription("; ".join(words) or "Nothing was measured yet.")
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(220, round(_BAR_HEIGHT + 6 + 3 * self._line_height()))

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            bar = QRectF(0, 0, self.width(), _BAR_HEIGHT)
            painter.fillRect(bar, QColor(colours.edge))
            left = 0.0
            for index, part in enumerate(self._parts):
                width = part.share * self.width()
                _fill(painter, colours, part.name, QRectF(left, 0, width, _BAR_HEIGHT))
                left += width
                self._paint_line(painter, colours, part, index)
            if not self._parts:
                painter.setPen(QColor(colours.muted))
                top = _BAR_HEIGHT + 6
                painter.drawText(
                    QRectF(0, top, self.width(), self._line_height()),
                    Qt.AlignmentFlag.AlignLeft,
                    "not measured yet",
                )

    def _paint_line(self, painter: QPainter, colours: Palette, part: TimeShare, index: int) -> None:
        height = self._line_height()
        top = _BAR_HEIGHT + 6 + index * height
        swatch = QRectF(0, top + (height - 9) / 2, 9, 9)
        _fill(painter, colours, part.name, swatch)
        painter.setFont(figures_font(self.font()))
        painter.setPen(QColor(colours.text))
        middle = Qt.AlignmentFlag.AlignVCenter
        line = QRectF(0, top, self.width(), height)
        painter.drawText(line.adjusted(16, 0, 0, 0), middle | Qt.AlignmentFlag.AlignLeft, part.name)
        right = middle | Qt.AlignmentFlag.AlignRight
        painter.drawText(line, right, percent(part.share))
        painter.setPen(QColor(colours.muted))
        share_width = QFontMetricsF(painter.font()).horizontalAdvance("100 %  ")
        painter.drawText(line.adjusted(0, 0, -share_width, 0), right, seconds(part.seconds))

    def _line_height(self) -> float:
        return QFontMetricsF(self.font()).height() + 3


def _fill(painter: QPainter, colours: Palette, name: str, box: QRectF) -> None:
    """Fill a share of the bar, plain or hatched."""
    colour, pattern = {
        "drafting": (colours.drafting, Qt.BrushStyle.BDiagPattern),
        "verifying": (colours.verifying, Qt.BrushStyle.SolidPattern),
    }.get(name, (colours.faded, Qt.BrushStyle.Dense6Pattern))
    painter.fillRect(box, QColor(colour))
    if pattern != Qt.BrushStyle.SolidPattern:
        painter.fillRect(box, QBrush(QColor(colours.paper), pattern))
