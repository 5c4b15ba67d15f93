"""What runs in the process that reads one file: `python -m engine.documents.child`.

`document PATH` and `picture PATH PAGE WIDTH SPANS` write one result to standard output: a line that
names it, then its content. Knows which reader reads which format, and does for all of them what is
done once: limits, the digest, hidden characters.
"""

import json
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import astuple, replace
from hashlib import sha256
from pathlib import Path

from engine.documents import Document, Format
from engine.documents.confine import TOO_MUCH_MEMORY, confine, watch_memory
from engine.documents.folders import read_folder
from engine.documents.hidden import with_plain_lines, without_hidden
from engine.documents.kinds import kind_of
from engine.documents.limits import FILE_BYTES, MEMORY_BYTES, SECONDS, TEXT_BYTES, size
from engine.documents.notebook import read_notebook
from engine.documents.pdf import draw_page, read_pdf
from engine.documents.plain import read_csv, read_markdown, read_text
from engine.documents.read import Read
from models.errors import Problem

_READERS: dict[Format, Callable[[bytes], Read]] = {
    "csv": read_csv,
    "markdown": read_markdown,
    "notebook": read_notebook,
    "pdf": read_pdf,
    "text": read_text,
}


def read(path: Path) -> Document:
    """Raises Problem."""
    try:
        if path.is_dir():
            found, digest = read_folder(path)
            return _document(path.resolve().name, "folder", digest, found)
        return read_bytes(path.name, _data(path))
    except OSError as error:
        raise _closed(error) from error


def read_bytes(name: str, data: bytes) -> Document:
    """A file that has this name and content. Raises Problem."""
    if not data.strip():
        raise Problem("The file is empty.", "Attach another one.")
    kind = kind_of(name, data)
    return _document(name, kind, sha256(data).hexdigest(), _READERS[kind](data))


def draw(path: Path, number: int, *, width: int, spans: list[tuple[int, int]]) -> tuple[str, bytes]:
    """A page's picture: what is said of it as JSON, and the PNG. Raises Problem."""
    try:
        data = _data(path)
    except OSError as error:
        raise _closed(error) from error
    picture = draw_page(data, number, spans=spans, width=width)
    return json.dumps([picture.width, picture.height, *map(astuple, picture.boxes)]), picture.png


def _data(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):
        raise Problem("It is neither a file nor a folder.", "Attach a file.")
    with path.open("rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise Problem(
            f"The file is larger than {size(FILE_BYTES)}.", "Attach a part of it, or its text."
        )
    return data


def _document(name: str, kind: Format, digest: str, found: Read) -> Document:
    sections, hidden, total = [], 0, 0
    for section in found.sections:
        text, dropped = without_hidden(with_plain_lines(section.text))
        hidden += dropped
        total += len(text.encode())
        if total > TEXT_BYTES:
            raise Problem(
                f"The file has more than {size(TEXT_BYTES)} of text.", "Attach a part of it."
            )
        if text.strip():
            sections.append(replace(section, text=text, label=_line(section.label)))
    if not sections:
        raise _no_text(found)
    left_out = tuple(_line(each) for each in found.left_out)
    return Document(
        _line(name),
        kind,
        digest,
        tuple(sections),
        found.without_text,
        hidden,
        found.faint,
        left_out,
    )


def _line(text: str) -> str:
    """A name in one line, without what nobody sees: a folder's files have any names."""
    shown = text.encode(errors="surrogateescape").decode(errors="replace")
    return " ".join(without_hidden(with_plain_lines(shown))[0].split())


def _no_text(found: Read) -> Problem:
    if found.without_text:
        return Problem(
            "The file has pictures of pages, and no text.",
            "Have its text recognized (OCR) by another program, and attach what that makes.",
        )
    return Problem("The file has no text.", "Attach another one.")


def _closed(error: OSError) -> Problem:
    return Problem(
        f"It cannot be opened: {error.strerror or type(error).__name__}.",
        "See whether it is still there, and whether you may open it.",
    )


def main(arguments: list[str]) -> None:
    """Write the result. What is no Problem ends the process with a traceback."""
    confine(memory_bytes=MEMORY_BYTES, seconds=SECONDS)
    watch_memory(MEMORY_BYTES)
    command, path = arguments[0], Path(arguments[1])
    name, content, rest = command, "", b""
    try:
        if command == "picture":
            number, width, spans = arguments[2:]
            content, rest = draw(path, int(number), width=int(width), spans=json.loads(spans))
        else:
            content = read(path).to_json()
    except Problem as problem:
        name = "problem"
        content = json.dumps([f"{_line(path.name)}: {problem.message}", problem.remedy])
    except MemoryError:
        os._exit(TOO_MUCH_MEMORY)
    sys.stdout.buffer.write(f"{name}\n{content}\n".encode() + rest)


if __name__ == "__main__":
    main(sys.argv[1:])
