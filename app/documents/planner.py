"""Plans messages with documents in a thread, and knows how many tokens their pictures take.

The thread keeps the passages of one conversation's documents, so that they are not cut again after
every key. The engine counts each picture once. Knows no store and no widget.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from PySide6.QtCore import QObject, Signal

from app.engine_client.engine_process import EngineProcess
from engine.documents import Document
from engine.documents.passages import PassageIndex
from engine.documents.plan import Plan, plan
from engine.documents.prompt import Sent
from engine.process.protocol import Counted
from engine.request import ChatMessage, Picture

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class MessageToPlan:
    """A message to plan: the `question`, and the `documents` of its conversation that it may use,
    by number.

    `room` returns how many tokens these may take, counted by `count`. `picture_tokens`: the tokens
    of pictures, by digest, as far as they are known. `before` is the sent text of
    the earlier messages that are still read; `asked_before` is the question before.
    """

    conversation: int
    question: str
    documents: Callable[[], Mapping[int, Document]]
    count: Count
    room: Callable[[Count], int]
    before: Sequence[Sent] = ()
    asked_before: str = ""
    picture_tokens: Mapping[str, int] = field(default_factory=dict)


class Planner:
    """Plans one message after the other. The window closes it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="documents")
        self._index: PassageIndex | None = None  # used by the thread only
        self._indexed = 0, dict[int, str]()  # the conversation; the digest of each document

    def plan(self, message: MessageToPlan) -> Future[Plan]:
        """Plan a message. The future raises Problem if there is not enough room."""
        return self._thread.submit(self._plan, message)

    def send(self, message: MessageToPlan) -> Future[Sent]:
        """Return the message as it is sent. The future raises Problem, as above."""
        return self._thread.submit(lambda: self._plan(message).sent)

    def close(self) -> None:
        """Plan nothing more. Waits for the plan that is being made."""
        with suppress(RuntimeError):  # closed already
            self._thread.submit(self._forget)
        self._thread.shutdown()

    def _plan(self, message: MessageToPlan) -> Plan:
        documents = message.documents()
        return plan(
            message.question,
            documents,
            index=self._index_of(message.conversation, documents),
            count=message.count,
            room=message.room(message.count),
            before=message.before,
            asked_before=message.asked_before,
            picture_tokens=lambda picture: message.picture_tokens.get(picture.digest, 0),
        )

    def _index_of(self, conversation: int, documents: Mapping[int, Document]) -> PassageIndex:
        """Return the passages so far, if they belong to this conversation and none of its documents
        is gone. The number of a document that was removed unsent is given to the next one."""
        of, indexed = self._indexed
        digests = {number: document.digest for number, document in documents.items()}
        if self._index is None or of != conversation or not indexed.items() <= digests.items():
            self._forget()
            self._index = PassageIndex()
        self._indexed = conversation, digests
        return self._index

    def _forget(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None


class PictureTokens(QObject):
    """Signals: `changed()`: another picture is counted."""

    changed = Signal()

    def __init__(self, engine: EngineProcess, parent: QObject) -> None:
        super().__init__(parent)
        self._engine = engine
        self._asked: dict[str, str] = {}  # the picture's digest, by the id of the question
        self._known: dict[str, int] = {}  # by digest
        engine.counted.connect(self._on_counted)
        engine.loading.connect(self._forget)

    def of(self, picture: Picture) -> int:
        """Return the tokens of a picture, with those around a message; 0 until they are known."""
        if picture.digest not in self._known:
            self._known[picture.digest] = 0
            id = self._engine.count([ChatMessage("user", "?", pictures=(picture,))])
            self._asked[id] = picture.digest
        return self._known[picture.digest]

    def _on_counted(self, counted: Counted) -> None:
        if (digest := self._asked.pop(counted.id, None)) is not None:
            self._known[digest] = counted.tokens
            self.changed.emit()

    def _forget(self) -> None:
        self._known.clear()
        self._asked.clear()
