"""The signs on the scrubber's buttons, drawn: fonts and styles have them in any shape, or none."""

from typing import Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap, QPolygonF

Shape = Literal["first", "back", "play", "pause", "forward", "last"]

_SIDE = 16.0
_SCALE = 4  # drawn larger, for displays of any density


def icon(shape: Shape, *, ink: str, faint: str) -> QIcon:
    """The sign in `ink`; `faint` where the button is disabled."""
    drawn = QIcon()
    drawn.addPixmap(_pixmap(shape, ink), QIcon.Mode.Normal)
    drawn.addPixmap(_pixmap(shape, faint), QIcon.Mode.Disabled)
    return drawn


def _pixmap(shape: Shape, colour: str) -> QPixmap:
    side = round(_SIDE * _SCALE)
    pixmap = QPixmap(side, side)
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        painter.scale(_SCALE, _SCALE)
        if shape in ("first", "back"):  # the others, seen in a mirror
            painter.translate(_SIDE, 0)
            painter.scale(-1, 1)
        match shape:
            case "play":
                _triangle(painter, left=4.5, right=13.0, half=5.5)
            case "pause":
                painter.drawRect(QRectF(4, 3, 3, 10))
                painter.drawRect(QRectF(9, 3, 3, 10))
            case "first" | "last":
                _triangle(painter, left=3.0, right=9.0, half=4.5)
                painter.drawRect(QRectF(10.5, 3.5, 2, 9))
            case "back" | "forward":
                painter.drawRect(QRectF(4, 3.5, 2, 9))
                _triangle(painter, left=7.0, right=13.0, half=4.5)
    return pixmap


def _triangle(painter: QPainter, *, left: float, right: float, half: float) -> None:
    middle = _SIDE / 2
    corners = [QPointF(left, middle - half), QPointF(right, middle), QPointF(left, middle + half)]
    painter.drawPolygon(QPolygonF(corners))
