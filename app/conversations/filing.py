"""Files conversations into folders, the archive, or among the deleted, in SQL. Each function runs
inside its caller's transaction.

A change of many conversations is one statement, and returns its undo record. Deleting only hides;
`purge` removes. Knows nothing of titles or messages, which follow their conversation.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from app.conversations.conversation_table import gone, listed
from app.conversations.database import insert
from app.conversations.records import (
    Conversation,
    Deleted,
    DeletedMessages,
    Filing,
    Folder,
    Undo,
    clean,
    from_milliseconds,
    texts_from_json,
)
from app.conversations.stored_json import write
from models.errors import Problem

_FOLDER = "id, name, open, instruction, files"
_AMONG = "id IN (SELECT value FROM json_each(?)) AND deleted_ms IS NULL"


def delete(connection: sqlite3.Connection, conversations: Sequence[int], *, now_ms: int) -> Undo:
    """Hide these. Raises Problem if all are hidden already."""
    return _file(connection, conversations, deleted_ms=after_all_deleted(connection, now_ms))


def after_all_deleted(connection: sqlite3.Connection, now_ms: int) -> int:
    """Return a time for a deletion that no other has: all deleted at that time is one entry."""
    (latest,) = connection.execute(
        "SELECT max(at) FROM (SELECT max(deleted_ms) AS at FROM conversations "
        "UNION ALL SELECT max(deleted_ms) FROM folders)"
    ).fetchone()
    return max(now_ms, (latest or 0) + 1)


def archive(connection: sqlite3.Connection, *conversations: int, archived: bool) -> Undo:
    """Put these into the archive, where a search still finds them, or take them out of it."""
    return _file(connection, conversations, archived=int(archived))


def move(connection: sqlite3.Connection, *conversations: int, folder: int | None) -> Undo:
    """Move these into a folder and out of the archive; None moves them out of their folders."""
    if folder is not None:
        _folder(connection, folder)
    return _file(connection, conversations, folder=folder, archived=0)


def undo(connection: sqlite3.Connection, change: Undo) -> None:
    """Put everything back where it was, except conversations and folders removed since."""
    if change.folder is not None:
        connection.execute("UPDATE folders SET deleted_ms = NULL WHERE id = ?", (change.folder.id,))
    connection.executemany(
        "UPDATE conversations SET folder = (SELECT id FROM folders WHERE id = ?), archived = ?, "
        "deleted_ms = ? WHERE id = ?",
        ((f.folder, int(f.archived), f.deleted_ms, f.conversation) for f in change.filings),
    )


def deleted(connection: sqlite3.Connection) -> tuple[Deleted, ...]:
    """Return the hidden entries, the latest first: conversations deleted at once as one entry,
    and no messages of theirs."""
    found: list[tuple[int, str, Undo | DeletedMessages]] = []
    at_once: dict[int, dict[Filing, str]] = {}
    for ms, title, id, folder, archived, origin, within, first, count in connection.execute(
        """
        SELECT c.deleted_ms, c.title, c.id, c.folder, c.archived, o.id, o.title, min(m.id), count(*)
        FROM conversations c LEFT JOIN conversations o ON o.id = c.taken_from
        LEFT JOIN messages m ON m.conversation = c.id
        WHERE c.deleted_ms IS NOT NULL AND o.deleted_ms IS NULL GROUP BY c.id
        """
    ):
        if origin is None:
            filing = Filing(id, folder, bool(archived), None)
            at_once.setdefault(ms, {})[filing] = title or "New conversation"
        else:
            change = DeletedMessages(id, origin, first, count)
            found.append((ms, f"Message in {within}: {title}", change))
    for ms, titles in at_once.items():
        many = f"{len(titles):,} conversations"
        words = many if len(titles) > 1 else "".join(titles.values())
        found.append((ms, words, Undo(tuple(titles))))
    rows = f"SELECT deleted_ms, {_FOLDER} FROM folders WHERE deleted_ms IS NOT NULL"
    for ms, *row in connection.execute(rows):
        found.append((ms, f"Folder {row[1]}", Undo((), _folder_of(tuple(row)))))
    found.sort(key=lambda entry: entry[0], reverse=True)
    return tuple(Deleted(words, from_milliseconds(ms), change) for ms, words, change in found)


def erase(connection: sqlite3.Connection, change: Undo | DeletedMessages) -> None:
    """Remove for good what this would put back, unless it was put back."""
    if isinstance(change, DeletedMessages):
        ids = [change.id]
    else:
        ids = [filing.conversation for filing in change.filings]
        folder = change.folder.id if change.folder else None
        connection.execute("DELETE FROM folders WHERE id = ? AND deleted_ms IS NOT NULL", (folder,))
    connection.execute(
        "DELETE FROM conversations WHERE deleted_ms IS NOT NULL "
        "AND id IN (SELECT value FROM json_each(?))",
        (json.dumps(ids),),
    )


def purge(connection: sqlite3.Connection, *, before_ms: int) -> int:
    """Remove for good, with their messages, the conversations and folders deleted before that time.
    Returns how many conversations."""
    connection.execute("DELETE FROM folders WHERE deleted_ms < ?", (before_ms,))
    return connection.execute(
        "DELETE FROM conversations WHERE deleted_ms < ?", (before_ms,)
    ).rowcount


def folders(connection: sqlite3.Connection) -> tuple[Folder, ...]:
    """Return all folders, by name."""
    rows = connection.execute(f"SELECT {_FOLDER} FROM folders WHERE deleted_ms IS NULL")
    found = map(_folder_of, rows.fetchall())
    return tuple(sorted(found, key=lambda folder: (folder.name.casefold(), folder.id)))


def listing(
    connection: sqlite3.Connection,
) -> tuple[tuple[Conversation, ...], tuple[Folder, ...]]:
    """Return the conversations that are listed, and all folders, as of one moment."""
    return listed(connection), folders(connection)


def make_folder(connection: sqlite3.Connection, name: str) -> Folder:
    """Make an empty folder."""
    return _folder(connection, insert(connection, "folders", name=name))


def folder_named(connection: sqlite3.Connection, name: str) -> Folder:
    """Return the first folder of this name, after making it if needed."""
    row = connection.execute(
        "SELECT min(id) FROM folders WHERE name = ? AND deleted_ms IS NULL", (clean(name),)
    ).fetchone()
    return make_folder(connection, name) if row[0] is None else _folder(connection, row[0])


def rename_folder(connection: sqlite3.Connection, folder: int, name: str) -> None:
    _folder(connection, folder)
    connection.execute("UPDATE folders SET name = ? WHERE id = ?", (clean(name), folder))


def set_up_folder(
    connection: sqlite3.Connection, folder: int, *, instruction: str, files: Sequence[str]
) -> None:
    """Set what new conversations in the folder begin with: a system prompt, and the files at these
    paths."""
    _folder(connection, folder)
    connection.execute(
        "UPDATE folders SET instruction = ?, files = ? WHERE id = ?",
        (clean(instruction), write([clean(file) for file in files]), folder),
    )


def open_folder(connection: sqlite3.Connection, folder: int, *, opened: bool) -> None:
    """Show or hide the folder's conversations in the list."""
    _folder(connection, folder)
    connection.execute("UPDATE folders SET open = ? WHERE id = ?", (int(opened), folder))


