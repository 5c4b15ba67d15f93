"""Reads the chats of other programs. Tool calls and their results are left out: there are no such
tools here to continue with.

ChatGPT's export: a `mapping` of nodes that name their parents. Hidden messages are left out, and
those after them are attached to those before. A mark of a source becomes the links in its place.
Claude's export: `chat_messages` that name their parents. Attached texts are part of the message, as
they were for the model; other files are named.
LM Studio's conversations: messages in a row, each with all its `versions`. What follows a message
belongs to the version that is selected.
OpenAI's messages: `[{"role", "content"}, ...]`, alone or as `{"messages": [...]}`. The first system
messages become the system prompt.
"""

import re
from collections.abc import Iterable
from typing import Any

from app.conversations.reading import (
    Unreadable,
    at,
    attached,
    chained,
    fields,
    moment,
    objects,
    parts,
    text,
    tree_of,
)
from app.conversations.records import Entry, ExportedChat, MessageState, without_marks
from app.conversations.think_tags import with_think_tags
from engine.request import Role

_ROLES: dict[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}
_KINDS = {"text", "multimodal_text", "code"}
_MARK = re.compile("\ue200[^\ue201]*\ue201|【\\d+[†:][^】]*】")  # of a source, by number
_LM_STUDIO_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_STATES: dict[str, MessageState] = {
    "userStopped": "cancelled",
    "maxPredictedTokensReached": "length",
    "contextLengthReached": "length",
    "failed": "failed",
}
_SYSTEM_PROMPT = "llm.prediction.systemPrompt"
_OPENAI_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_LEFT_OUT = ("function", "tool")


def read_chatgpt(value: dict[str, Any]) -> ExportedChat:
    """Return the chat in one conversation of the export. Raises Unreadable."""
    mapping = value.get("mapping")
    if not isinstance(mapping, dict):
        raise Unreadable("The mapping is not an object")
    entries, leaf = tree_of(
        {name: _parent(node) for name, node in mapping.items()},
        lambda name, parent: _chatgpt_entry(mapping[name], parent),
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


def _chatgpt_entry(node: Any, parent: int | None) -> Entry | None:
    """Return the message in a node; None if there is nothing to show."""
    found = fields(fields(node).get("message"))
    content = fields(found.get("content"))
    role = _ROLES.get(text(fields(found.get("author")).get("role")))
    more = fields(found.get("metadata"))
    hidden = more.get("is_visually_hidden_from_conversation")
    to_a_tool = text(found.get("recipient")) not in ("", "all")
    if role is None or hidden or to_a_tool or text(content.get("content_type")) not in _KINDS:
        return None
    said = parts(content.get("parts")) or text(content.get("text"))
    for source in objects(more.get("content_references")):
        if _MARK.fullmatch(mark := text(source.get("matched_text"))):
            said = said.replace(mark, text(source.get("alt")))
    files = [attached(file.get("name")) for file in objects(more.get("attachments"))]
    said = _joined((_MARK.sub("", said), *files))
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


def read_claude(value: dict[str, Any]) -> ExportedChat:
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
        lambda name, parent: _claude_entry(nodes[name], parent),
        leaf=text(value.get("current_leaf_message_uuid")),
    )
    return ExportedChat(
        title=without_marks(text(value.get("name"))),
        entries=entries,
        leaf=leaf,
        created=moment(value.get("created_at")),
        updated=moment(value.get("updated_at")),
    )


def _claude_entry(message: dict[str, Any], parent: int | None) -> Entry | None:
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


def is_openai(value: list[Any]) -> bool:
    """Whether a list contains messages, and not chats."""
    return any(isinstance(item, dict) and "role" in item for item in value)


def read_openai(value: Any) -> ExportedChat:
    """Return the chat in a list of messages, or in an object that has one. Raises Unreadable."""
    about = value if isinstance(value, dict) else {}
    messages = about.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list):
        raise Unreadable("The messages are not a list")
    system: list[str] = []
    entries: list[Entry] = []
    for number, message in enumerate(messages, start=1):
        with at(f"message {number}"):
            role, content = _message(message)
        if role == "system" and not entries:
            system.append(content)
        elif role is not None and content:
            parent = len(entries) - 1 if entries else None
            entries.append(Entry(parent=parent, role=role, content=content))
    return ExportedChat(
        title=without_marks(text(about.get("title"))),
        entries=tuple(entries),
        leaf=len(entries) - 1 if entries else None,
        system_prompt=_joined(system),
        created=moment(about.get("created")),
        updated=moment(about.get("updated")),
    )


