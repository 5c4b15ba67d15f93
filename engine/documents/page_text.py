"""Makes the text of a PDF's page of PDFium's characters and of their places on the page.

Raised and lowered digits are written as such, and crossed-out text is between marks. A hyphen at
the end of a line stays, and of a row of dots, as in a table of contents, three stay. Knows no order
of lines.
"""

import math
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pypdfium2
import pypdfium2.raw as pdfium

from engine.documents import BETWEEN
from engine.documents.formulas import raised
from engine.documents.page_line import (
    MADE,
    SPACE_MADE,
    Box,
    Boxes,
    Char,
    Line,
    Tick,
    end_of,
    stripped,
    text_of,
)
from engine.documents.page_order import as_read, with_filled_in

_HYPHENS = (0x02, 0xFFFE, 0xFFFF)  # PDFium's signs for a word that continues in the next line
_LINE_ENDS = (0x0A, 0x0B, 0x0C, 0x0D)
_LEADERS = re.compile(r"(?<=\.)(\s*\.){4,}")  # a token each, and a model copies them without end
_APART = 1.4  # times the usual distance of lines: a new paragraph
_GAP = 0.8  # of a character's height: two cells
_SPACE = 0.12  # of a character's height: the smallest space between words
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


@dataclass(frozen=True, slots=True)
class PageText:
    """A page's text. `numbers`: for each character its number on the page, or `MADE`. `off_page`:
    the number of characters outside of the page, which are left out."""

    text: str
    numbers: tuple[int, ...]
    off_page: int


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
    boxes = Boxes(characters, ticks)
    shown = Box(*page.get_bbox())
    seen = (
        [each for each in line if each.number not in unseen] for line in _lines(characters, boxes)
    )
    found = _joined([stripped(line) for line in seen], boxes)
    lines = [_inside(line, shown, boxes) for line in found]
    off_page = sum(
        _shown(whole) - _shown(line)
        for whole, line in zip(found, lines, strict=True)
        if line is not whole
    )
    _compose(lines, boxes)
    lines = [_without_leaders(_with_gaps(_with_scripts(line, boxes), boxes)) for line in lines]
    if own is not None or ticks:
        lines = with_filled_in(lines, boxes, own=own, ticks=ticks)
    lines = as_read([line for line in map(stripped, lines) if line], boxes)
    lines = [_crossed(line, struck, boxes) for line in lines]
    written: Line = []
    breaks = _breaks([boxes.baseline(line) for line in lines])
    for line, above in zip(lines, breaks, strict=True):
        written += [*(Char(each, MADE) for each in above), *line]
    for comment in comments:
        below = f"{BETWEEN if written else ''}Comment: {comment}"
        written += [Char(each, MADE) for each in below]
    numbers = tuple([max(number, MADE) for _, number in written])
    return PageText(text_of(written), numbers, off_page)


def _shown(line: Line) -> int:
    """The number of characters that are not spaces."""
    return sum(not each.letter.isspace() for each in line)


def _inside(line: Line, page: Box, boxes: Boxes) -> Line:
    """The part of a line that is on the page. If both its ends are, so is all of it."""
    ends = (boxes.of(each.number) for each in (*line[:1], *line[-1:]))
    if all(box is not None and page.contains(box) for box in ends):
        return line
    return [each for each in line if (box := boxes.of(each.number)) is None or page.contains(box)]


def codes(characters: pypdfium2.PdfTextPage) -> list[int]:
    """The code of each character on the page."""
    raw = characters.raw  # pypdfium2's wrapper would take longer for each character
    return [pdfium.FPDFText_GetUnicode(raw, i) for i in range(pdfium.FPDFText_CountChars(raw))]


def _lines(characters: pypdfium2.PdfTextPage, boxes: Boxes) -> Iterator[Line]:
    line: Line = []
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
            line.append(Char("-", number))
        elif code == 0 and readable and boxes.ink(number) is not None:
            line.append(Char(_UNKNOWN, number))
        elif code not in _LINE_ENDS and 0 < code <= sys.maxunicode:
            line.append(Char(chr(code), number))
        if code == _LAM and _is_reversed(line[-2:], boxes):
            (alef, one), (lam, other) = line[-2:]
            line[-2:] = Char(lam, one), Char(alef, other)
        if code in _HYPHENS or code in _LINE_ENDS:
            yield line
            line = []
    yield line


