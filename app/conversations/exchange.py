"""Conversations as text: written as Markdown or JSON, read from JSON of several kinds.

Read are our own JSON, which has the whole tree; OpenAI's messages, as a list, as
`{"messages": [...]}` or as a list of such; and the conversations.json of a ChatGPT export. What
we write is itself `{"messages": [...]}` to others, with the tree beside it.

Whatever is in a file, reading it gives chats or one `Problem`. Knows nothing of the store.
"""

import json
from pathlib import Path
from typing import Any

from app.conversations import chatgpt, openai, slipstream_json
from app.conversations.reading import Unreadable, at
from app.conversations.records import Entry, ExportedChat, clean
from models.errors import Problem

LARGEST_BYTES = 256 << 20
_KINDS = "Choose a JSON file of OpenAI messages, a ChatGPT export, or one that Slipstream wrote."
_STATES = {"interrupted": "interrupted", "failed": "failed", "cancelled": "stopped",
           "length": "cut at the longest length"}  # fmt: skip
_ROLES = {"system": "System", "user": "User", "assistant": "Assistant"}


def read_chats(path: Path) -> tuple[ExportedChat, ...]:
    """The chats in the file at `path`. Raises Problem."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise Problem(
            f"{path} cannot be read: {error.strerror or error}.",
            "Check that it is a file and that you may read it.",
        ) from error
    return parse(data)


def parse(data: bytes) -> tuple[ExportedChat, ...]:
    """The chats in a file's bytes, at least one. Raises Problem."""
    if len(data) > LARGEST_BYTES:
        raise Problem(
            f"The file is larger than {LARGEST_BYTES >> 20:,} MB.", "Import it in smaller parts."
        )
    if data.startswith(b"PK\x03\x04"):
        raise Problem("The file is a zip archive.", "Unpack it and choose its conversations.json.")
    try:
        value = json.loads(data.decode("utf-8-sig"))
        chats = _chats(value)
    except UnicodeDecodeError as error:
        raise Problem(f"Byte {error.start:,} of the file is not UTF-8 text.", _KINDS) from error
    except RecursionError as error:
        raise Problem("The file is nested too deeply.", _KINDS) from error
    except Unreadable as error:
        raise Problem(f"{error}.", _KINDS) from error
    except ValueError as error:  # JSON's own, and a number of a million digits
        raise Problem(f"The file is not JSON: {str(error)[:120]}.", _KINDS) from error
    if not chats:
        raise Problem("The file holds no messages.", _KINDS)
    return chats


def to_json(chat: ExportedChat) -> str:
    """The whole chat as JSON: the branch that is shown as `messages`, the tree as `tree`."""
    return json.dumps(slipstream_json.write(chat), ensure_ascii=False, indent=1) + "\n"


def to_markdown(chat: ExportedChat) -> str:
    """The branch that is shown, to be read by people."""
    parts = [f"# {' '.join(chat.title.split()) or 'Conversation'}"]
    if chat.system_prompt:
        parts += ["## System", chat.system_prompt]
    for entry in chat.branch():
        parts += [_heading(entry), entry.content]
    return clean("\n\n".join(parts) + "\n")


def _heading(entry: Entry) -> str:
    author = " + ".join(filter(None, (entry.target, entry.drafter)))
    notes = "".join(f" ({note})" for note in (author, _STATES.get(entry.state)) if note)
    return " ".join(f"## {_ROLES[entry.role]}{notes}".split())


def _chats(value: Any) -> tuple[ExportedChat, ...]:
    if isinstance(value, list) and not openai.is_messages(value):
        found = []
        for index, item in enumerate(value):
            with at(f"conversation {index + 1}"):
                found.append(_chat(item))
    else:
        found = [_chat(value)]
    return tuple(chat for chat in found if chat.entries)


def _chat(value: Any) -> ExportedChat:
    if isinstance(value, dict) and slipstream_json.FORMAT in value:
        return slipstream_json.read(value)
    if isinstance(value, dict) and "mapping" in value:
        return chatgpt.read(value)
    if isinstance(value, list) or (isinstance(value, dict) and "messages" in value):
        return openai.read(value)
    raise Unreadable("No messages were found")
