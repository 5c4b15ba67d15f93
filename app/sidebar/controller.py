"""Keeps the sidebar in step with the store, and carries out what is asked for there.

Knows the store and the open conversation; not how the list looks.
"""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app import files
from app.chat.answers import Answers
from app.chat.conversation import OpenConversation
from app.conversations import exchange
from app.conversations.store import Store
from app.sidebar.sidebar import Sidebar
from app.steps import Stepper, Steps, in_thread
from models.errors import Problem

_BACK_UP_MS = 5 * 60 * 1000


class SidebarController(QObject):
    """Joins the sidebar with the store.

    Signals:
        left: another conversation is about to open.
        reported(str): a request was carried out, in a line.
        failed(Problem): a request failed.
    """

    left = Signal()
    reported = Signal(str)
    failed = Signal(Problem)

    def __init__(
        self, sidebar: Sidebar, store: Store, conversation: OpenConversation, answers: Answers
    ) -> None:
        super().__init__(sidebar)
        self._sidebar, self._store, self._conversation = sidebar, store, conversation
        self._stepper = Stepper(self)
        self._backups = QTimer(self, interval=_BACK_UP_MS)
        self._backups.timeout.connect(store.back_up_if_due)
        self._backups.start()
        conversation.opened.connect(self._mark)
        conversation.described.connect(self.refresh)
        conversation.described.connect(self._mark)
        answers.begun.connect(self.refresh)
        answers.activity_changed.connect(lambda: sidebar.set_activities(answers.activities()))
        sidebar.chosen.connect(self._open)
        sidebar.hit_chosen.connect(self._open_hit)
        sidebar.renamed.connect(lambda id, title: self._do(store.rename, id, title))
        sidebar.pinned.connect(lambda id, pinned: self._do(store.pin, id, pinned))
        sidebar.deleted.connect(self._delete)
        sidebar.restored.connect(self._restore)
        sidebar.export_asked.connect(self._ask_to_export)
        sidebar.import_asked.connect(self._ask_to_import)
        sidebar.search_changed.connect(self._search)

    def close(self) -> None:
        """Stop the backups, as the store is about to close."""
        self._backups.stop()

    def refresh(self) -> None:
        """Show the list of the store."""

        def steps() -> Steps:
            self._sidebar.set_conversations((yield self._store.conversations()))
            self._mark()

        self._run(steps())

    def export(self, conversation: int, form: str, path: Path) -> None:
        """Write a conversation to a file; `form` is "markdown" or "json"."""

        def steps() -> Steps:
            chat = yield self._store.chat(conversation)
            text = exchange.to_json(chat) if form == "json" else exchange.to_markdown(chat)
            yield in_thread(lambda: files.write_text(path, text))
            self.reported.emit(f"Exported to {path}.")

        self._run(steps())

    def import_file(self, path: Path) -> None:
        """Import the conversations in a file."""

        def steps() -> Steps:
            chats = yield in_thread(lambda: exchange.read_chats(path))
            added = yield self._store.add(chats)
            count = len(added)
            self.reported.emit(f"Imported {count:,} conversation{'' if count == 1 else 's'}.")
            self.refresh()
            self._open(added[-1].id)

        self._run(steps())

    def _open(self, conversation: int) -> None:
        self.left.emit()
        self._conversation.open(conversation)

    def _open_hit(self, conversation: int, message: int | None) -> None:
        self.left.emit()
        self._conversation.open(conversation, at=message)

    def _delete(self, conversation: int) -> None:
        def steps() -> Steps:
            try:
                yield self._store.delete(conversation)
            except Problem:
                self._sidebar.withdraw_undo(conversation)
                raise
            self.refresh()

        record = self._conversation.record
        if record is not None and record.id == conversation:
            self._conversation.stop()
            self.left.emit()
            self._conversation.new()
        self._run(steps())

    def _restore(self, conversation: int) -> None:
        def steps() -> Steps:
            yield self._store.restore(conversation)
            self.refresh()
            self._open(conversation)

        self._run(steps())

    def _search(self, text: str) -> None:
        def steps() -> Steps:
            self._sidebar.set_hits(text, (yield self._store.search(text)))

        self._run(steps())

    def _ask_to_export(self, conversation: int, form: str) -> None:
        def steps() -> Steps:
            record = yield self._store.conversation(conversation)
            suffix = "json" if form == "json" else "md"
            files.ask_to_save(
                self._sidebar,
                "Export the conversation",
                f"{record.title or 'Conversation'}.{suffix}",
                lambda path: self.export(conversation, form, path),
            )

        self._run(steps())

    def _ask_to_import(self) -> None:
        files.ask_to_open(
            self._sidebar, "Import conversations", "Conversations (*.json)", self.import_file
        )

    def _mark(self) -> None:
        record = self._conversation.record
        self._sidebar.set_shown(None if record is None else record.id)

    def _do[**P](
        self, change: Callable[P, Future[None]], *arguments: P.args, **options: P.kwargs
    ) -> None:
        """Ask the store for a change, and refresh the list in any case."""

        def steps() -> Steps:
            try:
                yield change(*arguments, **options)
            finally:
                self.refresh()
            self._conversation.describe()

        self._run(steps())

    def _run(self, steps: Steps) -> None:
        self._stepper.run(steps, failed=self.failed.emit)