def _is_reversed(pair: Line, boxes: Boxes) -> bool:
    """Whether two letters are a ligature, lam and alef, that PDFium gives backwards."""
    (first, one), (_, other) = pair if len(pair) == 2 else 2 * [SPACE_MADE]
    return first in _ALEFS and boxes.of(one) == boxes.of(other) is not None


def _joined(lines: Iterable[Line], boxes: Boxes) -> list[Line]:
    """The lines, joined again where PDFium cut one at a raised or lowered number."""
    joined: list[Line] = []
    before: Line = []
    for line in lines:
        ends = (before[-1], line[0]) if before and line else None
        if ends and (_sign(*ends, boxes) or _sign(ends[1], ends[0], boxes)):
            before += [*[SPACE_MADE] * _are_apart(*ends, boxes), *line]
        else:
            joined.append(line)
            before = line or before
    return joined


def _with_scripts(line: Line, boxes: Boxes) -> Line:
    """The line with raised and lowered digits as such: 250⁹, not 2509."""
    near = (each for pair in pairwise(line) if pair[1].letter in _SCRIPT for each in pair)
    heights = [box.height for each in near if (box := boxes.of(each.number))]
    if min(heights, default=0) >= max(heights, default=0) * _SMALL:
        return line
    made: Line = []
    script: Line = []
    base, last, sign = SPACE_MADE, SPACE_MADE, ""  # of the usual size; of any; of the script
    for each in (*line, SPACE_MADE):
        now = _sign(base, each, boxes, last=last)
        if sign and now != sign:
            made += _moved(script, base.letter, sign)
            script = []
        if now and not sign and made and boxes.of(made[-1].number) is None:  # a space of PDFium
            made = made[: end_of(made)]
        (script if now else made).append(each)
        last, sign = last if each.letter.isspace() else each, now
        base = base if now or each.letter.isspace() else each
    return made[:-1]


def _sign(base: Char, each: Char, boxes: Boxes, *, last: Char | None = None) -> str:
    """ "^" if a digit is raised, "_" if it is lowered, next to `last` or to `base`."""
    one, other, end = (boxes.of(char.number) for char in (base, each, last or base))
    if each.letter not in _SCRIPT or one is None or other is None or end is None:
        return ""
    height = one.height
    gap = max(other.left - end.right, end.left - other.right)
    shared = min(one.top, other.top) - max(one.bottom, other.bottom)
    if other.height > height * _SMALL or gap > height * _TOUCHES or shared <= 0:
        return ""
    up = (boxes.baseline([each]) - boxes.baseline([base])) / height
    return "^" if up > _MOVED else "_" if up < -_MOVED / 2 else ""


def _moved(script: Line, before: str, sign: str) -> Line:
    text = text_of(script)
    new = raised(text, before=before, sign=sign)
    start = max(new.find(text), 0)
    numbers = [MADE] * start + [each.number for each in script] + [MADE] * len(new)
    return [Char(*each) for each in zip(new, numbers, strict=False)]


def _crossed(line: Line, struck: Sequence[Box], boxes: Boxes) -> Line:
    """The line with marks around crossed-out text."""
    marked: Line = []
    marks, inside = [Char("~", MADE)] * 2, False
    ends = boxes.around([line[0], line[-1]]) if struck and line else None
    near = [each for each in struck if ends and each.meets(ends)]
    seen = [each.number for each in line if near and not each.letter.isspace()]
    known = {number: box for number in seen if (box := boxes.of(number))}
    under = {number for place in near for number in _under(place, known)}
    for each in line:
        if each.number in known and inside != (each.number in under):
            place = end_of(marked) if inside else len(marked)
            marked[place:place] = marks
            inside = not inside
        marked.append(each)
    return marked + marks if inside else marked


def _under(place: Box, known: Mapping[int, Box]) -> Collection[int]:
    """The characters that a place of crossed-out text or a line has its middle on; none of a line
    that is longer than they are."""
    height = max(box.height for box in known.values()) if known else 0
    slack = height * _NEAR_MIDDLE
    place = place._replace(bottom=place.bottom - slack, top=place.top + slack)
    under = [number for number, box in known.items() if place.contains(box)]
    edges = [side for number in under for side in known[number][::2]]
    if not under or place.height > height:
        return under
    beyond = max(min(edges) - place.left, place.right - max(edges))
    return under if beyond < max(height, (max(edges) - min(edges)) / 2) else ()


