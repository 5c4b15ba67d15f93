"""Makes the text of a PDF's page of PDFium's characters and of their places on the page.

The order is PDFium's, line by line, but what is filled into a form stands beside its label. A
hyphen at the end of a line stays, and of a row of dots, as in a table of contents, three stay. Each
character keeps its number on the page, by which its box is found.
"""

import ctypes
import math
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

MADE = -1
"""The number of a character that the page does not have: the end of a line, a tick in a box."""

_HYPHENS = (0x02, 0xFFFE, 0xFFFF)  # PDFium's signs for a word that continues in the next line
_LINE_ENDS = (0x0A, 0x0B, 0x0C, 0x0D)
_LEADERS = re.compile(r"(?<=\.)(\s*\.){4,}")  # a token each, and a model copies them without end
_APART = 1.4  # times the usual distance of lines: a new paragraph
_GAP = 0.8  # of a character's height: two cells
_SPACE = 0.12  # of a character's height: the smallest space between words
_RULED = "_.…"
_UNKNOWN = "\ufffd"
_MANY = 0.25  # of a page's characters: an alphabet that cannot be read
_ACCENTS = {  # that stand alone, and what they are on a letter
    "`": "\u0300", "\u02cb": "\u0300", "\u00b4": "\u0301", "\u02ca": "\u0301", "^": "\u0302",
    "\u02c6": "\u0302", "\u02dc": "\u0303", "~": "\u0303", "\u00af": "\u0304", "\u02c9": "\u0304",
    "\u02d8": "\u0306", "\u02d9": "\u0307", "\u00a8": "\u0308", "\u02da": "\u030a",
    "\u02dd": "\u030b", "\u02c7": "\u030c", "\u00b8": "\u0327", "\u02db": "\u0328",
}  # fmt: skip
_DOTLESS = {"\u0131": "i", "\u0237": "j"}
_NEAR = 12  # characters between a letter and its accent


