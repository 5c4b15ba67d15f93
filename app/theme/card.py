"""A raised surface."""

from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.theme.style import colours_of


class Card(QWidget):
    """A widget with a filled, rounded background and an edge. `radius` is in pixels."""

    def __init__(self, *, radius: float = 8) -> None:
        super().__init__()
        self._radius = radius

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(QColor(colours.card))
            painter.setPen(QColor(colours.edge))
            box = self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5)
            painter.drawRoundedRect(box, self._radius, self._radius)
