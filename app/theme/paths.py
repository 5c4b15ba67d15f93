"""Reads the paths of SVG. Knows painters' paths; not what they show."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainterPath


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
