"""Answers while they are written: from the engine's events into the store, about every second.

An answer goes on whichever conversation is shown. It is begun in the store before the engine is
asked, so that it is there whatever happens, and is kept in memory until its end is saved: a full
disk delays that, and loses nothing. Knows no widget.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from app.conversations.records import Message, MessageState
from app.conversations.store import Store
from app.engine_client.engine_process import EngineProcess
from app.rounds.trace import Piece, Trace
from app.steps import Failed as Fail
from app.steps import Stepper, Steps
from engine.events import Done, Draft, Event, Failed, Text, Verdict
from engine.loops import REACH, loops
from engine.request import ChatMessage, Request
from engine.rounds import EventOrRound, Round
from models.errors import Problem

_FLUSH_MS = 1000


class Writing:
    """An answer that is being written, or whose end is not saved yet.

    Attributes: `message`, as it was begun; `text` and `events` so far; `state`, which is no more
    `streaming` once it has ended; `failure`, where it failed.
    """

    def __init__(self, message: Message, *, before: Sequence[Event]) -> None:
        """`before` are the events of the answer that this one goes on with."""
        self.message = message
        self.generation = ""
        self._trace = Trace()
        self.state: MessageState = "streaming"
        self.failure: Failed | None = None
        self.saving = False  # a flush or the end is on its way to the disk
        self.saved = 0  # events
        self._rounds = 0  # of the answer before
        self._latest: deque[int] = deque(maxlen=REACH)  # tokens
        for event in before:
            self._trace.push(event)
            if isinstance(event, Verdict):
                self._rounds = event.round

    @property
    def events(self) -> list[Event]:
        return self._trace.events

    @property
    def last(self) -> Round | None:
        """The last round that was judged."""
        return self._trace.rounds[-1] if self._trace.rounds else None

    @property
    def loops(self) -> bool:
        """Whether it repeats itself at its end."""
        return loops(list(self._latest))

    @property
    def text(self) -> str:
        """The text so far, put together from the events."""
        return "".join(event.delta for event in self.events if isinstance(event, Text))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The tokens so far: while it is written, up to the first whose text has not come yet."""
        return self._trace.final if self.state == "streaming" else self._trace.pieces

    def push(self, event: Event) -> EventOrRound:
        """Take one more event; what it says, with the rounds counted through as in the trace."""
        happening = self._trace.push(_renumbered(event, self._rounds) if self._rounds else event)
        if isinstance(happening, Round) and happening.verdict is not None:
            self._latest.extend(token.id for token in happening.committed)
        match event:
            case Done():
                self.state = _state(event)
            case Failed():
                self.state, self.failure = "failed", event
        return happening


