"""The documents of the open conversation: attached in the composer, shown above what was sent.

Joins the composer, the transcript and what is attached; decides what of a document is sent. Knows
no file: those are read elsewhere, and no prompt: that is the engine's.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox

from app import files
from app.chat.answers import Answers, Writing
from app.chat.composer import Composer
from app.chat.conversation import OpenConversation
from app.conversations.records import Message
from app.conversations.store import Store
from app.documents.attachments import Attachment, Attachments, Read
from app.documents.chips import Chip, chip_of_sent, lacks, shortened, size_in_words
from app.documents.text_dialog import TextDialog
from app.engine_client.token_counter import TokenCounter
from app.steps import in_thread
from engine.documents.prompt import Attached, Sent, write_message
from engine.events import Prefill
from engine.protocol import Loaded
from engine.rounds import EventOrRound
from models.errors import Problem
from models.in_words import one_line

_ROOM = 256  # tokens that a question and an answer need at least
_ENOUGH_ROWS = 64  # tokens: fewer tell little of how fast the prompt is read
_AS_SENT = "This is exactly what the model gets, before your words."
_DELETION = (
    "Its text is deleted from this conversation, with all that was sent of it, and so is the copy "
    "of the file; the file itself stays. A line in the message says so. Answers stay as they are. "
    "Backups keep what they have until they are thinned out."
)


class DocumentsController(QObject):
    """Attributes: `attachments`. Signals: `changed()`: other texts are to be counted; and
    `failed(Problem)`, `remarked(str)` for a line on what was asked for."""

    changed = Signal()
    failed = Signal(Problem)
    remarked = Signal(str)

    def __init__(
        self,
        composer: Composer,
        conversation: OpenConversation,
        answers: Answers,
        store: Store,
        *,
        read: Read,
        tokens: TokenCounter,
        loaded: Callable[[], Loaded | None],
    ) -> None:
        super().__init__(composer)
        self.attachments = Attachments(store, read=read, stored=conversation.stored, parent=self)
        self._composer, self._conversation = composer, conversation
        self._tokens, self._loaded = tokens, loaded
        self._edited: Message | None = None
        self._texts: dict[int, str] = {}  # by the document's number, as they would be sent
        self._seconds = 0.0  # to read a token, as it was last
        composer.attach_asked.connect(self.ask)
        composer.files_given.connect(self.attach)
        composer.documents.view_asked.connect(self._view)
        composer.documents.remove_asked.connect(self._remove)
        conversation.opened.connect(self._on_opened)
        conversation.changed.connect(self._on_changed)
        conversation.refused.connect(lambda text, problem: self.attachments.refresh())
        answers.happened.connect(self._hear)
        tokens.counted.connect(lambda count: self._show())
        self.attachments.changed.connect(self._on_attachments)
        self.attachments.attached.connect(self._on_attached)
        self.attachments.failed.connect(self.failed)
        self._on_opened()

    @property
    def texts(self) -> tuple[str, ...]:
        """What the documents add to the message that is being written."""
        return tuple(self._texts.values())

    def sent(self, question: str) -> Future[Sent] | None:
        """What the model gets of a question with what is attached; None without documents."""
        ready = self.attachments.ready
        if not ready:
            return None
        self.attachments.hide()
        return in_thread(lambda: write_message(question, [Attached(*one) for one in ready]))

    def ask(self) -> None:
        """Ask which files to attach."""
        files.ask_to_open_several(self._composer, "Attach files", self.attach)

    def ask_for_folder(self) -> None:
        """Ask for a folder whose files are to be attached."""
        files.ask_for_folder(self._composer, "Attach a folder", lambda path: self.attach([path]))

    def attach(self, paths: Sequence[Path]) -> None:
        """Attach these files and folders to the message that is being written."""
        if self._edited is None:
            self.attachments.add(paths)
        else:
            self.remarked.emit(
                "A message that is edited keeps its documents. "
                "Send it or cancel, then attach others."
            )

    def edit(self, message: Message | None) -> None:
        """A message that was sent is being edited, and keeps its documents; None for no more."""
        self._edited = message
        self._show()

    def view(self, sent: Sent, number: int) -> None:
        """Show what a message has of a document."""
        name = next(one.name for one in sent.documents if one.number == number)
        self._open(name, sent.given(number))

    def ask_to_delete(self, sent: Sent, number: int) -> None:
        """Delete a document from the conversation, if the person is sure."""
        name = next(one.name for one in sent.documents if one.number == number)
        box = QMessageBox(
            QMessageBox.Icon.NoIcon,
            "Delete document",
            f"Delete “{one_line(name)}” from this conversation?",
            parent=self._composer.window(),
        )
        box.setInformativeText(_DELETION)
        delete = box.addButton("Delete", QMessageBox.ButtonRole.DestructiveRole)
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
        delete.clicked.connect(lambda: self._conversation.delete_document(number))
        box.open()

    def close(self) -> None:
        """Cancel what is being read."""
        self.attachments.close()

    def _view(self, place: int) -> None:
        if self._edited is not None and (sent := self._edited.sent) is not None:
            self.view(sent, sent.documents[place].number)
            return
        attachment = self._attachment(place)
        if attachment is not None and attachment.number in self._texts:
            self._open(attachment.name, self._texts[attachment.number])

    def _open(self, name: str, text: str) -> None:
        dialog = TextDialog(one_line(name), text, remark=_AS_SENT, parent=self._composer.window())
        dialog.open()

    def _remove(self, place: int) -> None:
        if (attachment := self._attachment(place)) is not None:
            self.attachments.remove(attachment)
            self._composer.setFocus()

    def _attachment(self, place: int) -> Attachment | None:
        attached = self.attachments.all
        return attached[place] if place < len(attached) else None

    def _on_opened(self) -> None:
        record = self._conversation.record
        self.attachments.show(record.id if record is not None else None)

    def _on_changed(self) -> None:
        if (record := self._conversation.record) is not None:
            self.attachments.name(record.id)
            self.attachments.refresh()

    def _on_attached(self, attachment: Attachment) -> None:
        """Take it away again where the model has it whole already."""
        for message in self._conversation.branch:
            for sent in message.sent.documents if message.sent else ():
                if sent.number == attachment.number and sent.ranges and not sent.passages:
                    self.attachments.remove(attachment)
                    self.remarked.emit(
                        f"{attachment.name} is in this conversation already, whole: ask about it."
                    )
                    return

    def _on_attachments(self) -> None:
        known = self._texts
        self._texts = {
            number: known.get(number) or write_message("", [Attached(number, document)]).text
            for number, document in self.attachments.ready
        }
        self._show()
        self.changed.emit()

    def _hear(self, writing: Writing, happening: EventOrRound) -> None:
        if isinstance(happening, Prefill):
            rows = happening.processed - happening.reused
            if rows >= _ENOUGH_ROWS and happening.seconds > 0:
                self._seconds = happening.seconds / rows

    # What is shown of them

    def _show(self) -> None:
        """Show the chips, and why nothing can be sent with them, if anything."""
        if self._edited is not None:
            sent = self._edited.sent.documents if self._edited.sent else ()
            chips = [replace(chip_of_sent(document), removes=False) for document in sent]
            self._composer.documents.show_chips(chips)
            self._composer.set_unready("")
            return
        too_many = self._too_many()
        chips = [self._chip(one, fits=not too_many) for one in self.attachments.all]
        self._composer.documents.show_chips(chips)
        self._composer.set_unready(
            "A document is still being read. Wait for it, or remove it."
            if self.attachments.reading
            else too_many
        )

    def _too_many(self) -> str:
        """Why the documents cannot be sent as they are; empty where they can."""
        loaded = self._loaded()
        counts = [self._tokens.known(text) for text in self._texts.values()]
        if loaded is None or not counts or None in counts:
            return ""
        total, limit = sum(count or 0 for count in counts), loaded.context_length
        if total + _ROOM <= limit:
            return ""
        what = "The document has" if len(counts) == 1 else "The documents have"
        return (
            f"{what} {total:,} tokens, and the model reads {limit:,} at most. Remove one, attach a "
            "part, or choose a larger context (Engine, Context and memory)."
        )

    def _chip(self, attachment: Attachment, *, fits: bool) -> Chip:
        document, problem = attachment.document, attachment.problem
        if problem is not None:
            notes = tuple(filter(None, (problem.message, problem.remedy)))
            return Chip(attachment.name, notes=(" ".join(notes),), warning=True, shows=False)
        if document is None:
            return Chip(attachment.name, "Reading…", shows=False)
        words = [size_in_words(document)]
        tokens = self._tokens.known(self._texts.get(attachment.number, ""))
        words.append("whole" if fits else "too long")
        if tokens is not None:
            words[-1] += f", {tokens:,} tokens"
            if self._seconds:
                words[-1] += f", {_to_read(tokens * self._seconds)}"
        lines = lacks(document)
        return Chip(
            attachment.name,
            " · ".join(filter(None, words)),
            tuple(map(shortened, lines)),
            warning=not fits,
            tip="\n".join((attachment.name, *lines)),
        )


def _to_read(seconds: float) -> str:
    """About how long it takes until the model has read something."""
    if seconds < 1.5:
        return "about a second to read"
    if seconds < 90:
        rounded = round(seconds) if seconds < 10 else round(seconds / 5) * 5
        return f"about {rounded} s to read"
    return f"about {round(seconds / 60)} min to read"
