"""Plans messages with documents in a thread.

The thread keeps the passages of one conversation's documents, so that they are not cut again after
every key. Knows no store and no widget.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from engine.documents import Document
from engine.documents.passages import PassageIndex
from engine.documents.plan import Plan, plan
from engine.documents.prompt import Sent

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
        self._indexed: tuple[int, frozenset[int]] = (0, frozenset())

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
            index=self._index_of(message.conversation, frozenset(documents)),
            count=message.count,
            room=message.room(message.count),
            before=message.before,
            asked_before=message.asked_before,
            picture_tokens=lambda picture: message.picture_tokens.get(picture.digest, 0),
        )

    def _index_of(self, conversation: int, numbers: frozenset[int]) -> PassageIndex:
        """Return the passages so far, if they belong to this conversation and none of its documents
        is gone. A number always means the same document in a conversation."""
        of, indexed = self._indexed
        if self._index is None or of != conversation or not indexed <= numbers:
            self._forget()
            self._index = PassageIndex()
        self._indexed = (conversation, numbers)
        return self._index

    def _forget(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
