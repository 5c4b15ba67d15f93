"""Reads an answer to screen readers while it is written, by sentence instead of by token.

Knows text and Qt's announcements; no messages.
"""

import re
from collections.abc import Callable

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from models.in_words import clean

LONGEST = 400  # characters; a longer sentence is spoken in parts
_END = re.compile(r"[.!?\u2026]+[)\"'\u201d\u2019*_]*\s|[\u3002\uff01\uff1f]|\n")
_MARKS = re.compile(r"[*_`#>|~]+")


class Announcer:
    """Collects text and speaks it by sentence.

    `say` speaks a sentence. By default it is announced for `widget`, politely: it interrupts
    nothing.
    """

    def __init__(self, widget: QWidget, say: Callable[[str], None] | None = None) -> None:
        self._widget = widget
        self.say = say or self._announce
        self._heard = QAccessible.isActive if say is None else lambda: True
        self._held = ""

    def append(self, delta: str) -> None:
        """Add text, and speak the sentences that are complete. If no screen reader runs, drop the
        text."""
        if not self._heard():
            return
        self._held += delta
        begin = 0
        for found in _END.finditer(self._held):
            self._speak(self._held[begin : found.end()])
            begin = found.end()
        while len(self._held) - begin > LONGEST:
            cut = self._held.rfind(" ", begin, begin + LONGEST) + 1 or begin + LONGEST
            self._speak(self._held[begin:cut])
            begin = cut
        self._held = self._held[begin:]

    def finish(self) -> None:
        """Speak the rest."""
        self._speak(self._held)
        self._held = ""

    def _speak(self, text: str) -> None:
        words = " ".join(_MARKS.sub(" ", clean(text)).split())
        if any(character.isalnum() for character in words):
            self.say(words)

    def _announce(self, words: str) -> None:
        if QAccessible.isActive():
            event = QAccessibleAnnouncementEvent(self._widget, words)
            event.setPoliteness(QAccessible.AnnouncementPoliteness.Polite)
            QAccessible.updateAccessibility(event)