class Answers(QObject):
    """All answers that are being written.

    Signals:
        begun(Writing): it is in the store, and the engine is asked or will be.
        happened(Writing, EventOrRound): it went on.
        finished(Writing): its last event has come.
        saved(Message): its end is on the disk.
        unsaved(Problem): it could not be saved, and is tried again. Once, until `saving_again`.
        saving_again(): it could.
    """

    begun = Signal(Writing)
    happened = Signal(Writing, object)
    finished = Signal(Writing)
    saved = Signal(Message)
    unsaved = Signal(Problem)
    saving_again = Signal()

    def __init__(
        self, store: Store, engine: EngineProcess, *, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store, self._engine = store, engine
        self._stepper = Stepper(self)
        self._writings: dict[int, Writing] = {}  # by message
        self._waiting: dict[int, tuple[tuple[ChatMessage, ...], Request]] = {}  # for `release`
        self._held = False
        self._closing = False
        self._over = False
        self._unsaved = False
        self._timer = QTimer(self, interval=_FLUSH_MS)
        self._timer.timeout.connect(self.flush)
        engine.happened.connect(self._hear)

    def writing(self, message: int) -> Writing | None:
        """The answer with this message's id, where it is not saved yet."""
        return self._writings.get(message)

    @property
    def busy(self) -> bool:
        """Whether an answer has not ended yet."""
        return any(writing.state == "streaming" for writing in self._writings.values())

    def begin(
        self,
        question: int,
        lines: Sequence[ChatMessage],
        request: Request,
        *,
        names: tuple[str, str],
        content: str = "",
        before: Sequence[Event] = (),
        failed: Fail,
    ) -> None:
        """Answer the message `question`; `lines` are the chat, `names` target and drafter.

        `content` is what the answer goes on with, and `before` the trace of that.
        """

        def steps() -> Steps:
            target, drafter = names
            message = yield self._store.begin_answer(
                question, target=target, drafter=drafter, content=content
            )
            self._start(Writing(message, before=before), tuple(lines), request)

        self._stepper.run(steps(), failed=failed)

    def cancel(self, message: int) -> None:
        """End an answer; one that is over stays over."""
        writing = self._writings.get(message)
        if writing is None or writing.state != "streaming":
            return
        if self._waiting.pop(message, None) is not None:
            self._end(writing, "cancelled")
        else:
            self._engine.cancel(writing.generation)

    def hold(self) -> None:
        """Ask the engine for nothing until `release`: there is no model yet."""
        self._held = True

    def release(self) -> None:
        """Ask for what was held back."""
        self._held = False
        waiting, self._waiting = self._waiting, {}
        for message, (lines, request) in waiting.items():
            self._ask(self._writings[message], lines, request)

    def refuse(self, problem: Problem) -> None:
        """What was held back cannot be had."""
        waiting, self._waiting = self._waiting, {}
        for message in waiting:
            writing = self._writings[message]
            self._take(writing, Failed("", problem.message, problem.remedy))

    def close(self) -> None:
        """What is still written will be interrupted. For before the engine stops."""
        self._closing = True

    def save(self) -> None:
        """Have the store save every answer as it ended. For after the engine has stopped; the
        store may be closed then."""
        self._timer.stop()
        self._over = True
        for writing in self._writings.values():
            if writing.state == "streaming":
                writing.state = "interrupted"
            self._store.finish_answer(
                writing.message.id, writing.text, tuple(writing.events), state=writing.state
            )

    def flush(self) -> None:
        """Save what is new of each answer."""
        if self._over:
            return
        for writing in tuple(self._writings.values()):
            if not writing.saving and (
                writing.state != "streaming" or writing.saved < len(writing.events)
            ):
                writing.saving = True
                self._stepper.run(self._save(writing), failed=lambda problem: None)

    def _start(self, writing: Writing, lines: tuple[ChatMessage, ...], request: Request) -> None:
        self._writings[writing.message.id] = writing
        self._timer.start()
        if self._held:
            self._waiting[writing.message.id] = (lines, request)
        else:
            self._ask(writing, lines, request)
        self.begun.emit(writing)

    def _ask(self, writing: Writing, lines: tuple[ChatMessage, ...], request: Request) -> None:
        conversation = str(writing.message.conversation)
        writing.generation = self._engine.generate(conversation, lines, request)

    def _hear(self, event: Event) -> None:
        for writing in self._writings.values():
            if writing.generation == event.generation and writing.state == "streaming":
                self._take(writing, event)
                return

    def _take(self, writing: Writing, event: Event) -> None:
        self.happened.emit(writing, writing.push(event))
        if writing.state != "streaming":
            self._end(writing, "interrupted" if self._closing else writing.state)

    def _end(self, writing: Writing, state: MessageState) -> None:
        writing.state = state
        self.finished.emit(writing)
        if not writing.saving:
            writing.saving = True
            self._stepper.run(self._save(writing), failed=lambda problem: None)

    def _save(self, writing: Writing) -> Steps:
        """Flush, and where it has ended, end: until what was there at the beginning is saved."""
        count, message = len(writing.events), writing.message.id
        try:
            if writing.state == "streaming":
                yield self._store.flush_answer(message, writing.text, tuple(writing.events))
            else:
                ended = yield self._store.finish_answer(
                    message, writing.text, tuple(writing.events), state=writing.state
                )
                self._forget(writing)
                self.saved.emit(ended)
        except Problem as problem:
            writing.saving = False
            if not self._unsaved:
                self._unsaved = True
                self.unsaved.emit(problem)
            return
        writing.saved, writing.saving = count, False
        if self._unsaved:
            self._unsaved = False
            self.saving_again.emit()
        if message in self._writings and writing.state != "streaming":
            self.flush()  # it ended meanwhile

    def _forget(self, writing: Writing) -> None:
        del self._writings[writing.message.id]
        if not self._writings:
            self._timer.stop()


def _renumbered(event: Event, before: int) -> Event:
    """The event of an answer that so many rounds went before."""
    match event:
        case Draft() | Verdict():
            return replace(event, round=before + event.round)
        case Text():
            spans = (replace(span, round=before + span.round) for span in event.spans)
            return replace(event, spans=tuple(spans))
        case _:
            return event


def _state(done: Done) -> MessageState:
    match done.reason:
        case "stop":
            return "complete"
        case "length":
            return "length"
        case "cancelled":
            return "cancelled"
