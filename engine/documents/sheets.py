"""Reads a workbook: the values that its program computed last, sheet by sheet.

A row is a line with ` | ` between its cells; columns without values are left out. The value of a
merged cell is in each of its rows. A long sheet becomes several sections. Hidden sheets, rows,
columns and cells, and letters in the colour of their ground are not read, as no one sees them, nor
comments and drawings. A formula without a stored value is given as it is written.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime, time
from io import BytesIO
from itertools import repeat
from typing import Any
from xml.etree.ElementTree import Element, fromstring, tostring
from zipfile import ZipFile

from openpyxl import load_workbook
from openpyxl.utils import get_column_letter, range_boundaries
from openpyxl.utils.escape import unescape

from engine.documents import Section
from engine.documents.limits import WORKBOOK_CHARACTERS
from engine.documents.number_formats import text_with_format, with_format, written
from engine.documents.numbering import whole
from engine.documents.read import Read, counted_line, left_out_line, unseen_line
from engine.documents.web import BEGIN, BETWEEN_CELLS, END, crossed
from engine.documents.zips import Archive, local_name, reading

MOST_ROWS = 1_048_576
"""The rows of a sheet; a file that claims more is not believed."""

ROWS_OF_SECTION = 50

_LONGEST_GAP = 10  # of empty rows that are kept as empty lines
_REPEATED = 200  # characters of a merged cell that is repeated in each of its rows
_MOST_REPEATED = 100_000  # cells
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_COMMENT = re.compile(rb"<(?:\w+:)?comment[\s>]")
_HIDDEN = re.compile(
    rb"""<(?:\w+:)?(row|col)(?=\s[^>]*?\b(?:hidden=["'](?:1|true)|(?:ht|width)=["']0(?:\.0+)?["']))"""
    rb"([^>]*)"
)
_PLACE = re.compile(rb"""\s(?:r|min|max)=["'](\d+)""")
_IMPLICIT = {  # formats that no workbook need define, by openpyxl's: dates, and Thai numbers
    **dict.fromkeys(map(str, (*range(27, 37), *range(50, 59), 71, 72, 73, 74, 77, 81)), "22"),
    **{"59": "1", "60": "2", "61": "3", "62": "4", "67": "9", "68": "10", "69": "12", "70": "13"},
    **{"75": "20", "76": "21", "78": "45", "79": "46", "80": "47"},
}
_GROUND = "*[@patternType!='none']/*"
_SHADES = {
    **dict.fromkeys(("theme 0", "indexed 1", "indexed 9"), "FFFFFF"),
    **dict.fromkeys(("theme 1", "indexed 0", "indexed 8"), "000000"),
}
_MERGED = re.compile(rb"""<(?:\w+:)?mergeCell\s[^>]*?ref=["']([A-Z]+[0-9]+:[A-Z]+[0-9]+)["']""")


def read_xlsx(data: bytes) -> Read:
    with reading("workbook"), warnings.catch_warnings():
        archive = Archive(data)
        warnings.simplefilter("ignore")  # openpyxl warns of parts that it would not save again
        copy = archive.only_xml(_prepared)
        values = load_workbook(copy, read_only=True, data_only=True, keep_links=False)
        formulas: Any = repeat(None)
        xml = copy.getvalue()  # in which a plain search is far quicker than a pattern
        if b"</f>" in xml or b"</x:f>" in xml:
            formulas = load_workbook(copy, read_only=True, keep_links=False).worksheets
        values._date_formats = set()  # openpyxl takes "0\\h" for a date: numbers stay numbers
        sections: list[Section] = []
        hidden, unseen, cut, left = [], [], [], WORKBOOK_CHARACTERS
        blank = unread = 0
        for sheet, with_formulas in zip(values.worksheets, formulas, strict=False):
            if sheet.sheet_state != "visible":
                hidden.append(sheet.title)
                continue
            rows = _Rows(copy, sheet)
            if not rows.read(sheet, with_formulas, most_characters=left):
                cut.append(f"{sheet.title} from row {rows.seen}")
            left -= rows.characters
            unseen += [f"{sheet.title} {each}" for each in rows.unseen]
            blank, unread = blank + rows.blank, unread + rows.unread
            sections += rows.sections(sheet.title)
        drawn = sum(name.startswith("xl/drawings/drawing") for name in archive.names)
        comments = len(_COMMENT.findall(xml)) if b"commentList" in xml else 0
        return Read(
            tuple(sections),
            left_out=left_out_line("Hidden sheets", hidden)
            + left_out_line("Hidden rows and columns", unseen)
            + counted_line("Cells that their format hides", blank)
            + unseen_line(unread)
            + counted_line("Charts, pictures and text boxes of sheets", drawn)
            + counted_line("Comments of sheets", comments)
            + left_out_line(f"After the first {WORKBOOK_CHARACTERS:,} characters", cut),
        )