def _message(value: Any) -> tuple[Role | None, str]:
    if not isinstance(value, dict):
        raise Unreadable("This is not an object with a role and a content")
    role = value.get("role")
    if role in _LEFT_OUT if isinstance(role, str) else False:
        return None, ""
    if not isinstance(role, str) or role not in _OPENAI_ROLES:
        raise Unreadable(f"The role must be one of {', '.join((*_OPENAI_ROLES, *_LEFT_OUT))}")
    content = value.get("content")
    if not isinstance(content, (str, list, type(None))):
        raise Unreadable("The content is neither a text nor a list of parts")
    if any(isinstance(part.get("text"), dict) for part in objects(content)):
        raise Unreadable("The text of a part is an object")
    return _OPENAI_ROLES[role], parts(content)


def is_lm_studio(value: dict[str, Any]) -> bool:
    """Whether an object has messages with versions."""
    messages = objects(value.get("messages"))
    return bool(messages) and all("versions" in message for message in messages)


def read_lm_studio(value: dict[str, Any]) -> ExportedChat:
    """Return the chat in a conversation file. Raises Unreadable."""
    entries: list[Entry] = []
    above: int | None = None
    for number, message in enumerate(objects(value["messages"]), start=1):
        with at(f"message {number}"):
            versions = message.get("versions")
            if not isinstance(versions, list):
                raise Unreadable("The versions are not a list")
        chosen = message.get("currentlySelected")
        selected = above
        for place, version in enumerate(versions):
            entry = _lm_studio_entry(version, above) if isinstance(version, dict) else None
            if entry is not None:
                entries.append(entry)
                if selected == above or place == chosen:
                    selected = len(entries) - 1
        above = selected
    return ExportedChat(
        title=without_marks(text(value.get("name"))),
        entries=tuple(entries),
        leaf=above,
        system_prompt=_system_prompt(value),
        pinned=value.get("pinned") is True,
        created=moment(value.get("createdAt")),
        updated=moment(value.get("assistantLastMessagedAt") or value.get("userLastMessagedAt")),
    )


def _lm_studio_entry(version: dict[str, Any], parent: int | None) -> Entry | None:
    role = _LM_STUDIO_ROLES.get(text(version.get("role")))
    target = text(fields(version.get("senderInfo")).get("senderName"))
    state: MessageState = "complete"
    reasoning, said = "", _said(version.get("content"))
    for step in objects(version.get("steps")):
        if step.get("type") != "contentBlock":
            continue
        words = _said(step.get("content"))
        if fields(step.get("style")).get("type") == "thinking":
            reasoning = _joined((reasoning, words))
        else:
            said = _joined((said, words))
        info = fields(step.get("genInfo"))
        target = target or text(info.get("identifier")) or text(info.get("modelIdentifier"))
        if "stats" in info:
            reason = text(fields(info["stats"]).get("stopReason"))
            state = _STATES.get(reason, "complete")
    content = with_think_tags(reasoning, said)
    if role is None or not content:
        return None
    answer = role == "assistant"
    return Entry(
        parent=parent,
        role=role,
        content=content,
        state=state if answer else "complete",
        target=target if answer else "",
    )


def _said(content: Any) -> str:
    """Return the text of a content, in which its files are named."""
    found: list[str] = []
    for part in objects(content):
        if part.get("type") == "text":
            found.append(text(part.get("text")))
        elif part.get("type") == "file":
            found.append(attached(part.get("fileIdentifier")) + "\n\n")
    return "".join(found).strip()


def _system_prompt(value: dict[str, Any]) -> str:
    for field in objects(fields(value.get("perChatPredictionConfig")).get("fields")):
        if field.get("key") == _SYSTEM_PROMPT and text(field.get("value")):
            return text(field.get("value"))
    return text(value.get("systemPrompt"))
