"""Conversations as text: written as Markdown or JSON, read from JSON of several kinds.

It reads our own JSON, which has the whole tree; OpenAI's messages, as a list, as
`{"messages": [...]}` or as a list of such; the exports of ChatGPT and Claude; LM Studio's
conversations. All of these may be in a .zip. What we write is itself `{"messages": [...]}` to
others, with the tree as a further field.

Reading any file gives chats or one `Problem`. Knows nothing of the store.
"""

import json
import re
import zipfile
import zlib
from collections import Counter
from html import escape
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

from app.conversations import other_programs, slipstream_json
from app.conversations.answer_steps import in_order, line, texts_of
from app.conversations.database import disk_problem
from app.conversations.markdown_part import part, unloaded
from app.conversations.reading import Unreadable, at
from app.conversations.records import Entry, ExportedChat, clean, picture_of
from engine.stretches import folded
from engine.tools.steps import Step, StepCall
from models.errors import Problem

LARGEST_BYTES = 256 << 20
_LARGEST_NUMBER = 1 << 53
NOWHERE = Path("/nonexistent")
_KINDS = (
    "Choose an export of Slipstream, ChatGPT or Claude, a conversation of LM Studio, or OpenAI "
    "messages in JSON."
)
_ZIP = b"PK\x03\x04"
_EXPORTED = re.compile(r"conversations(-\d+)?\.json")  # of ChatGPT, and of Claude
_STATES = {"interrupted": "interrupted", "failed": "failed", "cancelled": "stopped",
           "length": "stopped at the token limit"}  # fmt: skip
_ROLES = {"system": "System", "user": "User", "assistant": "Assistant"}


def read_chats(path: Path) -> tuple[ExportedChat, ...]:
    """Return the chats in the file at `path`, at least one. Raises Problem."""
    with (
        disk_problem(f"{path} cannot be read", "Check that it is a file and that you may read it."),
        path.open("rb") as file,
    ):
        if file.read(len(_ZIP)) == _ZIP:
            return _read_zip(file)
        file.seek(0)
        data = file.read(LARGEST_BYTES + 1)
    return parse(data)


def parse(data: bytes) -> tuple[ExportedChat, ...]:
    """Return the chats in a file's bytes, at least one. Raises Problem."""
    return _some(_read_zip(BytesIO(data)) if data.startswith(_ZIP) else _parse_json(data))


def _read_zip(file: IO[bytes]) -> tuple[ExportedChat, ...]:
    """Return the chats in a .zip: of an export, or of all its JSON files."""
    chats: list[ExportedChat] = []
    try:
        with zipfile.ZipFile(file) as archive:
            inside = {
                PurePosixPath(info.filename): info
                for info in archive.infolist()
                if "__MACOSX" not in info.filename
            }
            exported = (path for path in inside if _EXPORTED.fullmatch(path.name))
            chosen = [
                path
                for path in exported
                if path.with_suffix(".md") not in inside  # not ours
            ] or [path for path in inside if path.suffix.lower() == ".json"]
            for path in chosen:
                chats += _read_packed(archive, inside[path])
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise Problem("The .zip file is damaged.", "Download it again.") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or packed in a rare way
        raise Problem(
            "The .zip file cannot be unpacked here.", "Unpack it, and import its JSON files."
        ) from error
    if not chosen:
        raise Problem("The .zip file contains no conversations.", _KINDS)
    return _some(tuple(chats))


def _read_packed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[ExportedChat, ...]:
    """Return the chats in a file of a .zip."""
    try:
        if info.file_size > LARGEST_BYTES:
            raise _too_large()
        return _parse_json(archive.read(info))
    except Problem as problem:
        name = PurePosixPath(info.filename).name
        raise Problem(f"{name} in the .zip: {problem.message}", problem.remedy) from problem


def _some(chats: tuple[ExportedChat, ...]) -> tuple[ExportedChat, ...]:
    """Return `chats` if there are any, and otherwise raise Problem."""
    if not chats:
        raise Problem("The file contains no messages.", _KINDS)
    return chats


