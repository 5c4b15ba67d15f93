"""The Library's pages: rows below a line that says how things stand, where there is need to.

Knows widgets alone. An empty page always says why it is empty.
"""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.models.labels import Label, LineLabel
from app.models.offer_contents import OfferSight, offer_rows
from app.models.pair_card import PairCard
from app.models.rows import Content, Rows
from models.errors import Problem

_LONGEST_SEARCH = 200


class Page(QWidget):
    """Signals:
    asked(str, str): what shall be done with a row: its key, and the deed's name.
    retry_asked(): what failed shall be asked for again.
    """

    asked = Signal(str, str)
    retry_asked = Signal()

    def __init__(self, name: str) -> None:
        super().__init__()
        self.rows = Rows(name)
        self._state = State()
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(14, 14, 6, 6)
        self.column.setSpacing(10)
        self.column.addWidget(self._state)
        self.column.addWidget(self.rows, 1)
        self.rows.asked.connect(self.asked)
        self._state.retry_asked.connect(self.retry_asked)

    @property
    def said(self) -> str:
        """What the line says; empty where there is none."""
        return self._state.said

    def show_contents(
        self,
        contents: tuple[Content, ...],
        *,
        asking: str = "",
        problem: Problem | None = None,
        empty: str = "",
    ) -> None:
        """Show rows. `asking` says what is being waited for, `empty` why there are none."""
        self.rows.show_contents(contents)
        there = bool(contents) or self._has_more()
        self.rows.setVisible(there)
        if problem is not None:
            self._state.warn(str(problem), alone=not there)
        elif asking and not there:
            self._state.wait(asking)
        elif not there:
            self._state.say(empty)
        else:
            self._state.clear()

    def _has_more(self) -> bool:
        """Whether something but rows is shown among them."""
        return False


class OffersPage(Page):
    """The recommended pair as a card, and the others below."""

    def __init__(self) -> None:
        super().__init__("Pairs for this machine")
        self.card = PairCard()
        self.rows.put_first(self.card)
        self.card.asked.connect(self.asked)
        self.card.hide()

    def show_offers(
        self, sights: tuple[OfferSight, ...], *, asking: str, problem: Problem | None
    ) -> None:
        """Show these."""
        best = next((sight for sight in sights if sight.offer.recommended), None)
        if best is not None:
            self.card.show_sight(best)
        self.card.setVisible(best is not None)
        self.show_contents(
            offer_rows([sight for sight in sights if sight is not best]),
            asking=asking,
            problem=problem,
            empty="The catalog has no pairs. Search for a model instead.",
        )

    def _has_more(self) -> bool:
        return not self.card.isHidden()


class SearchPage(Page):
    """Signals: `searched(str)`, what shall be searched for."""

    searched = Signal(str)

    def __init__(self) -> None:
        super().__init__("Found on the hub")
        self.field = QLineEdit()
        self.field.setPlaceholderText("A model\u2019s name, or organisation/name")
        self.field.setAccessibleName("Search the hub")
        self.field.setClearButtonEnabled(True)
        self.field.setMaxLength(_LONGEST_SEARCH)
        self._search = QPushButton("Search")
        self._search.setAutoDefault(False)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 8, 0)
        row.addWidget(self.field, 1)
        row.addWidget(self._search)
        self.column.insertLayout(0, row)
        self.field.returnPressed.connect(self._tell)
        self._search.clicked.connect(self._tell)
        self.setFocusProxy(self.field)

    def _tell(self) -> None:
        self.searched.emit(self.field.text())


class TitledPage(Page):
    """A page with a line on top, and buttons beside it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._title = LineLabel(bold=True, elide=Qt.TextElideMode.ElideMiddle)
        self._row = QHBoxLayout()
        self._row.setContentsMargins(10, 0, 8, 0)
        self._row.addWidget(self._title, 1)
        self.column.insertLayout(0, self._row)

    def set_title(self, title: str) -> None:
        self._title.say(title)

    def add_button(self, text: str) -> QPushButton:
        """A button at the right."""
        button = QPushButton(text)
        button.setAutoDefault(False)
        self._row.addWidget(button)
        return button


class State(QWidget):
    """Why there is nothing to see, or nothing newer. Signals: `retry_asked()`."""

    retry_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._words = Label(tone="muted")
        self._busy = QProgressBar()
        self._retry = QPushButton("Try again")
        self._busy.setRange(0, 0)
        self._busy.setTextVisible(False)
        self._busy.setFixedSize(160, 6)
        self._retry.setAutoDefault(False)
        self._retry.clicked.connect(self.retry_asked)
        self._words.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 4, 24, 4)
        column.setSpacing(10)
        column.addStretch(1)
        column.addWidget(self._words)
        column.addWidget(self._busy, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addWidget(self._retry, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(2)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.clear()

    @property
    def said(self) -> str:
        return self._words.words if not self.isHidden() else ""

    def wait(self, what: str) -> None:
        """Something is being asked for."""
        self._show(what, busy=True)

    def say(self, why: str) -> None:
        """There is nothing, and this is why."""
        self._show(why)

    def warn(self, problem: str, *, alone: bool) -> None:
        """It failed; `alone` where there is nothing else to see."""
        self._show(problem, retry=True, warns=True, alone=alone)

    def clear(self) -> None:
        """There is nothing to say."""
        self.hide()
        self._busy.setVisible(False)

    def _show(
        self,
        words: str,
        *,
        busy: bool = False,
        retry: bool = False,
        warns: bool = False,
        alone: bool = True,
    ) -> None:
        self._words.say(words, "warning" if warns else "muted")
        self._busy.setVisible(busy)
        self._busy.setAccessibleName(words)
        self._retry.setVisible(retry)
        tall = QSizePolicy.Policy.Expanding if alone else QSizePolicy.Policy.Maximum
        self.setSizePolicy(QSizePolicy.Policy.Preferred, tall)
        self.setAccessibleName(words)
        self.show()
