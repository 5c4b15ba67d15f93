"""Our own JSON for a chat. Other programs find OpenAI's messages in it; we find the whole tree.

{"slipstream": 1, "title", "pinned", "system_prompt", "settings", "created", "updated",
 "folder", "archived", "messages": [{"role", "content"}, ...], "leaf": 3,
 "tree": [{"parent", "role", "content", "state", "target", "drafter", "created", "sent",
           "edited", "stretches", "steps"}, ...],
 "pictures": {"digest": "PNG in base64", ...}}

For messages with documents, the contents of `messages` and `sent` are what the model got. In
`messages` an answer that called tools has only its own words.
"""

import dataclasses
import json
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from app.conversations.reading import Unreadable, at, fields, moment, text
from app.conversations.records import (
    Entry,
    ExportedChat,
    MessageState,
    clean,
    picture_of,
    settings_from_json,
    settings_to_json,
)
from engine.documents.prompt import Sent, sent_from_json
from engine.request import Role
from engine.stretches import Stretch
from engine.tools.steps import Step, stopped
from models.typed_json import decode

FORMAT = "slipstream"
_VERSION = 1


def write(chat: ExportedChat, pictures: Path) -> dict[str, Any]:
    """Return the chat as plain JSON values, with its pictures as far as they are in this folder."""
    files: dict[str, str] = {}
    for picture in (picture for entry in chat.entries for picture in entry.pictures):
        if kept := picture_of(picture, pictures):
            with suppress(OSError):
                files[kept.digest] = b64encode(Path(kept.path).read_bytes()).decode()
    messages = [{"role": entry.role, "content": clean(entry.prompt)} for entry in chat.branch()]
    if chat.system_prompt:
        messages.insert(0, {"role": "system", "content": clean(chat.system_prompt)})
    settings = settings_to_json(chat.settings)
    return {
        FORMAT: _VERSION,
        "title": clean(chat.title),
        "pinned": chat.pinned,
        "archived": chat.archived,
        "folder": clean(chat.folder),
        "created": _date(chat.created),
        "updated": _date(chat.updated),
        "system_prompt": clean(chat.system_prompt),
        "settings": json.loads(settings) if settings else None,
        "messages": messages,
        "leaf": chat.leaf,
        "tree": [_written(entry) for entry in chat.entries],
        **({"pictures": files} if files else {}),
    }


def read(value: dict[str, Any]) -> ExportedChat:
    """Return the chat that `write` returned. Raises Unreadable."""
    if value.get(FORMAT) != _VERSION:
        raise Unreadable("A newer version of Slipstream wrote this")
    tree = value.get("tree")
    if not isinstance(tree, list):
        raise Unreadable("The tree is not a list")
    entries = []
    for index, item in enumerate(tree):
        with at(f"message {index + 1} of the tree"):
            entries.append(_entry(item, index))
    leaf = value.get("leaf")
    if leaf is not None and not (type(leaf) is int and 0 <= leaf < len(entries)):
        raise Unreadable("The leaf is not in the tree")
    settings = value.get("settings")
    try:
        pictures = {name: b64decode(text(v)) for name, v in fields(value.get("pictures")).items()}
    except ValueError as error:
        raise Unreadable("A picture cannot be read") from error
    return ExportedChat(
        title=text(value.get("title")),
        entries=tuple(entries),
        leaf=leaf,
        system_prompt=text(value.get("system_prompt")),
        settings=settings_from_json(json.dumps(settings)) if settings else None,
        pinned=value.get("pinned") is True,
        created=moment(value.get("created")),
        updated=moment(value.get("updated")),
        folder=text(value.get("folder")),
        archived=value.get("archived") is True,
        pictures=pictures,
    )


def _written(entry: Entry) -> dict[str, Any]:
    values = dataclasses.asdict(entry) | {"created": _date(entry.created)}
    return {name: clean(v) if isinstance(v, str) else v for name, v in values.items()}


def _entry(value: Any, index: int) -> Entry:
    if not isinstance(value, dict):
        raise Unreadable("This is not an object")
    role: Any = value.get("role")
    state: Any = value.get("state")
    parent: Any = value.get("parent")
    roles = [role for role in get_args(Role) if role != "tool"]
    if role not in roles:
        raise Unreadable("The role must be one of " + ", ".join(roles))
    states = [state for state in get_args(MessageState) if state != "streaming"]
    if state not in states:
        raise Unreadable("The state must be one of " + ", ".join(states))
    if parent is not None and not (type(parent) is int and 0 <= parent < index):
        raise Unreadable("The parent is not an earlier message")
    if not isinstance(value.get("content"), str):
        raise Unreadable("The content is not a text")
    steps = _values(tuple[Step, ...], value.get("steps"))
    places = [0, *(step.place for step in steps), len(value["content"])]
    if places != sorted(places):
        raise Unreadable("A tool call is outside the text")
    return Entry(
        parent=parent,
        role=role,
        content=text(value["content"]),
        state=state,
        target=text(value.get("target")),
        drafter=text(value.get("drafter")),
        created=moment(value.get("created")),
        sent=_sent(value.get("sent")),
        edited=value.get("edited") is True,
        stretches=_values(tuple[Stretch, ...], value.get("stretches")),
        steps=stopped(steps),
    )


def _values[T](kind: type[tuple[T, ...]], value: Any) -> tuple[T, ...]:
    try:
        whole = clean(json.dumps(value or [], ensure_ascii=False))
        return decode(kind, json.loads(whole), place="steps")
    except ValueError as error:
        raise Unreadable("The tool calls cannot be read") from error


def _sent(value: Any) -> Sent | None:
    if value is None:
        return None
    try:
        return sent_from_json(json.dumps(value))
    except ValueError as error:
        raise Unreadable("The sent documents cannot be read") from error


def _date(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
