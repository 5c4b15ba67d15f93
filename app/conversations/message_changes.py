"""Deletes messages and puts them back, and copies conversations, in SQL. Each function runs inside
one transaction.

A deleted message is not kept in the file: its undo record is the only copy.
"""

import json
import sqlite3
from typing import Any

from app.conversations import conversation_table, tree
from app.conversations.answer_steps import STOPPED
from app.conversations.records import Conversation, DeletedMessages
from models.errors import Problem

_AMONG = "IN (SELECT value FROM json_each(?))"


def delete(connection: sqlite3.Connection, message: int) -> DeletedMessages:
    """Delete a message, and return what puts it back.

    A message without other versions goes alone: those after it follow the one before it. One of
    several versions goes with all messages after it, because they were said to this version.
    """
    found = tree.get(connection, message)
    before = conversation_table.get(connection, found.conversation).leaf
    alone = found.siblings == 1
    below = connection.execute("SELECT id FROM messages WHERE parent = ?", (message,))
    children = [id for (id,) in below] if alone else []
    ids = [message] if alone else _subtree(connection, message)
    among = json.dumps(ids)
    if connection.execute(
        f"SELECT 1 FROM messages WHERE id {_AMONG} AND state = 'streaming'", (among,)
    ).fetchone():
        raise Problem("This answer is being written.", "Stop it, then delete it.")
    change = DeletedMessages(
        found.conversation,
        message,
        found.parent,
        before,
        tuple(children),
        messages=_rows(connection, f"messages WHERE id {_AMONG} ORDER BY id", among),
        traces=_rows(connection, f"traces WHERE message {_AMONG}", among),
        attachments=_rows(connection, f"attachments WHERE message {_AMONG}", among),
    )
    connection.execute(
        f"UPDATE messages SET parent = ? WHERE id {_AMONG}", (found.parent, json.dumps(children))
    )
    if before in ids:
        conversation_table.show(connection, found.conversation, found.parent)
    connection.execute(f"DELETE FROM messages WHERE id {_AMONG}", (among,))
    if before in ids and not alone:
        (newest,) = connection.execute(
            "SELECT max(id) FROM messages WHERE conversation = ? AND parent IS ?",
            (found.conversation, found.parent),
        ).fetchone()
        tree.switch(connection, newest)
    return change


def restore(connection: sqlite3.Connection, change: DeletedMessages) -> None:
    """Put the messages back where they were, and show the branch of before. Raises Problem."""
    conversation_table.get(connection, change.conversation)
    parent = change.parent
    if parent is not None and tree.get(connection, parent).conversation != change.conversation:
        raise ValueError("the undo record belongs to another conversation")
    for table, rows in (
        ("messages", change.messages),
        ("traces", change.traces),
        ("attachments", change.attachments),
    ):
        for row in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
    connection.execute(
        f"UPDATE messages SET parent = ? WHERE id {_AMONG}",
        (change.message, json.dumps(change.children)),
    )
    if change.leaf is not None:
        tree.get(connection, change.leaf)
    conversation_table.show(connection, change.conversation, change.leaf)


def duplicate(
    connection: sqlite3.Connection, conversation: int, message: int | None, *, now_ms: int
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
        (f"{found.title} (copy)", now_ms, now_ms, conversation),
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


def _rows(connection: sqlite3.Connection, of: str, among: str) -> tuple[tuple[Any, ...], ...]:
    return tuple(connection.execute(f"SELECT * FROM {of}", (among,)).fetchall())
