"""The front door: every conversation, in one SQLite file, each change safe before it is reported.

One thread owns the only connection. Every method, reading ones too, puts its work in that
thread's queue and returns a future at once, so the window never waits for a disk. Work is done
in the order in which it was asked for, each piece in one transaction: a future that is done has
its change on the disk, one that failed changed nothing and may be asked for again.

A window that needs an answer at once takes `.result()`, which is a matter of milliseconds
except while a backup is made. A future's callbacks run in the store's thread. Its exception is
a `Problem` where a person can do something; a caller that drops futures drops those too.

Knows no Qt, no format but its own, and not how an answer comes about.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Concatenate, Self

from app.conversations import (
    attachments,
    backup,
    conversation_table,
    filing,
    recovery,
    schema,
    search,
    traces,
    tree,
)
from app.conversations.database import problems, transaction
from app.conversations.records import (
    Conversation,
    ExportedChat,
    Folder,
    Hit,
    Message,
    MessageState,
    SearchFilter,
    Undo,
    to_milliseconds,
)
from engine import earlier_answers, kept_blocks
from engine.documents import Document
from engine.documents.prompt import Sent
from engine.events import Event
from engine.request import Request
from models.errors import Problem

UNDO_FOR = timedelta(days=30)
_ALL = SearchFilter()


def now_utc() -> datetime:
    """The time by this machine's clock."""
    return datetime.now(UTC)


