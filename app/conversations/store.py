"""Stores every conversation in one SQLite file. A change is on the disk before it is reported.

One thread owns the only connection. Every method, also to read, queues its work for
that thread and returns a future at once, so that the window never waits for a disk. The work is
done in the order of the calls, each call in one transaction: when its future is done, its change is
on the disk; if it failed, nothing changed, and the caller may try again.

A window that needs an answer at once calls `.result()`, which takes milliseconds except during a
backup. Callbacks of futures run in the store's thread. The exception of a future is a `Problem` if
the user can do something; if the caller drops the future, it is lost.

Knows no Qt, no file format but its own, and not how an answer is made.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Self

from app.conversations import (
    attachments,
    backup,
    conversation_table,
    filing,
    message_changes,
    recovery,
    schema,
    search,
    traces,
    tree,
)
from app.conversations.database import disk_problem, problems, transaction
from app.conversations.records import (
    Conversation,
    DeletedMessages,
    ExportedChat,
    Undo,
    to_milliseconds,
)
from engine import earlier_answers
from engine.conversation import kept_blocks
from engine.documents import Document
from models.errors import Problem

UNDO_FOR = timedelta(days=30)
TEMPORARY = "Temporary chat"
"""The title of a conversation that is only in memory."""
_FIRST_TEMPORARY = 1 << 30  # the first id in memory; Qt's signals have 31 bits


def now_utc() -> datetime:
    """Return the time by this machine's clock."""
    return datetime.now(UTC)


def is_temporary(id: int | None) -> bool:
    """Return whether the conversation or message with this id is only in memory."""
    return id is not None and _FIRST_TEMPORARY <= id < 2 * _FIRST_TEMPORARY


def _queued[T, **P](
    work: Callable[Concatenate[sqlite3.Connection, P], T],
) -> Callable[Concatenate["Store", P], Future[T]]:
    """Return the method of the store that does this work in its thread. Lists are copied before."""

    def method(store: "Store", /, *arguments: P.args, **options: P.kwargs) -> Future[T]:
        taken: Any = (tuple(each) if isinstance(each, list) else each for each in arguments)
        return store._do(work, *taken, **options)

    return method


def _timed[T, **P](
    work: Callable[Concatenate[sqlite3.Connection, int, P], T],
) -> Callable[Concatenate["Store", P], Future[T]]:
    """Return the method of the store that does this work, which takes the time."""

    def method(store: "Store", /, *arguments: P.args, **options: P.kwargs) -> Future[T]:
        return store._do(work, store._now_ms(), *arguments, **options)

    return method


