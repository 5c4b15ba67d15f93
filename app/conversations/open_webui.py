"""Reads the chats that Open WebUI exports: a `history` of messages that name their parents.

Keeps all versions, the models' names and their reasoning. Files are named; tool calls are left
out.
"""

import re
from html import unescape
from typing import Any

from app.conversations.reading import (
    Unreadable,
    attached,
    fields,
    moment,
    objects,
    parts,
    text,
    tree_of,
)
from app.conversations.records import Entry, ExportedChat, MessageState, without_marks
from app.conversations.spelled import thought
from engine.request import Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_DETAILS = re.compile(r'<details type="(\w+)"[^>]*>(.*?)</details>\s*', re.DOTALL)
_SUMMARY = re.compile(r"<summary>.*?</summary>", re.DOTALL)
_QUOTED = re.compile(r"^> ?", re.MULTILINE)


def is_chat(value: dict[str, Any]) -> bool:
    """Whether an object is an exported chat, or the chat inside."""
    return isinstance(fields(value.get("chat", value)).get("history"), dict)


def read(value: dict[str, Any]) -> ExportedChat:
    """Return the chat in one object of the export. Raises Unreadable."""
    chat = value.get("chat", value)
    nodes = chat["history"].get("messages")
    if not isinstance(nodes, dict) or not all(isinstance(m, dict) for m in nodes.values()):
        raise Unreadable("The messages of the history are not objects")
    entries, leaf = tree_of(
        {name: text(message.get("parentId")) for name, message in nodes.items()},
        lambda name, parent: _entry(nodes[name], parent),
        leaf=text(chat["history"].get("currentId")),
    )
    system = text(fields(chat.get("params")).get("system"))
    return ExportedChat(
        title=without_marks(text(value.get("title")) or text(chat.get("title"))),
        entries=entries,
        leaf=leaf,
        system_prompt=system or text(chat.get("system")),
        pinned=value.get("pinned") is True,
        archived=value.get("archived") is True,
        created=moment(value.get("created_at")) or moment(chat.get("timestamp")),
        updated=moment(value.get("updated_at")),
    )


def _entry(message: dict[str, Any], parent: int | None) -> Entry | None:
    role = _ROLES.get(text(message.get("role")))
    reasoning: list[str] = []

    def take(found: re.Match[str]) -> str:
        if found[1] == "reasoning":
            inner = unescape(_SUMMARY.sub("", found[2])).strip()
            reasoning.append(_QUOTED.sub("", inner).strip())
        return ""

    said = parts(message.get("content"))
    if role == "assistant":
        said = _DETAILS.sub(take, said)
    names = [
        attached(file.get("name") or ("image" if file.get("type") == "image" else ""))
        for file in objects(message.get("files"))
    ]
    content = thought("\n\n".join(reasoning), "\n\n".join(filter(None, (*names, said))))
    if role is None or not content:
        return None
    state: MessageState = "complete"
    if role == "assistant" and message.get("error"):
        state = "failed"
    elif role == "assistant" and message.get("done") is False:
        state = "interrupted"
    return Entry(
        parent=parent,
        role=role,
        content=content,
        state=state,
        target=text(message.get("modelName")) or text(message.get("model")),
        created=moment(message.get("timestamp")),
    )
