"""A card for each of several Macs: its state, its chip, its layers and its memory.

Knows the values on the cards; not where they come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.theme.card import Card
from app.theme.labels import ShortenedLabel, StatusLine, Tone, ToneLabel
from app.theme.thin_bar import ThinBar
from engine.cluster.states import RankState
from models.in_words import size


@dataclass(frozen=True, slots=True)
class MacShown:
    """The contents of a Mac's card. `rank` is None while only `name` is known; `tone` is that of
    the `state`."""

    name: str
    state: str
    tone: Tone = "muted"
    rank: RankState | None = None

    @property
    def facts(self) -> str:
        """Its chip and its part of the target: "Apple M4 Max, layers 1–20 of 40"."""
        if self.rank is None:
            return ""
        layers = ""
        if self.rank.layers is not None:
            layers = f"layers {self.rank.layers[0]}\u2013{self.rank.layers[1] - 1}"
        elif self.rank.needed_bytes:
            layers = "a part of every layer"
        return " \u00b7 ".join(filter(None, (self.rank.chip, layers)))

    @property
    def memory(self) -> str:
        """Its memory: what it needs, of what is free."""
        needed, free = (
            (0, 0) if self.rank is None else (self.rank.needed_bytes, self.rank.free_bytes)
        )
        if needed and free:
            return f"{size(needed)} needed of {size(free)} that were free"
        if needed:
            return f"{size(needed)} needed"
        return f"{size(free)} free" if free else ""

    @property
    def share(self) -> float | None:
        """The needed share of the free memory; None if not known."""
        if self.rank is None or not (self.rank.needed_bytes and self.rank.free_bytes):
            return None
        return self.rank.needed_bytes / self.rank.free_bytes


class MacCard(Card):
    """The card of one Mac."""

    def __init__(self) -> None:
        super().__init__()
        self._name = ShortenedLabel(bold=True, elide=Qt.TextElideMode.ElideMiddle)
        self._state = StatusLine(wraps=True)
        self._facts = ToneLabel(tone="muted")
        self._memory = ToneLabel(tone="muted")
        self._bar = ThinBar(ink="good")
        self._detail = ToneLabel(tone="warning")
        above = QHBoxLayout()
        above.setSpacing(10)
        above.addWidget(self._name, 1)
        above.addWidget(self._state)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 14, 11)
        column.setSpacing(4)
        column.addLayout(above)
        for part in (self._facts, self._memory, self._bar, self._detail):
            column.addWidget(part)

    def show_mac(self, mac: MacShown) -> None:
        """Show this Mac."""
        detail = "" if mac.rank is None else mac.rank.detail
        self._name.say(mac.name)
        self._state.say(mac.state, mac.tone)
        self._facts.say(mac.facts)
        self._memory.say(mac.memory)
        self._bar.show_share(mac.share)
        self._bar.setAccessibleName(f"Memory of {mac.name}")
        self._detail.say(detail)
        self.setAccessibleName(f"{mac.name}, {mac.state}")
        self.setAccessibleDescription(". ".join(filter(None, (mac.facts, mac.memory, detail))))


class MacList(QWidget):
    """Attribute: `cards`, that of rank 0 first."""

    def __init__(self) -> None:
        super().__init__()
        self.cards: list[MacCard] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self.setAccessibleName("Macs")

    def show_macs(self, macs: Sequence[MacShown]) -> None:
        """Show a card for each of these Macs."""
        self.setVisible(bool(macs))
        while len(self.cards) > len(macs):
            card = self.cards.pop()
            card.hide()
            card.deleteLater()
        while len(self.cards) < len(macs):
            self.cards.append(MacCard())
            self._column.addWidget(self.cards[-1])
        for card, mac in zip(self.cards, macs, strict=True):
            card.show_mac(mac)
