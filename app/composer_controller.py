"""Controls the composer: the unsent text of the open conversation, a message that is being edited,
and messages that wait for the end of an answer; and how much of the context is used.

Stores a text before it is replaced, and gives back a text that could not be sent. Knows the open
conversation and the composer; not how a message is answered.
"""

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.application import Application
from app.chat.composer import Composer
from app.chat.conversation import OpenConversation, Place, ended_well
from app.chat.prompts import Prompts, prompts_from_json, prompts_to_json, with_prompt
from app.chat.writing import Writing
from app.conversations.records import Message, Unsent
from app.documents.controller import DocumentsController
from app.engine_client.token_counter import AROUND_A_MESSAGE, TokenCounter
from app.notices import Notices, Offer
from app.settings import WindowSettings
from app.steps import timer
from engine.conversation.rounds import EventOrRound, Round
from engine.documents.prompt import Sent
from engine.process.protocol import Loaded
from engine.request import Thinking
from models.errors import Problem

_KEEP_MS = 600
_GLANCE_MS = 200  # between two looks at whether an answer still reasons
_EDITS = {
    "user": "Sending adds a new version. The earlier one is kept.",
    "assistant": "Sending adds a version marked as edited by you. The model’s answer is kept.",
}
_WAITS = {
    "complete": "Not sent yet:",
    "length": "Not sent yet:",
    "cancelled": "Not sent, as the answer was stopped:",
    "failed": "Not sent, as the answer failed:",
    "interrupted": "Not sent, as the answer was interrupted:",
}


