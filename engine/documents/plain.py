"""Reads text files: prose, source code, Markdown by its headings, tables by their rows.

The text is not changed, but for files in it, so that words a model copies are found in the file.
It is only cut into sections, so that a place in it can be named.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from engine.documents import LABELS_APART, Section
from engine.documents.decoding import decode
from engine.documents.hidden import with_plain_lines
from engine.documents.read import Read, counted_line

LINES = 40
"""Lines of a section; it ends earlier at a blank line in its last quarter."""

_HEADING = re.compile(r" {0,3}(#{1,6})(?![^ \t])(.*)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FILE = re.compile(r"(\bdata:[\w./+-]{3,80}(?:;[\w=-]+)*;base64,)[\w+/=%-]{200,}")
_LONGEST_TITLE = 200
_NO_TITLE = re.compile(r"\s*$| {4}|\t| {0,3}([-+*>|#]|\d+[.)])")  # a list, a quotation, ...


def read_text(data: bytes) -> Read:
    lines, remarks = _lines(data)
    return Read(cut_lines(lines), left_out=remarks)


def read_markdown(data: bytes) -> Read:
    """Read Markdown: a section for each heading, labelled with the path of headings to it."""
    lines, remarks = _lines(data)
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    for level, title, part in _parts(lines):
        if level:
            path = [*(each for each in path if each[0] < level), (level, title)]
        if text := "\n".join(part).strip("\n"):
            label = LABELS_APART.join(title for _, title in path if title)
            sections.append(Section("part", len(sections) + 1, text, label))
    return Read(tuple(sections), left_out=remarks)


def read_csv(data: bytes) -> Read:
    """Read a table with separators, cut only between rows."""
    lines, remarks = _lines(data)
    return Read(cut_lines(lines, ends=_row_ends(lines)), left_out=remarks)


def cut_lines(lines: Sequence[str], *, ends: Sequence[int] | None = None) -> tuple[Section, ...]:
    """Cut lines into sections of about `LINES` lines, numbered by their first line.

    `ends`: the numbers of lines after which a section may end; None: after any line.
    """
    sections, start = [], 0
    for end in _ends(lines, ends):
        first = next((i for i in range(start, end) if lines[i].strip()), end)
        if first < end:
            text = "\n".join(lines[first:end]).rstrip()
            sections.append(Section("lines", first + 1, text))
        start = end
    return tuple(sections)


def _lines(data: bytes) -> tuple[list[str], tuple[str, ...]]:
    """The lines of a file, of files in it (data URLs) only their kinds, and the remarks on it."""
    decoded = decode(data)
    text, files = _FILE.subn(r"\1…", with_plain_lines(decoded.text))
    return text.split("\n"), decoded.remarks + counted_line("Files in the text", files)


def _ends(lines: Sequence[str], allowed: Sequence[int] | None) -> Iterator[int]:
    start, last = 0, len(lines)
    for end in range(1, last) if allowed is None else allowed:
        long = end - start >= LINES
        blank = end - start > LINES * 3 / 4 and not lines[end - 1].strip()
        if end < last and (long or blank):
            yield end
            start = end
    yield last


def _row_ends(lines: Sequence[str]) -> list[int]:
    """The numbers of lines after which a row ends: a quoted cell may have line breaks."""
    rows = csv.reader((line + "\n" for line in lines), dialect=_dialect(lines))
    ends = []
    try:
        for _ in rows:
            ends.append(rows.line_num)
    except csv.Error:  # such as a field that is too long, as a quotation mark was not closed
        return list(range(1, len(lines)))
    if any(end - start > LINES for start, end in pairwise([0, *ends])):  # not closed either
        return list(range(1, len(lines)))
    return ends


def _dialect(lines: Sequence[str]) -> type[csv.Dialect]:
    class Dialect(csv.excel):
        delimiter = max(",;\t|", key=lambda each: sum(each in line for line in lines[:20]))

    return Dialect


def _parts(lines: Sequence[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (level, title, lines) from each heading to the next; level 0 before the first."""
    level, title, fence = 0, "", ""
    part: list[str] = []
    in_front = lines[0] == "---" and "---" in lines[1:]  # front matter, for programs
    for number, line in enumerate(lines):
        if in_front:
            in_front = number == 0 or line != "---"
        elif found := _FENCE.match(line):
            mark = found[1]
            if not fence:
                fence = mark
            elif mark.startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif not fence and (heading := _HEADING.match(line)):
            yield level, title, part
            level, title, part = len(heading[1]), _words(_without_closing(heading[2])), []
        elif not fence and part and _UNDERLINE.match(line) and not _NO_TITLE.match(part[-1]):
            above = part.pop()
            yield level, title, part
            level, title, part = (1 if "=" in line else 2), _words(above), [above]
        part.append(line)
    yield level, title, part


def _without_closing(title: str) -> str:
    """The title without a closing run of "#", of any length."""
    title = title.strip()
    shorter = title.rstrip("#")
    return title if shorter and not shorter[-1].isspace() else shorter.rstrip()


def _words(title: str) -> str:
    """A heading without its marks."""
    title = title[:_LONGEST_TITLE]
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return " ".join(re.sub(r"[*`]|\b_|_\b|<[^>]*>", "", title).split())
