"""Makes the text of a PDF's page of PDFium's characters and of their places on the page.

The order is PDFium's, line by line, but values come next to their labels, columns of prose one
after the other, and dashes into empty cells of numbers. Raised
and lowered digits are written as such, and crossed-out text is between marks. A hyphen at
the end of a line stays, and of a row of dots, as in a table of contents, three stay. Each character
keeps its number on the page, by which its box is found.
"""

import ctypes
import math
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, pairwise
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from engine.documents import BETWEEN
from engine.documents.formulas import raised

MADE = -1
"""The number of a character that the page does not have: the end of a line, a tick in a box."""

_HYPHENS = (0x02, 0xFFFE, 0xFFFF)  # PDFium's signs for a word that continues in the next line
_LINE_ENDS = (0x0A, 0x0B, 0x0C, 0x0D)
_LEADERS = re.compile(r"(?<=\.)(\s*\.){4,}")  # a token each, and a model copies them without end
_APART = 1.4  # times the usual distance of lines: a new paragraph
_GAP = 0.8  # of a character's height: two cells
_SPACE = 0.12  # of a character's height: the smallest space between words
_LEVEL = 0.4  # of the higher line: how far the middles of two lines that are one are apart
_FIELDS_APART = 2.0  # of a character's height: between the values of two fields
_CELLS_APART = 1.0  # of a character's height: between the cells of a row
_GAPS = re.compile(r"(?<=\S)\s+(?=\S)|(?<=[^\W_])(?=[_.…]{3})")
_RULE = re.compile(r"([_.…])\1\1")  # a row that is to be written on
_LOOKED_AT = 8  # lines of a page, for cells
_FEW_ROWS = 3  # of a table, and of its columns
_ALIGNED = 3.0  # points: edges of a column
_PROSE = 20  # characters of a line in a column, on average
_SHORT = 60  # characters: of a label or its value
_OF_A_UNIT = 3  # letters around a number
_UNKNOWN = "\ufffd"
_MANY = 0.25  # of a page's characters: an alphabet that cannot be read
_ACCENTS = {  # alone, and as they are on a letter
    "`": "\u0300", "\u02cb": "\u0300", "\u00b4": "\u0301", "\u02ca": "\u0301", "^": "\u0302",
    "\u02c6": "\u0302", "\u02dc": "\u0303", "~": "\u0303", "\u00af": "\u0304", "\u02c9": "\u0304",
    "\u02d8": "\u0306", "\u02d9": "\u0307", "\u00a8": "\u0308", "\u02da": "\u030a",
    "\u02dd": "\u030b", "\u02c7": "\u030c", "\u00b8": "\u0327", "\u02db": "\u0328",
}  # fmt: skip
_ACCENT = re.compile(f"[{re.escape(''.join(_ACCENTS))}]")
_NUMBER = re.compile(r"\d\d")
_DOTLESS = {"\u0131": "i", "\u0237": "j"}
_NEAR = 12  # characters between a letter and its accent
_SMALL = 0.85  # of a character's height: raised and lowered characters are smaller
_MOVED = 0.1  # of a character's height: how far at least
_TOUCHES = 0.8  # of a character's height: from a number to its exponent, at most
_NEAR_MIDDLE = 0.2  # of a character's height: a line through it
_LAM = 0x644
_ALEFS = frozenset("اأإآ")
_SCRIPT = frozenset("0123456789+-−=(),")  # noqa: RUF001


