"""The open conversation: its branch, and the commands on it.

Every change is stored before it is shown; a text that cannot be stored is given back. Knows the
store and the answers; no widget, and not how the engine gets a model.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.chat.answers import Answers
from app.chat.listing import Listing
from app.chat.writing import Writing
from app.conversations.records import Conversation, DeletedMessages, Message, chat_of
from app.conversations.store import Store, is_temporary
from app.steps import Stepper, Steps, in_steps, in_thread
from engine.documents.prompt import Sent
from engine.events import Done, Event, Failed, Text
from engine.request import ChatMessage, Request, Thinking
from engine.stretches import cut
from engine.tools.steps import StepCall, messages_of
from engine.tools.turn import Permissions
from models.errors import Problem

DEFAULTS = Request(sampling=None, max_tokens=1024, overflow="middle")
"""Settings of a conversation without its own: sampling as the model's makers recommend.

When the context is full, the middle is left out: the first turn usually states the task and is
still in the cache, and the latest turns matter most for the next answer.
"""

_SAME_WORDS = (
    "The preset “Exact (greedy)” always gives the same answer. Choose another preset to vary it."
)
_GONE_ON = ("length", "cancelled", "interrupted", "failed")
_CHOSEN = "unsent", "queued", "permissions"  # of a record, which no list knows at once


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is given, to which it is bound. A new `conversation`, None, is known by its
    `visit`. `message` is the message that gets another version, 0 for none."""

    visit: int
    conversation: int | None
    message: int = 0


