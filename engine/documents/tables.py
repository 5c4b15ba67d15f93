"""Finds the header of a table, which a passage from the middle of the table needs.

A table is a sheet, a CSV file, or lines with bars between cells, as the readers of the other
formats write them. Its header is the first rows whose cells are of another kind than the
cells below: words or dates above numbers, years above other numbers. Where all are words, it is the
first row. Blank rows may be below it, and between rows that are alike.
"""

import csv
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain, zip_longest
from pathlib import PurePath

from engine.documents import Document

_FIRST_ROWS = 10  # titles may be above a header
_MOST_BLOCKS = 100  # of rows without a blank one, back to the header
_LONGEST = 600  # characters: a longer header would take too much of the room
_BAR = " | "
_DATE = re.compile(
    r"\d{1,4}([-./])\d{1,2}\1\d{1,4}(?!\d)"
    r"|(?:\d{4}[-/]\d\d|\d\d[-/]\d{4}|\d\d?(?::\d\d|\.\d\d?\.))\Z"
)
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_LETTER, _DIGIT, _NUMBER = map(re.compile, (r"[^\W\d_]", r"\d", r"\d[\d.,]*"))
_WORDS = {"words", ""}


def header_of(document: Document, offset: int) -> str:
    """The header of the table whose row begins at this offset; "" in no table, and in the header
    and above it."""
    section = document.sections[document.section_at(offset)]
    is_csv = document.format == "csv" or PurePath(section.label).suffix.lower() in (".csv", ".tsv")
    line = document.text[offset : offset + _LONGEST].partition("\n")[0]
    in_bars = section.kind == "sheet" or (section.kind not in ("lines", "cell") and _BAR in line)
    if not (in_bars or is_csv):
        return ""
    own = bisect_right(document.blocks, offset) - 1
    rows_at = partial(_rows, document, is_csv=is_csv)
    sample, block = rows_at(offset), rows_at(document.blocks[own])
    marks = "\t|;," if is_csv else "|"
    separator = max(marks, key=lambda each: sum(each in row for row in block))
    kinds = _kinds(sample, separator)
    for number in range(own, max(own - _MOST_BLOCKS, -1), -1):
        start, before = document.blocks[number], document.blocks[max(number - 1, 0)]
        above = document.sections[document.section_at(start)]
        if (above.kind, above.label) != (section.kind, section.label):
            break
        rows = rows_at(start)
        is_new = start == before or _kinds(rows_at(before), separator) != kinds
        begin, end = _header(rows, sample, separator, of_words=is_new)
        alike = _kinds(rows[end:], separator) == kinds and not _WORDS.issuperset(kinds)
        if begin < end and (number == own or alike or end == len(rows)):
            header = "\n".join(rows[begin : min(end, document.text.count("\n", start, offset))])
            return header if len(header) <= _LONGEST else ""
        if number < own and not alike:
            break
    return ""


def _rows(document: Document, start: int, *, is_csv: bool) -> list[str]:
    """The rows from an offset to a blank one, at most the first of them."""
    following = bisect_right(document.blocks, start)
    end = next(iter(document.blocks[following : following + 1]), len(document.text))
    quotes = document.text.count('"', document.blocks[following - 1], start) if is_csv else 0
    rows = list[str]()
    for line in document.text[start : min(end, start + _FIRST_ROWS * _LONGEST)].split("\n"):
        if quotes % 2 and rows:  # within a cell
            rows[-1] += f"\n{line}"
        elif not quotes % 2 and line.strip(" \t,;|"):
            rows.append(line)
        quotes += line.count('"') if is_csv else 0
    return rows[:_FIRST_ROWS]


def _header(
    rows: Sequence[str], sample: Sequence[str], separator: str, *, of_words: bool
) -> tuple[int, int]:
    """The places in `rows` at which the header of the sample begins and ends; the same if none."""
    begin = end = 0
    for number, row in enumerate(rows):
        cells = _cells(row, separator)
        below = [each for each in (*sample, *rows[number + 1 :]) if each != row][:_FIRST_ROWS]
        columns = _columns(below, separator)
        votes = sum(map(_vote, cells, columns))
        words = of_words and _WORDS.issuperset(map(_kind, chain(cells, *columns)))
        is_title = not any(cells[1:])
        if not is_title and (votes > 0 or (votes == 0 and words)):
            begin, end = begin if end else number, number + 1
        elif end or (votes < 0 and not is_title):
            break
        of_words &= is_title
    return begin, end


def _columns(rows: Sequence[str], separator: str) -> list[tuple[str, ...]]:
    return list(zip_longest(*(_cells(row, separator) for row in rows), fillvalue=""))


def _cells(row: str, separator: str) -> list[str]:
    read = csv.reader(row.splitlines(keepends=True), delimiter=separator)
    cells = row.split("|") if separator == "|" else next(read, [])
    return [cell.strip() for cell in cells]


def _vote(cell: str, column: Sequence[str]) -> int:
    """1 if a cell may head a column, -1 if it is like the others, 0 if it may be both."""
    kind, kinds = _kind(cell), [kind for kind in map(_kind, column) if kind]
    if not kind or not kinds:
        return 0
    rare = 2 * kinds.count(kind) < len(kinds)
    if kind == "words":
        return 1 if rare else -(cell in column)
    if kind in ("year", "date"):
        return 1 if rare else -1
    of_numbers = 2 * sum(each in ("year", "date", "number") for each in kinds) > len(kinds)
    return 1 if kind != "number" and of_numbers else -(kind == "number" or not rare)


def _kinds(rows: Sequence[str], separator: str) -> list[str]:
    """The kind of most cells of each column."""
    counts = (Counter(map(_kind, column)) for column in _columns(rows, separator))
    return [each.most_common(1)[0][0] for each in counts]


def _kind(cell: str) -> str:
    """ "words", "year", "date" or "number"; of words with numbers, the words: "Q0"; "" of signs."""
    if not _DIGIT.search(cell):
        return "words" if _LETTER.search(cell) else ""
    if _DATE.match(cell) or _YEAR.match(cell):
        return "date" if _DATE.match(cell) else "year"
    return _NUMBER.sub("0", cell) if _LETTER.search(cell) else "number"
