"""The Library's pages: rows, and a status line above them if there is something to say.

Knows widgets only. An empty page always says why it is empty.
"""

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Literal

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from app.layout import FREE, Free, column_of, row_of, text_button
from app.models.formatting import spoken_name
from app.models.offers import (
    CHOICES,
    OfferState,
    drafters_line,
    memory_line,
    offer_facts,
    offer_rows,
    offer_title,
    sources_text,
    speed_line,
)
from app.models.row_data import RowData
from app.models.rows import Rows, show_action
from app.theme.labels import ShortenedLabel, ToneLabel
from app.theme.widgets import Card, ThinBar
from models.errors import Problem

_LONGEST_SEARCH = 200
StatusKind = Literal["none", "waiting", "empty", "problem"]


class Page(QWidget):
    """Attributes: `rows`, `status`.

    Signals:
        asked(str, str): the user chose this action of a row; its subject, and the action's name.
        retry_asked(): try again after a failure.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.rows, self.status = Rows(name), PageStatus()
        self.asked, self.retry_asked = self.rows.asked, self.status.retry_asked
        self.column = column_of(self.status, (self.rows, 1), on=self, margins=(2, 14, 6, 6), gap=10)

    def show_rows(
        self,
        data: tuple[RowData, ...],
        *,
        asking: str = "",
        problem: Problem | None = None,
        empty: str = "",
    ) -> None:
        """Show rows. `asking` says what the page waits for, and `empty` why it has no rows."""
        self.rows.show_rows(data)
        has_rows = bool(data) or self._has_more()
        self.rows.setVisible(has_rows)
        if problem is not None:
            self.status.show_status("problem", str(problem), alone=not has_rows)
        elif asking and not has_rows:
            self.status.show_status("waiting", asking)
        elif not has_rows:
            self.status.show_status("empty", empty)
        else:
            self.status.show_status("none", "")

    def _has_more(self) -> bool:
        """Return whether the page shows more than rows."""
        return False


class PairCard(Card):
    """A pair that was chosen for this machine: its purpose, expected speed
    and memory, and one button."""

    def __init__(self, *, ask: Callable[[str, str], None]) -> None:
        """`ask` takes the offer's key and the action's name."""
        super().__init__(radius=10)
        self._ask_for = ask
        self._shown: OfferState | None = None
        small = partial(ToneLabel, tone="muted", scale=0.92)
        self._above = ToneLabel(tone="muted", scale=0.88, bold=True)
        self._title, self._note = ToneLabel(scale=1.5, bold=True), ToneLabel(tone="warning")
        self._good_for, self._speed = ToneLabel(), ToneLabel(bold=True)
        self._facts, self._drafters, self._memory, self._state = small(), small(), small(), small()
        self._bar, self._progress = ThinBar(ink="good"), ThinBar()
        self.button = text_button("", self._ask)
        self.button.setProperty("chief", True)  # see the style sheet
        self.button.setMinimumSize(QSize(150, 34))
        self.button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        text = column_of(
            *(self._above, self._title, self._note, self._good_for),
            *(self._speed, self._facts, self._drafters, 6, self._memory, self._bar),
            *(2, self._state, self._progress),
            gap=4,
        )
        button = (self.button, Qt.AlignmentFlag.AlignVCenter)
        self._row = row_of((text, 1), button, on=self, margins=(18, 14, 18, 16), gap=24)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the button below the text if it would leave too little room for it."""
        super().resizeEvent(event)
        narrow = self.width() < 3 * self.button.sizeHint().width()
        across, down = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
        self._row.setDirection(down if narrow else across)
        self._row.setSpacing(12 if narrow else 24)

    def show_state(self, state: OfferState) -> None:
        """Show this offer."""
        self._shown, offer = state, state.offer
        said = {
            self._above: CHOICES[offer.choice],
            self._title: spoken_name(offer.target),
            self._note: offer.note,
            self._good_for: f"Good for {offer.good_for}",
            self._speed: speed_line(offer),
            self._facts: offer_facts(offer),
            self._drafters: drafters_line(offer),
            self._memory: memory_line(offer),
        }
        for label, words in said.items():
            label.say(words)
        self.setAccessibleName(". ".join(words.rstrip(".") for words in said.values() if words))
        self._title.setToolTip(offer.target)
        self._speed.setToolTip(sources_text(offer) if offer.sources else "")
        self._bar.show_share(offer.needed_bytes / max(1, offer.available_bytes))
        self._bar.setAccessibleName("Memory")
        self._state.say(state.status_text, "warning" if state.failed else "muted")
        self._progress.show_share(state.progress)
        self._progress.setAccessibleName(f"Progress of {offer_title(offer)}")
        show_action(self.button, state.action, f": {offer_title(offer)}")

    def _ask(self) -> None:
        if self._shown is not None:
            self._ask_for(self._shown.key, self._shown.action.name)


