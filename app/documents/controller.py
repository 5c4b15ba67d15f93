"""Controls the documents of the open conversation: attaches, plans and sends them.

Connects the composer, the attachments and the planner. Says what the model will get, and how long
it takes to read. Knows no file and no pixel; not which passages fit a question.
"""

import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QImage

from app import files
from app.chat.answers import Answers
from app.chat.composer import Composer
from app.chat.conversation import OpenConversation, Place
from app.chat.writing import Writing
from app.conversations.records import Message, picture_of, title_from
from app.conversations.store import Store
from app.documents.attachments import Attachment, Attachments, Read, Write
from app.documents.chips import Chip, chip_of_sent, shortened
from app.documents.picture_view import PictureDialog
from app.documents.planner import Count, MessageToPlan, PictureTokens, Planner
from app.documents.text_dialog import TextDialog
from app.engine_client.engine_process import EngineProcess
from app.engine_client.token_counter import (
    AROUND_A_MESSAGE,
    TokenCounter,
    estimate,
)
from app.settings import Settings
from app.steps import Stepper, Steps
from app.theme.dialog import Dialog, ask
from engine.conversation.rounds import EventOrRound
from engine.documents import Document
from engine.documents.in_words import lacks, size_in_words
from engine.documents.plan import Plan
from engine.documents.prompt import Sent, SentDocument
from engine.documents.slow import is_slow, room_in_time, to_read
from engine.events import Prefill
from engine.process.protocol import Loaded
from models.errors import Problem
from models.in_words import one_line

_AFTER_MS = 300  # after the last key
_MOST_FOR_AN_ANSWER = 0.25  # of the context
_MOST_KEPT = 0.5  # of the context, for earlier messages that may be left out
_ENOUGH_ROWS = 64  # tokens: fewer say little about the speed of reading
_AS_SENT = "This is exactly what the model gets, before your words."
_PICTURE_SENT = "The model sees this picture, scaled as it needs it, before your words."
ONLY_PASSAGES, FEWER, ALL_OF_IT, MORE = "Only passages", "Fewer passages", "All of it", "More"
SHOW_PAGES = "Show pages as pictures"
_READING = "A document is still being read. Wait for it, or remove it."
_NO_MODEL = "Documents can be sent when a model is ready: it decides how much fits."
_CANNOT_SEE = (
    "This model reads text only. Remove the picture, or choose a model that sees, such as Gemma 3, "
    "Qwen3-VL or LFM2-VL."
)
_EDITED = "An edited message keeps its documents. Send it or cancel, then attach others."
_DELETION = (
    "Its text, everything that was sent of it and the copy of the file are deleted from this "
    "conversation. The file itself stays. A line in the message takes its place. Answers do not "
    "change. Backups keep the text until they are removed."
)


