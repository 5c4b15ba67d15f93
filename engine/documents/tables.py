"""Finds the header row of a table, which a passage from the middle of the table needs.

A table is a sheet, a CSV file, or lines with bars between cells, as the readers of the other
formats write them. Its header is the first of its first rows with words in two cells.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import PurePath

from engine.documents import Document

_FIRST_ROWS = 10  # titles and empty rows may stand above a header
_LONGEST = 600  # characters: a longer header would take too much of the room
_WORDS = re.compile(r"[^,;\t|]*[^\W\d_][^,;\t|]*")  # a cell that is no number
_BAR = " | "


def header_of(document: Document, offset: int) -> str:
    """The header of the table whose row begins at this offset; "" in no table, and in the header
    and above it."""
    header = next((row for row in _first_rows(document, offset) if _is_header(row)), "")
    return header if len(header) <= _LONGEST else ""


def _is_header(row: str) -> bool:
    return len(_WORDS.findall(row)) > 1


def _first_rows(document: Document, offset: int) -> Sequence[str]:
    """The first rows of the table around this offset, as far as they stand above it."""
    number = document.section_at(offset)
    section, text = document.sections[number], document.text
    csv = document.format == "csv" or PurePath(section.label).suffix.lower() in (".csv", ".tsv")
    if section.kind == "sheet" or csv:
        while number and document.sections[number - 1].label == section.label:
            number -= 1
        start = document.starts[number]
        return text[start : min(offset, start + _FIRST_ROWS * _LONGEST)].split("\n")[:_FIRST_ROWS]
    row = text[offset : text.find("\n", offset) % (len(text) + 1)]  # -1 is the end of the text
    if section.kind in ("lines", "cell") or _BAR not in row:
        return ()
    above = reversed(text[document.starts[number] : offset].split("\n")[:-1])
    return tuple(takewhile(lambda row: _BAR in row, above))[: -_FIRST_ROWS - 1 : -1]
