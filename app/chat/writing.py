"""An answer that is being written: its events, and what they say of it so far. Knows no store, no
engine and no widget."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from app.chat.activity import (
    Activity,
    AwaitingTurn,
    BeingWritten,
    Reading,
    progress,
)
from app.conversations.records import Message, MessageState
from app.rounds.trace import Piece, TextTally, Trace
from engine.conversation.loops import REACH, loops
from engine.conversation.rounds import EventOrRound, Round
from engine.events import Done, Draft, Event, Failed, Prefill, Text, Verdict, Waiting
from engine.request import ChatMessage, Request
from engine.stretches import Stretch
from engine.tools.calling import Calling
from engine.tools.steps import Step, messages_of

_WRITTEN = BeingWritten()


class Writing:
    """An answer that is being written, or whose end is not saved yet.

    Attributes: `message`, as it was begun; `title`, of its conversation at that time; `text` and
    `events` so far; `activity`, None after the end; `state`, `streaming` until the end; `failure`,
    if it failed; `calling`, its calls of tools; `chat`, up to the question, and `request`, as the
    engine is asked for each step.
    """

    def __init__(
        self,
        message: Message,
        *,
        before: Sequence[Event],
        title: str = "",
        calling: Calling | None = None,
        chat: Sequence[ChatMessage] = (),
        request: Request | None = None,
    ) -> None:
        """`before` are the events of the answer that this answer continues."""
        self.message = message
        self.title = title
        self.calling = calling or Calling(steps=message.steps)
        self.chat, self.request = tuple(chat), request or Request()
        self.activity: Activity | None = None
        self.progress: AwaitingTurn | Reading | BeingWritten | None = None  # by its events
        self.stopping = False
        self.tokens = 0  # committed so far, without the answer before
        self.generation = ""
        self.trace = Trace()
        self.state: MessageState = "streaming"
        self.failure: Failed | None = None
        self.saving = False  # whether a save is under way
        self.saved = 0  # number of events
        self.saved_steps = message.steps
        self._rounds = 0  # number of rounds of the steps and the answer before
        self._latest: deque[int] = deque(maxlen=REACH)  # number of tokens
        for event in before:
            self.trace.push(event)
            if isinstance(event, Verdict):
                self._rounds = event.round

    @property
    def events(self) -> list[Event]:
        return self.trace.events

    @property
    def begun(self) -> bool:
        """Whether the engine has started on it."""
        return isinstance(self.progress, Reading | BeingWritten)

    @property
    def last(self) -> Round | None:
        """The last round that has a verdict."""
        return self.trace.last

    @property
    def loops(self) -> bool:
        """Whether its end repeats itself."""
        return loops(list(self._latest))

    @property
    def text(self) -> str:
        """The text so far, joined from the events."""
        return "".join(event.delta for event in self.events if isinstance(event, Text))

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The stretches of the text so far."""
        return self.trace.stretches

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return self.calling.steps

    @property
    def fresh(self) -> bool:
        """Whether nothing is written yet of the answer, or after its last step."""
        return len(self.text) == (self.steps[-1].place if self.steps else 0)

    @property
    def so_far(self) -> tuple[ChatMessage, ...]:
        """The chat with the answer so far, which ends with the results of its calls."""
        return (*self.chat, *messages_of(self.text, self.stretches, self.steps))

    @property
    def reasons(self) -> bool:
        """Whether the text so far ends within reasoning."""
        newest = self.stretches[-1:]
        return self.state == "streaming" and any(stretch.kind == "reasoning" for stretch in newest)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The tokens so far. While it is written, up to the first token whose text is still
        missing."""
        return self.trace.final if self.state == "streaming" else self.trace.pieces

    def tally(self, start: int, end: int) -> TextTally:
        """Return the tokens and the time of this part of the text."""
        return self.trace.tally(start, end)

    def push(self, event: Event) -> EventOrRound:
        """Add an event. Returns it, or the round that it completes, numbered as in the trace."""
        if isinstance(event, Waiting):  # ends the round, and is not part of the trace
            self.progress = AwaitingTurn(event.ahead)
            return event
        happening = self.trace.push(_renumbered(event, self._rounds) if self._rounds else event)
        if isinstance(happening, Round) and happening.verdict is not None:
            self._latest.extend(token.id for token in happening.committed)
            self.tokens += len(happening.committed)
        match event:
            case Prefill():
                self.progress = progress(event)
            case Draft() | Verdict() | Text():
                self.progress = _WRITTEN
                if isinstance(event, Text):
                    self.calling.hear(event)
            case Done(reason="stop") if self._calls(event):
                self._rounds = self.last.number if self.last else self._rounds
                self._latest.clear()
            case Done():
                self.state = _state(event)
            case Failed():
                self.state, self.failure = "failed", event
        return happening

    def _calls(self, done: Done) -> bool:
        """Whether a step has ended with calls, which are judged then."""
        return self.calling.begin_step(done.generation, place=len(self.text))


def _renumbered(event: Event, before: int) -> Event:
    """Renumber an event of an answer that continues an answer of `before` rounds."""
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