class DocumentsController(QObject):
    """Attribute: `attachments`. Signals: `changed()`: other texts are to be counted;
    `failed(Problem)`; `remarked(str)`: a remark on the last command."""

    changed = Signal()
    remarked = Signal(str)

    def __init__(
        self,
        composer: Composer,
        conversation: OpenConversation,
        answers: Answers,
        store: Store,
        *,
        read: Read,
        settings: Settings,
        tokens: TokenCounter,
        engine: EngineProcess,
    ) -> None:
        """`settings` store how long targets take to read."""
        super().__init__(composer)
        self.attachments = Attachments(store, read=read, stored=conversation.stored, parent=self)
        self.failed = self.attachments.failed
        self._composer, self._conversation, self._store = composer, conversation, store
        self._settings, self._tokens, self._answers = settings, tokens, answers
        self._pictures = PictureTokens(engine, self)
        self._pictures.changed.connect(self._plan_soon)
        self._pictures.changed.connect(self.changed)
        self._stepper, self._planner = Stepper(self), Planner()
        self._edited: Message | None = None
        self._context = 0  # tokens; 0 until a model was loaded
        self._target, self._sees = "", True
        self._seconds = 0.0  # per token, as last measured
        self._reused: Prefill | None = None  # until then tokens were reused, some from the disk
        self._in_passages = False  # the user chose passages for the unsent message
        self._plan: Plan | None = None
        # Whether the plan's tokens are estimates, as the target's tokenizer cannot be read, or not
        # yet.
        self._estimated = False
        self._refused: Problem | None = None
        self._planning = False
        self._sends = 0  # of attachments: a plan from before is about a message that is gone
        self._written = "", ""  # the name and the text of `attach_text`
        self._soon = QTimer(self, singleShot=True, interval=_AFTER_MS)
        self._soon.timeout.connect(self._begin)
        composer.attach_asked.connect(self.ask)
        composer.folder_asked.connect(self.ask_for_folder)
        composer.screenshot_asked.connect(self.attach_screenshot)
        composer.files_given.connect(self.attach)
        composer.field.picture_given.connect(self.attach_picture)
        composer.text_attach_asked.connect(self.attach_text)
        composer.documents.view_asked.connect(self._view)
        composer.documents.remove_asked.connect(self._remove)
        composer.documents.choice_taken.connect(self._choose)
        composer.field.textChanged.connect(self._plan_soon)
        conversation.opened.connect(self._on_opened)
        conversation.changed.connect(self._on_changed)
        conversation.refused.connect(lambda text, problem: self.attachments.refresh())
        answers.happened.connect(self._hear)
        tokens.counted.connect(self._on_counted)
        self.attachments.changed.connect(self._on_attachments)
        self.attachments.attached.connect(self._on_attached)
        self._on_opened()

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that documents add to the unsent message."""
        if self._plan is None or self._edited is not None:
            return ()
        sent = self._plan.sent
        return tuple(sent.given(document.number) for document in sent.documents)

    @property
    def picture_tokens(self) -> int:
        """The tokens of all pictures in the conversation and the unsent message, as far as they
        are known."""
        folder, unsent = self._store.attachments, () if self._edited else self.attachments.ready
        found = [each for message in self._conversation.branch for each in message.pictures(folder)]
        found += [one for _, each in unsent if (one := picture_of(each, folder)) is not None]
        return sum(map(self._pictures.of, found))

    def use(self, loaded: Loaded) -> None:
        """Plan for this model from now on."""
        self._target, self._sees = loaded.target, loaded.sees
        self._seconds = self._settings.read_seconds(loaded.target)
        self._context = loaded.context_length
        self._plan_soon()

    def sent(self, question: str, *, attached: bool = True) -> Future[Sent] | None:
        """Return what the model gets of a question and its documents; None if no document adds
        anything. Without `attached`, the attached documents stay for the next message."""

        new = self.attachments.ready if attached else ()
        message = self._message(question, new)
        if attached:
            self._plan, self._in_passages = None, False
            self._sends += 1
            self.attachments.hide()
        if message is not None:
            return self._planner.send(message)
        if not new:
            return None
        refused: Future[Sent] = Future()  # a question is never sent without its attachments
        refused.set_exception(Problem(_NO_MODEL, "Wait for the model, then send it."))
        return refused

    def prompt(self, question: str) -> str:
        """Return the prompt of a question, as far as it is planned already."""
        return question if self._plan is None else self._plan.sent.asked(question).text

    def attach(self, paths: Sequence[Path], write: Write | None = None) -> None:
        """Attach these files and folders to the unsent message; `write` makes the files first."""
        if self._edited is None:
            self.attachments.add(paths, write)
            self._composer.setFocus()  # the next thing is to ask about them
        else:
            self.remarked.emit(_EDITED)

    def attach_text(self) -> None:
        """Attach the text in the composer. It stays there until it is read and stored."""
        text = self._composer.text
        name = files.file_name(f"{title_from(text) or 'Message'}.txt")
        self._written = name, text
        self._attach_written(name, lambda path: files.write_text(path, text))

    def attach_picture(self, picture: QImage) -> None:
        """Attach a picture that is in no file."""

        def write(path: Path) -> None:
            if not picture.save(str(path)):
                raise Problem("The picture cannot be saved.", "Free some disk space.")

        self._attach_written("Picture.png", write)

    def attach_screenshot(self) -> None:
        """Attach a part of the screen, which the user chooses. For a Mac; untested."""

        def write(path: Path) -> None:
            subprocess.run(("screencapture", "-i", "-x", str(path)), check=False)

        self._attach_written("Screenshot.png", write)

    def _attach_written(self, name: str, write: Write) -> None:
        """Attach the file that `write` writes, if it writes any."""
        self.attach([Path(name)], write)

    def ask(self) -> None:
        """Ask which files to attach."""
        files.ask_to_open_several(self._composer, "Attach files", self.attach)

    def ask_for_folder(self) -> None:
        """Ask for a folder whose files are to be attached."""
        files.ask_for_folder(self._composer, "Attach a folder", lambda path: self.attach([path]))

    def edit(self, message: Message | None) -> None:
        """Show the documents of a sent message that is being edited; None when the editing ends."""
        self._edited = message
        self._show()

    def view(self, sent: Sent, number: int) -> None:
        """Show what a message has of a document."""
        document = next(one for one in sent.documents if one.number == number)
        name, window = one_line(document.name), self._composer.window()
        dialog: Dialog
        if (picture := self._chip_of(document).picture) is not None:
            dialog = PictureDialog(name, picture, remark=_PICTURE_SENT, parent=window)
        else:
            dialog = TextDialog(name, sent.given(number), remark=_AS_SENT, parent=window)
        dialog.open_once()

    def ask_to_delete(self, sent: Sent, number: int) -> None:
        """Delete a document from the conversation, after asking."""
        name = next(one.name for one in sent.documents if one.number == number)
        question = f"Delete “{one_line(name)}” from this conversation?"
        then = partial(self._conversation.delete_document, number)
        window = self._composer.window()
        box = ask(window, "Delete document", question, _DELETION, verb="Delete", then=then)
        self._conversation.opened.connect(box.reject)  # another's document has the same number

    def close(self) -> None:
        """Cancel reading, and plan nothing more."""
        self._soon.stop()
        self._stepper.close()
        self._planner.close()
        self.attachments.close()

    # What the model will get

    def _plan_soon(self) -> None:
        self._soon.start()

    def _begin(self) -> None:
        if self._planning:
            self._soon.start()
            return
        message = self._message(self._composer.text, self.attachments.ready)
        of = self._conversation.place, self._sends
        if message is None:
            self._take(of, None)
            return
        self._planning = True
        steps = self._steps(of, message)
        self._stepper.run(steps, failed=lambda problem: self._take(of, None, problem))

    def _steps(self, of: tuple[Place, int], message: MessageToPlan) -> Steps:
        planned = yield self._planner.plan(message)
        self._take(of, planned)

    def _take(
        self, of: tuple[Place, int], planned: Plan | None, refused: Problem | None = None
    ) -> None:
        """Take the plan of an unsent message, known by its place and the number of sends there."""
        self._planning, now, (place, sends) = False, (planned, refused), of
        unsent = sends == self._sends and self._conversation.is_here(place)
        if unsent and now != (self._plan, self._refused):
            self._plan, self._refused = now
            self._show()
            self.changed.emit()

    def _message(
        self, question: str, attached: Sequence[tuple[int, Document]]
    ) -> MessageToPlan | None:
        """Return the message to plan, with these new documents; None if it has no documents."""
        new, still_read = dict(attached), self._still_read()
        before = [message.sent for message in still_read if message.sent is not None]
        partly = {d.number for sent in before for d in sent.documents if d.among}
        record, store = self._conversation.record, self._store
        if record is None or not self._context or not (new or partly):
            return None

        def documents() -> dict[int, Document]:
            stored = store.documents_of(record.id).result() if partly else ()
            return {number: document for number, document in stored if number in partly} | new

        self._estimated = self._tokens.counting is None
        message = replace(
            self._to_plan(question, documents, still_read, conversation=record.id),
            picture_tokens={
                one.digest: self._pictures.of(shown)
                for one in new.values()
                if (shown := picture_of(one, self._store.attachments)) is not None
            },
        )
        if not (self._in_passages and self._seconds):
            return message
        most = room_in_time(self._seconds)
        return replace(message, room=lambda count: min(most, message.room(count)))

    def _to_plan(
        self,
        question: str,
        documents: Callable[[], dict[int, Document]],
        before: Sequence[Message],
        *,
        conversation: int,
    ) -> MessageToPlan:
        """Return the plan's input for a question after the messages `before`."""
        said = [message.content for message in before if message.role == "user"]
        return MessageToPlan(
            conversation,
            question,
            documents,
            count=self._tokens.counting or estimate,
            room=self._room(question, before),
            before=[message.sent for message in before if message.sent is not None],
            asked_before=said[-1] if said else "",
        )

    def _still_read(self) -> list[Message]:
        """Return the messages of the branch that were not left out of the latest prompt."""
        branch = self._conversation.branch
        answers = [message.figures for message in branch if message.role == "assistant"]
        figures = answers[-1] if answers else None
        if figures is None or not figures.left_out:
            return list(branch)
        system_prompt, _ = self._conversation.configured
        first = figures.left_out_from - bool(system_prompt)
        left_out = range(first, first + figures.left_out)
        places = accumulate((len(message.as_chat) for message in branch), initial=0)
        return [one for one, n in zip(branch, places, strict=False) if n not in left_out]

    def _room(self, question: str, before: Sequence[Message]) -> Callable[[Count], int]:
        """Return a function that computes how many tokens documents may take, by a given count."""
        context, settings = self._context, self._conversation.settings
        system_prompt, _ = self._conversation.configured
        said = (one.content for each in before for one in each.as_chat)
        texts = (system_prompt, self._answers.offered(self._conversation.permissions), *said)

        def room(count: Count) -> int:
            earlier = sum(count(text) + AROUND_A_MESSAGE for text in texts if text)
            if settings.overflow != "stop":
                earlier = min(earlier, int(_MOST_KEPT * context))
            answer = min(settings.max_tokens, int(_MOST_FOR_AN_ANSWER * context))
            return context - earlier - answer - count(question) - 2 * AROUND_A_MESSAGE

        return room

    # Events

    def _on_opened(self) -> None:
        record = self._conversation.record
        self._plan = self._refused = None
        self._in_passages = False
        self.attachments.show(record.id if record is not None else None)
        self._plan_soon()

    def _on_changed(self) -> None:
        if (record := self._conversation.record) is not None:
            self.attachments.name(record.id)
            self.attachments.refresh()
        self._plan_soon()

    def _on_attached(self, attachment: Attachment) -> None:
        """Take the text that is attached now out of the composer, and remove an attachment if the
        model has all of it already."""
        if (attachment.name, self._composer.text) == self._written:
            self._composer.set_text("")
            self._composer.changed.emit("")
        for message in self._still_read():
            for sent in message.sent.documents if message.sent else ():
                if sent.number == attachment.number and sent.whole:
                    self.attachments.remove(attachment)
                    self.remarked.emit(
                        f"{attachment.name} is already part of this conversation: ask about it."
                    )
                    return

    def _on_attachments(self) -> None:
        self._plan_soon()
        self._show()

    def _on_counted(self) -> None:
        if self._estimated:
            self._plan_soon()

    def _hear(self, writing: Writing, happening: EventOrRound) -> None:
        if isinstance(happening, Prefill):
            rows, begun = happening.processed - happening.reused, self._reused
            if not rows:
                self._reused = happening
            seconds = happening.seconds
            if begun is not None and begun.generation == happening.generation:
                seconds -= begun.seconds
            if rows >= _ENOUGH_ROWS and seconds > 0:
                self._seconds = seconds / rows
                self._settings.keep_read_seconds(self._target, self._seconds)

    def _view(self, place: int) -> None:
        planned = self._plan.sent if self._plan is not None else None
        sent = planned if self._edited is None else self._edited.sent
        if sent is not None and (number := self._numbers()[place]):
            self.view(sent, number)

    def _remove(self, place: int) -> None:
        attached = self.attachments.all
        if self._edited is None and place < len(attached):
            self.attachments.remove(attached[place])
            self._composer.setFocus()

    # Display

    def _numbers(self) -> list[int]:
        """Return the number of the document of each chip, 0 for none."""
        if self._edited is not None:
            return [one.number for one in self._edited.sent.documents] if self._edited.sent else []
        attached = [one.number for one in self.attachments.all]
        return attached + [one.number for one in self._standing()]

    def _standing(self) -> list[SentDocument]:
        """Return the documents of earlier messages that give passages to this message."""
        new = {number for number, _ in self.attachments.ready}
        sent = (message.sent for message in self._conversation.branch)
        earlier = {one.number for each in sent if each for one in each.documents} - new
        planned = self._plan.sent.documents if self._plan else ()
        return [document for document in planned if document.number in earlier]

    def _show(self) -> None:
        """Show the chips, and the reason why the message cannot be sent, if any."""
        chips = self._composer.documents
        if self._edited is not None:
            sent = self._edited.sent.documents if self._edited.sent else ()
            chips.show_chips([replace(self._chip_of(one), removes=False) for one in sent])
            chips.say("")
            chips.offer_choice("", "")
            self._composer.set_unready("")
            return
        attached = self.attachments
        chips.show_chips(
            [
                *map(self._chip, attached.all),
                *(
                    replace(self._chip_of(one), words=self._describe(one), removes=False)
                    for one in self._standing()
                ),
            ]
        )
        refused = str(self._refused) if self._refused else ""
        if attached.reading:
            unready = _READING
        elif attached.ready and not self._context:
            unready = _NO_MODEL
        elif not self._sees and any(document.pixels for _, document in attached.ready):
            unready = refused = _CANNOT_SEE
        else:
            unready = refused
        chips.say(refused or self._in_part())
        chips.offer_choice(*self._choice())
        self._composer.set_unready(unready)

    def _choice(self) -> tuple[str, str]:
        """Return the pages to show as pictures, or the other choice between passages and all of
        slow documents; and its words."""
        if self._sees and (pages := self.attachments.unread_pages):
            return SHOW_PAGES, ", ".join(shown for _, _, shown in pages)
        plan = self._plan if self.attachments.ready else None
        if plan and self._in_passages and (tokens := plan.whole_tokens):
            if tokens > self._context:
                return MORE, "As many passages as fit"
            return ALL_OF_IT, f"About {tokens:,} tokens{self._to_read(tokens)}"
        if plan and not self._in_passages and is_slow(plan, self._seconds):
            passages = self._to_read(room_in_time(self._seconds) // 2)
            label = FEWER if plan.in_part else ONLY_PASSAGES
            return label, f"What your question is about{passages}"
        return "", ""

    def _choose(self) -> None:
        if self._sees and self.attachments.unread_pages:
            self.attachments.add_pages()
            return
        self._in_passages = not self._in_passages
        self._begin()

    def _in_part(self) -> str:
        """Explain what passages cannot answer."""
        if self._plan is None or not self._plan.in_part:
            return ""
        only = "The model gets passages only, so it cannot count, list or summarize all of it."
        if self._in_passages:
            return only
        return (
            f"{only} Whole, that is about {self._plan.whole_tokens:,} tokens: choose a larger "
            "context (Engine, Context and memory), or ask part by part."
        )

    def _chip_of(self, sent: SentDocument) -> Chip:
        return chip_of_sent(sent, self._store.attachments)

    def _chip(self, attachment: Attachment) -> Chip:
        document, problem = attachment.document, attachment.problem
        if problem is not None:
            note = str(problem).removeprefix(f"{attachment.name}: ")
            return Chip(attachment.name, notes=(note,), warning=True, shows=False)
        if document is None:
            far = f" {attachment.read_files:,} of {attachment.files:,} files"
            return Chip(attachment.name, f"Reading…{far if attachment.files else ''}", shows=False)
        planned = self._plan.sent.documents if self._plan else ()
        sent = next((one for one in planned if one.number == attachment.number), None)
        lines = lacks(document)
        return Chip(
            attachment.name,
            " · ".join(
                filter(None, (size_in_words(document), self._describe(sent) if sent else ""))
            ),
            tuple(map(shortened, lines)),
            tip="\n".join((attachment.name, *([self._in_full(sent)] if sent else []), *lines)),
            shows=sent is not None,
            picture=self._chip_of(sent).picture if sent else None,
        )

    def _describe(self, sent: SentDocument) -> str:
        """Say what the model gets of a document, and how long that takes to read."""
        assert self._plan is not None
        tokens = self._plan.tokens[self._plan.sent.documents.index(sent)]
        if not tokens:  # of a picture, which is not counted yet
            return sent.in_words
        size = f"{sent.in_words}, {'about ' * self._estimated}{tokens:,} tokens"
        return f"{size}{self._to_read(tokens)}"

    def _to_read(self, tokens: int) -> str:
        """Say how long these tokens take to read, or nothing before that was measured."""
        return f", {to_read(tokens * self._seconds)}" if self._seconds else ""

    def _in_full(self, sent: SentDocument) -> str:
        return self._plan.told(sent) if self._plan else ""
