"""The signs on the window's buttons. They are drawn here, because fonts and styles draw them in any
shape, or not at all."""

from typing import Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QAbstractButton

from app.theme.palette import Palette

Sign = Literal[
    "send", "stop", "new", "search", "pin", "close", "more", "check", "warning",
    "window", "attach", "document", "panel",
    "first", "back", "play", "pause", "forward", "last",
]  # fmt: skip

_SIDE = 16.0  # the size of the square in which signs are drawn
_SCALE = 4  # factor for displays of any density


def sign_icon(sign: Sign, *, ink: str, faint: str) -> QIcon:
    """Return the sign in `ink`; in `faint` if it is disabled. Colours are "#rrggbb"."""
    drawn = QIcon()
    drawn.addPixmap(_pixmap(sign, ink), QIcon.Mode.Normal)
    drawn.addPixmap(_pixmap(sign, faint), QIcon.Mode.Disabled)
    return drawn


def draw_behind(painter: QPainter, button: QAbstractButton, box: QRectF, colours: Palette) -> str:
    """Draw the ground of a quiet button, which shows focus and mouse; return the sign's colour."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QColor(colours.link) if button.hasFocus() else Qt.PenStyle.NoPen)
    if button.underMouse() or button.isDown():
        painter.setBrush(QColor(colours.hover))
    painter.drawRoundedRect(box, 7, 7)
    return colours.text if button.underMouse() else colours.muted


def draw_sign(painter: QPainter, sign: Sign, box: QRectF, colour: str) -> None:
    """Draw the sign in the middle of `box`, as large as fits."""
    side = min(box.width(), box.height())
    with_pen = QPen(QColor(colour), 1.6, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap)
    with_pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(box.center() - QPointF(side / 2, side / 2))
    painter.scale(side / _SIDE, side / _SIDE)
    painter.setPen(with_pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    match sign:
        case "send":  # an arrow up
            painter.drawLine(QPointF(8, 13), QPointF(8, 3.5))
            painter.drawPolyline(_line((3.8, 7.7), (8, 3.5), (12.2, 7.7)))
        case "stop":
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(QRectF(4.3, 4.3, 7.4, 7.4), 1, 1)
        case "new":  # a sheet and a pencil
            painter.drawPolyline(_line((8, 3), (3, 3), (3, 13), (13, 13), (13, 8)))
            painter.drawPolyline(_line((7, 9), (13, 3)))
        case "search":
            painter.drawEllipse(QPointF(7, 7), 4, 4)
            painter.drawLine(QPointF(10.1, 10.1), QPointF(13.3, 13.3))
        case "pin":
            painter.setBrush(QColor(colour))
            painter.drawPolygon(_line((6, 2.5), (10, 2.5), (9.5, 7), (11.5, 9.5), (4.5, 9.5),
                                      (6.5, 7)))  # fmt: skip
            painter.drawLine(QPointF(8, 9.5), QPointF(8, 13.8))
        case "close":
            painter.drawLine(QPointF(4, 4), QPointF(12, 12))
            painter.drawLine(QPointF(12, 4), QPointF(4, 12))
        case "more":
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colour))
            for x in (3.5, 8.0, 12.5):
                painter.drawEllipse(QPointF(x, 8), 1.3, 1.3)
        case "window":  # one in front of another
            painter.drawPolyline(_line((5.5, 5), (5.5, 2.5), (13.5, 2.5), (13.5, 9.5), (11, 9.5)))
            painter.drawRoundedRect(QRectF(2.5, 5.5, 8, 8), 1, 1)
        case "panel":  # a window with a column at its right
            painter.drawRoundedRect(QRectF(2, 3, 12, 10), 2, 2)
            painter.drawLine(QPointF(10, 3), QPointF(10, 13))
        case "attach":  # a paper clip
            clip = QPainterPath(QPointF(12.6, 7.2))
            clip.lineTo(7.6, 12.2)
            clip.cubicTo(4.2, 15.2, 0.6, 11.6, 3.6, 8.4)
            clip.lineTo(8.8, 3.2)
            clip.cubicTo(11.2, 1.2, 13.8, 3.8, 11.8, 6.2)
            clip.lineTo(6.8, 11.2)
            clip.cubicTo(5.4, 12.2, 4.2, 11, 5.2, 9.6)
            clip.lineTo(9.6, 5.2)
            painter.drawPath(clip)
        case "document":  # a sheet with a folded corner, and lines
            painter.drawPolygon(_line((3.5, 2), (9.5, 2), (12.5, 5), (12.5, 14), (3.5, 14)))
            painter.drawLine(QPointF(6, 7.5), QPointF(10, 7.5))
            painter.drawLine(QPointF(6, 10.5), QPointF(10, 10.5))
        case "check":
            painter.drawPolyline(_line((3.2, 8.6), (6.6, 12), (13, 4.6)))
        case "warning":
            painter.drawPolygon(_line((8, 2.2), (14.3, 13.4), (1.7, 13.4)))
            painter.drawLine(QPointF(8, 6.4), QPointF(8, 9.4))
            painter.drawPoint(QPointF(8, 11.5))
        case "first" | "back" | "play" | "pause" | "forward" | "last":
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colour))
            _draw_player_sign(painter, sign)
    painter.restore()


def _draw_player_sign(painter: QPainter, sign: Sign) -> None:
    if sign in ("first", "back"):  # mirrors of "last" and "forward"
        painter.translate(_SIDE, 0)
        painter.scale(-1, 1)
    match sign:
        case "play":
            painter.drawPolygon(_line((4.5, 2.5), (13, 8), (4.5, 13.5)))
        case "pause":
            painter.drawRect(QRectF(4, 3, 3, 10))
            painter.drawRect(QRectF(9, 3, 3, 10))
        case "first" | "last":
            painter.drawPolygon(_line((3, 3.5), (9, 8), (3, 12.5)))
            painter.drawRect(QRectF(10.5, 3.5, 2, 9))
        case "back" | "forward":
            painter.drawRect(QRectF(4, 3.5, 2, 9))
            painter.drawPolygon(_line((7, 3.5), (13, 8), (7, 12.5)))


def _pixmap(sign: Sign, colour: str) -> QPixmap:
    side = round(_SIDE * _SCALE)
    pixmap = QPixmap(side, side)
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        draw_sign(painter, sign, QRectF(0, 0, side, side), colour)
    return pixmap


def _line(*points: tuple[float, float]) -> QPolygonF:
    return QPolygonF([QPointF(x, y) for x, y in points])