class OpenConversation(QObject):
    """Attributes: `record`, None while it is new and empty; `branch`, the messages shown; `sends`,
    the texts that are on their way to the store, by place; `beginning`, which returns the system
    prompt and settings of new conversations; `asked_for`, the number of conversations that were to
    be shown so far.

    Steps that wait read nothing that is shown: they are given it, and a `Place`.

    Signals:
        opened(): another conversation is open; `changed` follows with its branch.
        reached(int, str): the branch has the message that was looked for; with the words of the
            search, if any.
        changed(int): the branch changed; this many messages at its beginning are the same.
        described(): the record changed: its title, its settings or its queue.
        refused(str, Problem, Place): a text could not be stored. Give it back there.
        hid(int, int): the number of messages after an earlier version that are no longer shown,
            and the id of the last of them.
        failed(Problem): another command failed; nothing was changed.
        remarked(str): a remark on the last command.
        edits(int): another version of this message is being written; 0 for none.
        deleted(DeletedMessages): messages were deleted. A window offers to undo it.
    """

    opened = Signal()
    reached = Signal(int, str)
    changed = Signal(int)
    described = Signal()
    refused = Signal(str, Problem, Place)
    hid = Signal(int, int)
    failed = Signal(Problem)
    remarked = Signal(str)
    edits = Signal(int)
    deleted = Signal(DeletedMessages)

    def __init__(
        self,
        store: Store,
        answers: Answers,
        listing: Listing,
        *,
        names: Callable[[], tuple[str, str]],
        beginning: Callable[[], tuple[str, Request | None]] = lambda: ("", None),
        parent: QObject | None = None,
    ) -> None:
        """`names` returns the current target and drafter as text; `beginning`, the system prompt
        and settings of new conversations."""
        super().__init__(parent)
        self.record: Conversation | None = None
        self.branch: tuple[Message, ...] = ()
        self._store, self._answers, self._listing = store, answers, listing
        self._names, self.beginning = names, beginning
        self._stepper = Stepper(self)
        self.sends: dict[Place, str] = {}
        self._made: Future[Any] | None = None  # of the new conversation: its record is the first
        self._visit = 0  # number of conversations shown so far
        self.asked_for = 0
        self._coming: int | None = None  # to be opened soon
        answers.begun.connect(self._on_begun)
        answers.saved.connect(self._on_saved)
        answers.permitted.connect(self._on_permitted)
        listing.changed.connect(self._on_listed)

    @property
    def shown(self) -> int | None:
        """The id of the conversation that is shown, or about to be; None for a new conversation."""
        return self._coming or (self.record.id if self.record else None)

    @property
    def opening(self) -> bool:
        """Whether another conversation is about to be shown."""
        return self._coming is not None

    @property
    def writing(self) -> Writing | None:
        """The answer at the end of the branch, while it is written."""
        last = self._answers.writing(self.branch[-1].id) if self.branch else None
        return last if last is not None and last.state == "streaming" else None

    @property
    def place(self) -> Place:
        """Where a command is given now."""
        return Place(self._visit, self.record.id if self.record else None)

    def is_here(self, place: Place) -> bool:
        """Return whether this place is shown."""
        here, there = self.place.conversation, place.conversation
        return place.visit == self._visit or (here is not None and here == there)

    @property
    def on_its_way(self) -> str | None:
        """The text that is being sent here; None if nothing is."""
        return next((text for at, text in self.sends.items() if self.is_here(at)), None)

    @property
    def busy(self) -> bool:
        """Whether a message is being stored or answered, so that no other can be sent."""
        return self.on_its_way is not None or self.writing is not None

    def message(self, id: int) -> Message | None:
        """Return the message with this id, or None if it is not on the branch."""
        return next((message for message in self.branch if message.id == id), None)

    def sent(self, message: int, place: int) -> tuple[Sent, int] | None:
        """Return the sent part of a message, and the number of its document at this place."""
        found = self.message(message)
        sent = None if found is None else found.sent
        return None if sent is None else (sent, sent.documents[place].number)

    def call(self, message: int, place: int) -> StepCall | None:
        """Return the call at this place of an answer, as it is now."""
        found, writing = self.message(message), self._answers.writing(message)
        steps = writing.steps if writing is not None else found.steps if found is not None else ()
        calls = [call for step in steps for call in step.calls]
        return calls[place] if place < len(calls) else None

    @property
    def configured(self) -> tuple[str, Request | None]:
        """The system prompt, and the settings; None for the defaults."""
        if self.record is None:
            return self.beginning()
        return self.record.system_prompt, self.record.settings

    @property
    def temporary(self) -> bool:
        """Whether it is only in memory."""
        return self.record is not None and is_temporary(self.record.id)

    @property
    def settings(self) -> Request:
        """The settings of its answers."""
        _, settings = self.configured
        return replace(settings or DEFAULTS, private=self.temporary)

    def asked(self, text: str) -> tuple[ChatMessage, ...]:
        """Return the chat with one more message, as the model gets it. Without a text: up to the
        last question."""
        if text.strip():
            system_prompt, _ = self.configured
            lines = _lines(system_prompt, self.branch, self._answers.pictures)
            return (*lines, ChatMessage("user", text))
        said = [message.id for message in self.branch if message.role == "user"]
        return self._lines(until=said[-1]) if said else ()

    def asked_by(self, answer: int) -> tuple[ChatMessage, ...]:
        """Return the chat up to the question of an answer; empty if it is not in the branch."""
        parents = [message.parent for message in self.branch if message.id == answer]
        return self._lines(until=parents[0]) if parents and parents[0] is not None else ()

    # Which conversation

    def new(self) -> None:
        """Show an empty conversation. Its first message stores it."""
        self.asked_for += 1
        self.record, self._coming = None, None
        self._show_all(())

    def open(self, conversation: int, *, at: int | None = None, words: str = "") -> None:
        """Show another conversation, on the branch with the message `at`; then `reached` is sent.

        `words` are the hits of a search in that message.
        """
        self.asked_for += 1
        self._coming, asked, before = conversation, self.asked_for, self.record

        def steps() -> Steps:
            record, branch = yield self._store.shown(conversation, at=at)
            if asked == self.asked_for:
                self.record, self._coming = self._as_known(record, before), None
                self._show_all(branch)
                if at is not None:
                    self.reached.emit(at, words)

        def give_up(problem: Problem) -> None:
            if asked == self.asked_for:
                self._coming = None
            self.failed.emit(problem)

        self._stepper.run(steps(), failed=give_up)

    @in_steps
    def configure(
        self, *, system_prompt: str, settings: Request | None, place: Place | None = None
    ) -> Steps:
        """Set how messages are answered from now on, at this `place` if it was chosen earlier."""
        if place is not None and not self.is_here(place):
            if (conversation := place.conversation) is None:
                return
        else:
            conversation = yield from self.stored()
        yield self._store.configure(conversation, system_prompt=system_prompt, settings=settings)
        yield from self._read_again(conversation)

    @in_steps
    def think(self, thinking: Thinking) -> Steps:
        """Set whether and how much the model thinks before it answers, from the next answer on."""
        if self.record is not None:
            conversation, change = self.record.id, partial(with_thinking, thinking=thinking)
            yield self._store.change_settings(conversation, change)
            yield from self._read_again(conversation)

    def _read_again(self, conversation: int) -> Steps:
        if is_temporary(conversation):  # it is in no list
            self._describe((yield self._store.conversation(conversation)))
        yield self._listing.refresh()

    @property
    def permissions(self) -> Permissions:
        """What the user allows tools in it."""
        return self.record.permissions if self.record is not None else Permissions()

    @in_steps
    def permit(self, permissions: Permissions) -> Steps:
        """Set what the user allows tools in it, from the next call on."""
        yield self._answers.permit((yield from self.stored()), permissions)

    @property
    def queued(self) -> tuple[str, ...]:
        """The messages that wait for the end of an answer, without the message that is being
        sent."""
        waiting = self.record.queued if self.record is not None else ()
        return waiting[1:] if waiting[:1] == (self.on_its_way,) else waiting

    @in_steps
    def set_queued(self, texts: Sequence[str]) -> Steps:
        """Store the messages that wait for the end of an answer. If that fails, new ones are
        refused."""
        record, place, count = self.record, self.place, len(self.queued)
        if record is None:
            return
        texts = tuple(texts)
        sending = record.queued[: len(record.queued) - count]
        self.record = replace(record, queued=(*sending, *texts))
        self.described.emit()
        try:
            yield self._store.keep_queued(record.id, texts, instead_of=count)
        except Problem as problem:
            stored: Conversation = yield self._store.conversation(record.id)
            if self.is_here(place) and self.record is not None:
                self.record = replace(self.record, queued=stored.queued)
                self.described.emit()
            new = [text for text in texts if text not in stored.queued]
            if not new:
                raise
            self.refused.emit("\n\n".join(new), problem, place)

    # Messages and answers

    def say(self, text: str, *, queued: bool = False, sent: Future[Sent] | None = None) -> None:
        """Send a message, or the first `queued` message, and have it answered.

        `sent` gives what the model gets of it, if it has documents.
        """

        # A queued one stays in the queue until it is stored.
        steps = self._ask(self.place, text, sent, queued=queued)
        self._send(self.place, steps, text, back=not queued)

    def edit(self, message: int, text: str) -> None:
        """Send another version of a message with the same documents, and have it
        answered."""
        place = replace(self.place, message=message)
        self._send(place, self._ask(place, text, None), text, back=True)

    def edit_answer(self, message: int, text: str) -> None:
        """Store another version of an answer, marked as edited by the user."""
        place = replace(self.place, message=message)

        def steps() -> Steps:
            edited: Message = yield self._store.edit(message, text)
            branch = yield self._store.branch(edited.conversation)
            del self.sends[place]  # no answer is begun
            if self.is_here(place):
                self._show_newer(branch)

        self._send(place, steps(), text, back=True)

    @in_steps
    def delete_message(self, message: int) -> Steps:
        """Delete a message, unless an answer is being written."""
        if self.busy:
            self.remarked.emit("An answer is in progress. Stop it, then delete the message.")
            return
        place = self.place
        change: DeletedMessages = yield self._store.delete_message(message)
        yield from self._show_stored(place, change.conversation)
        self.deleted.emit(change)
        self.remarked.emit(f"{change.in_words}. To restore, choose Undo in the Edit menu.")

    def regenerate(self, message: int) -> None:
        """Write another version of an answer, or the first answer to a message."""
        record, found = self.record, self.message(message)
        if record is None or found is None or self.busy:
            return
        question = message if found.role == "user" else found.parent
        if question is None:
            return
        branch = self._branch_until(until=question)

        def steps() -> Steps:
            now: Conversation = yield self._store.conversation(record.id)
            sampling = now.settings and now.settings.sampling
            if found.role == "assistant" and now.settings and sampling:
                if sampling.greedy and found.target == self._names()[0]:
                    self.remarked.emit(_SAME_WORDS)
                sampling = replace(sampling, seed=None, repeatable=False)
                now = replace(now, settings=replace(now.settings, sampling=sampling))
            yield from self._begin(now, branch)

        self._send(self.place, steps())

    def go_on(self, message: int) -> None:
        """Continue an answer that was cut off, as another version of it."""
        record, found = self.record, self.message(message)
        if record is None or found is None or self.busy or not can_go_on(found):
            return
        if (question := found.parent) is None:
            return
        branch = self._branch_until(until=question)

        def steps() -> Steps:
            now: Conversation = yield self._store.conversation(record.id)
            trace = yield self._store.trace(message)
            before = [event for event in trace if not isinstance(event, Done | Failed)]
            said = "".join(event.delta for event in before if isinstance(event, Text))
            last = _continued(found)
            if said != found.content:  # it is imported or edited
                written = Text("", found.content, stretches=found.stretches)
                before, last = [written], found.as_chat
            # A grammar describes a whole answer, so it cannot hold for the rest of an answer.
            now = replace(now, settings=replace(now.settings or DEFAULTS, grammar=None))
            yield from self._begin(now, branch, going_on=found, continued=last, before=before)

        self._send(self.place, steps())

    @in_steps
    def switch(self, message: int, number: int) -> Steps:
        """Show version `number`, from 1, of a message."""
        place = self.place
        siblings = yield self._store.siblings(message)
        if 1 <= number <= len(siblings):
            branch = yield self._store.switch(siblings[number - 1].id)
            if self.is_here(place):
                self._show(branch)

    @in_steps
    def delete_document(self, number: int) -> Steps:
        """Delete a document for good. In all messages, a line takes its place."""
        record, place = self.record, self.place
        writing = {writing.message.conversation for writing in self._answers.unfinished}
        if record is None or self.on_its_way is not None or record.id in writing:
            self.remarked.emit("An answer is in progress. Stop it, then delete the document.")
            return
        yield self._store.delete_document(record.id, number)
        yield from self._show_stored(place, record.id)

    def stop(self) -> None:
        """Stop the answer that is being written."""
        if self.branch:
            self._answers.cancel(self.branch[-1].id)

    def answer_now(self) -> None:
        """Have the model end its reasoning, and answer."""
        if self.branch:
            self._answers.answer_now(self.branch[-1].id)

    @in_steps
    def trace[T](
        self, message: int, read: Callable[[tuple[Event, ...]], T], then: Callable[[T], None]
    ) -> Steps:
        """Call `then` with what `read` makes of an answer's events, in another thread: of those so
        far, while it is written."""
        writing = self._answers.writing(message)
        known = None if writing is None else tuple(writing.events)
        events = (yield self._store.trace(message)) if known is None else known
        then((yield in_thread(lambda: read(events))))

    # Steps and signals

    def stored(self) -> Generator[Future[Any], Any, int]:
        """Return the id of the conversation. A new conversation is stored first."""
        place = self.place
        if place.conversation is not None:
            return place.conversation
        system_prompt, settings = self.beginning()
        # Only once, even if several callers ask at the same time.
        self._made = self._making or self._store.create(
            system_prompt=system_prompt, settings=settings
        )
        made = yield self._made
        record: Conversation = made[0] if isinstance(made, tuple) else made
        if self.is_here(place) and self.record is None:
            self.record = record
            self.described.emit()
            self._listing.refresh()
        return record.id

    @property
    def _making(self) -> Future[Any] | None:
        made = self._made
        return None if made is None or (made.done() and made.exception()) else made

    def _on_listed(self) -> None:
        """Take the record from the new list: its title or settings may have changed."""
        found = self._listing.find(self.record.id) if self.record is not None else None
        if found is not None:
            self._describe(found)

    def _describe(self, found: Conversation) -> None:
        """Take a record that was read, unless another conversation is open by now."""
        record = self._as_known(found)
        if self.record is not None and found.id == self.record.id and record != self.record:
            self.record = record
            self.described.emit()

    def _as_known(self, read: Conversation, before: Conversation | None = None) -> Conversation:
        """Return a record that was read, with the newer choices here: the store may not have known
        them yet. It knew those in `before`, the record here when reading began."""
        known = self.record
        if known is None or known.id != read.id:
            return read
        chosen = {name: getattr(known, name) for name in _CHOSEN}
        if before is not None and before.id == known.id:
            chosen = {n: value for n, value in chosen.items() if value != getattr(before, n)}
        return replace(read, **chosen)

    def _show_stored(self, place: Place, conversation: int) -> Steps:
        """Show the branch as it is stored, if this place is still shown."""
        if self.is_here(place) and self._coming is None:  # otherwise it may be deleted by now
            branch = yield self._store.branch(conversation)
            if self.is_here(place):
                self._show(branch)

    def _ask(
        self,
        place: Place,
        text: str,
        sent: Future[Sent] | None,
        *,
        queued: bool = False,
    ) -> Steps:
        """Store a message in its place, and have it answered as was chosen there by now."""
        conversation, (system_prompt, settings) = place.conversation, self.configured
        if conversation is None and (self._making or sent is not None):
            conversation = yield from self.stored()
        as_of: Conversation | None = None
        made: Sent | None = None
        if sent is not None and conversation is not None:
            now = self._store.conversation(conversation)  # the store works in order
            made = yield sent
            as_of = yield now
        target, drafter = self._names()  # which will write it
        asked = self._store.ask(
            conversation,
            text,
            instead_of=place.message or None,
            queued=queued,
            as_of=as_of,
            sent=made,
            target=target,
            drafter=drafter,
            system_prompt=system_prompt,
            settings=settings,
        )
        if conversation is None:
            self._made = asked
        record, branch = yield asked
        if self.is_here(place):
            record = self._as_known(record)
            self.record = replace(record, queued=self.queued) if queued else record
            self._show_newer(branch[:-1])
            self.described.emit()
        if as_of is not None:
            record = replace(record, system_prompt=as_of.system_prompt, settings=as_of.settings)
        start_answer(self._answers, record, branch)

    def _begin(
        self,
        record: Conversation,
        branch: tuple[Message, ...],
        *,
        going_on: Message | None = None,
        continued: Sequence[ChatMessage] = (),
        before: Sequence[Event] = (),
    ) -> Steps:
        """Begin another answer to the question at the end of the branch: see `Answers.start`."""
        target, drafter = self._names()
        answer = yield self._store.begin_answer(
            branch[-1].id,
            target=target,
            drafter=drafter,
            content=going_on.content if going_on else "",
            stretches=going_on.stretches if going_on else (),
            steps=going_on.steps if going_on else (),
        )
        start_answer(self._answers, record, (*branch, answer), continued=continued, before=before)

    def _send(self, place: Place, steps: Steps, text: str = "", *, back: bool = False) -> None:
        """Run steps that send something, and meanwhile no others there. If they fail and the text
        is to go `back`, it is refused."""

        def sending() -> Steps:
            try:
                yield from steps
            finally:
                self.sends.pop(place, None)

        def fail(problem: Problem) -> None:
            if back:
                self.refused.emit(text, problem, place)
            else:
                self.failed.emit(problem)

        if self.busy:
            fail(Problem("An answer is in progress.", "Wait for it, or stop it."))
        else:
            self.sends[place] = text
            self._stepper.run(sending(), failed=fail)

    def _on_begun(self, writing: Writing) -> None:
        message = writing.message
        if self.record is None or message.conversation != self.record.id:
            return
        kept = next(
            (n + 1 for n, shown in enumerate(self.branch) if shown.id == message.parent), None
        )
        if kept is not None:
            self._show_newer((*self.branch[:kept], message))
        else:  # its question was sent from another window
            self._run(self._show_stored(self.place, message.conversation))

    def _on_saved(self, message: Message) -> None:
        self.branch = tuple(message if m.id == message.id else m for m in self.branch)

    def _on_permitted(self, conversation: int, permissions: Permissions) -> None:
        if self.record is not None and self.record.id == conversation:
            self.record = replace(self.record, permissions=permissions)
            self.described.emit()

    def _show_all(self, branch: tuple[Message, ...]) -> None:
        self.branch, self._made = branch, None
        self._visit += 1
        self.opened.emit()
        self.changed.emit(0)

    def _show(self, branch: tuple[Message, ...]) -> None:
        kept = 0
        while kept < min(len(branch), len(self.branch)) and _same(branch[kept], self.branch[kept]):
            kept += 1
        self.branch = branch
        self.changed.emit(kept)

    def _show_newer(self, branch: tuple[Message, ...]) -> None:
        """Show a branch that may have a newer version of a message, and report the messages that it
        hides."""
        ids = {message.id for message in branch}
        hidden = [message for message in self.branch if message.id not in ids]
        self._show(branch)
        # Its own answer is no more than was asked for.
        if len(hidden) > 2 or [message.role for message in hidden[1:]] == ["user"]:
            self.hid.emit(len(hidden) - 1, hidden[-1].id)

    def _lines(self, *, until: int) -> tuple[ChatMessage, ...]:
        """The chat up to a message, as the engine gets it."""
        system_prompt, _ = self.configured
        return _lines(system_prompt, self._branch_until(until=until), self._answers.pictures)

    def _branch_until(self, *, until: int) -> tuple[Message, ...]:
        """The branch up to a message."""
        count = next(n for n, message in enumerate(self.branch) if message.id == until) + 1
        return self.branch[:count]

    def _run(self, steps: Steps) -> None:
        self._stepper.run(steps, failed=self.failed.emit)


