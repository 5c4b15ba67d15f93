"""Shows the open conversation in the transcript: messages, the running answer, provenance.

Knows the conversation and the transcript, and keeps them in step. What a person asks for at a
message is emitted as a signal.
"""

from functools import partial

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.chat.announce import Announcer
from app.chat.answers import Answers, Writing
from app.chat.conversation import OpenConversation
from app.chat.message import Ending, MessageWidget
from app.chat.transcript import FRAME_MILLISECONDS, Transcript
from app.conversations.records import Message
from app.rounds.lane import DraftLane
from app.rounds.trace import pieces
from engine.events import Event, Failed, Text
from engine.rounds import EventOrRound, Round

PERSON = "You"


class ConversationPresenter(QObject):
    """Attributes: `provenance`, whether tokens are told apart.

    Signals:
        edit_asked(int): a message of the person's, by its id.
        selected(int): an answer was clicked on, or came to be the last.
        link_asked(str): a link was chosen.
    """

    edit_asked = Signal(int)
    selected = Signal(int)
    link_asked = Signal(str)

    def __init__(
        self,
        conversation: OpenConversation,
        answers: Answers,
        transcript: Transcript,
        lane: DraftLane,
    ) -> None:
        super().__init__(transcript)
        self.provenance = False
        self._conversation, self._answers = conversation, answers
        self._transcript, self._lane = transcript, lane
        self._announcer = Announcer(transcript)
        self._shown: list[Message] = []
        self._known: set[int] = set()  # answers whose pieces are in the transcript
        self._writing: Writing | None = None
        self._frame = QTimer(self, singleShot=True, interval=FRAME_MILLISECONDS)
        self._frame.timeout.connect(self._show_pieces)
        transcript.set_slot(lane)
        conversation.changed.connect(self._follow)
        answers.happened.connect(self._hear)
        answers.finished.connect(self._finish)

    def show_provenance(self, shown: bool) -> None:
        """Tell the tokens of all answers apart, or not."""
        self.provenance = shown
        self._transcript.show_provenance(shown)
        if shown:
            self._show_pieces()  # of an answer that is known already, and has grown since
            self._fetch_pieces()

    def reveal(self, id: int, words: str = "") -> None:
        """Scroll to a message and give it the focus. `words` were searched for."""
        widget = self._widget(id)
        if widget is not None:
            self._transcript.write_all()
            self._transcript.ensureWidgetVisible(widget, 0, 40)
            widget.view.setFocus()

    def _follow(self, kept: int) -> None:
        """Show the branch as it is now; `kept` messages are shown already."""
        for message in self._shown[kept:]:
            self._known.discard(message.id)
        self._transcript.cut(kept)
        self._shown = self._shown[:kept]
        if self._writing and self._writing.message.id not in [m.id for m in self._shown]:
            self._writing = None
        for message in self._conversation.branch[kept:]:
            self._add(message)
        self._transcript.jump_to_newest()
        if self.provenance:
            self._fetch_pieces()
        answers = [message.id for message in self._shown if message.role == "assistant"]
        self.selected.emit(answers[-1] if answers else 0)

    def _add(self, message: Message) -> None:
        writing = self._answers.writing(message.id)
        text, ending = message.content, Ending(message.state)
        if writing is not None:
            text, ending = writing.text, _ending(writing)
        streaming = writing is not None and writing.state == "streaming"
        widget = self._transcript.add(
            message.role,
            name=(message.target or "Model") if message.role == "assistant" else PERSON,
            text=text,
            ending=None if streaming else ending,
        )
        self._shown.append(message)
        self._connect(widget, message.id)
        self._order(widget)
        widget.set_branches(message.place, message.siblings)
        widget.provenance.set_shown(self.provenance)
        if streaming:
            self._writing = writing
            self._lane.clear()
            self._frame.start()
        elif message.state == "failed" and writing is None:
            self._conversation.trace(message.id, partial(self._tell_failure, widget, message.id))

    def _order(self, widget: MessageWidget) -> None:
        """Tab goes from message to message, and then on to what comes after the transcript."""
        messages = self._transcript.messages
        before: QWidget = messages[-2].stops[-1] if len(messages) > 1 else self._transcript
        for part in widget.stops:
            QWidget.setTabOrder(before, part)
            before = part

    def _connect(self, widget: MessageWidget, id: int) -> None:
        widget.edit_asked.connect(lambda: self.edit_asked.emit(id))
        widget.regenerate_asked.connect(lambda: self._conversation.regenerate(id))
        widget.go_on_asked.connect(lambda: self._conversation.go_on(id))
        widget.branch_asked.connect(lambda number: self._conversation.switch(id, number))
        widget.link_asked.connect(self.link_asked)
        widget.view.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Select an answer when it gets the focus."""
        if event.type() == QEvent.Type.FocusIn:
            for message, widget in zip(self._shown, self._transcript.messages, strict=False):
                if widget.view is watched and message.role == "assistant":
                    self.selected.emit(message.id)
        return super().eventFilter(watched, event)

    # The answer that is written

    def _hear(self, writing: Writing, happening: EventOrRound) -> None:
        if writing is not self._writing:
            return
        match happening:
            case Text(delta=delta):
                self._transcript.append(delta)
                self._announcer.append(delta)
                if self.provenance and not self._frame.isActive():
                    self._frame.start()
            case Round():
                self._lane.push(happening)

    def _finish(self, writing: Writing) -> None:
        if writing is not self._writing:
            return
        self._writing = None
        self._frame.stop()
        ending = _ending(writing)
        self._announcer.finish()
        self._announcer.append(ending.text)
        self._announcer.finish()
        self._transcript.end(ending)
        if self.provenance:
            self._give_pieces(writing)

    # Provenance

    def _show_pieces(self) -> None:
        if self._writing is not None and self.provenance:
            self._give_pieces(self._writing)

    def _give_pieces(self, writing: Writing) -> None:
        widget = self._widget(writing.message.id)
        if widget is not None:
            self._known.add(writing.message.id)
            self._transcript.set_pieces(widget, writing.pieces)

    def _fetch_pieces(self) -> None:
        """Those of past answers, newest first and one at a time, so that nothing stands still."""
        for message in reversed(self._shown):
            if message.role != "assistant" or message.id in self._known:
                continue
            if writing := self._answers.writing(message.id):
                self._give_pieces(writing)
                continue
            self._known.add(message.id)
            self._conversation.trace(message.id, partial(self._take_trace, message.id))
            return

    def _take_trace(self, id: int, events: tuple[Event, ...]) -> None:
        if (widget := self._widget(id)) is not None and events:
            self._transcript.set_pieces(widget, pieces(events))
        if self.provenance:
            self._fetch_pieces()

    def _tell_failure(self, widget: MessageWidget, id: int, events: tuple[Event, ...]) -> None:
        """Show the reason for a failure, which is in the trace."""
        last = events[-1] if events else None
        if isinstance(last, Failed) and self._widget(id) is widget:
            widget.end(Ending("failed", last.message, last.remedy))

    def _widget(self, id: int) -> MessageWidget | None:
        for message, widget in zip(self._shown, self._transcript.messages, strict=False):
            if message.id == id:
                return widget
        return None


def _ending(writing: Writing) -> Ending:
    if writing.failure is not None:
        return Ending("failed", writing.failure.message, writing.failure.remedy)
    return Ending(writing.state)
