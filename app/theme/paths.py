"""Reads the paths of SVG. Knows painters' paths; not what they show."""

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainterPath


def read_path(written: str) -> QPainterPath:
    """Return the path of an SVG string with M, L, Q, C and Z and absolute coordinates."""
    made = QPainterPath()
    made.setFillRule(Qt.FillRule.WindingFill)
    words = iter(written.split())
    for command in words:
        match command:
            case "M":
                made.moveTo(*_floats(words, 2))
            case "L":
                made.lineTo(*_floats(words, 2))
            case "Q":
                made.quadTo(*_floats(words, 4))
            case "C":
                made.cubicTo(*_floats(words, 6))
            case "Z":
                made.closeSubpath()
    return made


def _floats(words: Iterator[str], count: int) -> list[float]:
    return [float(next(words)) for _ in range(count)]
