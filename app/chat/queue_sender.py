"""Sends queued messages of conversations that no window shows, as their answers end.

A window sends the queued messages of its own conversation, also if it was still being opened when
the answer ended. A message that would need passages of documents waits until a window shows the
conversation: only there it is known which. Knows the store and the answers; no window.
"""

from collections.abc import Callable

from app.chat.answers import Answers
from app.chat.conversation import ended_well, start_answer
from app.conversations.records import Message
from app.conversations.store import Store
from app.steps import Steps


def send_next(
    after: Message,
    store: Store,
    answers: Answers,
    *,
    shown: Callable[[int], bool],
    send_in_window: Callable[[Message], bool],
    names: Callable[[], tuple[str, str]],
) -> Steps:
    """Send the message queued after this answer, if there is one. `shown` returns whether a window
    shows a conversation, or is about to; `send_in_window` has it send the message, and returns
    False until it is open; `names` returns the current target and drafter as text."""
    if not ended_well(after):
        return
    record, branch = yield store.shown(after.conversation)
    while shown(record.id):
        if send_in_window(after):
            return
        record, branch = yield store.shown(record.id)
    documents = [document for said in branch if said.sent for document in said.sent.documents]
    ends_here = bool(branch) and branch[-1].id == after.id
    if not record.queued or not ends_here or any(document.among for document in documents):
        return
    target, drafter = names()
    record, branch = yield store.ask(
        record.id, record.queued[0], queued=True, target=target, drafter=drafter
    )
    start_answer(answers, record, branch)
