"""A rendered answer as plain values: lines and tables made of runs, which know their sources.

These values are between the Markdown that is read and the document that shows it. Knows nothing of
Qt or of Markdown. All shown text goes through `shown`, which replaces control characters.

A *source* place is an index into the rendered text, in characters. The runs of a page are in the
order of their sources, and no two share a character.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from models.in_words import CONTROLS

Role = Literal["text", "marker", "label", "control", "rejected", "discarded"]
Shape = Literal[
    "text",
    "heading",
    "label",
    "code",
    "rule",
    "plain",
    "formula",
    "reasoning",
    "summary",
    "fold_end",
]
Tone = Literal["", "note", "tip", "important", "warning", "caution"]  # of an admonition
Script = Literal["", "above", "below"]
Alignment = Literal["", "left", "center", "right"]

BAR_LEFT = 16  # pixels from a bar to the text, or to the next bar
_HAIR = "\u200a"  # between rejected tokens
BREAK = "\u2028"  # a line break within a block, as Qt writes it
OBJECT = "\ufffc"  # the character for which Qt draws an object: a formula


@dataclass(frozen=True, slots=True)
class Style:
    """How a run looks.

    `href`: the address of a link. `script`: small, above or below the line. `small`: of a source
    or a footnote. `tone`: the title of an admonition. `formula`: the source of a formula.
    `rejected`: the number of the rejected token that the run shows.
    """

    bold: bool = False
    italic: bool = False
    struck: bool = False
    code: bool = False
    href: str = ""
    script: Script = ""
    underlined: bool = False
    marked: bool = False
    small: bool = False
    tone: Tone = ""
    formula: str = ""
    role: Role = "text"
    rejected: int = -1


@dataclass(frozen=True, slots=True)
class TextRun:
    """Text in one style, from `length` characters of the source.

    If the text has the same length, it is the source, character for character; otherwise the whole
    text is the whole source's. A `length` of 0 is text that no one wrote: a label, a rejected
    token.
    """

    text: str
    style: Style
    source: int
    length: int

    @property
    def end(self) -> int:
        """The end of the run in the source."""
        return self.source + self.length

    @property
    def exact(self) -> bool:
        """Whether it is the source, character for character."""
        return self.length == len(self.text)


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar next to a quote: its distance from the edge in pixels, and its colour."""

    left: int
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class BlockStyle:
    """How a line is placed: its shape, and the pixels left free `above` it and at its `left`.

    `level` is a heading's. `bars` belong to the quotes around it. A line with a `marker` begins
    with it, in the free space at the left. `rtl`: it is written from right to left, and left and
    right are exchanged. Lines of one `panel` (the source place of a code block) share a
    background. `joined`: the line or table before was cut, and continues here. `reasoning`: it
    belongs to the reasoning; a line of that shape is its header. `folds`: the source places of the
    details that it is in, or that it is the summary or the end of.
    """

    shape: Shape = "text"
    level: int = 0
    above: int = 0
    left: int = 0
    bars: tuple[Bar, ...] = ()
    marker: str = ""
    rtl: bool = False
    alignment: Alignment = ""
    panel: int | None = None
    joined: bool = False
    reasoning: bool = False
    folds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TextLine:
    """A paragraph, a heading, a line of code, ..."""

    block: BlockStyle
    runs: tuple[TextRun, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, the header first; all rows have the same number of cells.

    A table that was cut is several tables, the `joined` ones without a header; all have the same
    `columns`: their widths in characters.
    """

    block: BlockStyle
    rows: tuple[tuple[TextLine, ...], ...]
    columns: tuple[int, ...] = ()


Item = TextLine | Table


def with_block(item: Item, **changes: Any) -> Item:
    """Return an item with these changes of its block."""
    return replace(item, block=replace(item.block, **changes))


def beside(item: Item, depth: int, **changes: Any) -> Item:
    """Return an item next to as many more bars, with other changes of its block."""
    room = BAR_LEFT * depth
    inner = (replace(bar, left=bar.left + room) for bar in item.block.bars)
    bars = (*(Bar(BAR_LEFT * n) for n in range(depth)), *inner)
    return with_block(item, left=item.block.left + room, bars=bars, **changes)


def each_line(items: Iterable[Item], change: Callable[[TextLine], TextLine]) -> list[Item]:
    """Return `items` with a change of each line, also of those in tables."""
    return [
        change(item)
        if isinstance(item, TextLine)
        else replace(item, rows=tuple(tuple(map(change, row)) for row in item.rows))
        for item in items
    ]


@dataclass(frozen=True, slots=True)
class RejectedSpan:
    """A drafted token that was not accepted, at the place `source`. `number` is its own.
    `discarded`: it was drafted after a rejected token."""

    source: int
    text: str
    number: int
    discarded: bool = False


@dataclass(frozen=True, slots=True)
class TextMark:
    """A hit of a search, from `start` to `end` in the given text. `current`: the current hit."""

    start: int
    end: int
    current: bool = False


def shown(text: str, style: Style, source: int, length: int) -> Iterator[TextRun]:
    """Iterate over the runs that show `text`: a control character becomes a visible mark."""
    if CONTROLS.search(text) is None:
        yield TextRun(text, style, source, length)
        return
    if length != len(text):
        yield TextRun(CONTROLS.sub(lambda found: _name(found[0]), text), style, source, length)
        return
    begin = 0
    for found in CONTROLS.finditer(text):
        place = found.start()
        if place > begin:
            yield TextRun(text[begin:place], style, source + begin, place - begin)
        yield TextRun(_name(found[0]), replace(style, role="control"), source + place, 1)
        begin = found.end()
    if begin < len(text):
        yield TextRun(text[begin:], style, source + begin, len(text) - begin)


def _name(control: str) -> str:
    """Return the mark's text. It is longer than a character, so that it cannot be taken for one."""
    return f"[U+{ord(control):04X}]"


def source_runs(text: str, source: int = 0) -> list[TextRun]:
    """Return the source of a formula as text that begins at `source`."""
    runs: list[TextRun] = []
    place = source
    for number, row in enumerate(text.split("\n")):
        if number:
            runs.append(TextRun(BREAK, Style(), place - 1, 1))
        if row:
            runs += shown(row, Style(code=True), place, len(row))
        place += len(row) + 1
    return runs


def with_formulas_as_source(items: Iterable[Item]) -> list[Item]:
    """Return `items` with the source of each formula in place of the formula."""

    def without(line: TextLine) -> TextLine:
        if not any(run.style.formula for run in line.runs):
            return line
        return TextLine(line.block, tuple(text for run in line.runs for text in _as_source(run)))

    return each_line(items, without)


def _as_source(run: TextRun) -> list[TextRun]:
    formula = run.style.formula
    if not formula:
        return [run]
    if len(formula) == run.length:
        return source_runs(formula, run.source)
    # The marks of a quote are between its lines.
    return [TextRun(formula.replace("\n", BREAK), Style(code=True), run.source, run.length)]


def all_runs(items: Iterable[Item]) -> Iterator[TextRun]:
    """Iterate over the runs of a page, in reading order."""
    for item in items:
        for line in [item] if isinstance(item, TextLine) else (c for row in item.rows for c in row):
            yield from line.runs


def with_rejected(items: Sequence[Item], rejected: Sequence[RejectedSpan]) -> list[Item]:
    """Return `items` with all `rejected` tokens in them. Each follows the last character
    before its place, or in front of the next character if that is on another line.

    `rejected` are in the order of their places.
    """
    if not rejected:
        return list(items)
    last = end_of(items)
    waiting = list(reversed(rejected))
    placed = each_line(items, lambda line: _line_with_rejected(line, waiting, last=last))
    if waiting:  # shows no character
        placed.append(
            TextLine(BlockStyle(), tuple(r for span in reversed(waiting) for r in _rejected(span)))
        )
    return placed


def end_of(items: Iterable[Item]) -> int | None:
    """Return the end of a page's last character in the source; None if it shows none."""
    ends = (run.end for run in all_runs(items) if run.length and run.style.role != "marker")
    return max(ends, default=None)


def _line_with_rejected(
    line: TextLine, waiting: list[RejectedSpan], *, last: int | None
) -> TextLine:
    """Return the line with its rejected tokens, which are removed from `waiting` (the next one
    last)."""
    if not waiting or not line.runs:
        return line
    runs: list[TextRun] = []
    for run in line.runs:
        if run.length and run.style.role != "marker":
            _release(waiting, runs, until=run.source)
            while waiting and run.exact and run.source < waiting[-1].source < run.end:
                cut = waiting[-1].source - run.source
                runs.append(TextRun(run.text[:cut], run.style, run.source, cut))
                run = TextRun(run.text[cut:], run.style, run.source + cut, run.length - cut)
                _release(waiting, runs, until=run.source)
            runs.append(run)
            _release(waiting, runs, until=None if run.end == last else run.end)
        else:
            runs.append(run)
    return TextLine(line.block, tuple(runs))


def _release(waiting: list[RejectedSpan], runs: list[TextRun], *, until: int | None) -> None:
    """Move the rejected tokens up to the place `until` into the line."""
    while waiting and (until is None or waiting[-1].source <= until):
        span = waiting.pop()
        runs += [*_rejected(span), TextRun(_HAIR, Style(role="label"), span.source, 0)]


def _rejected(span: RejectedSpan) -> Iterator[TextRun]:
    """Iterate over the runs of a rejected token. A struck space would look like a dash."""
    visible = span.text.replace("\n", "\u21b5").replace("\t", "\u21e5") or "\u2205"
    text = "".join(run.text for run in shown(visible, Style(), 0, len(visible)))
    role: Role = "discarded" if span.discarded else "rejected"
    style = Style(role=role, rejected=span.number)
    begin = len(text) - len(text.lstrip(" "))
    if begin:
        yield TextRun(text[:begin], style, span.source, 0)
    if begin < len(text):
        yield TextRun(text[begin:], replace(style, struck=True), span.source, 0)


@dataclass(frozen=True, slots=True)
class MappedSpan:
    """`length` characters of the source are in `size` places of the document from `position`.

    A place is a UTF-16 unit. If the lengths are equal, they match character for character;
    otherwise only as a whole.
    """

    source: int
    length: int
    position: int
    size: int


class SourceMap:
    """Maps the characters of a source to places in a document.

    Spans are appended in the order of their sources, and removed at the end only, so that adding
    text costs only the addition.
    """

    def __init__(self) -> None:
        self._spans: list[MappedSpan] = []
        self._sources: list[int] = []
        self._positions: list[int] = []

    def __len__(self) -> int:
        return len(self._spans)

    def append(self, run: TextRun, position: int) -> int:
        """Record that `run` was written at `position`. Returns its end."""
        if not run.length:
            return position + utf16(run.text)
        if not run.exact or run.text.isascii() or utf16(run.text) == run.length:
            return self._append(MappedSpan(run.source, run.length, position, utf16(run.text)))
        source = run.source
        for text in re.findall(r"[\U00010000-\U0010ffff]|[^\U00010000-\U0010ffff]+", run.text):
            position = self._append(MappedSpan(source, len(text), position, utf16(text)))
            source += len(text)
        return position

    def _append(self, span: MappedSpan) -> int:
        self._spans.append(span)
        self._sources.append(span.source)
        self._positions.append(span.position)
        return span.position + span.size

    def drop(self, count: int) -> None:
        """Forget all spans but the first `count`."""
        del self._spans[count:], self._sources[count:], self._positions[count:]

    def ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of the document that show the source from `start` to `end`. Hidden
        characters, such as marks of emphasis, have none."""
        found: list[tuple[int, int]] = []
        index = max(0, bisect_right(self._sources, start) - 1)
        while index < len(self._spans) and self._sources[index] < end:
            span = self._spans[index]
            index += 1
            if span.source + span.length <= start:
                continue
            first, last = span.position, span.position + span.size
            if span.length == span.size:
                first += max(0, start - span.source)
                last -= max(0, span.source + span.length - end)
            if found and found[-1][1] == first:
                found[-1] = (found[-1][0], last)
            else:
                found.append((first, last))
        return found

    def source_before(self, position: int) -> int:
        """Return the end of the source that is shown before this place of the document."""
        index = bisect_right(self._positions, position) - 1
        if index < 0:
            return 0
        span = self._spans[index]
        if span.length == span.size:
            return span.source + min(position - span.position, span.length)
        return span.source + (span.length if position > span.position else 0)

    def source_at(self, position: int) -> int | None:
        """Return the source character shown at this place, or None."""
        index = bisect_right(self._positions, position) - 1
        if index < 0:
            return None
        span = self._spans[index]
        if position >= span.position + span.size:
            return None
        return span.source + (position - span.position if span.length == span.size else 0)


def utf16(text: str) -> int:
    """The length of `text` in a document."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
