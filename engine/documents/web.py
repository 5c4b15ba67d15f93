"""Reads HTML as the text that a browser would show: headings, lists, tables, and nothing hidden.

A heading begins a part, whose label is the path of headings to it. ` | ` separates the cells
of a row. Repairs markup like browsers, as far as it moves text. Fetches and runs nothing.
"""

import plistlib
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from html.parser import HTMLParser
from xml.etree.ElementTree import TreeBuilder

from engine.documents import LABELS_APART, Section
from engine.documents.decoding import Decoded, decode_declared
from engine.documents.formulas import apart, formula_text, raised
from engine.documents.numbering import whole, written
from engine.documents.read import Read, unseen_line
from engine.documents.styles import Looks, Styles
from engine.documents.zips import reading

BETWEEN_CELLS = " | "


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_HEADINGS = _names("h1 h2 h3 h4 h5 h6")
_LISTS = _names("ul ol menu")
_CELLS = _names("td th")
_ROW_GROUPS = _names("thead tbody tfoot")
_HOLDERS = _CELLS | {"caption", "table"}  # in which the end of an outer element counts for nothing
_TABLE = _CELLS | _ROW_GROUPS | {"table", "tr", "caption"}
_SPACED = _HEADINGS | _LISTS | {"blockquote", "dl", "figure", "hr", "p", "pre", "table"}
_BLOCKS = (_SPACED | _TABLE - _CELLS) | _names(
    """address article aside body center dd details dialog dir div dt fieldset figcaption footer
    form header html legend li main nav search section summary text"""
)
_NEVER_SHOWN = _names(
    """annotation annotation-xml audio canvas datalist defs desc iframe metadata noembed noframes
    noscript object rp script style symbol template title video"""
)
_EMPTY = _names(
    """area base basefont bgsound br col command embed frame hr image img input keygen link meta
    param source track wbr"""
)
_LISTED = {
    "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman",
    "decimal-leading-zero": "decimalZero", "decimal": "decimal", "1": "decimal", "none": "none",
    **{
        f"{case}-{name}": f"{case}{kind}"
        for case in ("lower", "upper")
        for name, kind in (("alpha", "Letter"), ("latin", "Letter"), ("roman", "Roman"))
    },
}  # fmt: skip
_AROUND = {"rt": "()", "q": "“”", "button": "  ", "textarea": "  "}
_ENDS = {  # the elements that a start tag ends, unless within another
    "li": (frozenset({"li"}), _LISTS | _TABLE),
    "dt": (frozenset({"dt", "dd"}), _TABLE | {"dl"}),
    "dd": (frozenset({"dt", "dd"}), _TABLE | {"dl"}),
    "td": (_CELLS, frozenset({"tr", "table"})),
    "th": (_CELLS, frozenset({"tr", "table"})),
    "tr": (frozenset({"tr"}), frozenset({"table"})),
    "option": (frozenset({"option"}), frozenset({"select"})),
    **{name: (_ROW_GROUPS | {"caption"}, frozenset({"table"})) for name in _ROW_GROUPS},
    **{name: (_HEADINGS | {"p"}, _TABLE) for name in _HEADINGS},
}
_MOST_DEPTH = 512  # as in browsers: deeper elements become siblings
_MOST_COLUMNS = 1_000
_DATA_CELLS = 3  # with text, in one row: no page is laid out like that
_MOST_LABEL = 100
_MOST_REPEATED = 1_000_000  # characters of a table's cells that several rows repeat
_MATHML = re.compile(r"katex-mathml|mwe-math-mathml|assistive[-_]m", re.IGNORECASE)
_COPY = re.compile(r"katex-html|mjx-math|nobr true")  # of a page's MathML, as letters or a picture
_OF_FORMULA = re.compile(r"mwe-math|\b(?:la)?tex\b")
_PREFIX = re.compile(r"^(?:m|mml|mathml):(?=m)")  # of MathML in XHTML
_SPACES = re.compile(r"[ \t\r\n\f\xa0]+")
_CHARSET = re.compile(
    rb"""(?<![\w-])(?:charset|encoding)\s*=\s*["']?\s*(?!utf-?(?:7|16|32))([\w:.-]+)""",
    re.IGNORECASE,
)
_LATER = "\ud802"
_COUNTED = re.compile(rf"{_LATER}(\w+) (-?\d+){_LATER}")
BEGIN, END = "\ud800", "\ud801"  # of crossed-out text; no text has half a character
_CROSSED = (
    (rf"{BEGIN}(\s*){END}", r"\1"),
    (rf"{END}(\s*){BEGIN}", r"\1"),
    (rf"{BEGIN}(\s*)", r"\1~~"),
    (rf"(\s*){END}", r"~~\1"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page: the path of `headings` to it, its own last; () before the first heading."""

    headings: tuple[str, ...]
    text: str

    @property
    def label(self) -> str:
        return LABELS_APART.join(shortened(heading) for heading in self.headings)


@dataclass(frozen=True, slots=True)
class Page:
    """`unseen`: the number of characters that a browser does not show, which are left out."""

    title: str
    parts: tuple[Part, ...]
    unseen: int = 0


def read_html(data: bytes) -> Read:
    known = decoded(data)
    return page_sections(read_page(known.text), remarks=known.remarks)


def read_webarchive(data: bytes) -> Read:
    """Read a page that Safari saved with its pictures: a property list."""
    with reading("saved page"):
        saved = plistlib.loads(data)
        page = saved["WebMainResource"]
        content, charset = page["WebResourceData"], page.get("WebResourceTextEncodingName")
        known = decode_declared(content, charset) if charset else decoded(content)
        sheets = (
            each["WebResourceData"].decode("utf-8", "replace")
            for each in saved.get("WebSubresources", ())
            if each.get("WebResourceMIMEType") == "text/css"
        )
        return page_sections(read_page(known.text, *sheets), remarks=known.remarks)


def page_sections(page: Page, *, remarks: tuple[str, ...] = ()) -> Read:
    """A section for each part of a page."""
    sections = (
        Section("part", number, part.text, part.label or shortened(page.title))
        for number, part in enumerate(page.parts, start=1)
    )
    return Read(tuple(sections), left_out=remarks + unseen_line(page.unseen))


def read_page(html: str, *sheets: str) -> Page:
    """Split a page into parts, all with text. `sheets`: the styles that come with it."""
    reader = _Reader(Styles(html, *sheets), has_mathml="math>" in html)
    reader.feed(html)
    reader.close()
    return reader.page()


def decoded(data: bytes) -> Decoded:
    """Decode a page by the charset that it declares, otherwise as any text. Raises `Problem`."""
    declared = _CHARSET.search(data[:2048])
    return decode_declared(data, declared[1].decode("latin-1") if declared else None)


def shortened(text: str) -> str:
    return text if len(text) <= _MOST_LABEL else text[: _MOST_LABEL - 1] + "…"


@dataclass(slots=True)
class _Table:
    """A table that is being read. `row`: the cells so far. `below`: by column, the number of rows
    that its cell still reaches into, and `texts`: the texts there. `layout`: it has a table
    inside, so it lays out a page. `has_data`: a row had many cells, so it does not. `around`: of a
    table in its cell, the text before it there, and its `rows` so far."""

    row: list[str] = field(default_factory=list)
    below: Counter[int] = field(default_factory=Counter)
    texts: dict[int, str] = field(default_factory=dict)
    repeated: int = 0
    spans: tuple[int, int] = (1, 1)
    in_cell: bool = False
    layout: bool = False
    has_data: bool = False
    around: list[str] | None = None
    rows: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self._reach()
        columns, rows = self.spans
        for _ in range(max(min(columns, _MOST_COLUMNS - len(self.row)), 1)):
            self.below[len(self.row)] = rows - 1
            self.texts[len(self.row)] = text if len(text) <= _MOST_LABEL else ""
            self.row.append(text)
            text = ""

    def end_row(self) -> str:
        """The row that ends; cells that reach into it from above are in it too."""
        says_something = any(self.row)
        self._reach()
        for column in range(len(self.row), max(self.below, default=-1) + 1):
            self.row.append(self._from_above(column))
        cells, self.row = self.row, []
        self.has_data |= sum(map(bool, cells)) >= _DATA_CELLS
        while cells and not cells[-1]:
            cells.pop()
        return BETWEEN_CELLS.join(cells) if says_something else ""

    def _reach(self) -> None:
        while self.below[len(self.row)] > 0:
            self.row.append(self._from_above(len(self.row)))

    def _from_above(self, column: int) -> str:
        if self.below[column] <= 0:
            return ""
        self.below[column] -= 1
        text = self.texts.get(column, "")
        self.repeated += len(text)
        return text if self.repeated < _MOST_REPEATED else ""


@dataclass(slots=True)
class _List:
    """A list that is being read. `number`: of its next item; `step`: -1 if it counts backwards.
    `first`: the number of lines before it."""

    kind: str
    number: int = 1
    step: int = 1
    first: int = 0


class _Reader(HTMLParser):
    """Keeps a stack of open elements and the text so far: lines, the gap before the next line, and
    the pieces of the line that is being read."""

    def __init__(self, styles: Styles, *, has_mathml: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._styles = styles
        self._looks = [styles.outermost]
        self._unseen = 0
        self._has_mathml = has_mathml
        self._formula: TreeBuilder | None = None
        self._choices: list[list[str]] = []
        self._all_choices = False
        self._parts: list[Part] = []
        self._headings: list[tuple[int, str]] = []
        self._lines: list[str] = []
        self._line: list[str] = []
        self._gap = 0
        self._bullet = ""
        self._moved: list[tuple[int, int, str]] = []
        self._title: list[str] = []
        self._stack: list[str] = []
        self._open: Counter[str] = Counter()
        self._hidden_at: int | None = None
        self._tables: list[_Table] = []
        self._lists: list[_List] = []

    def page(self) -> Page:
        while self._stack:
            self._leave()
        self._end_line()
        self._end_part()
        return Page(_one_line(self._title), tuple(self._parts), self._unseen)

    # What HTMLParser calls

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        tag = _PREFIX.sub("", tag)
        given = dict(reversed(attrs))  # the first of two counts
        if tag in _BLOCKS:
            self._end_nearest({"p"}, within=_TABLE)
            if self._formula:
                self._end_nearest({"math"}, within=_NEVER_SHOWN)
        if tag in _ENDS:
            ended, within = _ENDS[tag]
            self._end_nearest(ended, within=within)
        looks = self._styles.looks(tag, given, self._looks)
        named = f"{given.get('class')} {tag} {given.get('aria-hidden')}"
        if _MATHML.search(named):  # hidden only because its copy is shown
            looks = self._looks[-1]
        if tag in _EMPTY:
            if self._hidden_at is None and not looks.unseen:
                self._lone(tag, given)
            return
        if len(self._stack) == _MOST_DEPTH:
            self._leave()
        if self._hidden_at is None:
            formula = given.get("alttext") if tag == "math" else None
            is_copy = self._has_mathml and _COPY.search(named)
            if tag in _NEVER_SHOWN or looks.gone or formula or is_copy:
                self._hidden_at = len(self._stack)
                self._line.append("" if looks.gone else formula or "")
            else:
                self._begin(tag, given, looks)
                if looks.moved and tag not in _BLOCKS | _CELLS:  # of lines; a cell's place differs
                    self._moved.append((len(self._stack), len(self._line), looks.moved))
        self._stack.append(tag)
        self._looks.append(looks)
        self._open[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        tag = _PREFIX.sub("", tag)
        self._end_nearest({tag}, within=() if tag in _TABLE else _HOLDERS)

    def handle_data(self, data: str) -> None:
        looks = self._looks[-1]
        if self._hidden_at is None and not looks.unseen:
            if self._formula:
                self._formula.data(data)
            elif self._open["select"]:
                self._choices[-1].append(data)
            else:
                self._line.append(f"{BEGIN}{data}{END}" if looks.struck else data)
        elif self._stack[-1:] == ["title"] and not self._title and not self._open["svg"]:
            self._title.append(data)
        elif _NEVER_SHOWN.isdisjoint(self._stack[-1:]) and any(each.unseen for each in self._looks):
            self._unseen += len("".join(data.split()))

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Read `<![...`: text in XHTML, otherwise a comment. HTMLParser fails at unknown ones."""
        if self.rawdata.startswith("<![CDATA[", i):
            end = self.rawdata.find("]]>", i)
            self.handle_data(self.rawdata[i + 9 : max(end, 0)])
            return end + 3 if end >= 0 else -1
        end = self.rawdata.find(">", i)
        return end + 1 if end >= 0 else -1

    # The stack

    def _end_nearest(self, names: Collection[str], *, within: Collection[str]) -> None:
        """End the nearest open element with one of these names, and all elements in it; do not look
        outside of `within`."""
        if not any(self._open[name] for name in names):
            return
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] in names:
                while len(self._stack) > place:
                    self._leave()
                return
            if self._stack[place] in within:
                return

    def _leave(self) -> None:
        shown = self._hidden_at is None
        tag = self._stack.pop()
        self._looks.pop()
        self._open[tag] -= 1
        if self._hidden_at == len(self._stack):
            self._hidden_at = None
        if shown:
            self._end(tag)
        if self._moved and self._moved[-1][0] == len(self._stack):
            _, start, sign = self._moved.pop()
            before, piece = "".join(self._line[:start]), "".join(self._line[start:])
            core = piece.strip(BEGIN + END)
            self._line[start:] = [piece.replace(core, raised(core, before=before, sign=sign))]

    # What elements do to the text

    def _lone(self, tag: str, given: dict[str, str | None]) -> None:
        if tag == "hr":
            self._break(2)
        elif tag == "img" and _OF_FORMULA.search(given.get("class") or ""):
            self._line.append("" if self._has_mathml else given.get("alt") or "")
        elif tag == "img" and "".join(self._line[-1:])[-1:].isdigit():
            self._line.append(" ")  # it ends the number
        elif tag == "input":
            self._line.append(f" {_filled_in(given)} ")
        elif tag == "br" and self._open["pre"]:
            self._line.append("\n")
        elif tag == "br" and not self._in_one_line:
            self._end_line()
            self._gap = min(self._gap + 1, 2)
        elif tag == "br":
            self._line.append(" ")

    def _begin(self, tag: str, given: dict[str, str | None], looks: Looks) -> None:
        if tag == "math" or self._formula:
            self._formula = self._formula or TreeBuilder()
            self._formula.start(tag, {name: value or "" for name, value in given.items()})
            return
        around = None
        if tag in ("pre", "table") and self._in_cell:
            if self._tables[-1].around is None and not self._tables[-1].has_data:
                self._lay_out()
            elif tag == "table":
                around, self._line = [*self._line, " "], []
        if tag in _BLOCKS:
            self._break(2 if tag in _SPACED and not self._lists else 1)
        if tag in _LISTS:
            self._begin_list(tag, given, looks)
        elif tag == "li":
            self._begin_item(given, looks)
        elif tag == "table":
            self._tables.append(_Table(around=around))
        elif tag in _CELLS and self._tables:
            self._begin_cell(given)
        elif tag == "select":
            self._choices, self._all_choices = [[""]], "multiple" in given
        elif tag == "option" and self._open["select"]:
            mark = next((name for name in ("selected", "disabled") if name in given), "free")
            self._choices.append([mark, given.get("label") or ""])
        elif tag in _AROUND:
            self._line.append(_AROUND[tag][0])

    def _end(self, tag: str) -> None:
        if self._formula:
            self._formula.end(tag)
            if not self._open["math"]:
                text = formula_text(self._formula.close())
                self._line.append(apart("".join(self._line[-2:]), text))
                self._formula = None
            return
        if tag in _HEADINGS and not self._in_cell:
            self._end_heading(int(tag[1]))
        elif tag == "pre" and not self._open["pre"] and not self._in_one_line:
            self._end_preformatted()
        elif tag in _CELLS and self._tables:
            self._end_cell()
        elif tag in {"tr"} | _ROW_GROUPS and self._tables and not self._tables[-1].layout:
            self._end_row()
        elif tag == "table" and self._tables:
            self._end_line()
            self._end_row()
            table = self._tables.pop()
            self._line = [*(table.around or ()), "; ".join(table.rows)]
        elif tag == "li":
            self._break(1)
            self._bullet = ""
        elif tag in _LISTS:
            self._break(1)
            self._end_list()
        elif tag == "select":
            self._end_choice()
        elif tag in _AROUND:
            self._line.append(_AROUND[tag][1])
        if tag in _BLOCKS:
            self._break(2 if tag in _SPACED and not self._lists else 1)

    def _end_choice(self) -> None:
        """Write the chosen options: where one is shown, the first unless another is marked."""
        chosen = [each for each in self._choices if each[0] == "selected"]
        if not self._all_choices:
            chosen = chosen[-1:] or [each for each in self._choices if each[0] == "free"][:1]
        self._line.append(f" {', '.join(_one_line(each[1:]) for each in chosen)} ")
        others = (each for each in self._choices if each not in chosen)
        self._unseen += sum(len("".join(each[1:]).strip()) for each in others)

    def _begin_list(self, tag: str, given: dict[str, str | None], looks: Looks) -> None:
        kind = _kind_of_marks(looks, given) or ("decimal" if tag == "ol" else "bullet")
        backwards = tag == "ol" and "reversed" in given
        start = whole(given.get("start"), 0 if backwards else 1)
        self._lists.append(_List(kind, start, -1 if backwards else 1, len(self._lines)))

    def _begin_item(self, given: dict[str, str | None], looks: Looks) -> None:
        if self._in_one_line:
            return
        indent = "  " * (len(self._lists) - 1)
        used = self._lists[-1] if self._lists else _List("bullet")
        used.number = whole(given.get("value"), used.number)
        kind = _kind_of_marks(looks, given) or used.kind
        mark = f"{written(used.number, kind)}."
        if used.step < 0 and used.number <= 0:  # known at the end of the list
            mark = f"{_LATER}{kind} {used.number}{_LATER}."
        used.number += used.step
        self._bullet = indent + {"none": "", "bullet": "- "}.get(kind, f"{mark} ")

    def _end_list(self) -> None:
        """End a list, and number the items if it counts down to 1."""
        ended = self._lists.pop()
        if ended.step < 0:
            for place in range(ended.first, len(self._lines)):
                self._lines[place] = _COUNTED.sub(
                    lambda mark: written(int(mark[2]) - ended.number, mark[1]), self._lines[place]
                )

    def _end_row(self) -> None:
        """Write the row that ends; in a table in a cell, keep it."""
        table = self._tables[-1]
        row = table.end_row()
        if table.around is None:
            self._write(row)
        elif row:
            table.rows.append(row.replace(BETWEEN_CELLS, ", "))

    def _lay_out(self) -> None:
        """Treat the table as a page layout: its cells become lines."""
        table = self._tables[-1]
        table.layout, table.in_cell = True, False
        self._write(table.end_row())
        self._end_line()

    def _begin_cell(self, given: dict[str, str | None]) -> None:
        self._end_line()
        table = self._tables[-1]
        table.in_cell = not table.layout
        rows, columns = whole(given.get("rowspan"), 1), whole(given.get("colspan"), 1)
        table.spans = max(columns, 1), max(rows, 1)

    def _end_cell(self) -> None:
        table = self._tables[-1]
        if table.in_cell:
            table.in_cell = False
            table.add(_one_line(self._line))
            self._line.clear()
        else:
            self._break(2)

    def _end_heading(self, level: int) -> None:
        heading = _one_line(self._line)
        if not heading:
            return
        self._line.clear()
        self._end_part()
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        self._headings.append((level, heading))
        self._write(heading)

    def _end_preformatted(self) -> None:
        text = crossed("".join(self._line)).replace("\r\n", "\n").strip("\n")
        self._line.clear()
        self._write("\n".join(line.rstrip() for line in text.split("\n")))

    def _end_part(self) -> None:
        text, headings = "".join(self._lines), tuple(heading for _, heading in self._headings)
        if text:
            self._parts.append(Part(headings, text))
        self._lines, self._gap = [], 0

    # The text

    @property
    def _in_cell(self) -> bool:
        return bool(self._tables) and self._tables[-1].in_cell

    @property
    def _in_one_line(self) -> bool:
        return self._in_cell or any(self._open[name] for name in _HEADINGS)

    def _break(self, gap: int) -> None:
        if self._in_one_line:
            self._line.append(" ")
        elif self._open["pre"]:
            self._line.append("" if "".join(self._line[-1:]).endswith("\n") else "\n")
        else:
            self._end_line()
            self._gap = max(self._gap, gap)

    def _end_line(self) -> None:
        text = _one_line(self._line)
        self._line.clear()
        self._write(text)

    def _write(self, text: str) -> None:
        if text:
            if self._lines:
                self._lines.append("\n" * max(self._gap, 1))
            self._lines.append(self._bullet + text)
            self._gap, self._bullet = 0, ""


def _kind_of_marks(looks: Looks, given: dict[str, str | None]) -> str:
    """The kind of a list's marks, by its style or its type; "" if neither says it."""
    said = (*looks.listed.split(), given.get("type") or "")
    return next((_LISTED[each] for each in said if each in _LISTED), "")


def _filled_in(given: dict[str, str | None]) -> str:
    """The content of a form's field, or a ticked or empty box."""
    match (given.get("type") or "text").lower():
        case "checkbox" | "radio":
            return "☒" if "checked" in given else "☐"
        case "hidden" | "image" | "password" | "submit" | "reset" | "button" | "file" | "range":
            return ""
        case _:
            return given.get("value") or ""


def _one_line(pieces: list[str]) -> str:
    return _SPACES.sub(" ", crossed("".join(pieces))).strip(" ")


def crossed(text: str) -> str:
    """The text with marks around its crossed-out parts, from `BEGIN` to `END`."""
    for sign, mark in _CROSSED if BEGIN in text else ():
        text = re.sub(sign, mark, text)
    return text
