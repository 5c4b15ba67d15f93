"""Deletes messages and puts them back, and copies conversations, in SQL. Each function runs inside
one transaction.

Deleted messages are moved, with their traces and documents, into a hidden conversation of their
own, which is undone, purged and erased like a deleted conversation.
"""

import json
import sqlite3

from app.conversations import conversation_table, tree
from app.conversations.answer_steps import STOPPED
from app.conversations.database import insert
from app.conversations.filing import after_all_deleted
from app.conversations.records import Conversation, DeletedMessages, title_from
from engine.stretches import said
from models.errors import Problem


def delete(connection: sqlite3.Connection, message: int, *, now_ms: int) -> DeletedMessages:
    """Hide a message, and return what puts it back.

    A message without other versions goes alone: those after it follow the one before it. One of
    several versions goes with all messages after it, because they were said to this version.
    """
    found = tree.get(connection, message)
    before = conversation_table.get(connection, found.conversation).leaf
    alone = found.siblings == 1
    ids = [message] if alone else _subtree(connection, message)
    among = json.dumps(ids)
    if connection.execute(
        "SELECT 1 FROM messages WHERE state = 'streaming' "
        "AND id IN (SELECT value FROM json_each(?))",
        (among,),
    ).fetchone():
        raise Problem("This answer is being written.", "Stop it, then delete it.")
    spliced = connection.execute(
        "UPDATE messages SET parent = ? WHERE parent = ? AND ?", (found.parent, message, alone)
    ).rowcount
    if before in ids:
        conversation_table.show(connection, found.conversation, found.parent)
    hidden = insert(
        connection,
        "conversations",
        title=title_from(said(found.content, found.stretches)),
        leaf=before if before in ids else None,
        **dict.fromkeys(("created_ms", "updated_ms"), now_ms),
        deleted_ms=after_all_deleted(connection, now_ms),
        taken_from=found.conversation,
        taken_parent=found.parent,
        spliced=spliced > 0,
    )
    _move(connection, among, hidden, top=message, parent=None)
    if before in ids and not alone:
        (newest,) = connection.execute(
            "SELECT max(id) FROM messages WHERE conversation = ? AND parent IS ?",
            (found.conversation, found.parent),
        ).fetchone()
        tree.switch(connection, newest)
    return DeletedMessages(hidden, found.conversation, message, len(ids))


def restore(connection: sqlite3.Connection, change: DeletedMessages) -> None:
    """Put the messages back where they were, and show them if they were shown. Raises Problem."""
    shown = conversation_table.get(connection, change.conversation).leaf
    row = connection.execute(
        "SELECT taken_parent, spliced, leaf FROM conversations WHERE id = ?", (change.id,)
    ).fetchone()
    if row is None:
        gone = "This message was restored already, or deleted for good."
        raise Problem(gone, "Look for it in its conversation.")
    was_below, spliced, leaf = row
    parent = _parent(connection, change, was_below)
    (among,) = connection.execute(
        "SELECT json_group_array(id) FROM messages WHERE conversation = ?", (change.id,)
    ).fetchone()
    _move(connection, among, change.conversation, top=change.message, parent=parent)
    if spliced:  # messages that are or were there since were said after it
        connection.execute(
            "UPDATE messages SET parent = ? WHERE conversation = ? AND parent IS ? AND id > ?",
            (change.message, change.conversation, parent, change.message),
        )
        connection.execute(
            "UPDATE conversations SET taken_parent = ? "
            "WHERE taken_from = ? AND taken_parent IS ? AND id > ?",
            (change.message, change.conversation, was_below, change.id),
        )
    connection.execute("DELETE FROM conversations WHERE id = ?", (change.id,))
    if leaf is not None:
        conversation_table.show(connection, change.conversation, leaf)
    elif shown is None:
        tree.switch(connection, change.message)