def _parse_json(data: bytes) -> tuple[ExportedChat, ...]:
    """Return the chats in the bytes of a JSON file; none if it has no messages. Raises Problem."""
    if len(data) > LARGEST_BYTES:
        raise _too_large()
    try:
        return _chats(json.loads(data.decode("utf-8-sig"), parse_int=_number))
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
        raise Problem("The file contains a number that is too long.", _KINDS) from error


def _number(digits: str) -> int:
    """Return the number, or the nearest that SQLite and floating point have room for."""
    return max(-_LARGEST_NUMBER, min(int(digits), _LARGEST_NUMBER))


def _too_large() -> Problem:
    return Problem(
        f"The file is larger than {LARGEST_BYTES >> 20:,} MB.", "Import it in smaller parts."
    )


def to_json(chat: ExportedChat, pictures: Path = NOWHERE) -> str:
    """Return the whole chat as JSON: the shown branch as `messages`, the tree as `tree`, and the
    pictures that are in this folder."""
    return json.dumps(slipstream_json.write(chat, pictures), ensure_ascii=False, indent=1) + "\n"


def left_out(chat: ExportedChat, pictures: Path, *, whole: bool) -> Counter[str]:
    """Count the parts that the chat's file lacks: of the `whole` tree with its pictures in this
    folder, as JSON has it, or else the shown branch."""
    entries = chat.entries if whole else chat.branch()
    found = Counter({"{} message{} of other versions": len(chat.entries) - len(entries)})
    for entry in entries:
        documents = entry.sent.documents if entry.sent else ()
        found["{} picture{}"] += sum(
            not (whole and picture_of(picture, pictures)) for picture in entry.pictures
        )
        found["unsent parts of {} document{}"] += sum(bool(d.among) for d in documents)
        found["the rounds of {} answer{}"] += bool(entry.drafter)
    return found


def not_in_it(found: Counter[str]) -> str:
    """Return a sentence about the parts left out; empty without any."""
    words = (text.format(f"{n:,}", "s" * (n > 1)) for text, n in found.items() if n)
    return f" Not included: {', '.join(words)}." if found.total() else ""


def to_markdown(chat: ExportedChat) -> str:
    """Return the shown branch as Markdown."""
    parts = [f"# {unloaded(' '.join(chat.title.split())) or 'Conversation'}"]
    if chat.system_prompt:
        parts += ["## System", part(chat.system_prompt)]
    for entry in chat.branch():
        parts += [_heading(entry), _said(entry)]
    return clean("\n\n".join(parts) + "\n")


def _said(entry: Entry) -> str:
    if entry.role != "assistant":
        return part(entry.prompt)
    parts: list[str] = []
    for kind, said in in_order(entry.content, entry.parts, entry.steps):
        if isinstance(said, Step):
            parts += map(_called, said.calls)
        elif kind == "reasoning":
            parts.append(folded(part(said), ""))
        elif kind == "content":
            parts.append(part(said))
    return "\n\n".join(parts)


def _called(call: StepCall) -> str:
    """Return a call as Markdown, folded. Nothing in its texts can end their blocks."""
    blocks = []
    for title, text in texts_of(call):
        fence = "`" * (2 + max(map(len, re.findall("`+", text)), default=1))
        blocks.append(f"{title}:\n\n{fence}\n{text}\n{fence}")
    title = escape(line(call), quote=False)
    return "\n\n".join((f"<details>\n<summary>{title}</summary>", *blocks, "</details>"))


def _heading(entry: Entry) -> str:
    author = " + ".join(filter(None, (entry.target, entry.drafter)))
    edited = "edited" if entry.edited else ""
    notes = "".join(f" ({note})" for note in (author, _STATES.get(entry.state), edited) if note)
    return unloaded(" ".join(f"## {_ROLES[entry.role]}{notes}".split()))


def _chats(value: Any) -> tuple[ExportedChat, ...]:
    if isinstance(value, list) and not other_programs.is_openai(value):
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
        return other_programs.read_chatgpt(value)
    if isinstance(value, dict) and "chat_messages" in value:
        return other_programs.read_claude(value)
    if isinstance(value, dict) and other_programs.is_lm_studio(value):
        return other_programs.read_lm_studio(value)
    if isinstance(value, list) or (isinstance(value, dict) and "messages" in value):
        return other_programs.read_openai(value)
    raise Unreadable("No messages were found")
