"""The messages of a conversation, in SQL. Each function runs inside one transaction.

They form a tree in which nothing is overwritten: another version is a sibling. The shown branch is
the path from the conversation's leaf up to the first message.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.conversations import attachments, conversation_table, filing, stored_json, traces
from app.conversations.answer_figures import AnswerFigures, figures_of
from app.conversations.answer_steps import STOPPED
from app.conversations.database import insert
from app.conversations.records import (
    Conversation,
    Entry,
    ExportedChat,
    Message,
    MessageState,
    Unsent,
    clean,
    from_milliseconds,
    settings_to_json,
    title_from,
    to_milliseconds,
)
from app.conversations.think_tags import stretches_from_json, stretches_to_json
from engine.documents.prompt import Sent
from engine.events import Event, stretches_of
from engine.request import Request
from engine.stretches import Stretch
from engine.tools.steps import Step, stopped
from models.errors import Problem

_FIELDS = ("id", "conversation", "parent", "role", "content", "state", "target", "drafter")
_EXPORTED = ("role", "target", "drafter", "created", "sent", "edited")  # as they are
_OF_A_CHAT = "title", "system_prompt", "settings", "pinned", "created", "updated", "archived"
_MESSAGE = f"""
    SELECT {", ".join(f"m.{name}" for name in _FIELDS)},
        m.edited, m.stretches, m.steps, m.figures, m.sent, m.created_ms,
        (SELECT count(*) FROM messages s WHERE s.conversation = m.conversation
            AND s.parent IS m.parent AND s.id <= m.id),
        (SELECT count(*) FROM messages s WHERE s.conversation = m.conversation
            AND s.parent IS m.parent)
    FROM messages m
