"""The side panel with the figures of an answer's rounds.

Knows the open conversation and its answers. An answer that is still being written is shown as it
arrives.
"""

from functools import partial

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.chat.answers import Answers
from app.chat.composer import SignButton
from app.chat.conversation import OpenConversation
from app.chat.writing import Writing
from app.layout import column_of, row_of, scrolled
from app.rounds.explained import RoundsExplained
from app.rounds.panel import RoundsPanel
from app.rounds.trace import Trace
from app.theme.labels import plain_label
from app.theme.style import sign_button, zoomed
from engine.conversation.rounds import EventOrRound
from engine.events import Stats

_NARROWEST = 300  # pixels, at the normal size of the text
_NOT_HERE = (
    "This answer has no statistics: it failed, or was stopped early, imported, or edited.\n\n"
    "Regenerate it to see how it is written."
)
_HINT = "Statistics appear here: how much faster drafting made each answer, and why."
_READING = "Statistics appear with the first words of this answer."


class RoundsSide(QWidget):
    """Attributes: `panel`; `hint`, shown in place of the panel before the first answer; `answer`,
    the id of the answer that is shown, 0 for none.

    `hides` hides the panel, from the place of the button that shows it.

    Signals: `stepped(int)`: this answer is shown now, the next or the previous one.
    """

    stepped = Signal(int)

    def __init__(self, conversation: OpenConversation, answers: Answers) -> None:
        super().__init__()
        self.answer = 0
        self._conversation, self._answers = conversation, answers
        self._live = False
        self._read = 0  # the answer whose figures the panel has
        self.panel = RoundsPanel()
        self._heading = plain_label(tone="muted")
        self._before = sign_button("\u2039", "Previous answer", lambda: self.step(-1))
        self._after = sign_button("\u203a", "Next answer", lambda: self.step(1))
        self.hides = SignButton("panel")
        self.hides.setAccessibleName("Hide answer statistics")
        self.hint = plain_label(_HINT, wraps=True, tone="muted")
        self._pages = QStackedWidget()  # the hint, or the panel
        self._arrange()
        self._fit()
        self.setAccessibleName("Answer statistics")
        answers.happened.connect(self._receive)
        answers.finished.connect(self._on_finished)
        conversation.failed.connect(self._on_failed)
        self.show_answer(0)

    def _arrange(self) -> None:
        scroll = scrolled(self.panel, "Answer statistics")
        scroll.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.hint.setContentsMargins(16, 10, 16, 0)
        self._pages.addWidget(self.hint)
        self._pages.addWidget(scroll)
        explain = sign_button("?", "What am I looking at?", self.explain)
        parts = ((self._heading, 1), explain, self._before, self._after, self.hides)
        heading = row_of(*parts, margins=(16, 8, 12, 0))
        column_of(heading, (self._pages, 1), on=self, margins=0, gap=0)

    def show_answer(self, answer: int) -> None:
        """Show the rounds of an answer of the branch; 0 for none."""
        self.answer = answer
        writing = self._answers.writing(answer)
        self._live = writing is not None and writing.state == "streaming"
        self._head()
        if self._live and writing is not None:
            self._show(writing)
            self.panel.refresh()
        elif answer:
            self._conversation.trace(answer, Trace, partial(self._take, answer))
        else:
            self.panel.show_stats(Stats())

    def step(self, by: int) -> None:
        """Show the answer `by` places further on in the branch."""
        ids = self._ids()
        if self.answer in ids:
            place = ids.index(self.answer) + by
            if 0 <= place < len(ids):
                self.show_answer(ids[place])
                self.stepped.emit(ids[place])

    def explain(self) -> None:
        """Open the dialog that explains colours and figures."""
        RoundsExplained(self.window()).open_once()

    def _ids(self) -> list[int]:
        branch = self._conversation.branch
        return [message.id for message in branch if message.role == "assistant"]

    def _head(self) -> None:
        ids = self._ids()
        place = ids.index(self.answer) + 1 if self.answer in ids else 0
        self._heading.setText(f"Answer {place} of {len(ids)}" if place else "No answer yet")
        self._show_hint("" if ids else _HINT)
        for part in (self._before, self._after):
            part.setVisible(bool(ids))
        self._before.setEnabled(place > 1)
        self._after.setEnabled(0 < place < len(ids))

    def _show_hint(self, hint: str) -> None:
        """Show a hint in place of figures without values; the figures without a hint."""
        self.hint.setText(hint)
        self._pages.setCurrentIndex(0 if hint else 1)

    def _take(self, answer: int, trace: Trace) -> None:
        if answer == self.answer and not self._live:
            self._read = answer
            self._show_hint("" if trace.pieces else _NOT_HERE)
            self.panel.show_stats(trace.stats, trace.last)

    def _on_failed(self) -> None:
        """If a trace could not be read, show no figures of another answer."""
        if self.answer and not self._live and self._read != self.answer:
            self._show_hint(_NOT_HERE)

    def _receive(self, writing: Writing, happening: EventOrRound) -> None:
        if self._live and writing.message.id == self.answer:
            self._show(writing)

    def _show(self, writing: Writing) -> None:
        self._show_hint("" if writing.last else _READING)
        self.panel.show_stats(writing.trace.stats, writing.last, ended=False)

    def _on_finished(self, writing: Writing) -> None:
        if writing.message.id == self.answer:
            self._live = False
            self._take(self.answer, writing.trace)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        """Give the panel a width for the size of the text."""
        self.setMinimumWidth(zoomed(self, _NARROWEST))