class Box(NamedTuple):
    """A rectangle on the page, in points from its lower left corner."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    def around(self, other: "Box") -> "Box":
        lower, upper = map(min, self[:2], other[:2]), map(max, self[2:], other[2:])
        return Box(*lower, *upper)


@dataclass(frozen=True, slots=True)
class Tick:
    """A box of a form that can be ticked."""

    box: Box
    ticked: bool


@dataclass(frozen=True, slots=True)
class PageText:
    """A page's text. `numbers`: for each character its number on the page, or `MADE`. `beside`: the
    number of characters outside of the page, which are left out."""

    text: str
    numbers: tuple[int, ...]
    beside: int


class _Char(NamedTuple):
    letter: str
    number: int
    box: Box | None


_Line = list[_Char]


def page_text(
    page: pypdfium2.PdfPage,
    characters: pypdfium2.PdfTextPage,
    *,
    own: int | None = None,
    ticks: Sequence[Tick] = (),
) -> PageText:
    """The text of a page: lines without spaces at their ends, empty lines between paragraphs.

    `own`: the number of characters that are the page's own; those behind them are filled in.
    """
    shown = Box(*page.get_bbox())
    lines, beside = [], 0
    for line in _lines(characters):
        inside = [each for each in line if each.box is None or _contains(shown, each.box)]
        beside += sum(not each.letter.isspace() for each in line) - sum(
            not each.letter.isspace() for each in inside
        )
        lines.append(inside)
    _compose(characters, lines)
    lines = [_stripped(_without_leaders(_with_gaps(line))) for line in lines]
    if own is not None or ticks:
        lines = _with_filled_in(lines, own=own, ticks=ticks)
    lines = [line for line in map(_stripped, lines) if line]
    text: list[str] = []
    numbers: list[int] = []
    breaks = _breaks([_baseline(characters, line) for line in lines])
    for line, above in zip(lines, breaks, strict=True):
        text += above
        numbers += [MADE] * len(above)
        for letter, number, _ in line:
            text.append(letter)
            numbers += [number] * len(letter)
    return PageText("".join(text), tuple(numbers), beside)


def codes(characters: pypdfium2.PdfTextPage) -> list[int]:
    """The code of each character on the page."""
    raw = characters.raw  # pypdfium2's wrapper would take longer for each character
    return [pdfium.FPDFText_GetUnicode(raw, i) for i in range(pdfium.FPDFText_CountChars(raw))]


def _lines(characters: pypdfium2.PdfTextPage) -> Iterator[_Line]:
    line: _Line = []
    upper = 0  # the first half of a character that has two
    every = codes(characters)
    readable = every.count(0) <= len(every) * _MANY
    for number, code in enumerate(every):
        if 0xD800 <= code < 0xDC00:
            upper = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((upper - 0xD800) << 10) + code - 0xDC00 if upper else -1
        upper = 0
        if code in _HYPHENS:
            line.append(_Char("-", number, _box(characters, number)))
        elif code == 0 and readable:
            box = _box(characters, number)
            if box is not None and box.right > box.left:
                line.append(_Char(_UNKNOWN, number, box))
        elif code not in _LINE_ENDS and 0 < code <= sys.maxunicode:
            line.append(_Char(chr(code), number, _box(characters, number)))
        if code in _HYPHENS or code in _LINE_ENDS:
            yield line
            line = []
    yield line


def _box(characters: pypdfium2.PdfTextPage, number: int) -> Box | None:
    """The room that a character takes in its line; None if it has none."""
    box = pdfium.FS_RECTF()
    if not pdfium.FPDFText_GetLooseCharBox(characters.raw, number, box):
        return None
    left, right = sorted((box.left, box.right))
    bottom, top = sorted((box.bottom, box.top))
    return Box(left, bottom, right, top) if top > bottom else None


def _contains(outer: Box, inner: Box) -> bool:
    x, y = inner.middle
    return outer.left <= x <= outer.right and outer.bottom <= y <= outer.top


def _compose(characters: pypdfium2.PdfTextPage, lines: list[_Line]) -> None:
    """Put accents that stand alone onto the letters that they are drawn on."""
    for line in lines:
        for place in [i for i, each in enumerate(line) if each.letter in _ACCENTS]:
            accent = line[place]
            ink = _ink(characters, accent.number)
            if ink is None:
                continue
            for nearby in _beside(lines, line, place):
                letter, number, _ = nearby.line[nearby.place]
                over = _ink(characters, number) if letter.isalpha() else None
                mark = _ACCENTS[accent.letter]
                composed = unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + mark)
                if over is None or len(composed) > 1 or not _stands_on(ink, over):
                    continue
                nearby.line[nearby.place] = nearby.line[nearby.place]._replace(letter=composed)
                line[place] = accent._replace(letter="")
                break
        _drop_composed(line)


class _Nearby(NamedTuple):
    line: _Line
    place: int


def _beside(lines: Sequence[_Line], line: _Line, place: int) -> Iterator[_Nearby]:
    """Yield the places of characters near this one: the nearest in its line, then those of the
    lines before and behind."""
    for step in range(1, _NEAR):
        for other in (place + step, place - step):
            if 0 <= other < len(line):
                yield _Nearby(line, other)
    index = next(i for i, each in enumerate(lines) if each is line)
    for other_line in (*lines[index + 1 : index + 2], *lines[max(index - 1, 0) : index]):
        for other in range(len(other_line)):
            yield _Nearby(other_line, other)


def _drop_composed(line: _Line) -> None:
    """Drop accents that stand on letters now, and the spaces that stood only around them."""
    kept: _Line = []
    composed = False
    for each in line:
        if not each.letter:
            composed = True
        elif composed and not each.letter.isspace():
            composed = False
            end = len(kept)
            while end and kept[end - 1].letter.isspace():
                end -= 1
            spaces = kept[end : end + 1] if end == 0 or _are_apart(kept[end - 1], each) else []
            kept[end:] = [*spaces, each]
        else:
            kept.append(each)
    line[:] = kept


def _are_apart(one: _Char, other: _Char) -> bool:
    if one.box is None or other.box is None:
        return True
    return other.box.left - one.box.right > (one.box.top - one.box.bottom) * _SPACE


def _ink(characters: pypdfium2.PdfTextPage, number: int) -> Box | None:
    """The painted part of a character."""
    sides = [ctypes.c_double() for _ in range(4)]
    if number == MADE or not pdfium.FPDFText_GetCharBox(characters.raw, number, *sides):
        return None
    left, right, bottom, top = (each.value for each in sides)
    return Box(left, bottom, right, top) if right > left else None


def _stands_on(accent: Box, letter: Box) -> bool:
    """Whether an accent is painted over or under a letter, or touches it."""
    x, y = accent.middle
    high = letter.top - letter.bottom
    return letter.left <= x <= letter.right and letter.bottom - high <= y <= letter.top + high


def _with_gaps(line: _Line) -> _Line:
    """The line with a space in each wide gap that PDFium took for none."""
    spaced: _Line = []
    for each in line:
        if spaced and _is_gap(spaced[-1], each):
            spaced.append(_Char(" ", MADE, None))
        spaced.append(each)
    return spaced


def _is_gap(one: _Char, other: _Char) -> bool:
    if one.box is None or other.box is None or one.letter.isspace() or other.letter.isspace():
        return False
    height = min(one.box.top - one.box.bottom, other.box.top - other.box.bottom)
    shared = min(one.box.top, other.box.top) - max(one.box.bottom, other.box.bottom)
    gap = other.box.left - one.box.right
    return shared > height / 2 and gap > height * _GAP


def _without_leaders(line: _Line) -> _Line:
    """The line with three dots in place of each long row of dots."""
    left: _Line = []
    end = 0
    for row in _LEADERS.finditer("".join(each.letter[:1] for each in line)):
        dots = [each for each in line[row.start() : row.end()] if each.letter == "."]
        left += line[end : row.start()] + dots[:2]
        end = row.end()
    return left + line[end:]


def _stripped(line: _Line) -> _Line:
    start, end = 0, len(line)
    while start < end and line[start].letter.isspace():
        start += 1
    while start < end and line[end - 1].letter.isspace():
        end -= 1
    return line[start:end]


def _with_filled_in(
    lines: Sequence[_Line], *, own: int | None, ticks: Sequence[Tick]
) -> list[_Line]:
    """Move what is filled in to its labels, and add ticks."""
    mine: list[_Line] = []
    filled: list[_Line] = []
    for line in lines:
        end = next((i for i, each in enumerate(line) if own and each.number >= own), len(line))
        if own is None:
            end = len(line)
        mine.append(line[:end])
        filled.append(line[end:])
    boxes = [tick.box for tick in ticks]
    filled = [
        [each for each in line if each.box is None or not _in_any(boxes, each.box)]
        for line in filled
    ]
    filled += [[_Char("☒" if tick.ticked else "☐", MADE, tick.box)] for tick in ticks]
    mine = [line for line in mine if line]
    added = [(box, line) for line in map(_stripped, filled) if (box := _around(line)) is not None]
    for box, line in sorted(added, key=lambda each: (-each[0].middle[1], each[0].left)):
        _fill_in(mine, line, box)
    return mine


def _in_any(boxes: Sequence[Box], box: Box) -> bool:
    return any(_contains(each, box) for each in boxes)


def _around(line: _Line) -> Box | None:
    """The box around a line; None if no character of it has one."""
    around: Box | None = None
    for each in line:
        if each.box is not None:
            around = each.box if around is None else around.around(each.box)
    return around


def _fill_in(lines: list[_Line], new: _Line, box: Box) -> None:
    """Put a line into the nearest one at its height, else below the nearest one above it."""
    nearest: tuple[float, int] | None = None
    above: tuple[float, int] | None = None
    for index, line in enumerate(lines):
        other = _around(line)
        if other is None:
            continue
        y = other.middle[1]
        if box.bottom <= y <= box.top or other.bottom <= box.middle[1] <= other.top:
            apart = max(other.left - box.right, box.left - other.right, 0)
            if nearest is None or apart < nearest[0]:
                nearest = apart, index
        elif y > box.middle[1]:
            sideways = max(other.left - box.right, box.left - other.right, 0)
            apart = y - box.middle[1] + sideways
            if above is None or apart <= above[0]:
                above = apart, index
    if nearest is not None:
        line = lines[nearest[1]]
        place = next(
            (i for i, each in enumerate(line) if each.box and each.box.middle[0] >= box.left),
            len(line),
        )
        while 0 < place < len(line) and line[place - 1].letter == line[place].letter in _RULED:
            place -= 1  # to the beginning of the row that marks the place to write on
        before, after = _stripped(line[:place]), _stripped(line[place:])
        space = _Char(" ", MADE, None)
        line[:] = [*before, *[space][: len(before)], *new, *[space][: len(after)], *after]
    else:
        lines.insert(0 if above is None else above[1] + 1, new)


def _baseline(characters: pypdfium2.PdfTextPage, line: _Line) -> float:
    """The height of the line's first character above the page's lower edge."""
    x, y = ctypes.c_double(), ctypes.c_double()
    number = next((each.number for each in line if each.number != MADE), MADE)
    if number == MADE:
        box = _around(line)
        return box.bottom if box else 0
    pdfium.FPDFText_GetCharOrigin(characters, number, x, y)
    return y.value


def _breaks(baselines: Sequence[float]) -> list[str]:
    """The separator before each line: "\\n", or "\\n\\n" if the lines are further apart than usual,
    or if the text continues further up."""
    steps = [above - below for above, below in pairwise(baselines)]
    downward = sorted(step for step in steps if step > 0)
    usual = downward[(len(downward) - 1) // 2] if downward else math.inf
    apart = (step > usual * _APART or step < -usual for step in steps)
    return ["", *("\n\n" if each else "\n" for each in apart)][: len(baselines)]
