"""Reads LM Studio's conversations: messages in a row, each with all its `versions`.

What follows a message belongs to the version that is selected. Keeps the reasoning and the model's
names. Files are named; tool calls and their results are left out.
"""

from typing import Any

from app.conversations.reading import (
    Unreadable,
    at,
    attached,
    fields,
    moment,
    objects,
    text,
)
from app.conversations.records import Entry, ExportedChat, MessageState, without_marks
from app.conversations.think_tags import with_think_tags
from engine.request import Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_STATES: dict[str, MessageState] = {
    "userStopped": "cancelled",
    "maxPredictedTokensReached": "length",
    "contextLengthReached": "length",
    "failed": "failed",
}
_SYSTEM_PROMPT = "llm.prediction.systemPrompt"


def is_chat(value: dict[str, Any]) -> bool:
    """Whether an object has messages with versions."""
    messages = objects(value.get("messages"))
    return bool(messages) and all("versions" in message for message in messages)


def read(value: dict[str, Any]) -> ExportedChat:
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
            entry = _entry(version, above) if isinstance(version, dict) else None
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


def _entry(version: dict[str, Any], parent: int | None) -> Entry | None:
    role = _ROLES.get(text(version.get("role")))
    target = text(fields(version.get("senderInfo")).get("senderName"))
    state: MessageState = "complete"
    reasoning, said = "", _said(version.get("content"))
    for step in objects(version.get("steps")):
        if step.get("type") != "contentBlock":
            continue
        words = _said(step.get("content"))
        if fields(step.get("style")).get("type") == "thinking":
            reasoning = "\n\n".join(filter(None, (reasoning, words)))
        else:
            said = "\n\n".join(filter(None, (said, words)))
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
