"""Conversations as text: written as Markdown or JSON, read from JSON of several kinds.

It reads our own JSON, which has the whole tree; OpenAI's messages, as a list, as
`{"messages": [...]}` or as a list of such; and the conversations.json of a ChatGPT export. All of
these may be in a .zip. What we write is itself `{"messages": [...]}` to others, with the tree
beside it.

Whatever is in a file, reading it gives chats or one `Problem`. Knows nothing of the store.
"""

import json
import re
import zipfile
import zlib
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

from app.conversations import chatgpt, openai, slipstream_json
from app.conversations.reading import Unreadable, at
from app.conversations.records import Entry, ExportedChat, clean
from models.errors import Problem

LARGEST_BYTES = 256 << 20
_KINDS = "Choose a JSON file of OpenAI messages, a ChatGPT export, or one that Slipstream wrote."
_ZIP = b"PK\x03\x04"
_CHATGPT = re.compile(r"conversations(-\d+)?\.json")  # large exports have several
_STATES = {"interrupted": "interrupted", "failed": "failed", "cancelled": "stopped",
           "length": "cut at the longest length"}  # fmt: skip
_ROLES = {"system": "System", "user": "User", "assistant": "Assistant"}


def read_chats(path: Path) -> tuple[ExportedChat, ...]:
    """Return the chats in the file at `path`. Raises Problem."""
    try:
        with path.open("rb") as file:
            if file.read(len(_ZIP)) == _ZIP:
                return _read_zip(file)
            file.seek(0)
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise Problem(
            f"{path} cannot be read: {error.strerror or error}.",
            "Check that it is a file and that you may read it.",
        ) from error
    return parse(data)


def parse(data: bytes) -> tuple[ExportedChat, ...]:
    """Return the chats in a file's bytes, at least one. Raises Problem."""
    chats = _read_zip(BytesIO(data)) if data.startswith(_ZIP) else _parse_json(data)
    if not chats:
        raise _no_messages()
    return chats


def _read_zip(file: IO[bytes]) -> tuple[ExportedChat, ...]:
    """Return the chats in a .zip: those of a ChatGPT export, or of all its JSON files."""
    try:
        with zipfile.ZipFile(file) as archive:
            json_files = [
                info
                for info in archive.infolist()
                if info.filename.lower().endswith(".json") and "__MACOSX" not in info.filename
            ]
            chosen = [i for i in json_files if _CHATGPT.fullmatch(PurePosixPath(i.filename).name)]
            chosen = chosen or json_files
            if sum(info.file_size for info in chosen) > LARGEST_BYTES:
                raise _too_large()
            texts = [(info.filename, archive.read(info)) for info in chosen]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise Problem("The .zip file is damaged.", "Download it again.") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or packed in a rare way
        raise Problem(
            "The .zip file cannot be unpacked here.", "Unpack it, and import its JSON files."
        ) from error
    if not texts:
        raise Problem("The .zip file holds no conversations.", _KINDS)
    chats: list[ExportedChat] = []
    for name, data in texts:
        try:
            chats += _parse_json(data)
        except Problem as problem:
            place = PurePosixPath(name).name
            raise Problem(f"{place} in the .zip: {problem.message}", problem.remedy) from problem
    if not chats:
        raise _no_messages()
    return tuple(chats)


def _parse_json(data: bytes) -> tuple[ExportedChat, ...]:
    """Return the chats in the bytes of a JSON file; none if it has no messages."""
    if len(data) > LARGEST_BYTES:
        raise _too_large()
    try:
        return _chats(json.loads(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise Problem(f"Byte {error.start:,} of the file is not UTF-8 text.", _KINDS) from error
    except RecursionError as error:
        raise Problem("The file is nested too deeply.", _KINDS) from error
    except Unreadable as error:
        raise Problem(f"{error}.", _KINDS) from error
    except json.JSONDecodeError as error:
        raise Problem(
            f"The file is not JSON: line {error.lineno:,} cannot be read from its character "
            f"{error.colno:,} on.",
            _KINDS,
        ) from error
    except ValueError as error:  # a number of a million digits
        raise Problem("The file holds a number that is too long.", _KINDS) from error


def _too_large() -> Problem:
    return Problem(
        f"The file is larger than {LARGEST_BYTES >> 20:,} MB.", "Import it in smaller parts."
    )


def _no_messages() -> Problem:
    return Problem("The file holds no messages.", _KINDS)


def to_json(chat: ExportedChat) -> str:
    """Return the whole chat as JSON: the shown branch as `messages`, the tree as `tree`."""
    return json.dumps(slipstream_json.write(chat), ensure_ascii=False, indent=1) + "\n"


def to_markdown(chat: ExportedChat) -> str:
    """Return the shown branch as Markdown."""
    parts = [f"# {' '.join(chat.title.split()) or 'Conversation'}"]
    if chat.system_prompt:
        parts += ["## System", chat.system_prompt]
    for entry in chat.branch():
        parts += [_heading(entry), entry.prompt]
    return clean("\n\n".join(parts) + "\n")


def _heading(entry: Entry) -> str:
    author = " + ".join(filter(None, (entry.target, entry.drafter)))
    edited = "edited" if entry.edited else ""
    notes = "".join(f" ({note})" for note in (author, _STATES.get(entry.state), edited) if note)
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
