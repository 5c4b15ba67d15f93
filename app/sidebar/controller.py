"""Connects the sidebar of a window to the store, and carries out its requests.

Knows the store and the open conversation of this window; not how the list looks.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QProgressDialog

from app import files
from app.chat.answers import Answers
from app.chat.conversation import OpenConversation
from app.chat.listing import Listing
from app.chat.web_page import Form, page_of, write_pdf
from app.conversations import exchange
from app.conversations.chat_archive import ChatArchive
from app.conversations.database import disk_problem
from app.conversations.records import DeletedMessages, ExportedChat, Folder, SearchFilter, Undo
from app.conversations.store import Store
from app.sidebar.folder_dialog import FolderDialog
from app.sidebar.sidebar import Sidebar
from app.steps import Stepper, Steps, in_steps, in_thread
from models.errors import Problem

_SUFFIXES: dict[Form, str] = {
    "markdown": "md",
    "json": "json",
    "html": "html",
    "pdf": "pdf",
    "print": "pdf",
}
_AT_A_TIME = 50  # conversations of an export


class SidebarController(QObject):
    """Connects the sidebar to the store.

    Signals:
        asked(int, object, str): show this conversation at this message, or at its end for None;
            with the words of the search.
        leaving(object): these conversations are about to be deleted or archived.
        files_wanted(list[Path]): attach these to the conversation that was just opened.
        file_made(Path): show this file in the program for its kind.
        reported(str): a request was carried out; a line about it.
        failed(Problem): a request failed.
    """

    asked = Signal(int, object, str)
    leaving = Signal(object)
    files_wanted = Signal(list)
    file_made = Signal(Path)
    reported = Signal(str)
    failed = Signal(Problem)

    def __init__(
        self,
        sidebar: Sidebar,
        store: Store,
        listing: Listing,
        conversation: OpenConversation,
        answers: Answers,
    ) -> None:
        super().__init__(sidebar)
        self._sidebar, self._store, self._listing = sidebar, store, listing
        self._conversation, self._answers = conversation, answers
        self._stepper = Stepper(self)
        self._printed: TemporaryDirectory[str] | None = None  # conversations to be printed
        self._begun: dict[int, list[Path]] = {}  # files of folders, by conversations not opened yet
        listing.changed.connect(self._show_list)
        conversation.opened.connect(self._mark)
        conversation.opened.connect(self._attach_files)
        conversation.described.connect(self._mark)
        conversation.deleted.connect(sidebar.offer_undo_of_messages)
        answers.activity_changed.connect(self._show_activities)
        self._show_list()
        self._show_activities()
        sidebar.chosen.connect(self._open)
        sidebar.hit_chosen.connect(self.asked)
        sidebar.renamed.connect(lambda id, title: self._do(store.rename, id, title))
        sidebar.pinned.connect(lambda ids, pinned: self._do(store.pin, *ids, pinned=pinned))
        sidebar.deleted.connect(self._delete)
        sidebar.archived.connect(self._archive)
        sidebar.moved.connect(
            lambda ids, folder: self._file(lambda: store.move(*ids, folder=folder), "Moved")
        )
        sidebar.folder_wanted.connect(self._make_folder)
        sidebar.new_in_folder_asked.connect(self.begin_in_folder)
        sidebar.folder_setup_asked.connect(self._ask_to_set_up)
        sidebar.folder_renamed.connect(lambda id, name: self._do(store.rename_folder, id, name))
        sidebar.folder_opened.connect(
            lambda id, opened: self._do(store.open_folder, id, opened=opened)
        )
        sidebar.folder_deleted.connect(
            lambda id: self._file(lambda: store.delete_folder(id), "Deleted")
        )
        sidebar.undone.connect(self._undo)
        sidebar.erased.connect(lambda change: self._do(store.erase, change))
        sidebar.deleted_asked.connect(self._show_deleted)
        sidebar.duplicate_asked.connect(self.duplicate)
        sidebar.export_asked.connect(self._ask_to_export)
        sidebar.export_many_asked.connect(self._ask_to_export_many)
        sidebar.import_asked.connect(self._ask_to_import)
        sidebar.search_changed.connect(self._search)

    def close(self) -> None:
        """Stop all requests: the window or the store is about to close."""
        self._stepper.close()
        if self._printed is not None:
            self._printed.cleanup()  # another program has read them

    @in_steps
    def begin_in_folder(self, folder: int) -> Steps:
        """Store a conversation in a folder with the folder's instruction and files, and open it."""
        asked_for = self._conversation.asked_for
        found = next((f for f in (yield self._store.folders()) if f.id == folder), None)
        if found is None:
            raise Problem("This folder no longer exists.", "Choose another.")
        system_prompt, settings = self._conversation.beginning()
        record = yield self._store.create(
            system_prompt=found.instruction or system_prompt, settings=settings, folder=folder
        )
        self._begun[record.id] = [Path(file) for file in found.files]
        self._listing.refresh()
        if not self._open_made(record.id, asked_for):
            self.reported.emit("The new conversation is in its folder.")

    @in_steps
    def begin_temporary(self) -> Steps:
        """Open a new conversation that is only in memory."""
        asked_for = self._conversation.asked_for
        system_prompt, settings = self._conversation.beginning()
        record = yield self._store.create_temporary(system_prompt=system_prompt, settings=settings)
        self._open_made(record.id, asked_for)

    @in_steps
    def keep_temporary(self, conversation: int, unsent: Callable[[], str]) -> Steps:
        """Store the open conversation, which is only in memory, and open that, with its documents
        and text that are unsent then. Nothing is sent in it meanwhile."""
        here, place, text = self._conversation, self._conversation.place, unsent()
        asked_for = here.asked_for
        here.sends[place] = ""
        try:
            chat = yield self._store.chat(conversation)
            (record,) = yield self._store.add((replace(chat, title=""),))
            for _, document in (yield self._store.unsent_documents(conversation)):
                yield self._store.attach(record.id, document)
            yield self._listing.refresh()
        finally:
            del here.sends[place]
        self._store.keep_unsent(record.id, unsent() if here.is_here(place) else text)
        if not self._open_made(record.id, asked_for):
            self.reported.emit("The chat is in the list of conversations.")

    def _attach_files(self) -> None:
        """Attach the folder's files to a conversation that was begun in it, once it is open."""
        record = self._conversation.record
        if record is not None and (files_of_folder := self._begun.pop(record.id, None)):
            self.files_wanted.emit(files_of_folder)

    def _ask_to_set_up(self, folder: Folder) -> None:
        dialog = FolderDialog(folder, self._sidebar.window())

        def steps() -> Steps:
            yield self._store.set_up_folder(
                folder.id, instruction=dialog.instruction, files=dialog.files
            )
            dialog.deleteLater()
            self._listing.refresh()

        def ask_again(problem: Problem) -> None:
            dialog.open()  # with the text written in it
            self.failed.emit(problem)

        dialog.accepted.connect(lambda: self._stepper.run(steps(), failed=ask_again))
        dialog.rejected.connect(dialog.deleteLater)
        dialog.open()

    @in_steps
    def duplicate(self, conversation: int, message: int | None = None) -> Steps:
        """Copy a conversation, down to `message` if given, and open the copy."""
        asked_for = self._conversation.asked_for
        copy = yield self._store.duplicate(conversation, message=message)
        yield self._listing.refresh()
        if self._open_made(copy.id, asked_for):
            self.reported.emit("This is a copy. Changes here do not affect the original.")
        else:
            self.reported.emit("The copy is in the list of conversations.")

    @in_steps
    def export(self, conversation: int, form: Form, path: Path) -> Steps:
        """Write a conversation to a file. For "print", show the file in the program for PDFs."""
        chat = yield self._store.chat(conversation)
        pictures = self._store.attachments
        yield in_thread(lambda: _write(chat, form, path, pictures))
        left_out = exchange.left_out(chat, pictures, whole=form == "json")
        done = "" if form == "print" else f"Exported to {path}."
        if form == "print":
            self.file_made.emit(path)
        if line := done + exchange.not_in_it(left_out):
            self.reported.emit(line.strip())

    @in_steps
    def export_many(self, conversations: Sequence[int] | None, path: Path) -> Steps:
        """Write conversations, or all for None, to a .zip: completely, or not at all.

        If it takes long, a dialog shows the progress and can cancel it.
        """
        ids = conversations
        if ids is None:
            ids = [found.id for found in (yield self._store.conversations())]
        progress = QProgressDialog("Exporting…", "Cancel", 0, len(ids), self._sidebar)
        progress.setWindowTitle("Export conversations")
        archive = ChatArchive(path, self._store.attachments)
        try:
            for begin in range(0, len(ids), _AT_A_TIME):
                chats = yield self._store.chats(ids[begin : begin + _AT_A_TIME])
                yield in_thread(partial(archive.add, chats))
                progress.setValue(begin + len(chats))
                if progress.wasCanceled():
                    self.reported.emit("The export was cancelled. No file was written.")
                    return
            yield in_thread(archive.finish)
            done = f"Exported {_conversations(archive.count)} to {path}."
            self.reported.emit(done + exchange.not_in_it(archive.left_out))
        finally:
            archive.close()
            with suppress(RuntimeError):  # it disappears with its window
                progress.deleteLater()

    @in_steps
    def import_files(self, paths: Sequence[Path]) -> Steps:
        """Import the conversations in some files: all of them, or nothing."""
        asked_for = self._conversation.asked_for
        chats = yield in_thread(lambda: _chats_in(paths))
        added = yield self._store.add(chats)
        self.reported.emit(f"Imported {_conversations(len(added))}.")
        self._listing.refresh()
        self._open_made(added[-1].id, asked_for)

    def _open(self, conversation: int) -> None:
        self.asked.emit(conversation, None, "")

    def _open_made(self, conversation: int, asked_for: int) -> bool:
        """Open a conversation that was made, unless the user has gone to another since this number
        were `asked_for`. Returns whether it was opened."""
        if stays := asked_for == self._conversation.asked_for:
            self._open(conversation)
        return stays

    def _delete(self, conversations: tuple[int, ...]) -> None:
        self._answers.cancel_in(conversations)
        self.leaving.emit(conversations)
        deletion = self._store.delete(*conversations)
        self._file(lambda: deletion, "Deleted")
        steps = self._stop_answers(deletion, conversations)
        self._stepper.run(steps, failed=lambda problem: None)  # it is reported once

    def _stop_answers(self, deletion: Future[Undo], conversations: tuple[int, ...]) -> Steps:
        """Stop the answers to messages that were on their way when these were deleted."""
        yield deletion
        self._answers.cancel_in(conversations)

    def _archive(self, conversations: tuple[int, ...], archived: bool) -> None:
        if archived:
            self.leaving.emit(conversations)
        what = "Archived" if archived else "Unarchived"
        self._file(lambda: self._store.archive(*conversations, archived=archived), what)

    @in_steps
    def _file(self, change: Callable[[], Future[Undo]], what: str) -> Steps:
        """Delete, archive or move conversations, and offer to undo that."""
        try:
            self._sidebar.offer_undo((yield change()), what)
        finally:
            self._listing.refresh()

    @in_steps
    def _undo(self, change: Undo | DeletedMessages) -> Steps:
        try:
            yield self._store.undo(change)
        except Problem:
            self._sidebar.undo_bar.put_back(change)
            raise
        self._listing.refresh()
        if isinstance(change, DeletedMessages):
            self.asked.emit(change.conversation, change.message, "")
        elif len(change.filings) == 1:
            self._open(change.filings[0].conversation)

    @in_steps
    def _show_deleted(self) -> Steps:
        self._sidebar.show_deleted((yield self._store.deleted()))

    @in_steps
    def _make_folder(self, conversations: tuple[int, ...]) -> Steps:
        """Make a folder, put these into it, and let the user name it."""
        folder = yield self._store.make_folder("New folder")
        try:
            if conversations:
                change = yield self._store.move(*conversations, folder=folder.id)
                self._sidebar.offer_undo(change, "Moved")
        finally:
            listed = self._listing.refresh()
        yield listed
        self._sidebar.begin_folder_rename(folder.id)

    @in_steps
    def _search(self, text: str, among: SearchFilter) -> Steps:
        self._sidebar.set_targets((yield self._store.targets()))
        self._sidebar.set_hits(text, (yield self._store.search(text, among=among)))

    @in_steps
    def _ask_to_export(self, conversation: int, form: Form) -> Steps:
        record = yield self._store.conversation(conversation)
        name = f"{record.title or 'Conversation'}.{_SUFFIXES[form]}"
        if form == "print":
            with disk_problem("No PDF can be made", "Make room on the disk, then try again."):
                self._printed = self._printed or TemporaryDirectory(prefix="Slipstream-")
            self.export(conversation, form, Path(self._printed.name) / files.file_name(name))
            return
        files.ask_to_save(
            self._sidebar,
            "Export the conversation",
            name,
            lambda path: self.export(conversation, form, path),
        )

    def _ask_to_export_many(self, conversations: tuple[int, ...] | None) -> None:
        name = "Slipstream conversations"
        if conversations is None:
            name = f"All {name} {datetime.now():%Y-%m-%d}"
        files.ask_to_save(
            self._sidebar,
            "Export conversations",
            f"{name}.zip",
            lambda path: self.export_many(conversations, path),
        )

    def _ask_to_import(self) -> None:
        files.ask_to_open_several(
            self._sidebar,
            "Import conversations",
            self.import_files,
            kinds="Conversations (*.json *.zip)",
        )

    def _show_list(self) -> None:
        self._sidebar.set_conversations(self._listing.conversations, self._listing.folders)
        self._mark()

    def _show_activities(self) -> None:
        self._sidebar.set_activities(self._answers.activities())

    def _mark(self) -> None:
        record = self._conversation.record
        self._sidebar.set_shown(None if record is None else record.id)

    @in_steps
    def _do[**P](
        self, change: Callable[P, Future[None]], /, *arguments: P.args, **options: P.kwargs
    ) -> Steps:
        """Change the store, and then read the list again, also after a failure."""
        try:
            yield change(*arguments, **options)
        finally:
            self._listing.refresh()

    def _run(self, steps: Steps) -> None:
        self._stepper.run(steps, failed=self.failed.emit)


def _chats_in(paths: Sequence[Path]) -> list[ExportedChat]:
    """Return the chats in all files. Raises Problem, which names its file if there are several."""
    chats: list[ExportedChat] = []
    for path in paths:
        try:
            chats += exchange.read_chats(path)
        except Problem as problem:
            if len(paths) == 1:
                raise
            raise Problem(f"{path.name}: {problem.message}", problem.remedy) from problem
    return chats


def _write(chat: ExportedChat, form: Form, path: Path, pictures: Path) -> None:
    """Write a chat in this form. Raises Problem."""
    match form:
        case "markdown":
            files.write_text(path, exchange.to_markdown(chat))
        case "json":
            files.write_text(path, exchange.to_json(chat, pictures))
        case "html":
            files.write_text(path, page_of(chat))
        case "pdf" | "print":
            write_pdf(chat, path)


def _conversations(count: int) -> str:
    return f"{count:,} conversation{'' if count == 1 else 's'}"
