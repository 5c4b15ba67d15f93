"""Controls the composer: the unsent text of the open conversation, a message that is being edited,
and messages that wait for the end of an answer; and how much of the context is used.

Stores a text before it is replaced, and gives back a text that could not be sent. Knows the open
conversation and the composer; not how a message is answered.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.chat.answers import Answers
from app.chat.composer import Composer
from app.chat.conversation import OpenConversation, ended_well
from app.chat.tool_runner import ToolRunner
from app.chat.writing import Writing
from app.conversations.records import Message
from app.conversations.store import Store
from app.documents.attachments import Read
from app.documents.controller import DocumentsController
from app.documents.planner import Noting
from app.engine_client.engine_process import EngineProcess
from app.engine_client.token_counter import AROUND_A_MESSAGE, TokenCounter
from app.notices import Notices, Offer
from app.settings import Settings, WindowSettings
from engine.conversation.rounds import EventOrRound, Round
from engine.documents.prompt import Sent
from engine.process.protocol import Loaded
from engine.request import Thinking
from models.errors import Problem

_KEEP_MS = 600
_GLANCE_MS = 200  # between two looks at whether an answer still reasons
_EDITS = {
    "user": "Sending writes another version of your message. The earlier one is kept.",
    "assistant": "Sending keeps this as another version of the answer, marked as edited by you. "
    "The model’s own version is kept.",
}
_WAITS = {
    "complete": "Not sent yet:",
    "length": "Not sent yet:",
    "cancelled": "Not sent, as the answer was stopped:",
    "failed": "Not sent, as the answer failed:",
    "interrupted": "Not sent, as the answer was interrupted:",
}


class ComposerController(QObject):
    """Attributes: `editing`, the id of the message that is being edited, 0 for none; `tokens`, the
    counter; `documents`, the controller of attached documents."""

    def __init__(
        self,
        composer: Composer,
        conversation: OpenConversation,
        answers: Answers,
        *,
        store: Store,
        notices: Notices,
        settings: WindowSettings,
        shared: Settings,
        engine: EngineProcess,
        loaded: Callable[[], Loaded | None],
        read: Read,
        tools: ToolRunner,
    ) -> None:
        """`settings` keep the text of a conversation without messages; `shared` are the settings of
        all windows. `loaded` returns the loaded pair, if any. `read` reads attached files. `tools`
        says which tools there are."""
        super().__init__(composer)
        self.editing = 0
        self._new = True  # whether the text belongs to a new conversation
        self.tokens = TokenCounter(self)
        self.documents = DocumentsController(
            composer,
            conversation,
            answers,
            store,
            read=read,
            settings=shared,
            tokens=self.tokens,
            engine=engine,
        )
        self._composer, self._conversation, self._answers = composer, conversation, answers
        self._notices, self._settings, self._loaded = notices, settings, loaded
        self._shared, self._tools = shared, tools
        self._soon = QTimer(self, singleShot=True, interval=_KEEP_MS)
        self._soon.timeout.connect(self._keep)
        composer.sent.connect(self._send)
        composer.to_queue.connect(self._queue)
        composer.queued.edit_asked.connect(self._edit_queued)
        composer.queued.removal_asked.connect(self._take_from_queue)
        composer.queued.sending_asked.connect(self._send_queued)
        composer.sent_by_section.connect(self._send_by_section)
        composer.stopped.connect(conversation.stop)
        composer.answer_now_asked.connect(conversation.answer_now)
        composer.thinking.chosen.connect(self._think)
        composer.tools.permitted.connect(conversation.permit)
        tools.changed.connect(self._show_tools)
        self._glance = QTimer(self, interval=_GLANCE_MS)
        self._glance.timeout.connect(self._look_at_reasoning)
        composer.changed.connect(lambda text: self._soon.start())
        composer.field.textChanged.connect(self.count)
        self.documents.changed.connect(self.count)
        self.documents.attachments.changed.connect(self._show_queue)
        conversation.opened.connect(self._show_unsent)
        conversation.changed.connect(self._on_changed)
        conversation.noted.connect(self.count)
        conversation.described.connect(self._on_described)
        conversation.refused.connect(self._give_back)
        answers.begun.connect(self._on_changed)
        answers.happened.connect(self._on_happened)
        answers.finished.connect(self._show_answering)
        answers.saved.connect(self._on_saved)
        conversation.failed.connect(self._show_queue)
        self.tokens.counted.connect(self._on_counted)
        self._show_unsent()
        if (already := loaded()) is not None:
            self.use(already)

    def use(self, loaded: Loaded) -> None:
        """Count tokens and plan documents for this model, and offer its choices of thinking."""
        self.tokens.use(Path(loaded.target))
        self.documents.use(loaded)
        self._show_thinking()

    def edit(self, message: int) -> None:
        """Put a message into the composer, to send another version of it."""
        found = self._conversation.message(message)
        if found is None or found.role == "system":
            return
        busy = self._conversation.busy or found.state == "streaming"  # its end is not stored yet
        if found.role == "assistant" and busy:
            self._conversation.remarked.emit("An answer is being written. Stop it, then edit.")
            return
        if not self.editing:
            self._keep()
        self.editing = message
        self._show_queue()
        self.documents.edit(found)
        self._composer.field.set_for_answer(found.role == "assistant")
        self.compose(found.spelled)
        self._notices.say(
            "edit",
            _EDITS[found.role],
            offer=Offer("Cancel", self.end_edit),
            lasting=True,
        )

    def end_edit(self) -> None:
        """Stop editing. The message stays as it is."""
        self.editing = 0
        self._notices.take_back("edit")
        self.documents.edit(None)
        self._show_unsent()

    def compose(self, text: str) -> None:
        """Put a text into the composer, to be sent or changed."""
        self._composer.set_text(text)
        self._composer.setFocus()

    def leave(self) -> None:
        """Store the unsent text, before another conversation opens or the window closes."""
        if self.editing:
            self.end_edit()
        self._keep()

    def count(self) -> None:
        """Count the tokens of the conversation, without the reasoning of its answers, which most
        templates leave out. The composer shows the result when it is known."""
        system_prompt, _ = self._conversation.configured
        branch = self._conversation.branch
        said = (one.content for each in branch for one in each.as_chat)
        texts = (system_prompt, self._answers.offered(self._conversation.permissions), *said)
        writing = self._answers.writing(branch[-1].id) if branch else None
        self.tokens.count(
            (*texts, *self.documents.texts, self._composer.text),
            written=self.documents.picture_tokens + (writing.tokens if writing is not None else 0),
        )

    def _send(self, text: str) -> None:
        self._soon.stop()
        if self.editing:
            message, self.editing = self.editing, 0
            found = self._conversation.message(message)
            self._notices.take_back("edit")
            self.documents.edit(None)
            if found is None or found.role == "user":
                self._conversation.edit(message, text)
            elif text != found.spelled:
                self._conversation.edit_answer(message, text)
            self._show_unsent()
        else:
            self._say(text, self.documents.sent(text))

    def _send_by_section(self, text: str) -> None:
        self._soon.stop()
        self._say(text, self.documents.noting(text))

    def _say(self, text: str, sent: Future[Sent] | Future[Noting] | None) -> None:
        self._settings.unsent = ""
        if sent is not None:  # this takes a moment, in which the text must not be lost
            self._conversation.keep_unsent(text)
        self._conversation.say(text, sent=sent)

    def _keep(self) -> None:
        self._soon.stop()
        if self.editing:
            return
        if self._conversation.sending and not self._composer.text:
            return  # the text that is being sent is kept until it is stored
        if self._conversation.record is None:
            self._settings.unsent = self._composer.text
        else:
            self._conversation.keep_unsent(self._composer.text)

    def _show_unsent(self) -> None:
        record = self._conversation.record
        self._new = record is None
        self._composer.field.set_for_answer(False)
        self._show_queue()
        self._show_thinking()
        self._show_tools()
        self._composer.set_text(self._settings.unsent if record is None else record.unsent)

    def _give_back(self, text: str, problem: Problem) -> None:
        """Put a text that could not be stored back into the composer."""
        self._composer.set_text("\n\n".join(filter(None, (text, self._composer.text))))

    def _think(self, thinking: Thinking) -> None:
        """Set the thinking of this conversation, and of new ones with this model."""
        self._shared.keep_thinking(self._shared.pair_target, thinking)
        self._conversation.think(thinking)
        self._show_thinking()

    def _show_thinking(self) -> None:
        loaded = self._loaded()
        choices = loaded.thinking if loaded is not None else ()
        self._composer.thinking.show_choices(choices, self._conversation.settings.thinking)

    def _show_tools(self) -> None:
        permissions = replace(self._conversation.permissions, trusted=self._tools.trusted())
        self._composer.tools.show_tools(
            self._tools.offered(), permissions, set_up=self._tools.set_up
        )
        self.count()

    def _look_at_reasoning(self) -> None:
        writing = self._conversation.writing
        self._composer.set_reasoning(writing is not None and writing.reasons)

    def _on_described(self) -> None:
        """A new conversation was stored: its unsent text is now stored with it."""
        self._show_queue()
        self._show_thinking()
        self._show_tools()
        if self._new and self._conversation.record is not None:
            self._new = False
            self._settings.unsent = ""
            self._keep()

    def _show_answering(self) -> None:
        answering = self._conversation.writing is not None
        self._composer.set_answering(answering)
        if answering:
            self._glance.start()
        else:
            self._glance.stop()
        self._look_at_reasoning()
        self._show_queue()

    # The queue

    @property
    def _queued(self) -> tuple[str, ...]:
        record = self._conversation.record
        return () if record is None else record.queued

    def _queue(self, text: str) -> None:
        """Have a message wait for the end of the answer."""
        self._conversation.set_queued((*self._queued, text))

    def _take_from_queue(self, place: int) -> str:
        """Return the message at this place of the queue, after removing it."""
        queued = list(self._queued)
        text = queued.pop(place)
        self._conversation.set_queued(queued)
        return text

    def _edit_queued(self, place: int) -> None:
        """Put a queued message into the composer, before the text that is there."""
        if self.editing:
            self.end_edit()
        text = self._take_from_queue(place)
        self.compose("\n\n".join(filter(None, (text, self._composer.text))))

    def _send_queued(self) -> None:
        """Send the first queued message. What is attached belongs to the message in the field."""
        if self._queued and not self._conversation.busy:
            text = self._queued[0]
            sent = self.documents.sent(text, attached=False)
            self._conversation.say(text, queued=True, sent=sent)

    def _on_saved(self, message: Message) -> None:
        """Send the next message after an answer that ended well; otherwise a person decides."""
        self.count()
        branch = self._conversation.branch
        if branch and branch[-1].id == message.id and ended_well(message):
            self._send_queued()
        self._show_queue()

    def _show_queue(self) -> None:
        conversation, branch = self._conversation, self._conversation.branch
        self._composer.queues = not self.editing and not self.documents.attachments.all
        state = branch[-1].state if branch else "complete"
        if conversation.busy or state == "streaming":
            reason = "Sent when the answer ends:"
        else:
            reason = _WAITS[state]
        self._composer.queued.show_queue(self._queued, reason, sends=not conversation.busy)

    def _on_changed(self) -> None:
        self.count()
        self._show_answering()

    def _on_happened(self, writing: Writing, happening: EventOrRound) -> None:
        if isinstance(happening, Round) and happening.verdict is not None:
            self.count()

    def _on_counted(self, tokens: int) -> None:
        loaded = self._loaded()
        limit = loaded.context_length if loaded else None
        leaves_out = self._conversation.settings.overflow != "stop"
        count, text, excess = self.tokens.counting, self._composer.text, 0
        if limit is not None and count is not None and text.strip():
            system_prompt, _ = self._conversation.configured
            kept = (system_prompt, *self.documents.texts, text)  # never left out
            least = sum(count(each) + AROUND_A_MESSAGE for each in kept if each)
            excess = max(0, (least if leaves_out else tokens) - limit)
        attachable = count is not None and 0 < excess < count(text)
        self._composer.set_excess(excess, attachable=attachable)
        self._composer.set_tokens(tokens, limit, leaves_out=leaves_out)