class Box(NamedTuple):
    """A rectangle on the page, in points from its lower left corner."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    @property
    def height(self) -> float:
        return self.top - self.bottom

    def meets(self, other: "Box") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top

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
    """A page's text. `numbers`: for each character its number on the page, or `MADE`. `off_page`:
    the number of characters outside of the page, which are left out."""

    text: str
    numbers: tuple[int, ...]
    off_page: int


class _Char(NamedTuple):
    """`number`: its number on the page; `MADE`, or less for ticks."""

    letter: str
    number: int


_Line = list[_Char]
_SPACE_MADE = _Char(" ", MADE)


class _Boxes:
    """The places of a page's characters, which are looked up only where they matter."""

    def __init__(self, characters: pypdfium2.PdfTextPage, ticks: Sequence[Tick]) -> None:
        self._characters = characters
        self._known: dict[int, Box | None] = {MADE: None}
        for index, tick in enumerate(ticks):
            self._known[MADE - 1 - index] = tick.box

    def of(self, number: int) -> Box | None:
        """The room that a character takes in its line; None if it has none."""
        if number not in self._known:
            self._known[number] = self._room(number)
        return self._known[number]

    def around(self, line: _Line) -> Box | None:
        """The box around a line; None if no character of it has one."""
        boxes = [box for each in line if (box := self.of(each.number))]
        return reduce(Box.around, boxes) if boxes else None

    def ink(self, number: int) -> Box | None:
        """The painted part of a character; None if it has none."""
        sides = [ctypes.c_double() for _ in range(4)]
        if number < 0 or not pdfium.FPDFText_GetCharBox(self._characters.raw, number, *sides):
            return None
        left, right, bottom, top = (each.value for each in sides)
        return Box(left, bottom, right, top) if right > left else None

    def baseline(self, line: _Line) -> float:
        """The height of the line's first character above the page's lower edge."""
        x, y = ctypes.c_double(), ctypes.c_double()
        number = next((each.number for each in line if each.number >= 0), MADE)
        if number == MADE:
            box = self.around(line)
            return box.bottom if box else 0
        pdfium.FPDFText_GetCharOrigin(self._characters.raw, number, x, y)
        return y.value

    def _room(self, number: int) -> Box | None:
        box = pdfium.FS_RECTF()
        if not pdfium.FPDFText_GetLooseCharBox(self._characters.raw, number, box):
            return None
        left, right = sorted((box.left, box.right))
        bottom, top = sorted((box.bottom, box.top))
        return Box(left, bottom, right, top) if top > bottom else None


def page_text(
    page: pypdfium2.PdfPage,
    characters: pypdfium2.PdfTextPage,
    *,
    own: int | None = None,
    ticks: Sequence[Tick] = (),
    comments: Sequence[str] = (),
    unseen: Collection[int] = (),
    struck: Sequence[Box] = (),
) -> PageText:
    """The text of a page: lines without spaces at their ends, empty lines between paragraphs.

    `own`: the number of characters that are the page's own; those after them are filled in.
    `comments` follow the page's text. `unseen`: the characters that are left out. `struck`:
    the places of crossed-out text.
    """
    boxes = _Boxes(characters, ticks)
    shown = Box(*page.get_bbox())
    seen = (
        [each for each in line if each.number not in unseen] for line in _lines(characters, boxes)
    )
    found = _joined([_stripped(line) for line in seen], boxes)
    lines = [_inside(line, shown, boxes) for line in found]
    off_page = sum(
        _shown(whole) - _shown(line)
        for whole, line in zip(found, lines, strict=True)
        if line is not whole
    )
    _compose(lines, boxes)
    lines = [_without_leaders(_with_gaps(_with_scripts(line, boxes), boxes)) for line in lines]
    if own is not None or ticks:
        lines = _with_filled_in(lines, boxes, own=own, ticks=ticks)
    lines = _as_read([line for line in map(_stripped, lines) if line], boxes)
    lines = [_crossed(line, struck, boxes) for line in lines]
    text: list[str] = []
    numbers: list[int] = []
    breaks = _breaks([boxes.baseline(line) for line in lines])
    for line, above in zip(lines, breaks, strict=True):
        text += above
        numbers += [MADE] * len(above)
        for letter, number in line:
            text.append(letter)
            numbers.append(max(number, MADE))
    for comment in comments:
        below = f"{BETWEEN if text else ''}Comment: {comment}"
        text += below
        numbers += [MADE] * len(below)
    return PageText("".join(text), tuple(numbers), off_page)


def _letters(line: _Line) -> str:
    """The characters of a line, in which each has one place."""
    return "".join([each.letter for each in line])


def _shown(line: _Line) -> int:
    """The number of characters that are not spaces."""
    return sum(not each.letter.isspace() for each in line)