"""


def get(connection: sqlite3.Connection, message: int) -> Message:
    """Return a message. Raises Problem if it was deleted or purged."""
    row = connection.execute(
        f"{_MESSAGE} JOIN conversations c ON c.id = m.conversation "
        "WHERE m.id = ? AND c.taken_from IS NULL",
        (message,),
    ).fetchone()
    if row is None:
        raise Problem("This message no longer exists.", "Open another conversation.")
    return _message(row)


def branch(connection: sqlite3.Connection, conversation: int) -> tuple[Message, ...]:
    """Return the messages of the shown branch, first to last."""
    rows = connection.execute(
        f"""
        WITH RECURSIVE up (id, depth) AS (
            SELECT leaf, 0 FROM conversations WHERE id = ?
            UNION ALL
            SELECT m.parent, up.depth + 1 FROM messages m JOIN up ON m.id = up.id
        )
        {_MESSAGE} JOIN up ON m.id = up.id ORDER BY up.depth DESC
        """,
        (conversation_table.get(connection, conversation).id,),
    )
    return tuple(map(_message, rows))


def shown(
    connection: sqlite3.Connection, conversation: int, *, at: int | None = None
) -> tuple[Conversation, tuple[Message, ...]]:
    """Return the record of a conversation, and its shown branch: the branch through the message
    `at`, if that is not on it."""
    messages = branch(connection, conversation)
    if at is not None and at not in [message.id for message in messages]:
        messages = switch(connection, at)
    return conversation_table.get(connection, conversation), messages


def siblings(connection: sqlite3.Connection, message: int) -> tuple[Message, ...]:
    """Return the messages under the same parent, including this one, oldest first."""
    found = get(connection, message)
    rows = connection.execute(
        f"{_MESSAGE} WHERE m.conversation = ? AND m.parent IS ? ORDER BY m.id",
        (found.conversation, found.parent),
    )
    return tuple(map(_message, rows))


def switch(connection: sqlite3.Connection, message: int) -> tuple[Message, ...]:
    """Show the branch through `message`, down to its newest end. Returns the branch."""
    found = get(connection, message)
    (leaf,) = connection.execute(
        """
        WITH RECURSIVE down (id) AS (
            VALUES (?)
            UNION ALL
            SELECT (SELECT max(m.id) FROM messages m
                WHERE m.conversation = ? AND m.parent = down.id)
            FROM down WHERE down.id IS NOT NULL
        )
        SELECT max(id) FROM down  -- a child is newer than its parent
        """,
        (found.id, found.conversation),
    ).fetchone()
    conversation_table.show(connection, found.conversation, leaf)
    return branch(connection, found.conversation)


def say(
    connection: sqlite3.Connection,
    now_ms: int,
    conversation: int,
    content: str,
    *,
    queued: bool = False,
    as_of: Conversation | None = None,
) -> Message:
    """Add a user's message at the end of the branch that is shown, or was shown `as_of` its
    sending. It sends the unsent text, unless that changed since, or a `queued` message."""
    found = conversation_table.get(connection, conversation)
    unsent, waiting = Unsent.read(found.unsent), list(found.queued)
    if (leaf := (as_of or found).leaf) is not None:
        get(connection, leaf)  # raises Problem if it was deleted meanwhile
    if queued and clean(content) in waiting:
        waiting.remove(clean(content))
        conversation_table.keep_queued(connection, conversation, tuple(waiting))
    elif not queued and (as_of is None or unsent.text == content):
        kept = replace(unsent, text="").stored
        conversation_table.keep_unsent(connection, conversation, kept)
    if not found.title:
        conversation_table.title_for_now(connection, conversation, title_from(content))
    return _add(
        connection,
        conversation=conversation,
        parent=leaf,
        role="user",
        content=content,
        now_ms=now_ms,
    )


def edit(connection: sqlite3.Connection, now_ms: int, message: int, content: str) -> Message:
    """Add another version of `message` as its sibling, and show its branch. An answer is marked as
    edited, and has neither figures nor a trace."""
    found = get(connection, message)
    return _add(
        connection,
        conversation=found.conversation,
        parent=found.parent,
        role=found.role,
        content=content,
        target=found.target,
        drafter=found.drafter,
        edited=found.role == "assistant",
        now_ms=now_ms,
    )


def begin(
    connection: sqlite3.Connection,
    now_ms: int,
    parent: int,
    *,
    target: str,
    drafter: str,
    content: str = "",
    stretches: Sequence[Stretch] = (),
    steps: Sequence[Step] = (),
) -> Message:
    """Begin an answer under `parent`, and show its branch. To continue an answer that was cut off,
    begin its sibling with its `content`, `stretches` and `steps`."""
    return _add(
        connection,
        conversation=get(connection, parent).conversation,
        parent=parent,
        role="assistant",
        content=content,
        state="streaming",
        target=target,
        drafter=drafter,
        stretches=stretches_to_json(stretches),
        steps=stored_json.write(steps),
        now_ms=now_ms,
    )


def ask(
    connection: sqlite3.Connection,
    now_ms: int,
    conversation: int | None,
    content: str,
    *,
    instead_of: int | None = None,
    queued: bool = False,
    as_of: Conversation | None = None,
    sent: Sent | None = None,
    target: str,
    drafter: str,
    system_prompt: str = "",
    settings: Request | None = None,
) -> tuple[Conversation, tuple[Message, ...]]:
    """Add a user's message and begin its answer: both, or neither.

    Without a conversation, makes a new one with this system prompt and these settings. With
    `instead_of`, the message is another version of that message, with its documents. With `queued`,
    it is a queued message, which leaves the queue; the unsent text stays. A message that waited
    follows the branch shown `as_of` its sending. `sent` is its text for the model, if it has new
    documents. Returns the record and the branch, which ends in the answer.
    """
    if instead_of is not None:
        before = get(connection, instead_of).sent
        sent = before and before.asked(content)
        question = edit(connection, now_ms, instead_of, content)
    else:
        if conversation is None:
            conversation = conversation_table.create(
                connection, now_ms, system_prompt=system_prompt, settings=settings
            ).id
        question = say(connection, now_ms, conversation, content, queued=queued, as_of=as_of)
    attachments.send(connection, question.conversation, question.id, sent)
    begin(connection, now_ms, question.id, target=target, drafter=drafter)
    return shown(connection, question.conversation)


def flush(
    connection: sqlite3.Connection,
    answer: int,
    content: str,
    events: Sequence[Event],
    *,
    steps: Sequence[Step] = (),
) -> None:
    """Store the answer so far: all its text, steps and events, and add the new ones to its trace.
    Raises Problem if it is finished."""
    _write(connection, answer, content=content, state="streaming", events=events, steps=steps)
    traces.extend(connection, answer, events)


def finish(
    connection: sqlite3.Connection,
    answer: int,
    content: str,
    events: Sequence[Event],
    *,
    state: MessageState,
    steps: Sequence[Step] = (),
) -> Message:
    """Store the whole answer with its figures and trace. Raises Problem if it is finished."""
    if state == "streaming":
        raise ValueError("a finished answer is not streaming")
    _write(connection, answer, content=content, state=state, events=events, steps=stopped(steps))
    connection.execute(
        "UPDATE messages SET figures = ? WHERE id = ?",
        (stored_json.write(figures_of(events)), answer),
    )
    traces.extend(connection, answer, events)
    traces.join(connection, answer)
    return get(connection, answer)


def interrupt(connection: sqlite3.Connection) -> int:
    """Mark the answers that were being written when the app died, and their calls that ran. Returns
    how many."""
    return connection.execute(
        f"UPDATE messages SET state = 'interrupted', steps = {STOPPED} WHERE state = 'streaming'"
    ).rowcount


def chats(connection: sqlite3.Connection, conversations: Sequence[int]) -> tuple[ExportedChat, ...]:
    """Return the conversations that exist among these, as `chat` does."""
    existing = {conversation.id for conversation in conversation_table.listed(connection)}
    return tuple(chat(connection, id) for id in conversations if id in existing)


def chat(connection: sqlite3.Connection, conversation: int) -> ExportedChat:
    """Return the whole conversation with all branches, for export."""
    found = conversation_table.get(connection, conversation)
    folder = next((f.name for f in filing.folders(connection) if f.id == found.folder), "")
    rows = connection.execute(f"{_MESSAGE} WHERE m.conversation = ? ORDER BY m.id", (found.id,))
    messages = tuple(map(_message, rows))
    place = {message.id: index for index, message in enumerate(messages)}

    def above(message: Message) -> int | None:
        parent = -1 if message.parent is None else place.get(message.parent, -1)
        return parent if 0 <= parent < place[message.id] else None  # other references are damaged

    entries = tuple(
        Entry(
            **{name: getattr(message, name) for name in _EXPORTED},
            parent=above(message),
            content=message.content if message.steps else message.tagged,
            state="interrupted" if message.state == "streaming" else message.state,
            stretches=message.stretches if message.steps else (),
            steps=stopped(message.steps),
        )
        for message in messages
    )
    return ExportedChat(
        **{name: getattr(found, name) for name in _OF_A_CHAT},
        entries=entries,
        leaf=None if found.leaf is None else place.get(found.leaf),
        folder=folder,
    )


def add(
    connection: sqlite3.Connection, chat: ExportedChat, *, now_ms: int, pictures: Path
) -> Conversation:
    """Store an imported conversation. `pictures`: the folder of the copies."""
    title = chat.title or next((title_from(e.content) for e in chat.entries if e.content), "")
    created_ms = now_ms if chat.created is None else to_milliseconds(chat.created)
    updated_ms = now_ms if chat.updated is None else to_milliseconds(chat.updated)
    conversation = insert(
        connection,
        "conversations",
        title=title,
        pinned=chat.pinned,
        folder=filing.folder_named(connection, chat.folder).id if chat.folder else None,
        archived=chat.archived,
        system_prompt=chat.system_prompt,
        settings=settings_to_json(chat.settings),
        created_ms=created_ms,
        updated_ms=updated_ms,
    )
    ids: list[int] = []
    for entry in chat.entries:
        ids.append(
            insert(
                connection,
                "messages",
                conversation=conversation,
                parent=None if entry.parent is None else ids[entry.parent],
                role=entry.role,
                content=entry.content,
                state=entry.state,
                target=entry.target,
                drafter=entry.drafter,
                edited=entry.edited,
                stretches=stretches_to_json(entry.stretches) if entry.steps else None,
                steps=stored_json.write(entry.steps),
                created_ms=created_ms if entry.created is None else to_milliseconds(entry.created),
            )
        )
        attachments.bring(connection, conversation, entry, chat, pictures)
        attachments.send(connection, conversation, ids[-1], entry.sent)
    if chat.leaf is not None:
        conversation_table.show(connection, conversation, ids[chat.leaf])
    return conversation_table.get(connection, conversation)


def _write(
    connection: sqlite3.Connection,
    answer: int,
    *,
    content: str,
    state: MessageState,
    events: Sequence[Event],
    steps: Sequence[Step],
) -> None:
    stretches = stretches_to_json(stretches_of(events))
    changed = connection.execute(
        "UPDATE messages SET content = ?, state = ?, stretches = ?, steps = ? "
        "WHERE id = ? AND state = 'streaming'",
        (clean(content), state, stretches, stored_json.write(steps), answer),
    ).rowcount
    if not changed:
        get(connection, answer)
        raise Problem(
            "This answer is finished and cannot be changed.",
            "Regenerate the answer.",
        )


def _add(
    connection: sqlite3.Connection,
    *,
    conversation: int,
    state: MessageState = "complete",
    now_ms: int,
    **values: Any,
) -> Message:
    message = insert(
        connection,
        "messages",
        conversation=conversation,
        state=state,
        created_ms=now_ms,
        **values,
    )
    conversation_table.touch(connection, conversation, leaf=message, now_ms=now_ms)
    return get(connection, message)


def _message(row: tuple[Any, ...]) -> Message:
    *fields, edited, stretches, steps, figures, sent, created_ms, place, siblings = row
    known: dict[str, Any] = dict(zip(_FIELDS, fields, strict=True))
    is_answer = known["role"] == "assistant"
    return Message(
        **known,
        created=from_milliseconds(created_ms),
        place=place,
        siblings=siblings,
        figures=stored_json.read_or(AnswerFigures, figures, None),
        sent=attachments.unpacked(sent),
        edited=bool(edited),
        stretches=stretches_from_json(stretches, known["content"]) if is_answer else (),
        steps=stored_json.read_or(tuple[Step, ...], steps, ()),
    )
