"""Reads the conversations.json of a ChatGPT export: a `mapping` of nodes that name their parents.

Keeps what people and the model said. Leaves out hidden messages, tool calls and their results;
messages after them are attached to those before. A mark of a source becomes the links in its place.
"""

import re
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
from app.conversations.records import Entry, ExportedChat, without_marks
from engine.request import Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_KINDS = {"text", "multimodal_text", "code"}
_MARK = re.compile("\ue200[^\ue201]*\ue201|【\\d+[†:][^】]*】")  # of a source, by number


def read(value: dict[str, Any]) -> ExportedChat:
    """Return the chat in one conversation of the export. Raises Unreadable."""
    mapping = value.get("mapping")
    if not isinstance(mapping, dict):
        raise Unreadable("The mapping is not an object")
    entries, leaf = tree_of(
        {name: _parent(node) for name, node in mapping.items()},
        lambda name, parent: _entry(mapping[name], parent),
        leaf=text(value.get("current_node")),
    )
    return ExportedChat(
        title=without_marks(text(value.get("title"))),
        entries=entries,
        leaf=leaf,
        created=moment(value.get("create_time")),
        updated=moment(value.get("update_time")),
        archived=value.get("is_archived") is True,
    )


def _parent(node: Any) -> str:
    return text(fields(node).get("parent"))


def _entry(node: Any, parent: int | None) -> Entry | None:
    """Return the message in a node; None if there is nothing to show."""
    found = fields(fields(node).get("message"))
    content = fields(found.get("content"))
    role = _ROLES.get(text(fields(found.get("author")).get("role")))
    more = fields(found.get("metadata"))
    hidden = more.get("is_visually_hidden_from_conversation")
    to_a_tool = text(found.get("recipient")) not in ("", "all")
    if role is None or hidden or to_a_tool or content.get("content_type") not in _KINDS:
        return None
    said = parts(content.get("parts")) or text(content.get("text"))
    for source in objects(more.get("content_references")):
        if _MARK.fullmatch(mark := text(source.get("matched_text"))):
            said = said.replace(mark, text(source.get("alt")))
    files = [attached(file.get("name")) for file in objects(more.get("attachments"))]
    said = "\n\n".join(filter(None, (_MARK.sub("", said), *files)))
    if not said:
        return None
    model = text(more.get("model_slug"))
    return Entry(
        parent=parent,
        role=role,
        content=said,
        target=model if role == "assistant" else "",
        created=moment(found.get("create_time")),
    )