def _prepared(xml: bytes) -> bytes:
    """A part in a form that openpyxl reads: transitional in place of strict, texts with marks where
    they are crossed out, and of the styles only the formats of numbers, as it fails at odd ones,
    and font 1 for crossed out, 2 for letters in the colour of their ground."""
    xml = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", xml)
    if not any(sign in xml for sign in (b"cellXfs", b"<strike", b":strike")):
        return xml
    root = fromstring(xml)
    if local_name(root) != "styleSheet":
        for run in root.iterfind(".//{*}r"):
            for text in run.iterfind("{*}t") if _is_struck(run.find("{*}rPr")) else ():
                text.text = crossed(f"{BEGIN}{text.text or ''}{END}")
        return tostring(root)
    fonts = root.findall("{*}fonts/{*}font")
    struck = [str(number) for number, font in enumerate(fonts) if _is_struck(font)]
    inks = dict(enumerate(_shade(font.find("{*}color"), "000000") for font in fonts))
    fills = root.iterfind("{*}fills/{*}fill")
    grounds = dict(enumerate(_shade(fill.find(_GROUND), "FFFFFF") for fill in fills))
    defined = [each.get("numFmtId") for each in root.iterfind("{*}numFmts/{*}numFmt")]
    for part in list(root):
        if local_name(part) not in ("cellXfs", "numFmts"):
            root.remove(part)
    for look in root.iterfind("{*}cellXfs/{*}xf"):
        look[:] = []
        number = look.get("numFmtId", "0")
        if number not in defined:
            number = _IMPLICIT.get(number, number if len(number) < 3 else "0")
        ink, ground = (whole(look.get(f"{name}Id")) for name in ("font", "fill"))
        font = 2 if inks.get(ink) == grounds.get(ground, "") else int(look.get("fontId") in struck)
        look.attrib = {"numFmtId": number, "fontId": str(font)}
    return tostring(root)


def _shade(colour: Element | None, otherwise: str) -> str:
    """A colour as "FFFFFF", or as a place in the theme or in the list of the file."""
    given = {} if colour is None else colour.attrib
    named = "".join(f"{name} {given[name]}" for name in sorted(given))
    return _SHADES.get(named, re.sub("^rgb ..", "", named).upper()) or otherwise


def _is_struck(looks: Element | None) -> bool:
    strike = None if looks is None else looks.find("{*}strike")
    return strike is not None and strike.get("val", "1") not in ("0", "false")