def _compose(lines: list[Line], boxes: Boxes) -> None:
    """Put accents that PDFium gives alone onto the letters that they are drawn on."""
    for line in lines:
        accents = [found.start() for found in _ACCENT.finditer(text_of(line))]
        for place in accents:
            accent = line[place]
            ink = boxes.ink(accent.number)
            for other, at in _nearby(lines, line, place):
                letter, number = other[at]
                over = boxes.ink(number) if letter.isalpha() else None
                mark = _ACCENTS[accent.letter]
                composed = unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + mark)
                if ink and over and len(composed) == 1 and _stands_on(ink, over):
                    other[at] = Char(composed, number)
                    line[place] = Char("", accent.number)
                    break
        if accents:
            _drop_composed(line, boxes)


def _nearby(lines: Sequence[Line], line: Line, place: int) -> Iterator[tuple[Line, int]]:
    """Yield the places of characters near this one: the nearest in its line, then the
    lines before and after."""
    inside = range(max(place - _NEAR, 0), min(place + _NEAR, len(line)))
    yield from ((line, i) for i in sorted(inside, key=lambda i: (abs(i - place), i < place)))
    index = next(i for i, each in enumerate(lines) if each is line)
    for other in (*lines[index + 1 : index + 2], *lines[max(index - 1, 0) : index]):
        yield from ((other, i) for i in range(len(other)))


def _drop_composed(line: Line, boxes: Boxes) -> None:
    """Drop accents that are on letters now, and the spaces that were only around them."""
    kept: Line = []
    composed = False
    for each in line:
        if composed and each.letter and not each.letter.isspace():
            kept = kept[: end_of(kept)]
            kept += [SPACE_MADE] * (bool(kept) and _are_apart(kept[-1], each, boxes))
            composed = False
        composed |= not each.letter
        kept += [each] * bool(each.letter)
    line[:] = kept


def _are_apart(one: Char, other: Char, boxes: Boxes) -> bool:
    before, after = boxes.of(one.number), boxes.of(other.number)
    if before is None or after is None:
        return True
    return after.left - before.right > before.height * _SPACE


def _stands_on(accent: Box, letter: Box) -> bool:
    """Whether an accent is painted over or under a letter, or touches it."""
    x, y = accent.middle
    high = letter.height
    return letter.left <= x <= letter.right and letter.bottom - high <= y <= letter.top + high


def _with_gaps(line: Line, boxes: Boxes) -> Line:
    """The line with a space in each wide gap between digits that PDFium took for none."""
    if not _NUMBER.search(text_of(line)):
        return line
    spaced: Line = []
    for each in line:
        if spaced and each.letter.isdecimal() and spaced[-1].letter.isdecimal():
            before, after = boxes.of(spaced[-1].number), boxes.of(each.number)
            if before and after and _is_gap(before, after):
                spaced.append(SPACE_MADE)
        spaced.append(each)
    return spaced


def _is_gap(before: Box, after: Box) -> bool:
    height = min(before.height, after.height)
    shared = min(before.top, after.top) - max(before.bottom, after.bottom)
    return shared > height / 2 and after.left - before.right > height * _GAP


def _without_leaders(line: Line) -> Line:
    """The line with three dots in place of each long row of dots."""
    left: Line = []
    end = 0
    for row in _LEADERS.finditer(text_of(line)):
        dots = [each for each in line[row.start() : row.end()] if each.letter == "."]
        left += line[end : row.start()] + dots[:2]
        end = row.end()
    return left + line[end:]


def _breaks(baselines: Sequence[float]) -> list[str]:
    """The separator before each line: "\\n", or "\\n\\n" if the lines are further apart than usual,
    or if the text continues further up."""
    steps = [above - below for above, below in pairwise(baselines)]
    downward = sorted(step for step in steps if step > 0)
    usual = downward[(len(downward) - 1) // 2] if downward else math.inf
    apart = (step > usual * _APART or step < -usual for step in steps)
    return ["", *("\n\n" if each else "\n" for each in apart)][: len(baselines)]