def _inside(line: _Line, page: Box, boxes: _Boxes) -> _Line:
    """The part of a line that is on the page. If both its ends are, so is all of it."""
    ends = (boxes.of(each.number) for each in (*line[:1], *line[-1:]))
    if all(box is not None and contains(page, box) for box in ends):
        return line
    return [each for each in line if (box := boxes.of(each.number)) is None or contains(page, box)]


def codes(characters: pypdfium2.PdfTextPage) -> list[int]:
    """The code of each character on the page."""
    raw = characters.raw  # pypdfium2's wrapper would take longer for each character
    return [pdfium.FPDFText_GetUnicode(raw, i) for i in range(pdfium.FPDFText_CountChars(raw))]


def _lines(characters: pypdfium2.PdfTextPage, boxes: _Boxes) -> Iterator[_Line]:
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
            line.append(_Char("-", number))
        elif code == 0 and readable and boxes.ink(number) is not None:
            line.append(_Char(_UNKNOWN, number))
        elif code not in _LINE_ENDS and 0 < code <= sys.maxunicode:
            line.append(_Char(chr(code), number))
        if code == _LAM and _is_reversed(line[-2:], boxes):
            (alef, one), (lam, other) = line[-2:]
            line[-2:] = _Char(lam, one), _Char(alef, other)
        if code in _HYPHENS or code in _LINE_ENDS:
            yield line
            line = []
    yield line


def _is_reversed(pair: _Line, boxes: _Boxes) -> bool:
    """Whether two letters are a ligature, lam and alef, that PDFium gives backwards."""
    (first, one), (_, other) = pair if len(pair) == 2 else 2 * [_SPACE_MADE]
    return first in _ALEFS and boxes.of(one) == boxes.of(other) is not None


def _joined(lines: Iterable[_Line], boxes: _Boxes) -> list[_Line]:
    """The lines, joined again where PDFium cut one at a raised or lowered number."""
    joined: list[_Line] = []
    before: _Line = []
    for line in lines:
        ends = (before[-1], line[0]) if before and line else None
        if ends and (_sign(*ends, boxes) or _sign(ends[1], ends[0], boxes)):
            before += [*[_SPACE_MADE] * _are_apart(*ends, boxes), *line]
        else:
            joined.append(line)
            before = line or before
    return joined


def _with_scripts(line: _Line, boxes: _Boxes) -> _Line:
    """The line with raised and lowered digits as such: 250⁹, not 2509."""
    near = (each for pair in pairwise(line) if pair[1].letter in _SCRIPT for each in pair)
    heights = [box.top - box.bottom for each in near if (box := boxes.of(each.number))]
    if min(heights, default=0) >= max(heights, default=0) * _SMALL:
        return line
    made: _Line = []
    script: _Line = []
    base, last, sign = _SPACE_MADE, _SPACE_MADE, ""  # of the usual size; of any; of the script
    for each in (*line, _SPACE_MADE):
        now = _sign(base, each, boxes, last=last)
        if sign and now != sign:
            made += _moved(script, base.letter, sign)
            script = []
        if now and not sign and made and boxes.of(made[-1].number) is None:  # a space of PDFium
            made = made[: _end(made)]
        (script if now else made).append(each)
        last, sign = last if each.letter.isspace() else each, now
        base = base if now or each.letter.isspace() else each
    return made[:-1]


def _sign(base: _Char, each: _Char, boxes: _Boxes, *, last: _Char | None = None) -> str:
    """ "^" if a digit is raised, "_" if it is lowered, next to `last` or to `base`."""
    one, other, end = (boxes.of(char.number) for char in (base, each, last or base))
    if each.letter not in _SCRIPT or one is None or other is None or end is None:
        return ""
    height = one.top - one.bottom
    gap = max(other.left - end.right, end.left - other.right)
    shared = min(one.top, other.top) - max(one.bottom, other.bottom)
    if other.top - other.bottom > height * _SMALL or gap > height * _TOUCHES or shared <= 0:
        return ""
    up = (boxes.baseline([each]) - boxes.baseline([base])) / height
    return "^" if up > _MOVED else "_" if up < -_MOVED / 2 else ""


def _moved(script: _Line, before: str, sign: str) -> _Line:
    text = _letters(script)
    new = raised(text, before=before, sign=sign)
    start = max(new.find(text), 0)
    numbers = [MADE] * start + [each.number for each in script] + [MADE] * len(new)
    return [_Char(*each) for each in zip(new, numbers, strict=False)]


