"""A thin bar that is filled so far: progress, or memory. Knows no figures but its share."""

from typing import Literal

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QProgressBar

from app.models.labels import shown_colours

_PARTS = 1000


class ThinBar(QProgressBar):
    """A progress bar without a frame; to be read out it is one like any other."""

    def __init__(self, *, ink: Literal["link", "good"] = "link") -> None:
        super().__init__()
        self._ink, self._over = ink, False
        self.setRange(0, _PARTS)
        self.setTextVisible(False)
        self.setFixedHeight(6)

    def show_share(self, share: float | None) -> None:
        """Fill this much, 0 to 1; more is a warning. None hides it."""
        self.setVisible(share is not None)
        self._over = (share or 0.0) > 1.0
        self.setValue(round(min(1.0, max(0.0, share or 0.0)) * _PARTS))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = shown_colours(self)
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
