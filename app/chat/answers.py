"""Writes answers: takes the engine's events, and stores them about once a second.

An answer goes on whichever conversation is shown. The store begins it before the engine is asked,
so that it exists even after a crash. It stays in memory until its end is saved: a full disk delays
that and loses nothing. Several answers are written at once, independently.

An answer that calls tools is written by several generations, each continuing the last: the
calls are `app.chat.tool_steps`'. Knows no widget.
"""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.activity import (
    Activity,
    AwaitingModel,
    AwaitingPerson,
    AwaitingTurn,
    RunningTool,
    Stopping,
)
from app.chat.tool_runner import ToolRunner
from app.chat.tool_steps import ToolSteps
from app.chat.writing import Writing
from app.conversations.records import Message, MessageState
from app.conversations.store import Store
from app.engine_client.engine_process import EngineProcess, EngineState
from app.steps import Stepper, Steps
from engine.events import Done, Event, Failed
from engine.process.protocol import Loaded, Loading
from engine.request import ChatMessage, Request
from engine.tools.calling import Calling
from engine.tools.steps import must_answer
from engine.tools.turn import Decision, Permissions, tools_json
from models.errors import Problem

_FLUSH_MS = 1000


class Answers(QObject):
    """All answers that are being written.

    Signals:
        begun(Writing): it is stored, and the engine is asked now or later.
        happened(Writing, EventOrRound): it has a new event or round.
        activity_changed(Writing): its activity changed or ended.
        stepped(Writing): a call began, went on or ended, or waits for the user.
        asked(Writing): its step ended with calls, and some wait for the user.
        permitted(int, Permissions): what the user allows tools in this conversation.
        finished(Writing): its last event has come.
        saved(Message): its end is stored.
        unsaved(Problem): it could not be saved; this will be tried again. Sent once, until
            `saving_again`.
        saving_again(): answers can be saved again.
    """

    begun = Signal(Writing)
    happened = Signal(Writing, object)
    activity_changed = Signal(Writing)
    stepped = Signal(Writing)
    asked = Signal(Writing)
    permitted = Signal(int, Permissions)
    finished = Signal(Writing)
    saved = Signal(Message)
    unsaved = Signal(Problem)
    saving_again = Signal()

    def __init__(
        self,
        store: Store,
        engine: EngineProcess,
        *,
        tools: ToolRunner | None = None,
        target: Callable[[], Path | None] = lambda: None,
        parent: QObject | None = None,
    ) -> None:
        """`tools` runs what models call; `target` returns the folder of the loaded model."""
        super().__init__(parent)
        self._store, self._engine = store, engine
        self._tool_steps = ToolSteps(tools or ToolRunner(self), target=target, parent=self)
        self._tool_steps.changed.connect(self._on_calls_changed)
        self._tool_steps.progressed.connect(self._on_calls_progressed)
        self._tool_steps.permitted.connect(self._on_permitted)
        self._tool_steps.done.connect(self._on_calls_done)
        self._stepper = Stepper(self)
        self._writings: dict[int, Writing] = {}  # by message, in the order of the requests
        self._waiting: dict[int, tuple[tuple[ChatMessage, ...], Request]] = {}  # for `release`
        self._permitted: dict[int, Permissions] = {}  # by conversation: newer than its record
        self._held = False
        self._calibrated = 0.0
        self._closing = False
        self._over = False
        self._unsaved = False
        self._timer = QTimer(self, interval=_FLUSH_MS)
        self._timer.timeout.connect(self.flush)
        engine.happened.connect(self._hear)
        engine.loading.connect(self._on_loading)
        engine.loaded.connect(self._on_loading)
        engine.state_changed.connect(self._review_all)

    @property
    def pictures(self) -> Path:
        """The folder of the pictures that messages show."""
        return self._store.attachments

    def writing(self, message: int) -> Writing | None:
        """Return the answer with this message id, or None if it is saved."""
        return self._writings.get(message)

    @property
    def busy(self) -> bool:
        """Whether an answer has not ended yet."""
        return bool(self.unfinished)

    @property
    def unfinished(self) -> tuple[Writing, ...]:
        """The answers that have not ended, in the order of the requests."""
        return tuple(writing for writing in self._writings.values() if writing.state == "streaming")

    @property
    def conversations(self) -> set[int]:
        """The conversations with answers whose end is not saved yet."""
        return {writing.message.conversation for writing in self._writings.values()}

    def activities(self) -> dict[int, Activity]:
        """The activity of each conversation: of its first answer that has not ended."""
        activities: dict[int, Activity] = {}
        for writing in self.unfinished:
            if writing.activity is not None:
                activities.setdefault(writing.message.conversation, writing.activity)
        return activities

    def start(
        self,
        message: Message,
        lines: Sequence[ChatMessage],
        request: Request,
        *,
        title: str = "",
        permissions: Permissions,
        continued: Sequence[ChatMessage] = (),
        before: Sequence[Event] = (),
    ) -> None:
        """Have the engine write the answer `message`, which the store has begun.

        `lines` are the chat; `title` and `permissions` are the conversation's, as they were read.
        `continued` are the messages of the answer that this one continues, and `before` is its
        trace. Calls without a decision of the user are asked about again.
        """
        question = lines[-1].content[lines[-1].attached :] if lines else ""
        permissions = self._permitted.get(message.conversation, permissions)
        writing = Writing(
            message,
            before=before,
            title=title,
            calling=self._tool_steps.calling(permissions, question=question, steps=message.steps),
            chat=lines,
            request=request,
        )
        self._writings[message.id] = writing
        self._timer.start()
        waits = writing.calling.take_up(len(writing.text))
        if not waits:
            self._ask_or_wait(writing, (*lines, *continued), request)
        self._review(writing)
        self.begun.emit(writing)
        if waits:
            self._on_calls_changed(writing.calling)

    def cancel(self, message: int) -> None:
        """Stop an answer. Does nothing if it has ended."""
        writing = self._writings.get(message)
        if writing is None or writing.state != "streaming":
            return
        if self._waiting.pop(message, None) is not None:
            self._end(writing, "cancelled")
            return
        self._engine.cancel(writing.generation)
        if writing.begun and writing.generation:
            writing.stopping = True
            self._review(writing)
        else:  # it has no text yet, and the engine may be busy with others for minutes
            self._end(writing, "cancelled")

    def answer_now(self, message: int) -> None:
        """End the reasoning of an answer. Does nothing if it does not reason."""
        if (writing := self._writings.get(message)) is not None:
            self._engine.hurry(writing.generation)

    def offered(self, permissions: Permissions) -> str:
        """Return the tools as the model gets them, where this is allowed; empty for none."""
        return tools_json(self._tool_steps.allowed(permissions))

    def decide(self, message: int, call: str, decision: Decision, arguments: str = "") -> None:
        """Take the user's decision on a call that waits for it; `arguments` as they left them."""
        if (writing := self._writings.get(message)) is not None:
            self._tool_steps.decide(writing.calling, call, decision, arguments)

    def permit(self, conversation: int, permissions: Permissions) -> Future[None]:
        """Set what the user allows tools in a conversation, from the next call on. The future is
        done when that is stored."""
        self._permitted[conversation] = permissions
        for writing in self.unfinished:
            if writing.message.conversation == conversation:
                trusted = writing.calling.permissions.trusted
                writing.calling.permissions = replace(permissions, trusted=trusted)
        self.permitted.emit(conversation, permissions)
        return self._store.permit(conversation, permissions)

    def cancel_in(self, conversations: Collection[int]) -> None:
        """Stop the answers in these conversations."""
        for writing in self.unfinished:
            if writing.message.conversation in conversations:
                self.cancel(writing.message.id)

    def hold(self) -> None:
        """Send the engine nothing until `release`: it has no model yet."""
        self._held = True

    def release(self) -> None:
        """Send the engine everything that was held back."""
        self._held = False
        waiting, self._waiting = self._waiting, {}
        for message, (lines, request) in waiting.items():
            self._ask(self._writings[message], lines, request)
        self._review_all()

    def refuse(self, problem: Problem) -> None:
        """Fail the answers that were held back: there will be no model."""
        waiting, self._waiting = self._waiting, {}
        for message in waiting:
            writing = self._writings[message]
            self._take(writing, Failed("", problem.message, problem.remedy))

    def close(self) -> None:
        """End all answers as interrupted. Call this before the engine stops."""
        self._closing = True

    def save(self) -> None:
        """Save the end of every answer. Call this after the engine has stopped and before the store
        closes."""
        self._timer.stop()
        self._over = True
        self._tool_steps.close()
        for writing in self._writings.values():
            if writing.state == "streaming":
                writing.state = "interrupted"
            self._finish(writing)

    def flush(self) -> None:
        """Save the new text of each answer."""
        if self._over:
            return
        for writing in tuple(self._writings.values()):
            if not writing.saving and (
                writing.state != "streaming"
                or writing.saved < len(writing.events)
                or writing.saved_steps != writing.steps
            ):
                writing.saving = True
                self._stepper.run(self._save(writing), failed=lambda problem: None)

    def _ask_or_wait(
        self, writing: Writing, lines: tuple[ChatMessage, ...], request: Request
    ) -> None:
        if self._held:
            writing.progress = None
            self._waiting[writing.message.id] = (lines, request)
        else:
            self._ask(writing, lines, request)

    def _ask(self, writing: Writing, lines: tuple[ChatMessage, ...], request: Request) -> None:
        request = replace(request, may_call=not must_answer(writing.steps))
        writing.generation = self._engine.generate(
            str(writing.message.conversation),
            lines,
            request,
            tools=tools_json(writing.calling.tools),
        )

    def _hear(self, event: Event) -> None:
        for writing in self._writings.values():
            if writing.generation == event.generation and writing.state == "streaming":
                self._take(writing, event)
                return

    def _take(self, writing: Writing, event: Event) -> None:
        before = writing.progress
        self.happened.emit(writing, writing.push(event))
        if writing.progress is not before:
            self._review(writing)
        if writing.state != "streaming":
            self._end(writing, "interrupted" if self._closing else writing.state)
        elif isinstance(event, Done) and (self._closing or writing.stopping):
            self._end(writing, "interrupted" if self._closing else "cancelled")
        elif isinstance(event, Done):
            writing.generation = ""
            self._on_calls_changed(writing.calling)
            if writing.calling.asked:
                self.asked.emit(writing)

    # Calls of tools

    def _on_calls_changed(self, calling: Calling) -> None:
        if (writing := self._writing_with(calling)) is not None:
            self._on_calls_progressed(calling)
            self._stepper.run(self._keep_calls(writing), failed=lambda problem: None)

    def _on_calls_progressed(self, calling: Calling) -> None:
        if (writing := self._writing_with(calling)) is not None:
            self._review(writing)
            self.stepped.emit(writing)

    def _flush(self, writing: Writing) -> Future[None]:
        written = writing.message.id, writing.text, tuple(writing.events)
        return self._store.flush_answer(*written, steps=writing.steps)

    def _finish(self, writing: Writing) -> Future[Message]:
        written = writing.message.id, writing.text, tuple(writing.events)
        return self._store.finish_answer(*written, state=writing.state, steps=writing.steps)

    def _keep_calls(self, writing: Writing) -> Steps:
        """Store the calls as they are, and only then run them."""
        steps = writing.steps
        try:
            yield self._flush(writing)
            writing.saved_steps = steps
        except Problem as problem:
            self._cannot_save(problem)
        if writing.state == "streaming" and not self._over:
            self._tool_steps.go_on(writing.calling)

    def _on_calls_done(self, calling: Calling) -> None:
        """Ask for the next step."""
        writing = self._writing_with(calling)
        if writing is None or writing.generation or writing.message.id in self._waiting:
            return
        writing.progress = None
        self._ask_or_wait(writing, writing.so_far, writing.request)
        self._review(writing)

    def _on_permitted(self, calling: Calling) -> None:
        if (writing := self._writing_with(calling)) is not None:
            permissions = replace(calling.permissions, trusted=frozenset())
            stored = self.permit(writing.message.conversation, permissions)
            self._stepper.run(self._until_stored(stored), failed=self._cannot_save)

    def _until_stored(self, stored: Future[None]) -> Steps:
        yield stored

    def _writing_with(self, calling: Calling) -> Writing | None:
        """Return the answer with these calls, unless it has ended."""
        return next((writing for writing in self.unfinished if writing.calling is calling), None)

    def _end(self, writing: Writing, state: MessageState) -> None:
        self._tool_steps.stop(writing.calling)
        writing.state = state
        self._review(writing)
        self.finished.emit(writing)
        if not writing.saving:
            writing.saving = True
            self._stepper.run(self._save(writing), failed=lambda problem: None)

    def _on_loading(self, happening: Loading | Loaded) -> None:
        self._calibrated = happening.measured if isinstance(happening, Loading) else 0.0
        self._review_all()

    def _review_all(self) -> None:
        for writing in tuple(self._writings.values()):
            self._review(writing)

    def _review(self, writing: Writing) -> None:
        """Update the activity of an answer, and send `activity_changed` if it is another."""
        activity = self._find_activity(writing) if writing.state == "streaming" else None
        if activity != writing.activity:
            writing.activity = activity
            self.activity_changed.emit(writing)

    def _find_activity(self, writing: Writing) -> Activity:
        if writing.stopping:
            return Stopping()
        if asked := writing.calling.asked:
            return AwaitingPerson(asked[0].name)
        if running := writing.calling.running:
            return RunningTool(running[0].name)
        if writing.progress is not None and writing.begun:
            return writing.progress
        if writing.message.id in self._waiting or self._engine.state is not EngineState.LOADED:
            return AwaitingModel(self._calibrated)
        return writing.progress or AwaitingTurn()

    def _save(self, writing: Writing) -> Steps:
        """Save the answer so far, and its end if it has ended; then again, if more came
        meanwhile."""
        count, steps = len(writing.events), writing.steps
        try:
            if writing.state == "streaming":
                yield self._flush(writing)
            else:
                ended = yield self._finish(writing)
                self._forget(writing)
                self.saved.emit(ended)
        except Problem as problem:
            writing.saving = False
            self._cannot_save(problem)
            return
        writing.saved, writing.saved_steps, writing.saving = count, steps, False
        self._can_save()
        if writing.message.id in self._writings and writing.state != "streaming":
            self.flush()  # it ended meanwhile

    def _cannot_save(self, problem: Problem) -> None:
        if not self._unsaved:
            self._unsaved = True
            self.unsaved.emit(problem)

    def _can_save(self) -> None:
        if self._unsaved:
            self._unsaved = False
            self.saving_again.emit()

    def _forget(self, writing: Writing) -> None:
        del self._writings[writing.message.id]
        if not self._writings:
            self._timer.stop()
