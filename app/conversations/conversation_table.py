"""The table of conversations, in SQL: each function runs inside its caller's transaction.

Deleting only hides; `purge` removes. Knows nothing of messages, which go with their conversation.
"""

import sqlite3
from typing import Any

from app.conversations.records import (
    Conversation,
    clean,
    from_milliseconds,
    settings_from_json,
    settings_to_json,
)
from engine.request import Request
from models.errors import Problem

_COLUMNS = "id, title, pinned, system_prompt, settings, unsent, leaf, created_ms, updated_ms"


def create(
    connection: sqlite3.Connection,
    *,
    title: str,
    system_prompt: str,
    settings: Request | None,
    now_ms: int,
) -> Conversation:
    """A new conversation without messages."""
    cursor = connection.execute(
        "INSERT INTO conversations (title, system_prompt, settings, created_ms, updated_ms) "
        "VALUES (?, ?, ?, ?, ?)",
        (clean(title), clean(system_prompt), settings_to_json(settings), now_ms, now_ms),
    )
    return get(connection, cursor.lastrowid or 0)


def get(connection: sqlite3.Connection, conversation: int) -> Conversation:
    """One that is not deleted. Raises Problem."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM conversations WHERE id = ? AND deleted_ms IS NULL",
        (conversation,),
    ).fetchone()
    if row is None:
        raise _gone()
    return _conversation(row)


def listed(connection: sqlite3.Connection) -> tuple[Conversation, ...]:
    """All that are not deleted: pinned ones first, then by the latest message."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM conversations WHERE deleted_ms IS NULL "
        "ORDER BY pinned DESC, updated_ms DESC, id DESC"
    )
    return tuple(map(_conversation, rows))


def rename(connection: sqlite3.Connection, conversation: int, title: str) -> None:
    _set(connection, conversation, title=clean(title))


def pin(connection: sqlite3.Connection, conversation: int, pinned: bool) -> None:
    _set(connection, conversation, pinned=int(pinned))


def configure(
    connection: sqlite3.Connection,
    conversation: int,
    *,
    system_prompt: str,
    settings: Request | None,
) -> None:
    prompt = clean(system_prompt)
    _set(connection, conversation, system_prompt=prompt, settings=settings_to_json(settings))


def keep_unsent(connection: sqlite3.Connection, conversation: int, text: str) -> None:
    _set(connection, conversation, unsent=clean(text))


def show(connection: sqlite3.Connection, conversation: int, leaf: int) -> None:
    """Show the branch that ends in `leaf`."""
    _set(connection, conversation, leaf=leaf)


def touch(connection: sqlite3.Connection, conversation: int, *, leaf: int, now_ms: int) -> None:
    """A message came: its branch is shown, and the conversation is the latest."""
    _set(connection, conversation, leaf=leaf, updated_ms=now_ms)


def delete(connection: sqlite3.Connection, conversation: int, *, now_ms: int) -> None:
    _set(connection, conversation, deleted_ms=now_ms)


def restore(connection: sqlite3.Connection, conversation: int) -> Conversation:
    """Undo a deletion. Raises Problem where it was purged; one not deleted stays as it is."""
    connection.execute("UPDATE conversations SET deleted_ms = NULL WHERE id = ?", (conversation,))
    return get(connection, conversation)


def purge(connection: sqlite3.Connection, *, before_ms: int) -> int:
    """Take away for good what was deleted before then, messages and all. How many."""
    return connection.execute(
        "DELETE FROM conversations WHERE deleted_ms < ?", (before_ms,)
    ).rowcount


def _set(connection: sqlite3.Connection, conversation: int, **values: Any) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    changed = connection.execute(
        f"UPDATE conversations SET {names} WHERE id = ? AND deleted_ms IS NULL",
        (*values.values(), conversation),
    ).rowcount
    if not changed:
        raise _gone()


def _gone() -> Problem:
    return Problem(
        "This conversation is not there any more.", "Undo its deletion, or choose another."
    )


def _conversation(row: tuple[Any, ...]) -> Conversation:
    id, title, pinned, system_prompt, settings, unsent, leaf, created_ms, updated_ms = row
    return Conversation(
        id=id,
        title=title,
        pinned=bool(pinned),
        system_prompt=system_prompt,
        settings=settings_from_json(settings),
        unsent=unsent,
        leaf=leaf,
        created=from_milliseconds(created_ms),
        updated=from_milliseconds(updated_ms),
    )
