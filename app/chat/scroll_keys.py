"""The keys that scroll the conversation, wherever the focus is. Knows keys, not what scrolls."""

from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

Scroll = Literal["page up", "page down", "start", "end"]

_PLAIN, _CONTROL = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier
_SCROLLS: dict[tuple[int, Qt.KeyboardModifier], Scroll] = {
    (Qt.Key.Key_PageUp, _PLAIN): "page up",
    (Qt.Key.Key_PageDown, _PLAIN): "page down",
    (Qt.Key.Key_Home, _PLAIN): "start",
    (Qt.Key.Key_End, _PLAIN): "end",
    (Qt.Key.Key_Home, _CONTROL): "start",
    (Qt.Key.Key_End, _CONTROL): "end",
    (Qt.Key.Key_Up, _CONTROL): "start",  # a Mac's keyboard has no Home and no End
    (Qt.Key.Key_Down, _CONTROL): "end",
}


def scroll_of(event: QKeyEvent) -> Scroll | None:
    """Return how a key scrolls the conversation; None if it does not."""
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return _SCROLLS.get((event.key(), modifiers))