def _parent(
    connection: sqlite3.Connection, change: DeletedMessages, parent: int | None
) -> int | None:
    """Return the message to put deleted ones below: `parent`, or if that was deleted for good, the
    nearest before them that is shown. Raises Problem if it can be restored."""
    row = connection.execute("SELECT conversation FROM messages WHERE id = ?", (parent,)).fetchone()
    if row is not None and row[0] != change.conversation:
        raise Problem("The message before this one is deleted, too.", "Restore that one first.")
    if row is not None or parent is None:
        return parent
    branch = tree.branch(connection, change.conversation)
    return max((message.id for message in branch if message.id < change.message), default=None)


def _move(
    connection: sqlite3.Connection, among: str, into: int, *, top: int, parent: int | None
) -> None:
    """Move messages, the ids `among` in JSON, into a conversation, the first of them, `top`, below
    `parent`."""
    connection.execute("PRAGMA defer_foreign_keys = ON")  # until the end of the transaction
    for table, column in (("messages", "id"), ("attachments", "message")):
        connection.execute(
            f"UPDATE {table} SET conversation = ? "
            f"WHERE {column} IN (SELECT value FROM json_each(?))",
            (into, among),
        )
    connection.execute("UPDATE messages SET parent = ? WHERE id = ?", (parent, top))


def duplicate(
    connection: sqlite3.Connection, now_ms: int, conversation: int, *, message: int | None = None
) -> Conversation:
    """Copy a conversation with its traces and documents: the branch down to `message`, or all
    branches for None."""
    found = conversation_table.get(connection, conversation)
    if message is None:
        query = "SELECT id, parent FROM messages WHERE conversation = ? ORDER BY id"
        rows = connection.execute(query, (conversation,)).fetchall()
    else:
        rows = connection.execute(
            """
            WITH RECURSIVE up (id, parent) AS (
                SELECT id, parent FROM messages WHERE id = ? AND conversation = ?
                UNION ALL
                SELECT m.id, m.parent FROM messages m JOIN up ON m.id = up.parent
            )
            SELECT id, parent FROM up ORDER BY id
            """,
            (message, conversation),
        ).fetchall()
    cursor = connection.execute(
        "INSERT INTO conversations "
        "(title, titled, system_prompt, settings, folder, created_ms, updated_ms) "
        "SELECT ?, titled, system_prompt, settings, folder, ?, ? FROM conversations WHERE id = ?",
        (found.title and f"{found.title} (copy)", now_ms, now_ms, conversation),
    )
    copy = cursor.lastrowid or 0
    copies: dict[int | None, int] = {}
    for id, parent in rows:
        cursor = connection.execute(
            f"""
            INSERT INTO messages (conversation, parent, role, state, target, drafter, created_ms,
                content, figures, sent, edited, stretches, steps)
            SELECT ?, ?, role, iif(state = 'streaming', 'interrupted', state), target, drafter,
                created_ms, content, figures, sent, edited, stretches, {STOPPED}
            FROM messages WHERE id = ?
            """,
            (copy, copies.get(parent), id),
        )
        new = copies[id] = cursor.lastrowid or 0
        connection.execute(
            "INSERT INTO traces (message, part, events, lines) "
            "SELECT ?, part, events, lines FROM traces WHERE message = ?",
            (new, id),
        )
        connection.execute(
            "INSERT INTO attachments (conversation, message, number, document) "
            "SELECT ?, ?, number, document FROM attachments WHERE message = ?",
            (copy, new, id),
        )
    leaf = copies.get(found.leaf if message is None else message)
    conversation_table.show(connection, copy, leaf)
    return conversation_table.get(connection, copy)


def _subtree(connection: sqlite3.Connection, message: int) -> list[int]:
    rows = connection.execute(
        """
        WITH RECURSIVE down (id) AS (
            VALUES (?)
            UNION ALL
            SELECT m.id FROM messages m JOIN down ON m.parent = down.id
        )
        SELECT id FROM down
        """,
        (message,),
    )
    return [id for (id,) in rows]
