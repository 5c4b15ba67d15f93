"""The pair that this machine should have, as a card: what it is good for, what it takes, and one
button. Knows what is said of an offer; not how it is fetched."""

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.models.bars import ThinBar
from app.models.labels import Label, shown_colours
from app.models.offer_contents import (
    OfferSight,
    drafters_line,
    memory_line,
    offer_facts,
    offer_title,
)


class PairCard(QWidget):
    """Signals: `asked(str, str)`, the offer's key and the deed's name."""

    asked = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._sight: OfferSight | None = None
        self._above = Label(tone="muted", scale=0.88, bold=True)
        self._title = Label(scale=1.5, bold=True)
        self._good_for = Label()
        self._facts = Label(tone="muted", scale=0.92)
        self._drafters = Label(tone="muted", scale=0.92)
        self._memory = Label(tone="muted", scale=0.92)
        self._bar = ThinBar(ink="good")
        self._state = Label(tone="muted", scale=0.92)
        self._progress = ThinBar()
        self.button = QPushButton()
        self._arrange()
        self.button.clicked.connect(self._tell)

    def _arrange(self) -> None:
        font = self.button.font()
        font.setBold(True)
        self.button.setFont(font)
        self.button.setAutoDefault(False)
        self.button.setMinimumSize(QSize(150, 34))
        self.button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._recolour()
        told = QVBoxLayout()
        told.setSpacing(4)
        for part in (self._above, self._title, self._good_for, self._facts, self._drafters):
            told.addWidget(part)
        told.addSpacing(6)
        told.addWidget(self._memory)
        told.addWidget(self._bar)
        told.addSpacing(2)
        told.addWidget(self._state)
        told.addWidget(self._progress)
        row = QHBoxLayout(self)
        row.setContentsMargins(18, 14, 18, 16)
        row.setSpacing(24)
        row.addLayout(told, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)

    def show_sight(self, sight: OfferSight) -> None:
        """Show this offer."""
        self._sight = sight
        offer, deed = sight.offer, sight.deed
        self._above.say("Recommended for this machine")
        self._title.say(offer_title(offer))
        self._good_for.say(f"Good for {offer.good_for}")
        self._facts.say(offer_facts(offer))
        self._drafters.say(drafters_line(offer))
        self._memory.say(memory_line(offer))
        self._bar.show_share(offer.needed_bytes / max(1, offer.available_bytes))
        self._bar.setAccessibleName("Memory")
        warns = any(one.standing == "failed" for one in sight.downloads)
        self._state.say(sight.state, "warning" if warns else "muted")
        self._progress.show_share(sight.progress)
        self._progress.setAccessibleName(f"Progress of {offer_title(offer)}")
        self.button.setText(deed.text)
        self.button.setEnabled(not deed.reason)
        self.button.setToolTip(deed.reason)
        self.button.setAccessibleName(f"{deed.text}: {offer_title(offer)}")
        self.button.setAccessibleDescription(deed.reason)
        self.setAccessibleName(
            f"Recommended for this machine: {offer_title(offer)}. Good for {offer.good_for}. "
            f"{offer_facts(offer)}. {memory_line(offer)}"
        )

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._recolour()
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = shown_colours(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(QColor(colours.card))
            painter.setPen(QColor(colours.edge))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)

    def _tell(self) -> None:
        if self._sight is not None:
            self.asked.emit(self._sight.key, self._sight.deed.name)

    def _recolour(self) -> None:
        colours, roles = shown_colours(self), QPalette.ColorRole
        palette = self.button.palette()
        if palette.color(QPalette.ColorGroup.Active, roles.Button).name() == colours.link:
            return
        for group in (QPalette.ColorGroup.Active, QPalette.ColorGroup.Inactive):
            palette.setColor(group, roles.Button, QColor(colours.link))
            palette.setColor(group, roles.ButtonText, QColor(colours.paper))
        palette.setColor(QPalette.ColorGroup.Disabled, roles.Button, QColor(colours.hover))
        palette.setColor(QPalette.ColorGroup.Disabled, roles.ButtonText, QColor(colours.muted))
        self.button.setPalette(palette)