class ComposerController(QObject):
    """Attributes: `tokens`, the counter; `documents`, the controller of attached documents."""

    def __init__(
        self,
        composer: Composer,
        conversation: OpenConversation,
        application: Application,
        *,
        notices: Notices,
        settings: WindowSettings,
    ) -> None:
        """`settings` keep the text of a conversation without messages."""
        super().__init__(composer)
        self._of: int | None = 0  # the conversation of the text, None for a new one; 0 at first
        self._aside = ""  # the text of the new message, while a message is edited
        self._edited: Message | None = None
        self._returned: list[tuple[str, Problem, Place]] = []  # of conversations that are not shown
        self._kept: dict[int, tuple[Unsent, Future[None]]] = {}  # of each, as given to the store
        self._composer, self._conversation = composer, conversation
        self._notices, self._settings = notices, settings
        self._answers = answers = application.answers
        self._store, self._loader = application.store, application.loader
        self._shared, self._tools = application.settings, application.tools
        self.tokens = TokenCounter(self)
        self.documents = DocumentsController(
            composer,
            conversation,
            answers,
            self._store,
            read=application.read,
            settings=self._shared,
            tokens=self.tokens,
            engine=application.engine,
        )
        self._soon = timer(self, _KEEP_MS, self._keep)
        composer.sent.connect(self._send)
        composer.to_queue.connect(self._queue)
        composer.queued.edit_asked.connect(self._edit_queued)
        composer.queued.removal_asked.connect(self._take_from_queue)
        composer.queued.sending_asked.connect(self._send_queued)
        composer.stopped.connect(conversation.stop)
        composer.answer_now_asked.connect(conversation.answer_now)
        composer.thinking.chosen.connect(self._think)
        composer.prompts.saved = lambda: prompts_from_json(self._shared.prompts)
        composer.prompts.keep = self._keep_prompts
        composer.tools.permitted.connect(conversation.permit)
        self._tools.changed.connect(self._show_tools)
        self._glance = QTimer(self, interval=_GLANCE_MS)
        self._glance.timeout.connect(self._look_at_reasoning)
        composer.changed.connect(self._on_text)
        composer.field.textChanged.connect(self.count)
        self.documents.changed.connect(self.count)
        self.documents.attachments.changed.connect(self._show_queue)
        conversation.opened.connect(self._on_opened)
        conversation.changed.connect(self._on_changed)
        conversation.described.connect(self._on_described)
        conversation.refused.connect(self._give_back)
        answers.begun.connect(self._on_changed)
        answers.happened.connect(self._on_happened)
        answers.finished.connect(self._show_answering)
        answers.saved.connect(self._on_saved)
        conversation.failed.connect(self._show_queue)
        self.tokens.counted.connect(self._on_counted)
        self._on_opened()
        if (loaded := self._loader.loaded) is not None:
            self.use(loaded)

    @property
    def editing(self) -> int:
        """The id of the message that is being edited, 0 for none."""
        return self._edited.id if self._edited is not None else 0

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
            self._conversation.remarked.emit("An answer is in progress. Stop it, then edit.")
            return
        if not self.editing:
            self._aside = self._composer.text
        self.compose(found.tagged, version_of=message)

    def end_edit(self) -> None:
        """Stop editing. The message stays as it is; to undo this brings the edit back."""
        self.compose(self._aside)

    def compose(self, text: str, version_of: int = 0) -> None:
        """Put a text into the composer, to be sent or changed; or another version of a message."""
        self._composer.field.replace_text(text, version_of)
        self._composer.setFocus()

    def save_prompt(self) -> None:
        """Save the composer’s text as a prompt."""
        if not (text := self._composer.text).strip():
            self._conversation.remarked.emit("Write a message first, then save it as a prompt.")
            return
        prompts = with_prompt(prompts_from_json(self._shared.prompts), text)
        self._keep_prompts(prompts)
        line = f"Saved as “{prompts[-1].name}”. Type / in an empty message to use it."
        self._notices.say("prompt", line, "good", seconds=8.0)

    def _keep_prompts(self, prompts: Prompts) -> None:
        self._shared.prompts = prompts_to_json(prompts)

    def leave(self) -> None:
        """Store the unsent text, before another conversation opens or the window closes."""
        self._keep()

    def count(self) -> None:
        """Count the tokens of the conversation, without the reasoning of its answers, which most
        templates leave out. The composer shows the result when it is known."""
        system_prompt, _ = self._conversation.configured
        branch = self._conversation.branch
        said = (line.content for message in branch for line in message.as_chat)
        texts = (system_prompt, self._answers.offered(self._conversation.permissions), *said)
        writing = self._answers.writing(branch[-1].id) if branch else None
        self.tokens.count(
            (*texts, *self.documents.texts, self._composer.text),
            written=self.documents.picture_tokens + (writing.tokens if writing is not None else 0),
        )

    def _send(self, text: str) -> None:
        self._soon.stop()
        if (found := self._edited) is None:
            self._say(text, self.documents.sent(text))
            return
        self._show(Unsent(self._aside))
        if found.role == "user":
            self._conversation.edit(found.id, text)
        elif text != found.tagged:
            self._conversation.edit_answer(found.id, text)
        self._keep()

    def _say(self, text: str, sent: Future[Sent] | None) -> None:
        self._settings.unsent = ""
        if sent is not None and self._of:  # this takes a moment, and the text must not be lost
            self._store.keep_unsent(self._of, text)
        self._conversation.say(text, sent=sent)

    @property
    def _unsent(self) -> Unsent:
        """The composer’s text, and the text that waits for the end of an edit."""
        text, found = self._composer.text, self._edited
        if found is None:
            return Unsent(text)
        changed = text not in ("", found.tagged)
        return Unsent(self._aside, found.id, text) if changed else Unsent(self._aside)

    def _keep(self) -> None:
        self._soon.stop()
        if self._conversation.on_its_way is not None and not self._composer.text:
            return  # the text that is being sent is kept until it is stored
        if self._of:
            unsent = self._unsent
            self._kept[self._of] = unsent, self._store.keep_unsent(self._of, unsent.stored)
        else:
            self._settings.unsent = self._unsent.text

    def _on_opened(self) -> None:
        record = self._conversation.record
        opened = record.id if record is not None else None
        if opened != self._of:
            if self._soon.isActive() and self._composer.text:
                self._keep()  # it was written while the other one was read
            self._of = opened
            unsent = Unsent.read(record.unsent if record is not None else self._settings.unsent)
            kept, stored = self._kept.pop(opened or 0, (unsent, None))
            if stored is not None and stored.exception() is not None:
                new = kept.text.startswith(unsent.text)
                unsent = kept if new else kept.joined(unsent.text)
            sent = unsent.text == self._conversation.on_its_way
            self._show(replace(unsent, text="") if sent else unsent)
            returned, self._returned = self._returned, []
            for text, problem, place in returned:
                self._give_back(text, problem, place)
        self._show_queue()
        self._show_thinking()
        self._show_tools()

    def _show(self, unsent: Unsent) -> None:
        """Show an edit, or the text of the new message."""
        if unsent.version and self._conversation.message(unsent.version_of) is None:
            unsent = Unsent(unsent.text).joined(unsent.version)  # that message is gone
        self._aside = unsent.text
        self._composer.set_text(unsent.version or unsent.text, unsent.version_of)
        self._follow_edit()

    def _on_text(self) -> None:
        self._soon.start()
        if self.editing != self._composer.field.version_of:
            self._follow_edit()

    def _follow_edit(self) -> None:
        """Show whether the text is another version of a message, as it was set or undone."""
        found = self._edited = self._conversation.message(self._composer.field.version_of)
        self.documents.edit(found)
        self._composer.field.set_for_answer(found is not None and found.role == "assistant")
        self._conversation.edits.emit(self.editing)
        self._show_queue()
        if found is None:
            self._notices.take_back("edit")
        else:
            cancel = Offer("Cancel", self.end_edit)
            self._notices.say("edit", _EDITS[found.role], offer=cancel, lasting=True)

    def _give_back(self, text: str, problem: Problem, place: Place) -> None:
        """Put a text that could not be stored back into its conversation, before the present
        text."""
        if self._conversation.is_here(place) or place.conversation is self._of is None:
            self._show(self._unsent.joined(text, place.message))
            self._soon.start()
        elif place.conversation is None:
            self._settings.unsent = Unsent(self._settings.unsent).joined(text).text
        else:
            self._returned.append((text, problem, place))

    def _think(self, thinking: Thinking) -> None:
        """Set the thinking of this conversation, and of new ones with this model."""
        self._shared.keep_thinking(self._shared.pair_target, thinking)
        self._conversation.think(thinking)
        self._show_thinking()

    def _show_thinking(self) -> None:
        loaded = self._loader.loaded
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
        record = self._conversation.record
        if self._of is None and record is not None:
            self._of, self._settings.unsent = record.id, ""
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

    def _queue(self, text: str) -> None:
        """Have a message wait for the end of the answer."""
        self._conversation.set_queued((*self._conversation.queued, text))

    def _take_from_queue(self, place: int) -> None:
        """Remove the message at this place of the queue."""
        queued = self._conversation.queued
        self._conversation.set_queued((*queued[:place], *queued[place + 1 :]))

    def _edit_queued(self, place: int) -> None:
        """Put a queued message into the composer, before the text that is there."""
        if self.editing:
            self.end_edit()
        text = self._conversation.queued[place]
        self.compose("\n\n".join(filter(None, (text, self._composer.text))))
        self._keep()  # first, so that a crash loses nothing
        self._take_from_queue(place)

    def _send_queued(self) -> None:
        """Send the first queued message. Attached documents belong to the message in the field."""
        if (queued := self._conversation.queued) and not self._conversation.busy:
            sent = self.documents.sent(queued[0], attached=False)
            self._conversation.say(queued[0], queued=True, sent=sent)
            self._show_queue()

    def send_next(self, answer: Message) -> bool:
        """Send the next message after an answer that ended well; otherwise the user decides.
        Returns False if another conversation is about to be shown."""
        branch = self._conversation.branch
        if self._conversation.opening:
            return False
        if branch and branch[-1].id == answer.id and ended_well(answer):
            self._send_queued()
        return True

    def _on_saved(self, message: Message) -> None:
        self.count()
        self.send_next(message)
        self._show_queue()

    def _show_queue(self) -> None:
        conversation, branch = self._conversation, self._conversation.branch
        self._composer.queues = not self.editing and not self.documents.attachments.all
        state = branch[-1].state if branch else "complete"
        if conversation.busy or state == "streaming":
            reason = "Sent after this answer:"
        else:
            reason = _WAITS[state]
        self._composer.queued.show_queue(conversation.queued, reason, sends=not conversation.busy)

    def _on_changed(self) -> None:
        self.count()
        self._show_answering()

    def _on_happened(self, writing: Writing, happening: EventOrRound) -> None:
        if isinstance(happening, Round) and happening.verdict is not None:
            self.count()

    def _on_counted(self, tokens: int) -> None:
        loaded = self._loader.loaded
        limit = loaded.context_length if loaded else None
        leaves_out = self._conversation.settings.overflow != "stop"
        count, text, excess = self.tokens.counting, self._composer.text, 0
        if limit is not None and count is not None and text.strip():
            system_prompt, _ = self._conversation.configured
            kept = (system_prompt, *self.documents.texts, text)  # never left out
            least = sum(count(text) + AROUND_A_MESSAGE for text in kept if text)
            excess = max(0, (least if leaves_out else tokens) - limit)
        stored = not self._conversation.temporary  # the text would be written to a file
        attachable = stored and count is not None and 0 < excess < count(text)
        self._composer.set_excess(excess, attachable=attachable)
        self._composer.set_tokens(tokens, limit, leaves_out=leaves_out)
