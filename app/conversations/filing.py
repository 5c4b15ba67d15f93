"""Files conversations into folders, the archive, or among the deleted, in SQL. Each function runs
inside its caller's transaction.

A change of many conversations is one statement, and returns its undo record. Deleting only hides;
`purge` removes. Knows nothing of titles or messages, which follow their conversation.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from app.conversations.conversation_table import gone
from app.conversations.records import Filing, Folder, Undo, clean, texts_from_json, texts_to_json
from models.errors import Problem

_FOLDER = "id, name, open, instruction, files"
_AMONG = "id IN (SELECT value FROM json_each(?)) AND deleted_ms IS NULL"


def delete(connection: sqlite3.Connection, conversations: Sequence[int], *, now_ms: int) -> Undo:
    """Hide these. Raises Problem if all are hidden already."""
    return _file(connection, conversations, deleted_ms=now_ms)


def archive(
    connection: sqlite3.Connection, conversations: Sequence[int], *, archived: bool
) -> Undo:
    """Put these into the archive, or take them out of it."""
    return _file(connection, conversations, archived=int(archived))


def move(
    connection: sqlite3.Connection, conversations: Sequence[int], *, folder: int | None
) -> Undo:
    """Move these into a folder and out of the archive; None moves them out of their folders."""
    if folder is not None:
        _folder(connection, folder)
    return _file(connection, conversations, folder=folder, archived=0)


def undo(connection: sqlite3.Connection, change: Undo) -> None:
    """Put everything back where it was, except what was purged or removed since."""
    if change.folder is not None:
        connection.execute(
            "INSERT OR IGNORE INTO folders (id, name, open, instruction, files) "
            "VALUES (?, ?, ?, ?, ?)",
            (
                change.folder.id,
                change.folder.name,
                int(change.folder.open),
                change.folder.instruction,
                texts_to_json(change.folder.files),
            ),
        )
    connection.executemany(
        "UPDATE conversations SET folder = (SELECT id FROM folders WHERE id = ?), archived = ?, "
        "deleted_ms = ? WHERE id = ?",
        ((f.folder, int(f.archived), f.deleted_ms, f.conversation) for f in change.filings),
    )


def purge(connection: sqlite3.Connection, *, before_ms: int) -> int:
    """Remove for good, with their messages, the conversations deleted before that time. Returns how
    many."""
    return connection.execute(
        "DELETE FROM conversations WHERE deleted_ms < ?", (before_ms,)
    ).rowcount


def folders(connection: sqlite3.Connection) -> tuple[Folder, ...]:
    """All folders, by name."""
    found = map(_folder_of, connection.execute(f"SELECT {_FOLDER} FROM folders").fetchall())
    return tuple(sorted(found, key=lambda folder: (folder.name.casefold(), folder.id)))


def make_folder(connection: sqlite3.Connection, name: str) -> Folder:
    """A new, empty folder."""
    cursor = connection.execute("INSERT INTO folders (name) VALUES (?)", (clean(name),))
    return _folder(connection, cursor.lastrowid or 0)


def folder_named(connection: sqlite3.Connection, name: str) -> Folder:
    """Return the first folder of this name, after making it if needed."""
    row = connection.execute(
        "SELECT min(id) FROM folders WHERE name = ?", (clean(name),)
    ).fetchone()
    return make_folder(connection, name) if row[0] is None else _folder(connection, row[0])


def rename_folder(connection: sqlite3.Connection, folder: int, name: str) -> None:
    _folder(connection, folder)
    connection.execute("UPDATE folders SET name = ? WHERE id = ?", (clean(name), folder))


def set_up_folder(
    connection: sqlite3.Connection, folder: int, *, instruction: str, files: tuple[str, ...]
) -> None:
    """Set what new conversations in the folder begin with."""
    _folder(connection, folder)
    connection.execute(
        "UPDATE folders SET instruction = ?, files = ? WHERE id = ?",
        (clean(instruction), texts_to_json(files), folder),
    )


def open_folder(connection: sqlite3.Connection, folder: int, *, opened: bool) -> None:
    """Show or hide the folder's conversations in the list."""
    _folder(connection, folder)
    connection.execute("UPDATE folders SET open = ? WHERE id = ?", (int(opened), folder))


def delete_folder(connection: sqlite3.Connection, folder: int) -> Undo:
    """Remove the folder. Its conversations stay, outside of folders."""
    found = _folder(connection, folder)
    filings = _filings(connection, "folder = ?", folder)
    connection.execute("DELETE FROM folders WHERE id = ?", (folder,))
    return Undo(filings, found)


def _file(connection: sqlite3.Connection, conversations: Sequence[int], **values: Any) -> Undo:
    ids = json.dumps(list(conversations))
    before = _filings(connection, _AMONG, ids)
    if not before:
        raise gone()
    names = ", ".join(f"{name} = ?" for name in values)
    connection.execute(f"UPDATE conversations SET {names} WHERE {_AMONG}", (*values.values(), ids))
    return Undo(before)


def _filings(connection: sqlite3.Connection, among: str, value: Any) -> tuple[Filing, ...]:
    rows: Iterable[Any] = connection.execute(
        f"SELECT id, folder, archived, deleted_ms FROM conversations WHERE {among}", (value,)
    )
    return tuple(Filing(id, folder, bool(away), deleted) for id, folder, away, deleted in rows)


def _folder(connection: sqlite3.Connection, folder: int) -> Folder:
    row = connection.execute(f"SELECT {_FOLDER} FROM folders WHERE id = ?", (folder,)).fetchone()
    if row is None:
        raise Problem("This folder no longer exists.", "Choose another.")
    return _folder_of(row)


def _folder_of(row: tuple[Any, ...]) -> Folder:
    id, name, is_open, instruction, files = row
    return Folder(id, name, bool(is_open), instruction, texts_from_json(files))
