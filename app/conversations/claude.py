"""Reads the conversations.json of a claude.ai export: `chat_messages` that name their parents.

Keeps what people and the model said, and its thinking. Attached texts are part of the message, as
they were for the model; other files are named. Tool calls and their results are left out.
"""

from collections.abc import Iterable
from typing import Any

from app.conversations.reading import (
    Unreadable,
    at,
    attached,
    chained,
    moment,
    objects,
    text,
    tree_of,
)
from app.conversations.records import Entry, ExportedChat, without_marks
from app.conversations.think_tags import with_think_tags
from engine.request import Role

_ROLES: dict[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}


def read(value: dict[str, Any]) -> ExportedChat:
    """Return the chat in one conversation of the export. Raises Unreadable."""
    messages = value.get("chat_messages")
    if not isinstance(messages, list):
        raise Unreadable("The messages are not a list")
    for number, message in enumerate(messages, start=1):
        with at(f"message {number}"):
            if not isinstance(message, dict):
                raise Unreadable("This is not an object")
    nodes = {text(message.get("uuid")) or str(n): message for n, message in enumerate(messages)}
    parents = {name: text(message.get("parent_message_uuid")) for name, message in nodes.items()}
    if not any(parent in nodes for parent in parents.values()):  # as exports were before
        parents = chained(nodes)
    entries, leaf = tree_of(
        parents,
        lambda name, parent: _entry(nodes[name], parent),
        leaf=text(value.get("current_leaf_message_uuid")),
    )
    return ExportedChat(
        title=without_marks(text(value.get("name"))),
        entries=entries,
        leaf=leaf,
        created=moment(value.get("created_at")),
        updated=moment(value.get("updated_at")),
    )


def _entry(message: dict[str, Any], parent: int | None) -> Entry | None:
    role = _ROLES.get(text(message.get("sender")))
    if role is None:
        return None
    blocks = objects(message.get("content"))
    said = _joined(text(block.get("text")) for block in blocks if block.get("type") == "text")
    thinking = _joined(text(block.get("thinking")) for block in blocks)
    names = []
    for file in objects(message.get("attachments")):
        content = text(file.get("extracted_content"))
        names.append("\n".join(filter(None, (attached(file.get("file_name")), content))))
    names += [attached(file.get("file_name")) for file in objects(message.get("files"))]
    words = _joined((*names, said or text(message.get("text"))))
    content = with_think_tags(thinking, words)
    if not content:
        return None
    return Entry(
        parent=parent,
        role=role,
        content=content,
        target=text(message.get("model")) or "Claude" if role == "assistant" else "",
        created=moment(message.get("created_at")),
    )


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, texts))