class _Rows:
    """The rows of a sheet that have values: (number, text of each cell by its column).

    `unseen`: the hidden rows and columns with values. `blank`: cells whose format hides them.
    `unread`: characters in the colour of their ground.
    """

    def __init__(self, copy: BytesIO, sheet: Any) -> None:
        with ZipFile(copy) as parts:
            xml = parts.read(sheet._worksheet_path)
        ranges = (range_boundaries(found[1].decode()) for found in _MERGED.finditer(xml))
        # The last row of each merged cell that has several, by its first row and column, from 1.
        self._merged = {(top, left): last for left, top, _, last in ranges if last > top}
        self._hidden: dict[bytes, set[int]] = {b"row": set(), b"col": set()}
        may_hide = any(sign in xml for sign in (b"hidden", b"ht=", b"width="))
        for kind, given in _HIDDEN.findall(xml) if may_hide else ():
            numbers = [min(int(each), MOST_ROWS) for each in _PLACE.findall(given)] or [0]
            self._hidden[kind].update(range(min(numbers), max(numbers) + 1))
        # Else a rule or the style of a table may colour the ground of a cell.
        self._even = b"conditionalFormatting" not in xml and b"tablePart" not in xml
        self.seen = self.characters = self.blank = self.unread = 0
        self.unseen: dict[str, None] = {}
        self._rows: list[tuple[int, dict[int, str]]] = []
        self._above: dict[int, tuple[int, str]] = {}  # by column: a merged cell's last row and text
        self._repeated = 0

    def read(self, sheet: Any, formulas: Any | None, *, most_characters: int) -> bool:
        """Read the rows of a sheet. Returns False if a limit ended it."""
        others = repeat(()) if formulas is None else _rows(formulas)
        for row, other in zip(_rows(sheet), others, strict=False):
            self.seen += 1
            cells = {i: _text(cell) for i, cell in enumerate(row) if cell.value is not None}
            if "" in cells.values():
                empty = (str(row[i].value) for i, text in cells.items() if not text)
                self.blank += sum(map(bool, map(str.strip, empty)))
            for column, cell in enumerate(other):
                if column not in cells and (formula := _formula(cell.value)):
                    cells[column] = formula
            for column in [each for each in cells if self._even and _font(row, each) == 2]:
                self.unread += len("".join(cells.pop(column).split()))
            cells = cells and self._seen(cells)
            self.characters += len(row) * len(BETWEEN_CELLS) + sum(map(len, cells.values())) + 1
            if self.characters > most_characters or self.seen > MOST_ROWS:
                return False
            if cells:
                self._rows.append((self.seen, cells))
        return True

    def _seen(self, cells: dict[int, str]) -> dict[int, str]:
        """The cells of this row that are not hidden, with the cells that reach into it."""
        if "" in cells.values():
            cells = {column: text for column, text in cells.items() if text}
        self._repeat_merged(cells)
        if self.seen in self._hidden[b"row"]:
            self.unseen |= {f"row {self.seen}": None} if cells else {}
            return {}
        for column in [each for each in cells if each + 1 in self._hidden[b"col"]]:
            self.unseen[f"column {get_column_letter(column + 1)}"] = None
            del cells[column]
        return cells

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
            hidden = self._hidden[b"row"]  # such a row does not end a table, as an empty one does
            lines += [" " * (row in hidden) for row in range(number - gap, number)]
            lines.append(_line(columns, cells))
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
    """A cell's value as the user reads it."""
    match cell.value:
        case bool(value):
            text = str(value).upper()
        case int(value) | float(value):
            number_format = cell.number_format or "General"
            text = with_format(value, number_format, first_day=cell.parent.parent.epoch)
        case datetime() | time() as value:
            text = written(value)
        case value:
            text = unescape(str(value)) if "_x" in str(value) else str(value)
            text = text_with_format(text, cell.number_format) if cell.has_style else text
            text = " ".join(text.split())
    if text and cell.has_style and cell.style_array.fontId == 1:
        return crossed(f"{BEGIN}{text}{END}")
    return text


def _font(row: Sequence[Any], column: int) -> int:
    return row[column].style_array.fontId if row[column].has_style else 0


def _formula(value: Any) -> str:
    text = getattr(value, "text", value)  # an array formula holds its text inside
    return text if isinstance(text, str) and text.startswith("=") and len(text) > 1 else ""
