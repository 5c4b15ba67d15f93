"""The Library's pages: rows below a line that says how things stand, where there is need to.

Knows widgets alone. An empty page always says why it is empty.
"""

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.models.offers import (
    OfferState,
    drafters_line,
    memory_line,
    offer_facts,
    offer_rows,
    offer_title,
)
from app.models.row_data import RowData
from app.models.rows import Rows
from app.models.widgets import Label, LineLabel, ThinBar, shown_colours
from models.errors import Problem

_LONGEST_SEARCH = 200


class Page(QWidget):
    """Signals:
    asked(str, str): what shall be done with a row: its key, and the action's name.
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

    def show_rows(
        self,
        data: tuple[RowData, ...],
        *,
        asking: str = "",
        problem: Problem | None = None,
        empty: str = "",
    ) -> None:
        """Show rows. `asking` says what is being waited for, `empty` why there are none."""
        self.rows.show_rows(data)
        there = bool(data) or self._has_more()
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


class PairCard(QWidget):
    """The recommended pair: what it is good for, what it needs, and one button.

    Signals: `asked(str, str)`, the offer's key and the action's name."""

    asked = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._offer_state: OfferState | None = None
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

    def show_state(self, state: OfferState) -> None:
        """Show this offer."""
        self._offer_state = state
        offer, action = state.offer, state.action
        self._above.say("Recommended for this machine")
        self._title.say(offer_title(offer))
        self._good_for.say(f"Good for {offer.good_for}")
        self._facts.say(offer_facts(offer))
        self._drafters.say(drafters_line(offer))
        self._memory.say(memory_line(offer))
        self._bar.show_share(offer.needed_bytes / max(1, offer.available_bytes))
        self._bar.setAccessibleName("Memory")
        warns = any(one.standing == "failed" for one in state.downloads)
        self._state.say(state.state, "warning" if warns else "muted")
        self._progress.show_share(state.progress)
        self._progress.setAccessibleName(f"Progress of {offer_title(offer)}")
        self.button.setText(action.text)
        self.button.setEnabled(not action.reason)
        self.button.setToolTip(action.reason)
        self.button.setAccessibleName(f"{action.text}: {offer_title(offer)}")
        self.button.setAccessibleDescription(action.reason)
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
            painter.setBrush(QColor(colours.kinds.card))
            painter.setPen(QColor(colours.edge))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)

    def _tell(self) -> None:
        if self._offer_state is not None:
            self.asked.emit(self._offer_state.key, self._offer_state.action.name)

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


class OffersPage(Page):
    """The recommended pair as a card, and the others below."""

    def __init__(self) -> None:
        super().__init__("Pairs for this machine")
        self.card = PairCard()
        self.rows.put_first(self.card)
        self.card.asked.connect(self.asked)
        self.card.hide()

    def show_offers(
        self, states: tuple[OfferState, ...], *, asking: str, problem: Problem | None
    ) -> None:
        """Show these."""
        best = next((state for state in states if state.offer.recommended), None)
        if best is not None:
            self.card.show_state(best)
        self.card.setVisible(best is not None)
        self.show_rows(
            offer_rows([state for state in states if state is not best]),
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
