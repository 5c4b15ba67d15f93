"""The side panel with an answer's rounds: its figures, and its replay below them.

Knows the open conversation and its answers. An answer that is still being written is shown as it
arrives.
"""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.answers import Answers, Writing
from app.chat.conversation import OpenConversation
from app.rounds.explained import RoundsExplained
from app.rounds.panel import RoundsPanel
from app.rounds.scrubber import ReplayDialog, Scrubber
from app.rounds.trace import Replay
from app.steps import Stepper, Steps, in_thread
from app.theme.labels import plain_label
from app.theme.style import colours_of, set_ink, sign_button
from engine.conversation.rounds import EventOrRound
from engine.events import Event

_MANY_EVENTS = 1_500  # the replay of a longer trace is made in a thread

_NARROWEST = 300  # pixels, at the normal size of the text
_NOT_HERE = (
    "This answer has no rounds: it was stopped before the first, imported, or written by a "
    "person.\n\n"
    "Regenerate writes another version here, with its rounds."
)
_HINT = (
    "This panel shows what drafting does for an answer: how fast it is written, how many of "
    "the drafted tokens are accepted and at which position, and why each draft is as long as it "
    "is.\n\nBelow, an answer can be replayed round by round."
)


class RoundsSide(QWidget):
    """Attributes: `panel`, `scrubber`; `parts`, the splitter between them; `hint`, shown in place
    of the panel while there is no answer; `answer`, the id of the answer that is shown, 0 for none.

    Signals: `export_wanted(str)`: save this trace, as JSON; `stepped(int)`: this answer is shown
    now, the next or the previous one.
    """

    export_wanted = Signal(str)
    stepped = Signal(int)

    def __init__(self, conversation: OpenConversation, answers: Answers) -> None:
        super().__init__()
        self.answer = 0
        self._conversation, self._answers = conversation, answers
        self._live = False
        self._stepper = Stepper(self)
        self._received = 0  # number of events that the panel received while the answer was written
        self._shows = 0  # number of requests, so that a replay that comes too late is ignored
        self.panel, self.scrubber = RoundsPanel(), Scrubber()
        self._heading = plain_label()
        self._before = sign_button("\u2039", "Previous answer", lambda: self.step(-1))
        self._after = sign_button("\u203a", "Next answer", lambda: self.step(1))
        self.hint = plain_label(_HINT)
        self._pages = QStackedWidget()  # the hint, or the panel
        self.parts = QSplitter(Qt.Orientation.Vertical)
        self._arrange()
        self._recolour()
        self._fit()
        self.setAccessibleName("Rounds and replay")
        self.scrubber.moved.connect(self._on_moved)
        self.scrubber.export_wanted.connect(self.export_wanted)
        self.scrubber.room_wanted.connect(self.enlarge)
        answers.happened.connect(self._receive)
        answers.finished.connect(self._on_finished)
        self.show_answer(0)

    def _arrange(self) -> None:
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(self.panel)
        scroll.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        scroll.setAccessibleName("Figures of the rounds")
        self.hint.setTextFormat(Qt.TextFormat.PlainText)
        self.hint.setWordWrap(True)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.hint.setContentsMargins(16, 10, 16, 0)
        self._pages.addWidget(self.hint)
        self._pages.addWidget(scroll)
        self.parts.addWidget(self._pages)
        self.parts.addWidget(self.scrubber)
        self.parts.setSizes([600, 400])
        self.parts.setStretchFactor(0, 3)
        self.parts.setStretchFactor(1, 2)
        self.parts.setHandleWidth(1)
        self.parts.setChildrenCollapsible(False)
        heading = QHBoxLayout()
        heading.setContentsMargins(16, 10, 8, 0)
        heading.addWidget(self._heading, 1)
        heading.addWidget(sign_button("?", "What am I looking at?", self.explain))
        heading.addWidget(self._before)
        heading.addWidget(self._after)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(heading)
        column.addWidget(self.parts, 1)

    def show_answer(self, answer: int) -> None:
        """Show the rounds of an answer of the branch; 0 for none."""
        self.answer, self._received = answer, 0
        writing = self._answers.writing(answer)
        self._live = writing is not None and writing.state == "streaming"
        self._head()
        if self._live and writing is not None:
            self._show(())
            self.panel.show_trace(writing.events, writing.last, ended=False)
        elif answer:
            self._conversation.trace(answer, lambda events: self._take(answer, events))
        else:
            self._show(())

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
        dialog = RoundsExplained(self.window())
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def enlarge(self) -> None:
        """Open the replay in a large window, at the same place."""
        dialog = ReplayDialog(self.scrubber.replay, place=self.scrubber.place, parent=self.window())
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.scrubber.export_wanted.connect(self.export_wanted)
        self.scrubber.pause()
        dialog.open()

    def _ids(self) -> list[int]:
        branch = self._conversation.branch
        return [message.id for message in branch if message.role == "assistant"]

    def _head(self) -> None:
        ids = self._ids()
        place = ids.index(self.answer) + 1 if self.answer in ids else 0
        self._heading.setText(f"Answer {place} of {len(ids)}" if place else "No answer yet")
        self.hint.setText(_HINT)
        self._pages.setCurrentIndex(1 if ids else 0)
        self._before.setEnabled(place > 1)
        self._after.setEnabled(0 < place < len(ids))

    def _take(self, answer: int, events: tuple[Event, ...]) -> None:
        if answer == self.answer and not self._live:
            if not events:  # a wall of figures without values says nothing
                self.hint.setText(_NOT_HERE)
                self._pages.setCurrentIndex(0)
            self._show(events)

    def _show(self, events: tuple[Event, ...]) -> None:
        self._shows += 1
        if len(events) > _MANY_EVENTS:
            self._stepper.run(self._show_many(events, self._shows), failed=lambda problem: None)
        else:
            self.scrubber.show_trace(events)

    def _show_many(self, events: tuple[Event, ...], number: int) -> Steps:
        replay = yield in_thread(lambda: Replay(events))
        if number == self._shows:
            self.scrubber.show_replay(replay)

    def _on_moved(self, place: int) -> None:
        events = self.scrubber.events
        if self._live or len(events) == self._received > 0:
            return
        self._received = 0
        self.panel.show_trace(events, self.scrubber.round, ended=self.scrubber.at_end)

    def _receive(self, writing: Writing, happening: EventOrRound) -> None:
        if self._live and writing.message.id == self.answer:
            self.panel.push(happening)

    def _on_finished(self, writing: Writing) -> None:
        if writing.message.id == self.answer:
            self._live, self._received = False, len(writing.events)
            self._take(writing.message.id, tuple(writing.events))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._recolour()
        elif event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        """Make the panel as wide as the buttons of the replay, which grow with the text."""
        larger = self.font().pointSizeF() / QApplication.font().pointSizeF()
        self.setMinimumWidth(round(_NARROWEST * max(1.0, larger)))

    def _recolour(self) -> None:
        for label in (self._heading, self.hint):
            set_ink(label, colours_of(self).muted)
