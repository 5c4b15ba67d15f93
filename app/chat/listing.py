"""The list of conversations and folders, shared by all windows.

Code that changes the list calls `refresh`; code that shows it listens. Knows the store; no widget.
"""

from concurrent.futures import Future

from PySide6.QtCore import QObject, Signal

from app.conversations.records import Conversation, Folder
from app.conversations.store import Store
from app.steps import Stepper, Steps
from models.errors import Problem


class Listing(QObject):
    """Attributes: `conversations` and `folders`, as last read.

    Signals:
        changed(): they were read again.
        failed(Problem): they could not be read.
    """

    changed = Signal()
    failed = Signal(Problem)

    def __init__(self, store: Store, *, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.conversations: tuple[Conversation, ...] = ()
        self.folders: tuple[Folder, ...] = ()
        self._store = store
        self._stepper = Stepper(self)

    def find(self, conversation: int) -> Conversation | None:
        """Return the record of a conversation, or None if it is not listed."""
        return next((found for found in self.conversations if found.id == conversation), None)

    def refresh(self) -> Future[None]:
        """Read the list again. The future is done when all listeners have the list, or know that it
        could not be read."""
        done: Future[None] = Future()

        def steps() -> Steps:
            # In one read: its answer comes before the answers to all later requests.
            self.conversations, self.folders = yield self._store.listing()
            self.changed.emit()
            done.set_result(None)

        def give_up(problem: Problem) -> None:
            self.failed.emit(problem)
            done.set_result(None)

        self._stepper.run(steps(), failed=give_up)
        return done

    def close(self) -> None:
        """Stop reading: the store is about to close."""
        self._stepper.close()
