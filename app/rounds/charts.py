"""Two small charts: acceptance by position, and where the time went.

Knows figures and colours; nothing of events. Every value stands beside its bar as text.
"""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.rounds.figures import Column, Part, percent, seconds
from app.theme.palette import Palette
from app.theme.style import colours_of, figures_font, small_font

_PLOT_HEIGHT = 64.0
_WIDEST_COLUMN = 34.0
_BAR_HEIGHT = 12.0


class PositionChart(QWidget):
    """A bar for each position in the draft, its height the share that was accepted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._columns: tuple[Column, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Acceptance by position")
        self.show_columns(())

    def show_columns(self, columns: tuple[Column, ...]) -> None:
        self._columns = columns
        said = [f"position {c.position}: {percent(c.rate)}" for c in columns]
        self.setAccessibleDescription(", ".join(said) or "Nothing was drafted.")
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(220, round(_PLOT_HEIGHT + 2 * self._small_height() + 6))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self.tip_at(event.pos().x()), self)
            return True
        return super().event(event)

    def tip_at(self, x: float) -> str:
        """The counts of the bar at `x`; empty where there is none."""
        for column, box in zip(self._columns, self._boxes(), strict=True):
            if box.left() <= x <= box.right():
                of = f"{column.accepted:,} of {column.proposed:,} accepted"
                return f"Position {column.position}: {of}"
        return ""

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            base = self._small_height() + _PLOT_HEIGHT + 2
            painter.setPen(QColor(colours.edge))
            for y in (base, base - _PLOT_HEIGHT):  # none and all
                painter.drawLine(QPointF(0, y + 0.5), QPointF(self.width(), y + 0.5))
            if not self._columns:
                painter.setPen(QColor(colours.muted))
                plot = QRectF(0, base - _PLOT_HEIGHT, self.width(), _PLOT_HEIGHT)
                painter.drawText(plot, Qt.AlignmentFlag.AlignCenter, "nothing drafted yet")
            for column, box in zip(self._columns, self._boxes(), strict=True):
                self._paint_column(painter, colours, column, box)

    def _paint_column(
        self, painter: QPainter, colours: Palette, column: Column, box: QRectF
    ) -> None:
        base = self._small_height() + _PLOT_HEIGHT + 2
        height = max(1.0, column.rate * _PLOT_HEIGHT)
        gap = min(4.0, box.width() / 6)
        bar = QRectF(box.left() + gap, base - height, box.width() - 2 * gap, height)
        painter.fillRect(bar, QColor(colours.accepted))
        painter.setFont(self._value_font(box.width()))
        middle = Qt.AlignmentFlag.AlignHCenter
        above = QRectF(box.left(), bar.top() - self._small_height(), box.width(), 0.0)
        above.setHeight(self._small_height())
        painter.setPen(QColor(colours.text))
        # The title says that these are per cent: sixteen signs would leave no room for figures.
        value = f"{column.rate * 100:.0f}"
        place = middle | Qt.AlignmentFlag.AlignBottom
        written = painter.boundingRect(above, place, value)
        painter.fillRect(written.adjusted(-2, 2, 2, -1), QColor(colours.paper))  # no line
        painter.drawText(above, place, value)
        below = QRectF(box.left(), base + 3, box.width(), self._small_height())
        painter.setPen(QColor(colours.muted))
        painter.drawText(below, middle | Qt.AlignmentFlag.AlignTop, str(column.position))

    def _boxes(self) -> list[QRectF]:
        """The room of each column."""
        number = max(len(self._columns), 1)
        width = min(_WIDEST_COLUMN, self.width() / number)
        return [QRectF(i * width, 0, width, self.height()) for i in range(len(self._columns))]

    def _value_font(self, room: float) -> QFont:
        """The largest in which "100" has room."""
        font = figures_font(small_font(self.font()))
        while QFontMetricsF(font).horizontalAdvance("100") > room and font.pointSizeF() > 5.5:
            font.setPointSizeF(font.pointSizeF() - 0.5)
        return font

    def _small_height(self) -> float:
        return QFontMetricsF(small_font(self.font())).height()


class SplitBar(QWidget):
    """One bar in parts, and below it each part's name, time and share.

    The parts are hatched differently: their colours are not all that tells them apart.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: tuple[Part, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Where the time went")
        self.show_parts(())

    def show_parts(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts
        said = [f"{p.name} {seconds(p.seconds)}, {percent(p.share)}" for p in parts]
        self.setAccessibleDescription("; ".join(said) or "Nothing was measured yet.")
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

    def _paint_line(self, painter: QPainter, colours: Palette, part: Part, index: int) -> None:
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
    """A part of the time, plain or hatched."""
    colour, pattern = {
        "drafting": (colours.drafting, Qt.BrushStyle.BDiagPattern),
        "verifying": (colours.verifying, Qt.BrushStyle.SolidPattern),
    }.get(name, (colours.faded, Qt.BrushStyle.Dense6Pattern))
    painter.fillRect(box, QColor(colour))
    if pattern != Qt.BrushStyle.SolidPattern:
        painter.fillRect(box, QBrush(QColor(colours.paper), pattern))