def delete_folder(connection: sqlite3.Connection, now_ms: int, folder: int) -> Undo:
    """Hide the folder. Its conversations stay, outside of folders."""
    found = _folder(connection, folder)
    deleted_ms = after_all_deleted(connection, now_ms)
    connection.execute("UPDATE folders SET deleted_ms = ? WHERE id = ?", (deleted_ms, folder))
    return Undo((), found)


def _file(connection: sqlite3.Connection, conversations: Sequence[int], **values: Any) -> Undo:
    ids = json.dumps(list(conversations))
    rows: Iterable[Any] = connection.execute(
        f"SELECT id, folder, archived, deleted_ms FROM conversations WHERE {_AMONG}", (ids,)
    )
    before = tuple(Filing(id, folder, bool(away), ms) for id, folder, away, ms in rows)
    if not before:
        raise gone()
    names = ", ".join(f"{name} = ?" for name in values)
    connection.execute(f"UPDATE conversations SET {names} WHERE {_AMONG}", (*values.values(), ids))
    return Undo(before)


def _folder(connection: sqlite3.Connection, folder: int) -> Folder:
    row = connection.execute(
        f"SELECT {_FOLDER} FROM folders WHERE id = ? AND deleted_ms IS NULL", (folder,)
    ).fetchone()
    if row is None:
        raise Problem("This folder no longer exists.", "Choose another.")
    return _folder_of(row)


def _folder_of(row: tuple[Any, ...]) -> Folder:
    id, name, is_open, instruction, files = row
    return Folder(id, name, bool(is_open), instruction, texts_from_json(files))
