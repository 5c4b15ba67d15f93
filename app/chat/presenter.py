"""Shows the open conversation in the transcript: messages, the running answer, provenance.

Knows the conversation and the transcript, and keeps them equal.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate

from PySide6.QtCore import QObject, Signal

from app.chat.activity import AwaitingPerson, Reading, RunningTool, long_status
from app.chat.announce import Announcer
from app.chat.answers import Answers
from app.chat.approval_card import Approval
from app.chat.conversation import OpenConversation
from app.chat.finder import Finder
from app.chat.message_row import MessageRow
from app.chat.message_view import Ending
from app.chat.transcript import FRAME_MILLISECONDS, Transcript
from app.chat.writing import Writing
from app.conversations.answer_figures import AnswerFigures
from app.conversations.answer_steps import line, texts_of
from app.conversations.records import Message
from app.documents.chips import Chip, chip_of_sent
from app.markdown.asides import Aside
from app.markdown.streaming import ReasoningSpan
from app.rounds.figures import count
from app.rounds.pace import PaceTimer
from app.rounds.trace import Piece, PieceKind, Trace
from app.settings import DraftsInText
from app.steps import timer
from engine.conversation.rounds import EventOrRound, Round
from engine.documents.prompt import Sent
from engine.events import Event, Failed, Text
from engine.stretches import cut, divided
from engine.tools.protocol import Progress
from engine.tools.steps import Step, StepCall, line_of
from models.in_words import short_model

PERSON = "You"
_COUNT_MS = 500  # between two counts of reasoning that is being written
_MARKED_SECONDS = 2.0  # a new token, until its colour has faded


class ConversationPresenter(QObject):
    """Attributes: `provenance`, whether all tokens' provenance is shown; `explains`, whether the
    next answer with a draft keeps its colours, with their legend; `finder`, with its bar.

    Signals:
        explained(): an answer kept its colours, as `explains` asked.
        selected(int): an answer was clicked on, or became the last.
    """

    explained = Signal()
    selected = Signal(int)

    def __init__(
        self,
        conversation: OpenConversation,
        answers: Answers,
        transcript: Transcript,
    ) -> None:
        super().__init__(transcript)
        self.provenance = self.explains = False
        self._conversation, self._answers = conversation, answers
        self._transcript = transcript
        self._drafts, self._calm = DraftsInText.FADE, False
        self._pace = PaceTimer(self)
        self._pace.due.connect(self._settle)
        self.finder = Finder(transcript)
        self._announcer = Announcer(transcript)
        self._shown: list[Message] = []
        self._edited = 0  # the id of the message that is being edited
        self._asked: set[int] = set()  # answers whose traces were requested
        self._writing: Writing | None = None
        self._frame = timer(self, FRAME_MILLISECONDS, self._show_pieces)
        self._count = timer(self, _COUNT_MS, self._count_reasoning)
        transcript.built.connect(self._on_built)
        conversation.changed.connect(self._follow)
        conversation.edits.connect(self._mark_edited)
        conversation.failed.connect(self._fetch_traces)  # after a trace that cannot be read
        answers.happened.connect(self._hear)
        answers.activity_changed.connect(self._show_activity)
        answers.stepped.connect(self._on_stepped)
        answers.finished.connect(self._finish)
        answers.saved.connect(self._on_saved)

    @property
    def focused(self) -> int:
        """The id of the message with the focus, 0 for none."""
        focused = (message.id for message, row in self._pairs() if row.has_focus)
        return next(focused, 0)

    def show_provenance(self, shown: bool) -> None:
        """Show or hide the provenance of all answers' tokens."""
        self.provenance = shown
        self._transcript.show_tokens(shown)
        if shown:
            self._show_pieces()  # the trace was read before the answer grew
        self._fetch_traces()

    def show_drafts(self, drafts: DraftsInText, *, calm: bool) -> None:
        """Choose how the drafts of answers to come are shown in their text. If `calm`, nothing
        moves."""
        self._drafts, self._calm = drafts, calm

    def reveal(self, id: int, words: str = "") -> None:
        """Scroll to a message and give it the focus. Marks `words` in it, and goes to the first of
        them."""
        row = self._row(id)
        if row is not None:
            if not self.finder.show_words(row, words):
                self._transcript.reveal(row)
            row.view.setFocus()

    def show_answer(self, id: int) -> None:
        """Scroll to an answer."""
        row = self._row(id)
        if row is not None:
            self._transcript.reveal(row)

    def copy(self, id: int) -> None:
        """Copy a message."""
        row = self._row(id)
        if row is not None:
            row.copy()

    def _follow(self, kept: int) -> None:
        """Show the current branch; its first `kept` messages are shown already."""
        self._transcript.cut(kept)
        self._shown = self._shown[:kept]
        if self._writing and self._writing.message.id not in [m.id for m in self._shown]:
            self._writing = None
            self._pace.clear()
        for message in self._conversation.branch[kept:]:
            self._add(message)
        if not self._shown:
            self.finder.leave()
        self._transcript.jump_to_newest()
        self._fetch_traces()
        answers = [message for message in self._shown if message.role == "assistant"]
        self._mark_left_out(answers[-1].figures if answers else None)
        self.selected.emit(answers[-1].id if answers else 0)

    def _add(self, message: Message) -> None:
        writing = self._answers.writing(message.id)
        text, stretches, ending = message.content, message.stretches, Ending(message.state)
        if writing is not None:
            text, stretches, ending = writing.text, writing.stretches, _ending(writing)
        streaming = writing is not None and writing.state == "streaming"
        row = self._transcript.add(
            message.role,
            id=message.id,
            name=_author(message),
            text=text,
            stretches=stretches,
            ending=None if streaming else ending,
            created=message.created,
            model=message.target,
        )
        self._shown.append(message)
        view = replace(
            row.shown,
            asides=_asides(message.steps),
            branch=(message.place, message.siblings),
            figures=message.figures,
            documents=self._chips(message.sent) if message.sent is not None else (),
            edited=message.id == self._edited,
        )
        if writing is None or not streaming:
            row.show(view)
            return
        self._writing = writing
        self._pace.clear()
        if self._drafts is not DraftsInText.OFF:
            keeps = self._calm or self._drafts is DraftsInText.KEEP
            fades_after = math.inf if keeps else _MARKED_SECONDS
            known = writing.pieces if writing.text else None  # none of them is new
            view = replace(view, pieces=known, fades_after=fades_after, calm=self._calm)
        row.show(view)
        self._show_steps(writing)
        self._show_activity(writing)
        self._frame.start()

    def _mark_edited(self, id: int) -> None:
        self._edited = id
        for row in self._transcript.messages:
            row.show(replace(row.shown, edited=row.id == id))

    def _on_built(self, row: MessageRow) -> None:
        """Connect a message's new widget, and fetch the trace if the widget shows it."""
        message, widget = self._message(row), row.widget
        if message is None or widget is None:
            return
        id = message.id
        widget.copied.connect(self._announcer.say)
        if message.role == "assistant":
            widget.focused.connect(lambda: self.selected.emit(id))
        self._asked.discard(id)
        self._fetch_traces()
        ended = self._answers.writing(id) is None
        if message.state == "failed" and ended and row.shown.ending == Ending("failed"):
            self._conversation.trace(id, _last, partial(self._show_failure, row))

    def _chips(self, sent: Sent) -> tuple[Chip, ...]:
        return tuple(chip_of_sent(document, self._answers.pictures) for document in sent.documents)

    # The answer that is being written

    def _hear(self, writing: Writing, happening: EventOrRound) -> None:
        if writing is not self._writing:
            return
        match happening:
            case Text():
                if (row := self._transcript.streaming) is not None:
                    row.show(replace(row.shown, stretches=writing.stretches))
                self._pace.push(happening)
            case Round():
                if self._drafts is not DraftsInText.OFF:
                    self._pace.push(happening)
                self._tally_reasoning(writing)

    def _settle(self, text: str, round: Round | None) -> None:
        """Show text that is final, and the draft after it."""
        if (row := self._transcript.streaming) is not None:
            _, its = cut(row.shown.stretches, len(row.written))
            shown = (part for kind, part in divided(text, its) if kind not in ("mark", "call"))
            self._announcer.append("".join(shown))
            self._transcript.append(text)
            self._show_ahead(row, round)
        if not self._frame.isActive():
            self._show_pieces()  # with the text, so that it is coloured from the first frame on
            self._frame.start()

    def _show_ahead(
        self, row: MessageRow, ahead: Round | str | None, *, share: float | None = None
    ) -> None:
        self._transcript.show_view(row, replace(row.shown, ahead=ahead, share=share))

    def _on_stepped(self, writing: Writing) -> None:
        if writing is self._writing:
            self._pace.flush()
            if (row := self._row(writing.message.id)) is not None:
                self._show_ahead(row, None)
            self._show_steps(writing)
            self._show_activity(writing)

    def _show_steps(self, writing: Writing) -> None:
        """Show the calls of an answer, and ask about the first that waits for the user."""
        row, calling = self._row(writing.message.id), writing.calling
        if row is None:
            return
        ended = writing.state != "streaming"
        progress = None if ended else calling.progress
        approval = None
        if not ended and (asked := calling.asked):
            call = asked[0]
            tools = (tool.offered for tool in calling.tools if tool.name == call.name)
            approval = Approval(
                call,
                read_only=any(tool.read_only for tool in tools),
                repeats=calling.repeats(call),
                among=len(asked),
                fault=partial(calling.fault, call),
            )
            before = row.shown.approval
            if before is None or before.call.id != call.id:
                self._announcer.finish()
                self._announcer.say(f"Allow the model to call {call.name}?")
        asides = _asides(calling.steps, progress)
        self._transcript.show_view(row, replace(row.shown, asides=asides, approval=approval))

    def _show_activity(self, writing: Writing) -> None:
        """Show the activity where the text will begin."""
        if writing is not self._writing or (activity := writing.activity) is None:
            return
        if writing.fresh and not isinstance(activity, AwaitingPerson | RunningTool):
            share = activity.share if isinstance(activity, Reading) else None
            if (row := self._row(writing.message.id)) is not None:
                self._show_ahead(row, f"{long_status(activity)}\u2026", share=share)

    def _finish(self, writing: Writing) -> None:
        if writing is not self._writing:
            return
        self._pace.flush()
        needed, self._writing = self._needs_pieces, None
        self._frame.stop()
        self._count.stop()
        ending = _ending(writing)
        self._announcer.finish()
        self._announcer.append(ending.text)
        self._announcer.finish()
        self._show_steps(writing)
        row = self._row(writing.message.id)
        if row is not None:
            self._transcript.show_view(row, replace(row.shown, ending=ending))
        self._tally_reasoning(writing)
        if needed:
            self._give_pieces(writing)
        if self.explains and needed and row is not None and _drafted(writing.pieces):
            self.explains = False
            hidden = frozenset[PieceKind](("rejected", "discarded"))  # no word moves
            self._transcript.show_view(row, replace(row.shown, tokens=True, hidden=hidden))
            self.explained.emit()

    # Provenance

    @property
    def _needs_pieces(self) -> bool:
        """Whether the answer that is being written shows its tokens."""
        row = None if self._writing is None else self._row(self._writing.message.id)
        return row is not None and (row.shown.tokens or row.shown.fades_after > 0.0)

    def show_tokens(self, id: int, shown: bool) -> None:
        """Show or hide the tokens of one message."""
        if (row := self._row(id)) is not None:
            self._transcript.hold(row)
            self._transcript.show_view(row, replace(row.shown, tokens=shown))
            self._fetch_traces()

    def _show_pieces(self) -> None:
        if self._writing is not None and self._needs_pieces:
            self._give_pieces(self._writing)

    def _give_pieces(self, writing: Writing) -> None:
        row = self._row(writing.message.id)
        if row is not None:
            self._transcript.show_view(row, replace(row.shown, pieces=writing.pieces))

    # Traces

    def _tally_reasoning(self, writing: Writing) -> None:
        """Show the tokens and time of the reasoning: while it is written, about every second."""
        row = self._row(writing.message.id)
        if row is None or row.shown.reasoning is not None:
            return
        if (span := _reasoned(row)) is not None:
            tally = writing.tally(span.start, span.end)
            self._transcript.show_view(row, replace(row.shown, reasoning=tally))
        elif not self._count.isActive():
            self._count.start()

    def _count_reasoning(self) -> None:
        if self._writing is None or (row := self._row(self._writing.message.id)) is None:
            return
        span = None if row.widget is None else row.view.text.reasoning
        if span is not None and not span.closed:
            tally = self._writing.tally(span.start, span.end)
            self._transcript.show_view(row, replace(row.shown, reasoned=tally.tokens))

    def _fetch_traces(self) -> None:
        """Fetch the traces that widgets of past answers show, newest first, one at a time, so that
        the window stays responsive."""
        for message, row in reversed(self._pairs()):
            if message.role != "assistant" or row.widget is None or message.id in self._asked:
                continue
            tokens = row.shown.tokens and row.shown.pieces is None
            if not tokens and (row.shown.reasoning is not None or _reasoned(row) is None):
                continue
            if writing := self._answers.writing(message.id):
                if tokens:
                    self._give_pieces(writing)
                continue
            self._asked.add(message.id)
            self._conversation.trace(message.id, Trace, partial(self._take_trace, message.id))
            return

    def _take_trace(self, id: int, trace: Trace) -> None:
        row = self._row(id)
        if row is not None and row.widget is not None:
            view = replace(row.shown, pieces=trace.pieces)
            if trace.events and (span := _reasoned(row)) is not None:
                view = replace(view, reasoning=trace.tally(span.start, span.end))
            self._transcript.show_view(row, view)
        self._fetch_traces()

    def _show_failure(self, row: MessageRow, last: Event | None) -> None:
        """Show the reason for a failure, which is in the trace."""
        if isinstance(last, Failed):
            ending = Ending("failed", last.message, last.remedy)
            row.show(replace(row.shown, ending=ending))

    def _on_saved(self, message: Message) -> None:
        """Show the figures of the answer, which are stored now."""
        self._shown = [message if m.id == message.id else m for m in self._shown]
        row = self._row(message.id)
        if row is not None:
            row.show(replace(row.shown, figures=message.figures))
            if message.role == "assistant" and row is self._transcript.messages[-1]:
                self._mark_left_out(message.figures)

    def _mark_left_out(self, figures: AnswerFigures | None) -> None:
        """Show where the messages end that the latest answer's prompt left out."""
        last, note = -1, ""
        if figures is not None and figures.left_out:
            system_prompt, _ = self._conversation.configured
            behind = figures.left_out_from + figures.left_out - bool(system_prompt)
            counts = accumulate(len(message.as_chat) for message in self._shown)
            last = sum(each <= behind for each in counts) - 1
            left_out = count(figures.left_out, "message")
            note = f"Left out of the latest answer: {left_out} above."
        for place, row in enumerate(self._transcript.messages):
            said = note if place == last else ""
            if said != row.shown.note:
                self._transcript.show_view(row, replace(row.shown, note=said))

    def _pairs(self) -> list[tuple[Message, MessageRow]]:
        return list(zip(self._shown, self._transcript.messages, strict=False))

    def _row(self, id: int) -> MessageRow | None:
        return next((row for row in self._transcript.messages if row.id == id), None)

    def _message(self, row: MessageRow) -> Message | None:
        return next((message for message in self._shown if message.id == row.id), None)


