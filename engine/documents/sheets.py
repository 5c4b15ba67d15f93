"""Reads a workbook: the values that its program computed last, sheet by sheet.

A row is a line with ` | ` between its cells; columns without values are left out. The value of a
merged cell stands in each of its rows. A long sheet becomes several sections. Hidden sheets are not
read, as nobody sees them, nor comments and drawings. A formula without a stored value is given as
it is written.
"""

import re
import warnings
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from io import BytesIO
from itertools import repeat
from typing import Any
from xml.etree.ElementTree import ParseError, fromstring, tostring
from zipfile import ZipFile

from openpyxl import load_workbook
from openpyxl.utils import range_boundaries

from engine.documents import Section
from engine.documents.limits import WORKBOOK_CHARACTERS
from engine.documents.number_formats import elapsed, with_format
from engine.documents.read import Read, left_out_line
from engine.documents.web import BETWEEN_CELLS
from engine.documents.zips import Archive, local_name, reading

MOST_ROWS = 1_048_576
"""The rows of a sheet; a file that claims more is not believed."""

ROWS_OF_SECTION = 50

_LONGEST_GAP = 10  # of empty rows that are kept as empty lines
_REPEATED = 200  # characters of a merged cell that is repeated in each of its rows
_MOST_REPEATED = 100_000  # cells
_STRICT = (
    (
        b"http://purl.oclc.org/ooxml/spreadsheetml/main",
        b"http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    ),
    (
        b"http://purl.oclc.org/ooxml/officeDocument/relationships",
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    ),
)
_MERGED = re.compile(rb"""<(?:\w+:)?mergeCell\s[^>]*?ref=["']([A-Z]+[0-9]+:[A-Z]+[0-9]+)["']""")


def read_xlsx(data: bytes) -> Read:
    with reading("workbook"), warnings.catch_warnings():
        archive = Archive(data)
        warnings.simplefilter("ignore")  # openpyxl warns of parts that it would not save again
        comments = 0

        def prepare(xml: bytes) -> bytes:
            nonlocal comments
            comments += _comments(xml)
            return _prepared(xml)

        copy = archive.only_xml(prepare)
        values = load_workbook(copy, read_only=True, data_only=True, keep_links=False)
        formulas: Any = repeat(None)
        if any(tag in copy.getvalue() for tag in (b"<f>", b"<f ")):
            formulas = load_workbook(copy, read_only=True, keep_links=False).worksheets
        sections: list[Section] = []
        hidden, cut, left = [], [], WORKBOOK_CHARACTERS
        for sheet, with_formulas in zip(values.worksheets, formulas, strict=False):
            if sheet.sheet_state != "visible":
                hidden.append(sheet.title)
                continue
            rows = _Rows(_merged(copy, sheet))
            if not rows.read(sheet, with_formulas, most_characters=left):
                cut.append(f"{sheet.title} from row {rows.seen}")
            left -= rows.characters
            sections += rows.sections(sheet.title)
        drawn = sum(name.startswith("xl/drawings/drawing") for name in archive.names)
        return Read(
            tuple(sections),
            left_out=left_out_line("Hidden sheets", hidden)
            + left_out_line(
                "Charts, pictures and text boxes of sheets", [str(drawn)] if drawn else []
            )
            + left_out_line("Comments of sheets", [str(comments)] if comments else [])
            + left_out_line(f"Behind the first {WORKBOOK_CHARACTERS:,} characters", cut),
        )


def _prepared(xml: bytes) -> bytes:
    """A part in a form that openpyxl reads: transitional in place of strict, and of the styles only
    the formats of numbers, as it fails at odd ones."""
    for strict, transitional in _STRICT:
        xml = xml.replace(strict, transitional)
    if b"cellXfs" not in xml:
        return xml
    root = fromstring(xml)
    if local_name(root) != "styleSheet":
        return xml
    for part in list(root):
        if local_name(part) not in ("cellXfs", "numFmts"):
            root.remove(part)
    for look in root.iterfind("{*}cellXfs/{*}xf"):
        look[:] = []
        look.attrib = {"numFmtId": look.get("numFmtId", "0")}
    return tostring(root)


def _comments(xml: bytes) -> int:
    """The number of comments in a part."""
    if b"commentList" not in xml:
        return 0
    try:
        return sum(local_name(element) == "comment" for element in fromstring(xml).iter())
    except ParseError:
        return 0


def _merged(copy: BytesIO, sheet: Any) -> dict[tuple[int, int], int]:
    """The last row of each merged cell that has several, by its first row and column, from 1."""
    with ZipFile(copy) as parts:
        xml = parts.read(sheet._worksheet_path)
    ranges = (range_boundaries(found[1].decode()) for found in _MERGED.finditer(xml))
    return {(top, left): bottom for left, top, _, bottom in ranges if bottom > top}


class _Rows:
    """The rows of a sheet that have values: (number, text of each cell by its column)."""

    def __init__(self, merged: dict[tuple[int, int], int]) -> None:
        self.seen = self.characters = 0
        self._rows: list[tuple[int, dict[int, str]]] = []
        self._merged = merged
        self._above: dict[int, tuple[int, str]] = {}  # by column: a merged cell's last row and text
        self._repeated = 0

    def read(self, sheet: Any, formulas: Any | None, *, most_characters: int) -> bool:
        """Read the rows of a sheet. Returns False if a limit ended it."""
        others = repeat(()) if formulas is None else _rows(formulas)
        for row, other in zip(_rows(sheet), others, strict=False):
            self.seen += 1
            cells = {column: text for column, cell in enumerate(row) if (text := _text(cell))}
            for column, cell in enumerate(other):
                if column not in cells and (formula := _formula(cell.value)):
                    cells[column] = formula
            self._repeat_merged(cells)
            self.characters += len(row) * len(BETWEEN_CELLS) + sum(map(len, cells.values())) + 1
            if self.characters > most_characters or self.seen > MOST_ROWS:
                return False
            if cells:
                self._rows.append((self.seen, cells))
        return True

    def _repeat_merged(self, cells: dict[int, str]) -> None:
        """Write merged cells that began further up into this row, if it has others."""
        for column in [each for each, (last, _) in self._above.items() if last < self.seen]:
            del self._above[column]
        if cells and self._repeated < _MOST_REPEATED:
            for column, (_, text) in self._above.items():
                self._repeated += column not in cells
                cells.setdefault(column, text)
        for column, text in cells.items():
            last = self._merged.get((self.seen, column + 1))
            if last is not None and len(text) <= _REPEATED:
                self._above[column] = last, text

    def sections(self, title: str) -> Iterator[Section]:
        columns = sorted(set().union(*(cells for _, cells in self._rows)))
        lines: list[str] = []
        first = 0
        for number, cells in self._rows:
            gap = number - first - len(lines)
            if lines and (len(lines) + gap >= ROWS_OF_SECTION or gap > _LONGEST_GAP):
                yield Section("sheet", first, "\n".join(lines), title)
                lines = []
            if not lines:
                first, gap = number, 0
            lines += [""] * gap + [_line(columns, cells)]
        if lines:
            yield Section("sheet", first, "\n".join(lines), title)


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    """The rows that are there; the size that a sheet claims is not believed."""
    sheet.reset_dimensions()
    rows: Iterator[tuple[Any, ...]] = sheet.iter_rows()
    return rows


def _line(columns: list[int], cells: dict[int, str]) -> str:
    last = max(cells)
    return BETWEEN_CELLS.join(cells.get(column, "") for column in columns if column <= last)


def _text(cell: Any) -> str:
    """A cell's value as a person reads it."""
    match cell.value:
        case None:
            return ""
        case bool(value):
            return str(value).upper()
        case int(value) | float(value):
            return with_format(value, cell.number_format or "General")
        case datetime(hour=0, minute=0, second=0) as value:
            return value.date().isoformat()
        case datetime() as value:
            return value.isoformat(" ", "seconds" if value.second else "minutes")
        case timedelta() as value:
            return elapsed(value, cell.number_format or "")
        case time() as value:
            return value.isoformat("seconds" if value.second else "minutes")
        case value:
            return " ".join(str(value).split())


def _formula(value: Any) -> str:
    text = getattr(value, "text", value)  # an array formula holds its text inside
    return text if isinstance(text, str) and text.startswith("=") and len(text) > 1 else ""
