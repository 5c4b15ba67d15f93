"""Reads the conversations.json of a ChatGPT export: a `mapping` of nodes that name their parents.

Keeps what people and the model said. Leaves out hidden messages, tool calls and their results;
messages after them are attached to those before.
"""

from typing import Any

from app.conversations.reading import Unreadable, moment, parts, text
from app.conversations.records import Entry, ExportedChat, without_marks
from engine.request import Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_KINDS = {"text", "multimodal_text", "code"}


def read(value: dict[str, Any]) -> ExportedChat:
    """Return the chat in one conversation of the export. Raises Unreadable."""
    mapping = value.get("mapping")
    if not isinstance(mapping, dict):
        raise Unreadable("The mapping is not an object")
    entries: list[Entry] = []
    index_of: dict[str, int | None] = {}  # of a node's entry, or of the nearest above it
    for name in mapping:
        for node in _down_to(name, mapping, index_of):
            above = index_of.get(_parent(mapping, node) or "")
            entry = _entry(mapping[node], above)
            index_of[node] = above if entry is None else len(entries)
            if entry is not None:
                entries.append(entry)
    leaf = index_of.get(text(value.get("current_node")))
    return ExportedChat(
        title=without_marks(text(value.get("title"))),
        entries=tuple(entries),
        leaf=leaf if leaf is not None or not entries else len(entries) - 1,
        created=moment(value.get("create_time")),
        updated=moment(value.get("update_time")),
    )


def _down_to(name: str, mapping: dict[str, Any], done: dict[str, int | None]) -> list[str]:
    """Return the nodes from the first one that is not done down to `name`. A loop, as trees are
    deep."""
    way: list[str] = []
    seen: set[str] = set()
    node: str | None = name
    while node is not None and node not in done:
        if node in seen:
            raise Unreadable("The messages run in a circle")
        seen.add(node)
        way.append(node)
        node = _parent(mapping, node)
    return way[::-1]


def _parent(mapping: dict[str, Any], node: str) -> str | None:
    found = mapping[node]
    parent = found.get("parent") if isinstance(found, dict) else None
    return parent if isinstance(parent, str) and parent in mapping else None


def _entry(node: Any, parent: int | None) -> Entry | None:
    """Return the message in a node; None if there is nothing to show."""
    message = _object(node).get("message")
    found, content = _object(message), _object(_object(message).get("content"))
    role = _ROLES.get(text(_object(found.get("author")).get("role")))
    hidden = _object(found.get("metadata")).get("is_visually_hidden_from_conversation")
    to_a_tool = text(found.get("recipient")) not in ("", "all")
    if role is None or hidden or to_a_tool or content.get("content_type") not in _KINDS:
        return None
    said = parts(content.get("parts")) or text(content.get("text"))
    if not said:
        return None
    model = text(_object(found.get("metadata")).get("model_slug"))
    return Entry(
        parent=parent,
        role=role,
        content=said,
        target=model if role == "assistant" else "",
        created=moment(found.get("create_time")),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