def _author(message: Message) -> str:
    """Return who wrote a message."""
    if message.role != "assistant":
        return PERSON
    model = short_model(message.target) if message.target else "Model"
    return f"{model}, edited by you" if message.edited else model


def _asides(
    steps: Sequence[Step], progress: Mapping[str, Progress] | None = None
) -> tuple[Aside, ...]:
    """Return the calls of an answer as its text shows them; without
    `progress`, for an answer that has ended."""
    return tuple(
        Aside(
            step.place,
            line(call) if progress is None else _line(call, progress.get(call.id)),
            texts_of(call),
        )
        for step in steps
        for call in step.calls
    )


def _line(call: StepCall, progress: Progress | None) -> str:
    """Return a call as a line, with how far it is while it runs."""
    if call.state != "running" or progress is None:
        return line_of(call)
    share = f"{progress.done / progress.total:.0%}" if progress.total else ""
    return ", ".join(filter(None, (line_of(call), share, progress.message)))


def _last(events: tuple[Event, ...]) -> Event | None:
    return events[-1] if events else None


def _reasoned(row: MessageRow) -> ReasoningSpan | None:
    """Return the place of the reasoning in a message with a widget, or None until it has ended."""
    span = None if row.widget is None else row.view.text.reasoning
    return span if span is not None and span.closed else None


def _drafted(pieces: tuple[Piece, ...]) -> bool:
    return any(piece.kind == "accepted" for piece in pieces)


def _ending(writing: Writing) -> Ending:
    if writing.failure is not None:
        return Ending("failed", writing.failure.message, writing.failure.remedy)
    return Ending(writing.state)