def _crossed(line: _Line, struck: Sequence[Box], boxes: _Boxes) -> _Line:
    """The line with marks around crossed-out text."""
    marked: _Line = []
    marks, inside = [_Char("~", MADE)] * 2, False
    ends = boxes.around([line[0], line[-1]]) if struck and line else None
    near = [each for each in struck if ends and each.meets(ends)]
    seen = [each.number for each in line if near and not each.letter.isspace()]
    known = {number: box for number in seen if (box := boxes.of(number))}
    under = {number for place in near for number in _under(place, known)}
    for each in line:
        if each.number in known and inside != (each.number in under):
            place = _end(marked) if inside else len(marked)
            marked[place:place] = marks
            inside = not inside
        marked.append(each)
    return marked + marks if inside else marked


def _under(place: Box, known: Mapping[int, Box]) -> Collection[int]:
    """The characters that a place of crossed-out text or a line has its middle on; none of a line
    that is longer than they are."""
    height = max(box.top - box.bottom for box in known.values()) if known else 0
    slack = height * _NEAR_MIDDLE
    place = place._replace(bottom=place.bottom - slack, top=place.top + slack)
    under = [number for number, box in known.items() if contains(place, box)]
    edges = [side for number in under for side in known[number][::2]]
    if not under or place.top - place.bottom > height:
        return under
    beyond = max(min(edges) - place.left, place.right - max(edges))
    return under if beyond < max(height, (max(edges) - min(edges)) / 2) else ()


def _end(line: _Line) -> int:
    """The number of characters up to the last that is not a space."""
    return next((i for i in range(len(line), 0, -1) if not line[i - 1].letter.isspace()), 0)


def contains(outer: Box, inner: Box) -> bool:
    """Whether the middle of a box is in another one."""
    x, y = inner.middle
    return outer.left <= x <= outer.right and outer.bottom <= y <= outer.top


def _compose(lines: list[_Line], boxes: _Boxes) -> None:
    """Put accents that PDFium gives alone onto the letters that they are drawn on."""
    for line in lines:
        accents = [found.start() for found in _ACCENT.finditer(_letters(line))]
        for place in accents:
            accent = line[place]
            ink = boxes.ink(accent.number)
            for other, at in _nearby(lines, line, place):
                letter, number = other[at]
                over = boxes.ink(number) if letter.isalpha() else None
                mark = _ACCENTS[accent.letter]
                composed = unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + mark)
                if ink and over and len(composed) == 1 and _stands_on(ink, over):
                    other[at] = _Char(composed, number)
                    line[place] = _Char("", accent.number)
                    break
        if accents:
            _drop_composed(line, boxes)


def _nearby(lines: Sequence[_Line], line: _Line, place: int) -> Iterator[tuple[_Line, int]]:
    """Yield the places of characters near this one: the nearest in its line, then the
    lines before and after."""
    inside = range(max(place - _NEAR, 0), min(place + _NEAR, len(line)))
    yield from ((line, i) for i in sorted(inside, key=lambda i: (abs(i - place), i < place)))
    index = next(i for i, each in enumerate(lines) if each is line)
    for other in (*lines[index + 1 : index + 2], *lines[max(index - 1, 0) : index]):
        yield from ((other, i) for i in range(len(other)))


def _drop_composed(line: _Line, boxes: _Boxes) -> None:
    """Drop accents that are on letters now, and the spaces that were only around them."""
    kept: _Line = []
    composed = False
    for each in line:
        if composed and each.letter and not each.letter.isspace():
            kept = kept[: _end(kept)]
            kept += [_SPACE_MADE] * (bool(kept) and _are_apart(kept[-1], each, boxes))
            composed = False
        composed |= not each.letter
        kept += [each] * bool(each.letter)
    line[:] = kept


def _are_apart(one: _Char, other: _Char, boxes: _Boxes) -> bool:
    before, after = boxes.of(one.number), boxes.of(other.number)
    if before is None or after is None:
        return True
    return after.left - before.right > before.height * _SPACE


