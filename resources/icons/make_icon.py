"""Draws Slipstream's icon: `python resources/icons/make_icon.py [FOLDER]`.

One that leads, and what rides in its slipstream. Drawn at 1024 pixels, from which Qt makes the
small sizes. At 16 pixels each thin stroke is a row of pixels, and the thick one two: hence the
places.
"""

import os
import sys
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QImage,
    QLinearGradient,
    QPainter,
    QPainterPath,
    QPen,
)

SIZE = 1024
_PLATE = QRectF(96, 96, 832, 832)  # the margin of a Mac's icons
_ROUND = 186.0
_STREAM = "#8ff5b5"


def draw() -> QImage:
    """The icon at its full size, on a clear ground."""
    image = QImage(SIZE, SIZE, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    with QPainter(image) as painter:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        _draw_plate(painter)
        _draw_streams(painter)
        _draw_leader(painter)
    return image


def _draw_plate(painter: QPainter) -> None:
    ground = QLinearGradient(_PLATE.topLeft(), _PLATE.bottomRight())
    ground.setColorAt(0.0, QColor("#2f7bf0"))
    ground.setColorAt(1.0, QColor("#0b3fa8"))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(ground)
    painter.drawRoundedRect(_PLATE, _ROUND, _ROUND)


def _draw_streams(painter: QPainter) -> None:
    """What rides behind, fainter the further back."""
    for y, left, right, width in (
        (352.0, 336.0, 536.0, 68.0),
        (512.0, 220.0, 628.0, 92.0),
        (672.0, 336.0, 536.0, 68.0),
    ):
        fade = QLinearGradient(QPointF(left - width / 2, y), QPointF(right, y))
        faint, strong = QColor(_STREAM), QColor(_STREAM)
        faint.setAlphaF(0.15)
        fade.setColorAt(0.0, faint)
        fade.setColorAt(0.7, strong)
        painter.setPen(QPen(fade, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawLine(QPointF(left, y), QPointF(right, y))


def _draw_leader(painter: QPainter) -> None:
    head = QPainterPath(QPointF(604, 268))
    head.lineTo(796, 512)
    head.lineTo(604, 756)
    pen = QPen(QColor("#ffffff"), 92.0, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(head)


def main() -> None:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QGuiApplication(sys.argv[:1])
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    path = folder / "slipstream.png"
    if not draw().save(str(path)):
        sys.exit(f"{path} could not be written.")
    application.quit()


if __name__ == "__main__":
    main()
