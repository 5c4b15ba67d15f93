"""Makes the text of a PDF's page of PDFium's characters and of their places on the page.

The order is PDFium's, line by line, but values of a form come next to their labels. Raised
and lowered digits are written as such, and crossed-out text is between marks. A hyphen at
the end of a line stays, and of a row of dots, as in a table of contents, three stay. Each character
keeps its number on the page, by which its box is found.
"""

import ctypes
import math
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
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
_RULED = "_.…"
_LEVEL = 0.4  # of the higher line: how far the middles of two lines that are one are apart
_FIELDS_APART = 2.0  # of a character's height: between the values of two fields
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
    lines = [_crossed(line, struck, boxes) for line in map(_stripped, lines) if line]
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
        if code in _HYPHENS or code in _LINE_ENDS:
            yield line
            line = []
    yield line


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
            for nearby in _nearby(lines, line, place):
                letter, number = nearby.line[nearby.place]
                over = boxes.ink(number) if letter.isalpha() else None
                mark = _ACCENTS[accent.letter]
                composed = unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + mark)
                if not (ink and over and len(composed) == 1 and _stands_on(ink, over)):
                    continue
                nearby.line[nearby.place] = _Char(composed, number)
                line[place] = _Char("", accent.number)
                break
        if accents:
            _drop_composed(line, boxes)


class _Nearby(NamedTuple):
    line: _Line
    place: int


def _nearby(lines: Sequence[_Line], line: _Line, place: int) -> Iterator[_Nearby]:
    """Yield the places of characters near this one: the nearest in its line, then the
    lines before and after."""
    for step in range(1, _NEAR):
        for other in (place + step, place - step):
            if 0 <= other < len(line):
                yield _Nearby(line, other)
    index = next(i for i, each in enumerate(lines) if each is line)
    for other_line in (*lines[index + 1 : index + 2], *lines[max(index - 1, 0) : index]):
        for other in range(len(other_line)):
            yield _Nearby(other_line, other)


def _drop_composed(line: _Line, boxes: _Boxes) -> None:
    """Drop accents that are on letters now, and the spaces that were only around them."""
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
            spaces = (
                kept[end : end + 1] if end == 0 or _are_apart(kept[end - 1], each, boxes) else []
            )
            kept[end:] = [*spaces, each]
        else:
            kept.append(each)
    line[:] = kept


def _are_apart(one: _Char, other: _Char, boxes: _Boxes) -> bool:
    before, after = boxes.of(one.number), boxes.of(other.number)
    if before is None or after is None:
        return True
    return after.left - before.right > (before.top - before.bottom) * _SPACE


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
    mine = [line for line in mine if line]
    places = [boxes.around(line) for line in mine]
    added = [(box, line) for line in map(_stripped, filled) if (box := boxes.around(line))]
    for box, line in sorted(added, key=lambda each: (-each[0].middle[1], each[0].left)):
        place = _place(places, box)
        if place.in_line:
            mine[place.number] = _inserted(mine[place.number], line, box, boxes)
            places[place.number] = boxes.around(mine[place.number])
        else:
            mine.insert(place.number, line)
            places.insert(place.number, box)
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


class _Place(NamedTuple):
    """The number of the line that a line joins, or its own number as a new line."""

    number: int
    in_line: bool


def _place(places: Sequence[Box | None], box: Box) -> _Place:
    """The nearest line at the height of `box`, else below the nearest one above it. `places`: the
    boxes of the lines."""
    level: tuple[float, int] | None = None
    above: tuple[float, int] | None = None
    for index, other in enumerate(places):
        if other is None:
            continue
        up = other.middle[1] - box.middle[1]
        across = max(other.left - box.right, box.left - other.right, 0)
        if abs(up) <= _LEVEL * max(box.top - box.bottom, other.top - other.bottom):
            if level is None or across < level[0]:
                level = across, index
        elif up > 0 and (above is None or up + across <= above[0]):
            above = up + across, index
    if level is not None:
        return _Place(level[1], in_line=True)
    return _Place(0 if above is None else above[1] + 1, in_line=False)


def _inserted(line: _Line, new: _Line, box: Box, boxes: _Boxes) -> _Line:
    """The line with a new one at its place in it: between words, and before a row that marks the
    place to write on."""
    place = next(
        (
            i
            for i, each in enumerate(line)
            if (there := boxes.of(each.number)) and there.middle[0] >= box.left
        ),
        len(line),
    )
    while 0 < place < len(line) and line[place - 1].letter == line[place].letter in _RULED:
        place -= 1
    start = end = place
    while 0 < start < len(line) and _is_word(line, start):
        start -= 1
    while 0 < end < len(line) and _is_word(line, end):
        end += 1
    place = start if place - start < end - place else end
    before, after = _stripped(line[:place]), _stripped(line[place:])
    spaces = [_SPACE_MADE][: len(before)], [_SPACE_MADE][: len(after)]
    return [*before, *spaces[0], *new, *spaces[1], *after]


def _is_word(line: _Line, place: int) -> bool:
    """Whether a word goes on at this place."""
    return line[place - 1].letter.isalnum() and line[place].letter.isalnum()


def _breaks(baselines: Sequence[float]) -> list[str]:
    """The separator before each line: "\\n", or "\\n\\n" if the lines are further apart than usual,
    or if the text continues further up."""
    steps = [above - below for above, below in pairwise(baselines)]
    downward = sorted(step for step in steps if step > 0)
    usual = downward[(len(downward) - 1) // 2] if downward else math.inf
    apart = (step > usual * _APART or step < -usual for step in steps)
    return ["", *("\n\n" if each else "\n" for each in apart)][: len(baselines)]
