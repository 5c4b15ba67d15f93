"""Small painted widgets: a raised surface, a thin progress bar, a check box."""

from typing import Literal

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QCheckBox,
    QProgressBar,
    QStyle,
    QStyleOptionButton,
    QWidget,
)

from app.theme.style import colours_of

_PARTS = 1000


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


class ThinBar(QProgressBar):
    """A thin progress bar without a frame. Screen readers see an ordinary progress bar."""

    def __init__(self, *, ink: Literal["link", "good"] = "link") -> None:
        super().__init__()
        self._ink, self._over = ink, False
        self.setRange(0, _PARTS)
        self.setTextVisible(False)
        self.setFixedHeight(6)

    def show_share(self, share: float | None) -> None:
        """Fill this share of the bar. More than 1 is drawn as a warning; None hides the bar."""
        self.setVisible(share is not None)
        self._over = (share or 0.0) > 1.0
        self.setValue(round(min(1.0, max(0.0, share or 0.0)) * _PARTS))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        ink = colours.link if self._ink == "link" else colours.accepted
        whole = QRectF(self.rect())
        filled = whole.width() * self.value() / _PARTS
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.edge))
            painter.drawRoundedRect(whole, 3, 3)
            if filled > 0:
                whole.setWidth(max(filled, whole.height()))
                painter.setBrush(QColor(colours.warning if self._over else ink))
                painter.drawRoundedRect(whole, 3, 3)


class EdgedCheckBox(QCheckBox):
    """A check box with a visible edge: Fusion's is darker than a dark window."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        option = QStyleOptionButton()
        self.initStyleOption(option)
        part = QStyle.SubElement.SE_CheckBoxIndicator
        box = self.style().subElementRect(part, option, self)
        with QPainter(self) as painter:
            painter.setPen(self.palette().color(QPalette.ColorRole.Shadow))
            painter.drawRect(box.adjusted(0, 0, -1, -1))
