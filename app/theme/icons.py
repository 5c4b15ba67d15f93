"""The signs on the window's buttons. They are drawn here, because fonts and styles draw them in any
shape, or not at all."""

from collections.abc import Callable
from functools import cache
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap
from PySide6.QtWidgets import QAbstractButton

from app.theme.palette import Palette

Sign = Literal[
    "send", "stop", "new", "search", "pin", "close", "more", "check", "warning",
    "window", "attach", "document", "panel",
    "first", "back", "play", "pause", "forward", "last",
]  # fmt: skip

_SIDE = 16.0  # the size of the square in which signs are drawn, by SVG's paths
_PIN = "M 6 2.5 L 10 2.5 L 9.5 7 L 11.5 9.5 L 4.5 9.5 L 6.5 7 Z"
_STOP = (
    "M 5.3 4.3 L 10.7 4.3 Q 11.7 4.3 11.7 5.3 L 11.7 10.7 Q 11.7 11.7 10.7 11.7 L 5.3 11.7 "
    "Q 4.3 11.7 4.3 10.7 L 4.3 5.3 Q 4.3 4.3 5.3 4.3 Z"
)
_DOT = "M {0} 6.7 Q {1} 6.7 {1} 8 Q {1} 9.3 {0} 9.3 Q {2} 9.3 {2} 8 Q {2} 6.7 {0} 6.7 Z"
_LINES: dict[Sign, str] = {
    "send": "M 8 13 L 8 3.5 M 3.8 7.7 L 8 3.5 L 12.2 7.7",
    "stop": _STOP,
    "new": "M 8 3 L 3 3 L 3 13 L 13 13 L 13 8 M 7 9 L 13 3",
    "search": "M 11 7 C 11 9.2 9.2 11 7 11 C 4.8 11 3 9.2 3 7 C 3 4.8 4.8 3 7 3 "
    "C 9.2 3 11 4.8 11 7 Z M 10.1 10.1 L 13.3 13.3",
    "pin": f"{_PIN} M 8 9.5 L 8 13.8",
    "close": "M 4 4 L 12 12 M 12 4 L 4 12",
    "window": "M 5.5 5 L 5.5 2.5 L 13.5 2.5 L 13.5 9.5 L 11 9.5 "
    "M 2.5 5.5 L 10.5 5.5 L 10.5 13.5 L 2.5 13.5 Z",
    "panel": "M 4 3 L 12 3 Q 14 3 14 5 L 14 11 Q 14 13 12 13 L 4 13 Q 2 13 2 11 L 2 5 Q 2 3 4 3 Z "
    "M 10 3 L 10 13",
    "attach": "M 12.6 7.2 L 7.6 12.2 C 4.2 15.2 0.6 11.6 3.6 8.4 L 8.8 3.2 "
    "C 11.2 1.2 13.8 3.8 11.8 6.2 L 6.8 11.2 C 5.4 12.2 4.2 11 5.2 9.6 L 9.6 5.2",
    "document": "M 3.5 2 L 9.5 2 L 12.5 5 L 12.5 14 L 3.5 14 Z M 6 7.5 L 10 7.5 M 6 10.5 L 10 10.5",
    "check": "M 3.2 8.6 L 6.6 12 L 13 4.6",
    "warning": "M 8 2.2 L 14.3 13.4 L 1.7 13.4 Z M 8 6.4 L 8 9.4 M 8 11.5 L 8 11.51",
}
_FILLED: dict[Sign, str] = {
    "stop": _STOP,
    "pin": _PIN,
    "more": " ".join(_DOT.format(x, x + 1.3, x - 1.3) for x in (3.5, 8.0, 12.5)),
    "play": "M 4.5 2.5 L 13 8 L 4.5 13.5 Z",
    "pause": "M 4 3 L 7 3 L 7 13 L 4 13 Z M 9 3 L 12 3 L 12 13 L 9 13 Z",
    "first": "M 13 3.5 L 7 8 L 13 12.5 Z M 5.5 3.5 L 3.5 3.5 L 3.5 12.5 L 5.5 12.5 Z",
    "back": "M 12 3.5 L 10 3.5 L 10 12.5 L 12 12.5 Z M 9 3.5 L 3 8 L 9 12.5 Z",
    "forward": "M 4 3.5 L 6 3.5 L 6 12.5 L 4 12.5 Z M 7 3.5 L 13 8 L 7 12.5 Z",
    "last": "M 3 3.5 L 9 8 L 3 12.5 Z M 10.5 3.5 L 12.5 3.5 L 12.5 12.5 L 10.5 12.5 Z",
}
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
    round_pen = QPen(QColor(colour), 1.6, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap)
    round_pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(box.center() - QPointF(side / 2, side / 2))
    painter.scale(side / _SIDE, side / _SIDE)
    if sign in _FILLED:
        painter.fillPath(_drawn(_FILLED[sign]), QColor(colour))
    if sign in _LINES:
        painter.strokePath(_drawn(_LINES[sign]), round_pen)
    painter.restore()


@cache
def _drawn(written: str) -> QPainterPath:
    return read_path(written)


def _pixmap(sign: Sign, colour: str) -> QPixmap:
    side = round(_SIDE * _SCALE)
    pixmap = QPixmap(side, side)
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        draw_sign(painter, sign, QRectF(0, 0, side, side), colour)
    return pixmap


def read_path(written: str) -> QPainterPath:
    """Return the path of an SVG string with M, L, Q, C and Z and absolute coordinates."""
    made = QPainterPath()
    made.setFillRule(Qt.FillRule.WindingFill)
    words = iter(written.split())
    acts: dict[str, tuple[Callable[..., None], int]]
    acts = {"M": (made.moveTo, 2), "L": (made.lineTo, 2), "Q": (made.quadTo, 4)}
    acts |= {"C": (made.cubicTo, 6), "Z": (made.closeSubpath, 0)}
    for command in words:
        act, count = acts[command]
        act(*(float(next(words)) for _ in range(count)))
    return made
