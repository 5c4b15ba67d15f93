"""Reads Jan's threads: `thread.json` with the title, and the messages in `messages.jsonl`.

Keeps the reasoning and the model's name. Pictures and files are named; tool calls are left out.
"""

from typing import Any

from app.conversations.reading import at, attached, fields, moment, objects, parts, text
from app.conversations.records import Entry, ExportedChat, MessageState, without_marks
from app.conversations.spelled import thought
from engine.request import Role

THREAD, MESSAGES = "thread.json", "messages.jsonl"
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_STATES: dict[str, MessageState] = {
    "stopped": "cancelled",
    "error": "failed",
    "pending": "interrupted",
}


def is_messages(value: list[Any]) -> bool:
    """Whether a list contains a thread's messages."""
    return any(item.get("object") == "thread.message" for item in objects(value))


def read(thread: dict[str, Any], messages: list[Any]) -> ExportedChat:
    """Return the chat of a thread; `thread` is empty if it is not known."""
    assistants = objects(thread.get("assistants"))
    assistant = assistants[0] if assistants else {}
    target = text(fields(assistant.get("model", thread.get("model"))).get("id"))
    entries: list[Entry] = []
    ordered = sorted(objects(messages), key=lambda m: _number(m.get("created_at")))
    for number, message in enumerate(ordered, start=1):
        with at(f"message {number}"):
            entry = _entry(message, len(entries) - 1 if entries else None, target=target)
        if entry is not None:
            entries.append(entry)
    return ExportedChat(
        title=without_marks(text(thread.get("title"))),
        entries=tuple(entries),
        leaf=len(entries) - 1 if entries else None,
        system_prompt=text(assistant.get("instructions")),
        created=moment(thread.get("created")),
        updated=moment(thread.get("updated")),
    )


def _entry(message: dict[str, Any], parent: int | None, *, target: str) -> Entry | None:
    role = _ROLES.get(text(message.get("role")))
    reasoning, said = [], []
    for part in objects(message.get("content")):
        written = part.get("text")
        words = text(written.get("value")) if isinstance(written, dict) else text(written)
        match part.get("type"):
            case "reasoning":
                reasoning.append(words)
            case "text":
                said.append(words)
            case "image_url":
                said.append(attached("image"))
    if isinstance(message.get("content"), str):
        said.append(parts(message["content"]))
    known = fields(message.get("metadata"))
    names = [attached(file.get("name")) for file in objects(known.get("attachments"))]
    words = "\n\n".join(filter(None, (*names, *said)))
    content = thought("\n\n".join(filter(None, reasoning)), words)
    if role is None or not content:
        return None
    answer = role == "assistant"
    return Entry(
        parent=parent,
        role=role,
        content=content,
        state=_STATES.get(text(message.get("status")), "complete") if answer else "complete",
        target=(text(known.get("modelId")) or target) if answer else "",
        created=moment(message.get("created_at")),
    )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