def start_answer(
    answers: Answers,
    record: Conversation,
    branch: tuple[Message, ...],
    *,
    continued: Sequence[ChatMessage] = (),
    before: Sequence[Event] = (),
) -> None:
    """Have the answer at the end of a stored branch written: see `Answers.start`."""
    *said, answer = branch
    answers.start(
        answer,
        _lines(record.system_prompt, said, answers.pictures),
        _keeping(replace(record.settings or DEFAULTS, private=is_temporary(record.id)), said),
        title=record.title,
        permissions=record.permissions,
        continued=continued,
        before=before,
    )


def ended_well(message: Message) -> bool:
    """Return whether the message is an answer after which a queued message is sent."""
    return message.role == "assistant" and message.state in ("complete", "length")


def can_go_on(message: Message) -> bool:
    """Return whether the message is an answer that was cut off, or that the user edited."""
    cut = message.state in _GONE_ON or message.edited
    return message.role == "assistant" and bool(message.content) and cut


def with_thinking(settings: Request | None, thinking: Thinking) -> Request | None:
    """Return the settings with this thinking; None for the defaults."""
    changed = replace(settings or DEFAULTS, thinking=thinking)
    return None if changed == DEFAULTS else changed


def _lines(
    system_prompt: str, branch: Sequence[Message], pictures: Path
) -> tuple[ChatMessage, ...]:
    system = [ChatMessage("system", system_prompt)] if system_prompt else []
    return (*system, *chat_of(branch, pictures))


def _continued(answer: Message) -> tuple[ChatMessage, ...]:
    """Return the messages of an answer that is to be gone on with: what the model wrote last is
    continued where it ends."""
    place = answer.steps[-1].place if answer.steps else 0
    its, _ = cut(answer.stretches, place)
    called = messages_of(answer.content[:place], its, answer.steps) if place else ()
    rest = answer.content[place:]
    return (*called, *([ChatMessage("assistant", "", written=rest)] if rest else []))


def _keeping(request: Request, branch: Sequence[Message]) -> Request:
    """Return the request, changed to cache the prompt on disk, if a document is given whole.
    Prompts with passages rarely begin alike."""
    given = [document for message in branch if message.sent for document in message.sent.documents]
    if not any(document.whole for document in given):
        return request
    return replace(request, keep_as=tuple(dict.fromkeys(d.digest for d in given if d.digest)))


def _same(one: Message, other: Message) -> bool:
    """Return whether a message looks the same, with its documents and number of versions."""
    return (one.id, one.siblings, one.place, one.sent) == (
        other.id,
        other.siblings,
        other.place,
        other.sent,
    )