class Store:
    """The conversations in one file; `Store.open` opens it.

    notice: what the user must know about the opening, such as that the file was damaged and a
        backup restored. None if all was well.
    path: the file. Next to it are the folders `backups`, `attachments` with private copies of PDFs
        and pictures, `earlier_answers` with data learned from answers, if the user wants that,
        and `kept` with what the engine has read of documents.
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
        self._memory: sqlite3.Connection | None = None  # with the temporary conversations
        self._thread = thread
        self._clock = clock

    @classmethod
    def open(cls, path: Path, *, clock: Callable[[], datetime] = now_utc) -> Self:
        """Open the file, or create it. Blocks until it is checked.

        Answers that were being written when the app died become `interrupted`. `clock` returns the
        time with its zone. Raises Problem if the file cannot be used; it is then unchanged.
        """
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="conversations")
        try:
            connection, notice = thread.submit(_open, path).result()
        except BaseException:
            thread.shutdown()
            raise
        return cls(connection, path=path, thread=thread, notice=notice, clock=clock)

    def close(self) -> None:
        """Finish the queued work and close the file. Blocks. All later work ends in a Problem."""
        with suppress(Problem):  # closed already
            self._submit(self._close).result()
        self._thread.shutdown()

    def _close(self) -> None:
        self._connection.close()
        if self._memory is not None:
            self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The list of conversations

    create = _timed(conversation_table.create)
    conversations = _queued(conversation_table.listed)
    folders = _queued(filing.folders)
    listing = _queued(filing.listing)
    conversation = _queued(conversation_table.get)
    rename = _queued(conversation_table.rename)
    set_generated_title = _queued(conversation_table.set_generated_title)
    pin = _queued(conversation_table.pin)
    configure = _queued(conversation_table.configure)
    change_settings = _queued(conversation_table.change_settings)
    permit = _queued(conversation_table.permit)
    keep_unsent = _queued(conversation_table.keep_unsent)
    keep_queued = _queued(conversation_table.keep_queued)

    def create_temporary(self, **options: Any) -> Future[Conversation]:
        """Add a conversation that is only in memory, with all its messages and documents."""
        create = partial(conversation_table.create, now_ms=self._now_ms(), title=TEMPORARY)
        return self._submit(self._done, partial(create, **options), (_FIRST_TEMPORARY,))

    def drop_temporary(self, *, but: Collection[int]) -> Future[None]:
        """Forget the conversations that are only in memory, except these."""
        return self._submit(self._drop_temporary, json.dumps(list(but)))

    def _drop_temporary(self, kept: str) -> None:
        if self._memory is not None:
            self._memory.execute(
                "DELETE FROM conversations WHERE coalesce(taken_from, id) NOT IN "
                "(SELECT value FROM json_each(?))",
                (kept,),
            )

    def delete(self, *conversations: int) -> Future[Undo]:
        """Hide these from the list and the search, until `undo` or `purge`. Everything learned from
        earlier answers is deleted, as nothing shows which of it came from these."""
        return self._do(self._delete, conversations, now_ms=self._now_ms())

    def _delete(
        self, connection: sqlite3.Connection, conversations: Sequence[int], *, now_ms: int
    ) -> Undo:
        change = filing.delete(connection, conversations, now_ms=now_ms)
        self._forget_learned(connection, conversations)
        return change

    def _forget_learned(self, connection: sqlite3.Connection, conversations: Sequence[int]) -> None:
        """Delete the data learned and cached from these conversations, outside of the file."""
        if connection is self._memory:
            return
        self._forget_read(attachments.digests(connection, conversations))
        with _changing(self.earlier_answers, "Nothing was deleted, as past answers could not be"):
            earlier_answers.forget(self.earlier_answers)

    archive = _queued(filing.archive)
    move = _queued(filing.move)
    make_folder = _queued(filing.make_folder)
    rename_folder = _queued(filing.rename_folder)
    set_up_folder = _queued(filing.set_up_folder)
    open_folder = _queued(filing.open_folder)
    delete_folder = _timed(filing.delete_folder)

    def undo(self, change: Undo | DeletedMessages) -> Future[None]:
        """Undo `delete`, `delete_message`, `archive`, `move` or `delete_folder`."""
        if isinstance(change, DeletedMessages):
            return self._do(message_changes.restore, change)
        return self._do(filing.undo, change)

    deleted = _queued(filing.deleted)

    def erase(self, change: Undo | DeletedMessages) -> Future[None]:
        """Remove for good what `undo` would put back."""
        return self._removing(filing.erase, change)

    def purge(self, *, older_than: timedelta = UNDO_FOR) -> Future[int]:
        """Remove for good the conversations that were deleted longer ago, with their documents.
        Returns how many."""
        before_ms = to_milliseconds(self._clock() - older_than)
        return self._removing(filing.purge, before_ms=before_ms)

    # Learning from answers

    def keep_earlier_answers(self) -> Future[None]:
        """Make the folder of earlier answers. Without it, the engine neither reads nor writes
        any."""
        return self._submit(self._change_earlier_answers, earlier_answers.begin)

    def drop_earlier_answers(self) -> Future[None]:
        """Delete that folder with its contents."""
        return self._submit(self._change_earlier_answers, earlier_answers.end)

    def _change_earlier_answers(self, change: Callable[[Path], None]) -> None:
        with _changing(self.earlier_answers, "The setting for past answers was not changed"):
            change(self.earlier_answers)

    # Messages

    branch = _queued(tree.branch)
    shown = _queued(tree.shown)
    message = _queued(tree.get)
    siblings = _queued(tree.siblings)
    switch = _queued(tree.switch)
    say = _timed(tree.say)
    edit = _timed(tree.edit)

    def delete_message(self, message: int) -> Future[DeletedMessages]:
        """Hide a message until `undo`, `erase` or `purge`. Those after it follow the one before it;
        but one of several versions goes with all after it. Everything learned from earlier answers
        is deleted."""
        return self._do(self._delete_message, message, now_ms=self._now_ms())

    def _delete_message(
        self, connection: sqlite3.Connection, message: int, *, now_ms: int
    ) -> DeletedMessages:
        change = message_changes.delete(connection, message, now_ms=now_ms)
        self._forget_learned(connection, (change.conversation, change.id))
        return change

    duplicate = _timed(message_changes.duplicate)
    ask = _timed(tree.ask)
    begin_answer = _timed(tree.begin)

    # Called about once a second. After a failure, such as a full disk, the next call stores all.
    flush_answer = _queued(tree.flush)
    finish_answer = _queued(tree.finish)
    trace = _queued(traces.read)

    # Documents

    def attach(
        self, conversation: int, document: Document, *, original: Path | None = None
    ) -> Future[int]:
        """Attach a document to the unsent message. Returns its number in the conversation. A
        private copy of the `original` is kept of a PDF, so that its pages can be drawn, and of a
        picture, as it was read."""
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
        copied = original is not None and connection is not self._memory
        if original is not None and copied and document.format in ("pdf", "picture"):
            attachments.keep_copy(original, self.attachments, document)
        return number

    def detach(self, conversation: int, number: int) -> Future[None]:
        """Detach a document from the unsent message."""
        return self._removing(self._without, attachments.detach, conversation, number)

    def delete_document(self, conversation: int, number: int) -> Future[None]:
        """Delete a document from a conversation for good: a line takes its place wherever it was
        sent. Backups keep it until they are removed."""
        return self._removing(self._without, attachments.delete, conversation, number)

    def _without(
        self,
        connection: sqlite3.Connection,
        remove: Callable[[sqlite3.Connection, int, int], None],
        conversation: int,
        number: int,
    ) -> None:
        self._forget_read(attachments.digests(connection, (conversation,), number=number))
        remove(connection, conversation, number)

    def _forget_read(self, digests: Iterable[str]) -> None:
        """Delete what the engine has read of these documents. It may hold more of a conversation
        than the document; other conversations only have to read the document again."""
        with _changing(self.kept, "Nothing was deleted, as a document’s cache could not be"):
            for digest in digests:
                kept_blocks.forget(self.kept, digest)

    def kept_bytes(self) -> Future[int]:
        """Return the bytes on disk of what the engine has read of all documents."""
        return self._submit(kept_blocks.held_bytes, self.kept)

    def forget_kept(self) -> Future[None]:
        """Delete what the engine has read of all documents."""
        return self._submit(self._forget_kept)

    def _forget_kept(self) -> None:
        with _changing(self.kept, "The cache of documents cannot be deleted"):
            kept_blocks.forget_all(self.kept)

    unsent_documents = _queued(attachments.unsent)
    documents_of = _queued(attachments.documents_of)

    def copy_of(self, document: Document) -> Path | None:
        """Return the path of a PDF's private copy, if there is one."""
        copy = attachments.copy_of(self.attachments, document)
        return copy if document.format == "pdf" and copy.exists() else None

    # Search, export, import

    targets = _queued(search.targets)
    search = _queued(search.search)
    chat = _queued(tree.chat)
    chats = _queued(tree.chats)

    def add(self, chats: Iterable[ExportedChat]) -> Future[tuple[Conversation, ...]]:
        """Add what `exchange` read: all of it, or nothing; and the pictures that can be read."""
        add = partial(tree.add, now_ms=self._now_ms(), pictures=self.attachments)
        found = tuple(chats)
        return self._do(lambda connection: tuple(add(connection, chat) for chat in found))

    # Backups

    def back_up_if_due(self) -> Future[bool]:
        """Make a backup if the newest is over an hour old. Returns whether one was made.

        To be called every few minutes. After a Problem the backup is missing, and nothing else.
        """
        return self._submit(self._back_up_if_due)

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
        return self._submit(
            self._done, lambda connection: work(connection, *arguments, **options), arguments
        )

    def _removing[T, **P](
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> Future[T]:
        """Do `work`, and remove the documents that nothing refers to. Their copies go last: if the
        change fails, they are still needed."""

        def remove() -> T:
            result, known = self._done(
                lambda connection: (
                    work(connection, *arguments, **options),
                    attachments.drop_unused(connection),
                ),
                arguments,
            )
            if self._of(arguments) is self._connection:
                attachments.drop_copies(self.attachments, known)
            return result

        return self._submit(remove)

    def _of(self, arguments: Iterable[object]) -> sqlite3.Connection:
        """Return the connection to the conversations or messages with these ids."""
        ids = (getattr(argument, "conversation", argument) for argument in arguments)
        if not any(isinstance(id, int) and is_temporary(id) for id in ids):
            return self._connection
        if self._memory is None:
            self._memory = schema.in_memory(_FIRST_TEMPORARY)
        return self._memory

    def _done[T](
        self, work: Callable[[sqlite3.Connection], T], arguments: Iterable[object] = ()
    ) -> T:
        connection = self._of(arguments)

        def attempt() -> T:
            with transaction(connection):
                return work(connection)

        with problems(self.path.parent):
            try:
                return attempt()
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_CORRUPT_VTAB:
                    raise
            # Only the index is damaged, and it can be rebuilt from the texts.
            with transaction(connection):
                schema.rebuild_indexes(connection)
            return attempt()

    def _submit[T, **P](
        self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs
    ) -> Future[T]:
        """Do `work` in the store's thread. A window that is being closed may still ask for this
        when the store has closed: the future then has a Problem."""
        try:
            return self._thread.submit(work, *arguments, **options)
        except RuntimeError:
            refused: Future[T] = Future()
            refused.set_exception(
                Problem("The conversations are closed.", "Open Slipstream again.")
            )
            return refused


def backups_of(path: Path) -> Path:
    """Return the folder with the backups of the file at `path`."""
    return path.parent / "backups"


def _changing(folder: Path, failure: str) -> AbstractContextManager[None]:
    """Raise Problem, which begins with `failure`, if `folder` cannot be changed in the block."""
    return disk_problem(f"{failure}: {folder}", "Check that you may write there, then try again.")


def _open(path: Path) -> tuple[sqlite3.Connection, str | None]:
    connection, notice = recovery.open_sound(path, backups=backups_of(path))
    try:
        with problems(path.parent), transaction(connection):
            tree.interrupt(connection)
    except Problem as problem:  # a full disk: the file can still be read
        notice = f"{notice} {problem}" if notice else str(problem)
    return connection, notice