class OffersPage(Page):
    """The few pairs that are chosen for this machine as cards, and the others below them.

    Attributes: `card`, the recommended pair's; `cards`, all of them.
    """

    def __init__(self) -> None:
        super().__init__("Pairs for this machine")
        kinds = ("best", "quickest", "smallest")
        self.cards = tuple(PairCard(ask=self.asked.emit) for _ in kinds)
        self.card = self.cards[0]
        chosen = QWidget()
        column_of(*self.cards, on=chosen, margins=0, gap=10)
        for card in self.cards:
            card.hide()
        self.rows.put_first(chosen)

    def show_offers(
        self, states: tuple[OfferState, ...], *, asking: str, problem: Problem | None
    ) -> None:
        """Show these offers."""
        chosen = [state for state in states if state.offer.recommended or state.offer.choice]
        for card, state in zip_longest(self.cards, chosen[: len(self.cards)]):
            if state is not None:
                card.show_state(state)
            card.setVisible(state is not None)
        self.show_rows(
            offer_rows([state for state in states if state not in chosen]),
            asking=asking,
            problem=problem,
            empty="The catalog has no pairs. Search for a model instead.",
        )

    def _has_more(self) -> bool:
        return not self.card.isHidden()


class SearchPage(Page):
    """A search field, and the results from the hub. Signals: `searched(str)`: search for this
    text."""

    searched = Signal(str)

    def __init__(self) -> None:
        super().__init__("Found on the hub")
        self.field = QLineEdit()
        self.field.setPlaceholderText("A model\u2019s name, or organisation/name")
        self.field.setAccessibleName("Search the hub")
        self.field.setClearButtonEnabled(True)
        self.field.setMaxLength(_LONGEST_SEARCH)
        search = text_button("Search", self._ask)
        row = row_of((self.field, 1), search, margins=(0, 0, 8, 0))
        self.column.insertLayout(0, row)
        self.field.returnPressed.connect(self._ask)
        self.setFocusProxy(self.field)

    def _ask(self) -> None:
        self.searched.emit(self.field.text())


class TitledPage(Page):
    """A page with a title, and buttons next to it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._title = ShortenedLabel(bold=True, elide=Qt.TextElideMode.ElideMiddle)
        self._row = row_of((self._title, 1), Free(0), margins=(12, 0, 8, 0))
        self.column.insertLayout(0, self._row)

    def set_title(self, title: str) -> None:
        self._title.say(title)

    def add_button(self, text: str) -> QPushButton:
        """Add a button at the right of the title."""
        button = text_button(text)
        self._row.addWidget(button)
        return button


class PageStatus(QWidget):
    """Says what a page waits for, why it is empty, or what failed.

    Attribute: `kind`. Signal: `retry_asked()`.
    """

    retry_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.kind: StatusKind = "none"
        self._words = ToneLabel(tone="muted")
        self._busy = QProgressBar()
        self._retry = text_button("Try again", self.retry_asked.emit)
        self._busy.setRange(0, 0)
        self._busy.setTextVisible(False)
        self._busy.setFixedSize(160, 6)
        self._words.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        below = ((part, Qt.AlignmentFlag.AlignHCenter) for part in (self._busy, self._retry))
        column_of(FREE, self._words, *below, Free(2), on=self, margins=(24, 4, 24, 4), gap=10)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.show_status("none", "")

    def show_status(self, kind: StatusKind, text: str, *, alone: bool = True) -> None:
        """Show this status, with a bar while the page waits and a button after a problem.

        `alone`: the page shows nothing else.
        """
        self.kind = kind
        self._words.say(text, "warning" if kind == "problem" else "muted")
        self._busy.setVisible(kind == "waiting")
        self._busy.setAccessibleName(text)
        self._retry.setVisible(kind == "problem")
        tall = QSizePolicy.Policy.Expanding if alone else QSizePolicy.Policy.Maximum
        self.setSizePolicy(QSizePolicy.Policy.Preferred, tall)
        self.setAccessibleName(text)
        self.setVisible(kind != "none")
