"""Sends queued messages of conversations that no window shows, as their answers end.

A window sends the queued messages of its own conversation. A message that would need passages of
documents waits until a window shows the conversation: only there it is known which. Knows the store
and the answers; no window.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.chat.answers import Answers
from app.chat.conversation import ended_well, start_answer
from app.conversations.records import Message
from app.conversations.store import Store
from app.steps import Stepper, Steps


class QueueSender(QObject):
    """Listens to the answers, and sends the messages queued after them."""

    def __init__(
        self,
        store: Store,
        answers: Answers,
        *,
        shown: Callable[[int], bool],
        names: Callable[[], tuple[str, str]],
        parent: QObject,
    ) -> None:
        """`shown` returns whether a window shows this conversation; `names`, the current target and
        drafter as text."""
        super().__init__(parent)
        self._store, self._answers, self._shown, self._names = store, answers, shown, names
        self._stepper = Stepper(self)
        answers.saved.connect(self._on_saved)

    def close(self) -> None:
        """Send nothing more."""
        self._stepper.close()

    def _on_saved(self, message: Message) -> None:
        if ended_well(message) and not self._shown(message.conversation):
            self._stepper.run(self._steps(message), failed=lambda problem: None)  # it stays queued

    def _steps(self, message: Message) -> Steps:
        record, branch = yield self._store.shown(message.conversation)
        documents = [document for said in branch if said.sent for document in said.sent.documents]
        ends_here = bool(branch) and branch[-1].id == message.id
        if (
            not record.queued
            or not ends_here
            or any(document.among for document in documents)
            or self._shown(record.id)
        ):
            return
        target, drafter = self._names()
        record, branch = yield self._store.ask(
            record.id, record.queued[0], queued=True, target=target, drafter=drafter
        )
        start_answer(self._answers, record, branch)