class Store:
    """The conversations in one file; `Store.open` makes one.

    notice: what a person must be told about the opening, such as that the file was damaged and
        a backup restored. None where all was well.
    path: the file. Its backups lie in `backups` beside it, private copies of PDFs in `attachments`,
        and what is learned from answers, where a person wants that, in `earlier_answers`. What the
        engine keeps of documents that it read is in `kept`.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        path: Path,
        thread: ThreadPoolExecutor,
        notice: str | None,
        clock: Callable[[], datetime],
    ) -> None:
        self.path = path
        self.backups = backups_of(path)
        self.attachments = path.parent / "attachments"
        self.kept = kept_blocks.kept_blocks_folder()
        self.earlier_answers = earlier_answers.earlier_answers_folder(path.parent)
        self.notice = notice
        self._connection = connection
        self._thread = thread
        self._clock = clock

    @classmethod
    def open(cls, path: Path, *, clock: Callable[[], datetime] = now_utc) -> Self:
        """Open the file, or make it. Blocks until it was checked and brought to this version.

        Answers that were being written when the app died become `interrupted`. `clock` tells the
        time, with its zone. Raises Problem where the file cannot be used; it is then left as it is.
        """
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="conversations")
        try:
            connection, notice = thread.submit(_open, path).result()
        except BaseException:
            thread.shutdown()
            raise
        return cls(connection, path=path, thread=thread, notice=notice, clock=clock)

    def close(self) -> None:
        """Wait for what was asked for, then let go of the file. Blocks; harmless when repeated."""
        with suppress(RuntimeError):  # closed before
            self._thread.submit(self._connection.close).result()
        self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # The list of conversations

    def create(
        self, *, title: str = "", system_prompt: str = "", settings: Request | None = None
    ) -> Future[Conversation]:
        """A new, empty one. Without a title it takes one from its first message."""
        return self._do(
            conversation_table.create,
            title=title,
            system_prompt=system_prompt,
            settings=settings,
            now_ms=self._now_ms(),
        )

    def conversations(self) -> Future[tuple[Conversation, ...]]:
        """All that are not deleted, archived ones too: pinned ones first, then the latest first."""
        return self._do(conversation_table.listed)

    def folders(self) -> Future[tuple[Folder, ...]]:
        """All folders, by name."""
        return self._do(filing.folders)

    def conversation(self, conversation: int) -> Future[Conversation]:
        """The record of one conversation."""
        return self._do(conversation_table.get, conversation)

    def rename(self, conversation: int, title: str) -> Future[None]:
        """Give it a title, which the model does not replace."""
        return self._do(conversation_table.rename, conversation, title)

    def settle_title(self, conversation: int, title: str | None) -> Future[bool]:
        """Give it the model's title unless a title was given before; None keeps the first words of
        the question for good. Returns whether the title is another."""
        return self._do(conversation_table.settle_title, conversation, title)

    def pin(self, *conversations: int, pinned: bool) -> Future[None]:
        return self._do(conversation_table.pin, conversations, pinned=pinned)

    def configure(
        self, conversation: int, *, system_prompt: str, settings: Request | None
    ) -> Future[None]:
        """Choose how this conversation is answered; None for the app's own defaults."""
        return self._do(
            conversation_table.configure,
            conversation,
            system_prompt=system_prompt,
            settings=settings,
        )

    def keep_unsent(self, conversation: int, text: str) -> Future[None]:
        """Keep the text in the composer. Sending a message empties it."""
        return self._do(conversation_table.keep_unsent, conversation, text)

    def delete(self, *conversations: int) -> Future[Undo]:
        """Hide these from the list and from the search, until `undo` or `purge`. What was learned
        from earlier answers is forgotten whole, as nobody knows what of it is theirs."""
        return self._do(self._delete, conversations, now_ms=self._now_ms())

    def _delete(
        self, connection: sqlite3.Connection, conversations: Sequence[int], *, now_ms: int
    ) -> Undo:
        change = filing.delete(connection, conversations, now_ms=now_ms)
        self._forget_read(attachments.digests(connection, conversations))
        try:
            earlier_answers.forget(self.earlier_answers)
        except OSError as error:
            raise Problem(
                f"Earlier answers cannot be deleted in {self.earlier_answers}, so the conversation "
                f"was not deleted: {error.strerror or error}.",
                "Check that you may write there, then try again.",
            ) from error
        return change

    def archive(self, *conversations: int, archived: bool) -> Future[Undo]:
        """Put these into the archive, where they are searched still, or take them out of it."""
        return self._do(filing.archive, conversations, archived=archived)

    def move(self, *conversations: int, folder: int | None) -> Future[Undo]:
        """Put these into a folder, or into none; and out of the archive."""
        return self._do(filing.move, conversations, folder=folder)

    def make_folder(self, name: str) -> Future[Folder]:
        """A new, empty folder."""
        return self._do(filing.make_folder, name)

    def rename_folder(self, folder: int, name: str) -> Future[None]:
        return self._do(filing.rename_folder, folder, name)

    def open_folder(self, folder: int, *, opened: bool) -> Future[None]:
        """List the folder's conversations from now on, or only its name."""
        return self._do(filing.open_folder, folder, opened=opened)

    def delete_folder(self, folder: int) -> Future[Undo]:
        """Remove a folder; its conversations stay."""
        return self._do(filing.delete_folder, folder)

    def undo(self, change: Undo) -> Future[None]:
        """Take back `delete`, `archive`, `move` or `delete_folder`."""
        return self._do(filing.undo, change)

    def purge(self, *, older_than: timedelta = UNDO_FOR) -> Future[int]:
        """Remove for good what was deleted longer ago than that, with its documents. Returns how
        many conversations."""
        before_ms = to_milliseconds(self._clock() - older_than)
        return self._do(self._purge, before_ms=before_ms)

    def _purge(self, connection: sqlite3.Connection, *, before_ms: int) -> int:
        count = filing.purge(connection, before_ms=before_ms)
        attachments.drop_unused(connection, self.attachments)
        return count

    # What is learned from answers

    def keep_earlier_answers(self) -> Future[None]:
        """Make the folder of earlier answers: without it the engine neither reads nor writes."""
        return self._thread.submit(self._change_earlier_answers, earlier_answers.begin, "kept")

    def drop_earlier_answers(self) -> Future[None]:
        """Delete that folder with all that is in it."""
        return self._thread.submit(self._change_earlier_answers, earlier_answers.end, "deleted")

    def _change_earlier_answers(self, change: Callable[[Path], None], what: str) -> None:
        folder = self.earlier_answers
        try:
            change(folder)
        except OSError as error:
            raise Problem(
                f"Earlier answers cannot be {what} in {folder}: {error.strerror or error}.",
                "Check that you may write there, then change the setting again.",
            ) from error

    # Messages

    def branch(self, conversation: int) -> Future[tuple[Message, ...]]:
        """The messages that are shown, from the first to the leaf."""
        return self._do(tree.branch, conversation)

    def shown(self, conversation: int) -> Future[tuple[Conversation, tuple[Message, ...]]]:
        """The record of a conversation and its shown branch, as they were at one moment."""
        return self._do(tree.shown, conversation)

    def message(self, message: int) -> Future[Message]:
        return self._do(tree.get, message)

    def siblings(self, message: int) -> Future[tuple[Message, ...]]:
        """The messages under the same parent, itself among them, oldest first."""
        return self._do(tree.siblings, message)

    def switch(self, message: int) -> Future[tuple[Message, ...]]:
        """Show the branch through `message`, down to its newest end; the branch."""
        return self._do(tree.switch, message)

    def say(self, conversation: int, content: str) -> Future[Message]:
        """Add a user's message at the end of the branch that is shown, without an answer."""
        return self._do(tree.say, conversation, content, now_ms=self._now_ms())

    def edit(self, message: int, content: str) -> Future[Message]:
        """Add another version of a message, as its sibling. `message` and what followed it stay."""
        return self._do(tree.edit, message, content, now_ms=self._now_ms())

    def ask(
        self,
        conversation: int | None,
        content: str,
        *,
        instead_of: int | None = None,
        sent: Sent | None = None,
        target: str,
        drafter: str,
        system_prompt: str = "",
        settings: Request | None = None,
    ) -> Future[tuple[Conversation, tuple[Message, ...]]]:
        """Add a user's message and begin the answer to it, both or neither.

        None makes a new conversation for them, with this system prompt and these settings. With
        `instead_of` the message is another version of that one. `sent` is what the model gets of
        it, where it has documents. Returns the record and the branch, whose last message is the
        answer.
        """
        return self._do(
            tree.ask,
            conversation,
            content,
            instead_of=instead_of,
            sent=sent,
            target=target,
            drafter=drafter,
            system_prompt=system_prompt,
            settings=settings,
            now_ms=self._now_ms(),
        )

    def begin_answer(
        self, parent: int, *, target: str, drafter: str, content: str = ""
    ) -> Future[Message]:
        """Begin an answer to `parent`; another answer to the same question is its sibling.

        To go on with one that was cut, begin its sibling with its `content`.
        """
        return self._do(
            tree.begin,
            parent,
            target=target,
            drafter=drafter,
            content=content,
            now_ms=self._now_ms(),
        )

    def flush_answer(self, answer: int, content: str, events: Sequence[Event]) -> Future[None]:
        """Save the answer so far: all its text and all its events, of which new ones are added.

        Called about every second. One that fails, on a full disk say, is made up for by the next.
        """
        return self._do(tree.flush, answer, content, tuple(events))

    def finish_answer(
        self, answer: int, content: str, events: Sequence[Event], *, state: MessageState
    ) -> Future[Message]:
        """Save the whole answer and how it ended. Asked for again where it failed."""
        return self._do(tree.finish, answer, content, tuple(events), state=state)

    def trace(self, message: int) -> Future[tuple[Event, ...]]:
        """The events of an answer; none where it was not generated here."""
        return self._do(traces.read, message)

    # Documents

    def attach(
        self, conversation: int, document: Document, *, original: Path | None = None
    ) -> Future[int]:
        """Attach a document to the message that is not sent yet; its number in the conversation.
        Of a PDF a private copy of the `original` is kept, so that its pages can be drawn."""
        return self._do(self._attach, conversation, document, original=original)

    def _attach(
        self,
        connection: sqlite3.Connection,
        conversation: int,
        document: Document,
        *,
        original: Path | None,
    ) -> int:
        number = attachments.attach(connection, conversation, document)
        if original is not None and document.format == "pdf":
            attachments.keep_copy(original, self.attachments, document.digest)
        return number

    def keep_notes(self, message: int, sent: Sent) -> Future[Sent]:
        """Keep what a message has of its documents by now, while notes are made on their parts.
        Returns it, without the documents that were deleted meanwhile."""
        return self._do(attachments.keep_notes, message, sent)

    def detach(self, conversation: int, number: int) -> Future[None]:
        """Take a document from the message that is not sent yet."""
        return self._do(self._without, attachments.detach, conversation, number)

    def delete_document(self, conversation: int, number: int) -> Future[None]:
        """Delete a document from a conversation, for good: in all that was sent of it stands a line
        which says so. Backups have what they had, until they are thinned out."""
        return self._do(self._without, attachments.delete, conversation, number)

    def _without(
        self,
        connection: sqlite3.Connection,
        remove: Callable[[sqlite3.Connection, int, int], None],
        conversation: int,
        number: int,
    ) -> None:
        self._forget_read(attachments.digests(connection, (conversation,), number=number))
        remove(connection, conversation, number)
        attachments.drop_unused(connection, self.attachments)

    def _forget_read(self, digests: Iterable[str]) -> None:
        """Delete what the engine keeps of what it read of documents: it may hold more of a
        conversation than the document, and other conversations only have to read it again."""
        try:
            for digest in digests:
                kept_blocks.forget(self.kept, digest)
        except OSError as error:
            raise Problem(
                f"What was read of a document cannot be deleted in {self.kept}, so nothing was "
                f"deleted: {error.strerror or error}.",
                "Check that you may write there, then try again.",
            ) from error

    def kept_bytes(self) -> Future[int]:
        """How large that is, of all documents."""
        return self._thread.submit(kept_blocks.held_bytes, self.kept)

    def forget_kept(self) -> Future[None]:
        """Delete it, of all documents."""
        return self._thread.submit(self._forget_kept)

    def _forget_kept(self) -> None:
        try:
            kept_blocks.forget_all(self.kept)
        except OSError as error:
            raise Problem(
                f"What is kept in {self.kept} cannot be deleted: {error.strerror or error}.",
                "Check that you may write there, and that no other program uses it.",
            ) from error

    def unsent_documents(self, conversation: int) -> Future[tuple[tuple[int, Document], ...]]:
        """What is attached to the message that is not sent yet, each with its number."""
        return self._do(attachments.unsent, conversation)

    def documents_of(self, conversation: int) -> Future[tuple[tuple[int, Document], ...]]:
        """All documents of a conversation, unsent ones and those of other branches too, each with
        its number; without those that were deleted, or not imported."""
        return self._do(attachments.documents_of, conversation)

    def copy_of(self, document: Document) -> Path | None:
        """The private copy of a PDF, where there is one."""
        copy = attachments.copy_of(self.attachments, document.digest)
        return copy if document.format == "pdf" and copy.exists() else None

    # Finding, taking out, bringing in

    def search(
        self, text: str, *, limit: int = 50, among: SearchFilter = _ALL
    ) -> Future[tuple[Hit, ...]]:
        """What holds all words of `text`, the last of which may be only begun; not the texts of
        documents.

        Any text will do. Titles come first, then messages, newest first, `limit` of each.
        """
        return self._do(search.search, text, limit=limit, among=among)

    def targets(self) -> Future[tuple[str, ...]]:
        """The models that wrote answers, by name."""
        return self._do(search.targets)

    def chat(self, conversation: int) -> Future[ExportedChat]:
        """The whole conversation, for `exchange` to write."""
        return self._do(tree.chat, conversation)

    def chats(self, conversations: Iterable[int]) -> Future[tuple[ExportedChat, ...]]:
        """Those of these conversations that are there, as `chat` gives one."""
        return self._do(_chats, tuple(conversations))

    def add(self, chats: Iterable[ExportedChat]) -> Future[tuple[Conversation, ...]]:
        """Add what `exchange` read: all of it or none."""
        return self._do(_add, tuple(chats), now_ms=self._now_ms())

    # Backups

    def back_up_if_due(self) -> Future[bool]:
        """Make a backup where the newest is over an hour old. Whether one was made.

        Worth asking for every few minutes. A Problem means that there is none, and no more.
        """
        return self._thread.submit(self._back_up_if_due)

    def _back_up_if_due(self) -> bool:
        now = self._clock()
        if not backup.is_due(self.backups, now=now):
            return False
        backup.make_backup(self._connection, self.backups, now=now)
        return True

    def _now_ms(self) -> int:
        return to_milliseconds(self._clock())

    def _do[T, **P](
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> Future[T]:
        def attempt() -> T:
            with transaction(self._connection):
                return work(self._connection, *arguments, **options)

        def done() -> T:
            with problems():
                try:
                    return attempt()
                except sqlite3.DatabaseError as error:
                    if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_CORRUPT_VTAB:
                        raise
                # Only the index is damaged, and all that it knows is in the texts.
                with transaction(self._connection):
                    schema.rebuild_indexes(self._connection)
                return attempt()

        return self._thread.submit(done)


def backups_of(path: Path) -> Path:
    """The folder with the backups of the file at `path`."""
    return path.parent / "backups"


def _open(path: Path) -> tuple[sqlite3.Connection, str | None]:
    connection, notice = recovery.open_sound(path, backups=backups_of(path))
    try:
        with problems(), transaction(connection):
            tree.interrupt(connection)
    except Problem as problem:  # a full disk: what is there can be read all the same
        notice = f"{notice} {problem}" if notice else str(problem)
    return connection, notice


def _chats(
    connection: sqlite3.Connection, conversations: tuple[int, ...]
) -> tuple[ExportedChat, ...]:
    there = {conversation.id for conversation in conversation_table.listed(connection)}
    return tuple(tree.chat(connection, id) for id in conversations if id in there)


def _add(
    connection: sqlite3.Connection, chats: tuple[ExportedChat, ...], *, now_ms: int
) -> tuple[Conversation, ...]:
    return tuple(tree.add(connection, chat, now_ms=now_ms) for chat in chats)