def _stands_on(accent: Box, letter: Box) -> bool:
    """Whether an accent is painted over or under a letter, or touches it."""
    x, y = accent.middle
    high = letter.top - letter.bottom
    return letter.left <= x <= letter.right and letter.bottom - high <= y <= letter.top + high


def _with_gaps(line: _Line, boxes: _Boxes) -> _Line:
    """The line with a space in each wide gap between digits that PDFium took for none."""
    if not _NUMBER.search(_letters(line)):
        return line
    spaced: _Line = []
    for each in line:
        if spaced and each.letter.isdecimal() and spaced[-1].letter.isdecimal():
            before, after = boxes.of(spaced[-1].number), boxes.of(each.number)
            if before and after and _is_gap(before, after):
                spaced.append(_SPACE_MADE)
        spaced.append(each)
    return spaced


def _is_gap(before: Box, after: Box) -> bool:
    height = min(before.top - before.bottom, after.top - after.bottom)
    shared = min(before.top, after.top) - max(before.bottom, after.bottom)
    return shared > height / 2 and after.left - before.right > height * _GAP


def _without_leaders(line: _Line) -> _Line:
    """The line with three dots in place of each long row of dots."""
    left: _Line = []
    end = 0
    for row in _LEADERS.finditer(_letters(line)):
        dots = [each for each in line[row.start() : row.end()] if each.letter == "."]
        left += line[end : row.start()] + dots[:2]
        end = row.end()
    return left + line[end:]


def _stripped(line: _Line) -> _Line:
    start = next((i for i, each in enumerate(line) if not each.letter.isspace()), 0)
    return line[start : _end(line)]


