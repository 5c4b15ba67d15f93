"""Reads OpenAI's messages: `[{"role", "content"}, ...]`, alone or as `{"messages": [...]}`.

The first system messages become the system prompt. Tool calls and their results are left out: there
are no such tools here to continue with.
"""

from typing import Any

from app.conversations.reading import Unreadable, at, moment, objects, parts, text
from app.conversations.records import Entry, ExportedChat, without_marks
from engine.request import Role

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_LEFT_OUT = {"tool", "function"}


def is_messages(value: list[Any]) -> bool:
    """Whether a list contains messages, and not chats."""
    return any(isinstance(item, dict) and "role" in item for item in value)


def read(value: Any) -> ExportedChat:
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
        system_prompt="\n\n".join(filter(None, system)),
        created=moment(about.get("created")),
        updated=moment(about.get("updated")),
    )


def _message(value: Any) -> tuple[Role | None, str]:
    if not isinstance(value, dict):
        raise Unreadable("This is not an object with a role and a content")
    role = value.get("role")
    if role in _LEFT_OUT if isinstance(role, str) else False:
        return None, ""
    if not isinstance(role, str) or role not in ROLES:
        raise Unreadable("The role must be one of " + ", ".join([*ROLES, *sorted(_LEFT_OUT)]))
    content = value.get("content")
    if not isinstance(content, (str, list, type(None))):
        raise Unreadable("The content is neither a text nor a list of parts")
    if any(isinstance(part.get("text"), dict) for part in objects(content)):
        raise Unreadable("The text of a part is an object")
    return ROLES[role], parts(content)
