"""The program of the process that reads one file: `python -m engine.documents.child`.

`document SECONDS BYTES PATH`, `picture SECONDS BYTES PATH PAGE WIDTH SPANS` and `pixels SECONDS
BYTES PATH` write one result to standard output: a line that names it, then its content; before it,
"progress 3 40" for each file of a folder. Does the work that is common to all formats: limits, the
digest, hidden characters.
"""

import json
import os
import stat
import sys
from dataclasses import astuple, replace
from hashlib import sha256
from pathlib import Path

from engine.documents import Document, Format
from engine.documents.confine import TOO_MUCH_MEMORY, confine
from engine.documents.folders import read_folder
from engine.documents.hidden import in_one_line, with_plain_lines, without_hidden
from engine.documents.kinds import kind_of
from engine.documents.limits import FILE_BYTES, TEXT_BYTES, Effort, size
from engine.documents.pdf import draw_page
from engine.documents.picture import read_picture
from engine.documents.read import Read, reader_of
from models.errors import Problem


def read(path: Path, *, seconds: float = Effort().seconds) -> Document:
    """Read a file or a folder. Raises `Problem`."""
    try:
        if path.is_dir():
            found, digest = read_folder(path, seconds=seconds, progress=_report)
            return _document(path.resolve().name, "folder", digest, found)
        data = _data(path)
    except OSError as error:
        raise _closed(error) from error
    return read_bytes(path.name, data)


def _report(read: int, of: int) -> None:
    print("progress", read, of, flush=True)


def read_bytes(name: str, data: bytes) -> Document:
    """Read a file with this name and content. Raises `Problem`."""
    if not data.strip():
        raise Problem("The file is empty.", "Attach another file.")
    kind = kind_of(name, data)
    return _document(name, kind, sha256(data).hexdigest(), reader_of(kind)(data))


def draw(path: Path, number: int, *, width: int, spans: list[tuple[int, int]]) -> tuple[str, bytes]:
    """Draw a page. Returns JSON, [width, height, *boxes], and the PNG. Raises `Problem`."""
    try:
        data = _data(path)
    except OSError as error:
        raise _closed(error) from error
    picture = draw_page(data, number, spans=spans, width=width)
    return json.dumps([picture.width, picture.height, *map(astuple, picture.boxes)]), picture.png


def pixels(path: Path) -> tuple[str, bytes]:
    """Decode a picture. Returns JSON, [width, height], and its pixels. Raises `Problem`."""
    try:
        data = _data(path)
    except OSError as error:
        raise _closed(error) from error
    read = read_picture(data)
    return json.dumps([read.width, read.height]), read.rgb


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
            sections.append(replace(section, text=text, label=in_one_line(section.label)))
    if not sections and not (kind == "pdf" and found.without_text):
        raise Problem("The file has no text.", "Attach another file.")
    left_out = tuple(in_one_line(each) for each in found.left_out)
    return Document(
        in_one_line(name),
        kind,
        digest,
        tuple(sections),
        found.without_text,
        hidden,
        found.faint,
        left_out,
    )


def _closed(error: OSError) -> Problem:
    return Problem(
        f"It cannot be opened: {error.strerror or type(error).__name__}.",
        "Check that it exists and that you may open it.",
    )


def main(arguments: list[str]) -> None:
    """Write the result. Any error but a `Problem` ends the process with a traceback."""
    name, seconds, memory_bytes, file, *more = arguments
    path, content, rest = Path(file), "", b""
    confine(Effort(float(seconds), int(memory_bytes)))
    try:
        if name == "picture":
            number, width, spans = more
            content, rest = draw(path, int(number), width=int(width), spans=json.loads(spans))
        elif name == "pixels":
            content, rest = pixels(path)
        else:
            content = read(path, seconds=float(seconds)).to_json()
    except Problem as problem:
        name = "problem"
        content = json.dumps([f"{in_one_line(path.name)}: {problem.message}", problem.remedy])
    except MemoryError:
        os._exit(TOO_MUCH_MEMORY)
    sys.stdout.buffer.write(f"{name}\n{content}\n".encode() + rest)


if __name__ == "__main__":
    main(sys.argv[1:])
