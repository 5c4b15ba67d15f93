"""A thin progress bar."""

from typing import Literal

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QProgressBar

from app.theme.style import colours_of

_PARTS = 1000


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
        part = QRectF(whole)
        part.setWidth(whole.width() * self.value() / _PARTS)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.edge))
            painter.drawRoundedRect(whole, 3, 3)
            if part.width() > 0:
                part.setWidth(max(part.width(), whole.height()))
                painter.setBrush(QColor(colours.warning if self._over else ink))
                painter.drawRoundedRect(part, 3, 3)