def _as_read(lines: list[_Line], boxes: _Boxes) -> list[_Line]:
    """The lines in the order in which they are read, where PDFium has another: values next to their
    labels, columns of prose one after the other, and dashes for empty cells among numbers."""
    heights = [round(boxes.baseline(line)) for line in lines]
    lines, heights = _level(lines, heights, boxes)
    if any(above < below for above, below in pairwise(heights)):
        lines = _with_values(lines, boxes)
    step = max(len(lines) // _LOOKED_AT, 1)
    if not any(len(_cells(line, boxes)) > 1 for line in lines[::step]):
        return lines
    cells = [_cells(line, boxes) for line in lines]
    read: list[_Line] = []
    place = 0
    while place < len(lines):
        end = next((i for i in range(place, len(lines)) if len(cells[i]) == 1), len(lines))
        rows = cells[place:end]
        if _are_columns(rows, boxes):
            columns = [[*column] for column in zip(*rows, strict=True)]
            while end < len(lines) and (own := _column_of(lines[end], columns, boxes)):
                own.append(lines[end])
                end += 1
            read += chain(*columns)
        else:
            read += _with_dashes(lines[place:end], rows, boxes)
            read += lines[end : end + 1]
            end += 1
        place = end
    return read


def _level(
    lines: Sequence[_Line], heights: Sequence[int], boxes: _Boxes
) -> tuple[list[_Line], list[int]]:
    """The lines and their heights, with those joined that PDFium cut at a gap."""
    level, left = list[_Line](), list[int]()
    for line, height in zip(lines, heights, strict=True):
        if left and left[-1] == height:
            before, after = boxes.of(level[-1][-1].number), boxes.of(line[0].number)
            if before and after and before.right < after.left:
                level[-1] = [*level[-1], _SPACE_MADE, *line]
                continue
        level.append(line)
        left.append(height)
    return level, left


def _cells(line: _Line, boxes: _Boxes) -> list[_Line]:
    """The parts of a line between wide gaps."""
    cells, start, letters = list[_Line](), 0, _letters(line)
    for gap in _GAPS.finditer(letters):
        before, after = (boxes.of(line[i].number) for i in (gap.start() - 1, gap.end()))
        is_wide = before and after and after.left - before.right > before.height * _CELLS_APART
        if is_wide or _RULE.match(letters, gap.end()):
            cells.append(line[start : gap.start()])
            start = gap.end()
    return [*cells, line[start:]]


def _with_values(lines: list[_Line], boxes: _Boxes) -> list[_Line]:
    """The lines, with values that PDFium has after all their labels next to these."""
    start, place = 0, 1
    while place < len(lines):
        turns = boxes.baseline(lines[place]) > boxes.baseline(lines[place - 1])
        if turns and (end := _end_of_values(lines, start, place, boxes)) > place:
            lines = _merged(lines[:place] + lines[end:], lines[place:end], boxes)
            continue
        start = place if turns else start
        place += 1
    return lines


def _end_of_values(lines: list[_Line], start: int, place: int, boxes: _Boxes) -> int:
    """The end of the values that begin at `place` and have labels since `start`, 0 if none do."""
    at = {round(boxes.baseline(line)): line for line in lines[start:place]}
    labels, values = list[str](), list[str]()
    for line in lines[place:]:
        label = at.pop(round(boxes.baseline(line)), [])
        left, right = boxes.around(label), boxes.around(line)
        if not (left and right and left.right < right.left):
            break
        labels.append(_letters(_cells(label, boxes)[0]))
        values.append(_letters(line))
    are_short = max(map(len, labels + values), default=_SHORT) < _SHORT
    named = sum(text.endswith(":") for text in labels) * 2 >= len(labels)
    numbers = sum(any(map(str.isdigit, text)) for text in values) * 2 >= len(values)
    counted = sum(any(map(str.isdigit, text)) for text in labels) * 5 > len(labels)
    of_labels = are_short and len(labels) > 1 and (named or (numbers and not counted))
    return place + len(values) if of_labels else 0


def _are_columns(rows: Sequence[Sequence[_Line]], boxes: _Boxes) -> bool:
    """Whether the cells of rows are lines of prose, which goes on below and not to the right."""
    if len(rows) < _FEW_ROWS or {*map(len, rows)} != {len(rows[0])}:
        return False
    for column in zip(*rows, strict=True):
        texts = [*map(_letters, column)]
        goes_on = sum(text[:1].islower() for text in texts[1:])
        if goes_on * 5 < len(texts) * 2 or sum(map(len, texts)) < _PROSE * len(texts):
            return False
        edges = [box.left for cell in column if (box := boxes.around(cell[:1]))]
        if max(edges) - min(edges) > _ALIGNED:
            return False
    return True


def _column_of(line: _Line, columns: Sequence[list[_Line]], boxes: _Boxes) -> list[_Line] | None:
    """The longer column that a line continues; None if it is below all columns."""
    box = boxes.around(line)
    for index, column in enumerate(columns):
        above, *after = [boxes.around(each[-1]) for each in columns[index : index + 2]]
        if not (box and above and abs(box.left - above.left) < _ALIGNED):
            continue
        fits = not after or after[0] is None or box.right < after[0].left
        return column if fits and above.bottom - box.top < above.height / 2 else None
    return None


def _with_dashes(
    lines: Sequence[_Line], rows: Sequence[Sequence[_Line]], boxes: _Boxes
) -> Sequence[_Line]:
    """The lines of a table, with a dash for each empty cell in columns of numbers."""
    if len(rows) < _FEW_ROWS or len({*map(len, rows)}) == 1:
        return lines
    heads = [boxes.around([cell[0], cell[-1]]) for cell in max(rows, key=len)]
    if len(heads) < _FEW_ROWS:
        return lines
    placed = [
        {_nearest(boxes.around([cell[0], cell[-1]]), heads): cell for cell in row} for row in rows
    ]
    counts = Counter(i for row in placed for i, cell in row.items() if _is_number(cell))
    numbers = {i for i, count in counts.items() if i and count > 1}
    made = list[_Line]()
    for line, row, cells in zip(lines, rows, placed, strict=True):
        empty = numbers - cells.keys()
        counted = any(_is_number(cells[i]) for i in numbers & cells.keys())
        if empty and counted and len(cells) == len(row) and [*cells] == sorted(cells):
            cells |= {i: [_Char("\u2013", MADE)] for i in empty}
            line = _spaced([cells[i] for i in sorted(cells)])
        made.append(line)
    return made


def _nearest(box: Box | None, heads: Sequence[Box | None]) -> int:
    """The number of the column with which a cell shares most of its width."""

    def shared(index: int) -> float:
        head = heads[index]
        return min(box.right, head.right) - max(box.left, head.left) if box and head else -math.inf

    return max(range(len(heads)), key=shared)


def _spaced(cells: Iterable[_Line]) -> _Line:
    """A line of cells with a space between two."""
    return [each for cell in cells for each in (*cell, _SPACE_MADE)][:-1]


def _is_number(cell: _Line) -> bool:
    digits = sum(each.letter.isdigit() for each in cell)
    return digits > 0 and sum(each.letter.isalpha() for each in cell) <= digits + _OF_A_UNIT


def _with_filled_in(
    lines: Sequence[_Line], boxes: _Boxes, *, own: int | None, ticks: Sequence[Tick]
) -> list[_Line]:
    """Move the values of a form next to their labels, and add ticks."""
    mine: list[_Line] = []
    filled: list[_Line] = []
    for line in lines:
        end = next(
            (i for i, each in enumerate(line) if own is not None and each.number >= own), len(line)
        )
        mine.append(line[:end])
        filled += _pieces(line[end:], boxes)
    filled = [
        [each for each in line if not _ticks(ticks, boxes.of(each.number))] for line in filled
    ]
    filled += [
        [_Char("☒" if tick.ticked else "☐", MADE - 1 - index)] for index, tick in enumerate(ticks)
    ]
    return _merged([line for line in mine if line], filled, boxes)


def _merged(mine: list[_Line], filled: Sequence[_Line], boxes: _Boxes) -> list[_Line]:
    """The lines with others at their places: in the lines at their height, or between them."""
    places = [boxes.around(line) for line in mine]
    added = [(box, line) for line in map(_stripped, filled) if (box := boxes.around(line))]
    for box, line in sorted(added, key=lambda each: (-each[0].middle[1], each[0].left)):
        number, in_line = _place(places, box)
        if in_line:
            cells = _cells(mine[number], boxes)
            middles = [around.middle[0] for cell in cells if (around := boxes.around(cell))]
            at = sum(middle < box.middle[0] for middle in middles)
            mine[number] = _spaced([*cells[:at], line, *cells[at:]])
            places[number] = boxes.around(mine[number])
        else:
            mine.insert(number, line)
            places.insert(number, box)
    return mine


def _ticks(ticks: Sequence[Tick], box: Box | None) -> bool:
    """Whether a character in this box is the tick of a box that can be ticked."""
    return box is not None and any(contains(tick.box, box) for tick in ticks)


def _pieces(line: _Line, boxes: _Boxes) -> Iterator[_Line]:
    """Yield the parts of a line that are filled into different fields."""
    piece: _Line = []
    before: Box | None = None
    for each in line:
        box = None if each.letter.isspace() else boxes.of(each.number)
        if before and box:
            height = max(before.top - before.bottom, box.top - box.bottom)
            up = box.middle[1] - before.middle[1]
            if abs(up) > height * _LEVEL or box.left - before.right > height * _FIELDS_APART:
                yield piece
                piece = []
        piece.append(each)
        before = box or before
    yield piece


def _place(places: Sequence[Box | None], box: Box) -> tuple[int, bool]:
    """The number of the nearest line at the height of `box`, and True; else the number of a new
    line, below the nearest one above it, and False. `places`: the boxes of the lines."""
    level, above = list[tuple[float, int]](), [(math.inf, 1)]
    for index, other in enumerate(places):
        if other is not None:
            up = other.middle[1] - box.middle[1]
            across = max(other.left - box.right, box.left - other.right, 0)
            if abs(up) <= _LEVEL * max(box.height, other.height):
                level.append((across, index))
            elif up > 0:
                above.append((up + across, -index))
    return (min(level)[1], True) if level else (1 - min(above)[1], False)


def _breaks(baselines: Sequence[float]) -> list[str]:
    """The separator before each line: "\\n", or "\\n\\n" if the lines are further apart than usual,
    or if the text continues further up."""
    steps = [above - below for above, below in pairwise(baselines)]
    downward = sorted(step for step in steps if step > 0)
    usual = downward[(len(downward) - 1) // 2] if downward else math.inf
    apart = (step > usual * _APART or step < -usual for step in steps)
    return ["", *("\n\n" if each else "\n" for each in apart)][: len(baselines)]
