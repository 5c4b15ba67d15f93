"""The table of conversations, in SQL. Each function runs inside its caller's transaction.

Knows nothing of messages, nor of deleting: see `filing`.
"""

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from app.conversations.answer_steps import permissions_from_json, permissions_to_json
from app.conversations.database import insert
from app.conversations.records import (
    Conversation,
    clean,
    from_milliseconds,
    settings_from_json,
    settings_to_json,
    texts_from_json,
)
from app.conversations.stored_json import write
from engine.request import Request
from engine.tools.turn import Permissions
from models.errors import Problem

_COLUMNS = (
    "id, title, pinned, system_prompt, settings, unsent, leaf, created_ms, updated_ms, "
    "(SELECT f.id FROM folders f WHERE f.id = folder AND f.deleted_ms IS NULL), "
    "archived, titled, queued, tools"
)
_READ: tuple[Callable[[Any], Any], ...] = (
    *(int, str, bool, str, settings_from_json, str, lambda leaf: leaf),
    *(from_milliseconds, from_milliseconds, lambda folder: folder),
    *(bool, bool, texts_from_json, permissions_from_json),
)


def create(
    connection: sqlite3.Connection,
    now_ms: int,
    *,
    title: str = "",
    system_prompt: str = "",
    settings: Request | None = None,
    folder: int | None = None,
) -> Conversation:
    """Store a new conversation without messages. Without a title, it gets one from its first."""
    id = insert(
        connection,
        "conversations",
        title=title,
        titled=title != "",
        system_prompt=system_prompt,
        settings=settings_to_json(settings),
        folder=folder,
        created_ms=now_ms,
        updated_ms=now_ms,
    )
    return get(connection, id)


def get(connection: sqlite3.Connection, conversation: int) -> Conversation:
    """Return a conversation that is not deleted. Raises Problem."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM conversations WHERE id = ? AND deleted_ms IS NULL", (conversation,)
    ).fetchone()
    if row is None:
        raise gone()
    return _conversation(row)


def listed(connection: sqlite3.Connection) -> tuple[Conversation, ...]:
    """Return all that are not deleted, archived ones too: pinned first, then by the latest
    message."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM conversations WHERE deleted_ms IS NULL "
        "ORDER BY pinned DESC, updated_ms DESC, id DESC"
    )
    return tuple(map(_conversation, rows))


def rename(connection: sqlite3.Connection, conversation: int, title: str) -> None:
    """Set the user's title, which stays."""
    _set(connection, conversation, title=clean(title), titled=1)


def title_for_now(connection: sqlite3.Connection, conversation: int, title: str) -> None:
    """Give the conversation a provisional title, until it gets a better one."""
    _set(connection, conversation, title=clean(title))


def set_generated_title(
    connection: sqlite3.Connection, conversation: int, title: str | None
) -> bool:
    """Set the model's title, or None to keep the current title for good. A title that was given
    before stays. Returns whether the title changed."""
    changed = connection.execute(
        "UPDATE conversations SET titled = 1, title = coalesce(?, title) "
        "WHERE id = ? AND titled = 0 AND deleted_ms IS NULL",
        (None if title is None else clean(title), conversation),
    ).rowcount
    return bool(changed) and title is not None


def pin(connection: sqlite3.Connection, *conversations: int, pinned: bool) -> None:
    """Pin or unpin these."""
    connection.execute(
        "UPDATE conversations SET pinned = ? WHERE id IN (SELECT value FROM json_each(?))",
        (int(pinned), json.dumps(conversations)),
    )


def configure(
    connection: sqlite3.Connection,
    conversation: int,
    *,
    system_prompt: str,
    settings: Request | None,
) -> None:
    prompt = clean(system_prompt)
    _set(connection, conversation, system_prompt=prompt, settings=settings_to_json(settings))


def change_settings(
    connection: sqlite3.Connection,
    conversation: int,
    change: Callable[[Request | None], Request | None],
) -> None:
    """Change the settings as they are by now: the caller may have read older ones."""
    settings = change(get(connection, conversation).settings)
    _set(connection, conversation, settings=settings_to_json(settings))


def keep_unsent(connection: sqlite3.Connection, conversation: int, text: str) -> None:
    _set(connection, conversation, unsent=clean(text))


def keep_queued(
    connection: sqlite3.Connection,
    conversation: int,
    queued: tuple[str, ...],
    *,
    instead_of: int | None = None,
) -> None:
    """Queue these instead of all messages, or of the last of them: the first may be sent by now."""
    if instead_of is not None:
        waiting = get(connection, conversation).queued
        queued = (*waiting[: max(0, len(waiting) - instead_of)], *queued)
    _set(connection, conversation, queued=write([clean(text) for text in queued]))


def permit(connection: sqlite3.Connection, conversation: int, permissions: Permissions) -> None:
    _set(connection, conversation, tools=permissions_to_json(permissions))


def show(connection: sqlite3.Connection, conversation: int, leaf: int | None) -> None:
    """Show the branch that ends in `leaf`."""
    _set(connection, conversation, leaf=leaf)


def touch(connection: sqlite3.Connection, conversation: int, *, leaf: int, now_ms: int) -> None:
    """Show the branch of a new message. The conversation becomes the latest, and leaves the
    archive."""
    _set(connection, conversation, leaf=leaf, updated_ms=now_ms, archived=0)


def _set(connection: sqlite3.Connection, conversation: int, **values: Any) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    changed = connection.execute(
        f"UPDATE conversations SET {names} WHERE id = ? AND deleted_ms IS NULL",
        (*values.values(), conversation),
    ).rowcount
    if not changed:
        raise gone()


def gone() -> Problem:
    """Return the Problem for a conversation that was deleted or purged."""
    return Problem("This conversation no longer exists.", "Undo its deletion, or choose another.")


def _conversation(row: tuple[Any, ...]) -> Conversation:
    return Conversation(*(read(value) for read, value in zip(_READ, row, strict=True)))
