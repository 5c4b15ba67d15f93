"""Reads the text of a PDF's pages, and draws pages with boxes around parts of the text.

The text of a page is PDFium's, in its order, line by line. A hyphen at the end of a line stays, and
of a row of dots, as in a table of contents, three stay. Each character keeps its number on the
page, by which its box is found.
"""

import ctypes
import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import pypdfium2
import pypdfium2.raw as pdfium

from engine.documents import Section
from engine.documents.hidden import hidden_places
from engine.documents.limits import PAGES
from engine.documents.page_picture import Box, PagePicture, png
from engine.documents.read import Read
from models.errors import Problem

TINY_POINTS = 4.0
LONGEST = 4000
"""Side of a picture, in pixels."""

_MADE = -1  # the number of a character that the page does not have: the end of a line
_HYPHENS = (0x02, 0xFFFE, 0xFFFF)  # PDFium's signs for a word that continues in the next line
_LINE_ENDS = (0x0A, 0x0B, 0x0C, 0x0D)
_LEADERS = re.compile(r"(?<=\.)(\s*\.){4,}")  # a token each, and a model copies them without end
_APART = 1.4  # times the usual distance of lines: a new paragraph
_WHITE = 240  # of 255, in each colour
_CLEAR = 16  # of 255: nearly transparent
_NOT_PAINTED = (pdfium.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium.FPDF_TEXTRENDERMODE_CLIP)
_LOOK_WIDTH = 1200  # of the picture in which visible characters are looked for
_EVEN = 12  # of 255: shades that differ by less are one colour


def read_pdf(data: bytes) -> Read:
    """A section for each page with text. Raises Problem."""
    sections, without_text, damaged, faint = [], [], [], 0
    with _opened(data) as document:
        count = len(document)
        if count > PAGES:
            raise Problem(
                f"The file has {count:,} pages, and {PAGES:,} at most are read.",
                "Attach a part of it.",
            )
        for number in range(1, count + 1):
            try:
                with _page(document, number) as (page, characters):
                    text = _text(characters)
                    if text.text:
                        sections.append(Section("page", number, text.text))
                        faint += _faint(page, characters, text)
                    elif pdfium.FPDFPage_CountObjects(page) > 0:
                        without_text.append(number)
            except pypdfium2.PdfiumError:
                damaged.append(number)
    if damaged and not sections:
        raise Problem("The file's pages are damaged.", "Try another copy of it.")
    left_out = tuple(f"Page {number}: it is damaged." for number in damaged[:10])
    if len(damaged) > 10:
        left_out += (f"{len(damaged) - 10} more damaged pages.",)
    return Read(tuple(sections), tuple(without_text), faint, left_out)


def draw_page(
    data: bytes, number: int, *, spans: Sequence[tuple[int, int]], width: int
) -> PagePicture:
    """Draw a page, `width` pixels wide, with boxes for `spans`. Raises `Problem`.

    A span is a pair of offsets in the text of the page's section in the `Document`.
    """
    with _opened(data) as document:
        if not 1 <= number <= len(document):
            raise Problem(
                f"The file has no page {number}.", "It may have changed: attach it again."
            )
        try:
            with _page(document, number) as (page, characters):
                picture = _Picture(page, width=width)
                boxes = tuple(_boxes(picture, characters, spans))
                return PagePicture(picture.png(), picture.width, picture.height, boxes)
        except pypdfium2.PdfiumError as error:
            raise Problem(f"Page {number} is damaged.", "Try another copy of the file.") from error


@contextmanager
def _opened(data: bytes) -> Iterator[pypdfium2.PdfDocument]:
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if pdfium.FPDF_GetLastError() in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise Problem(
                "The file is encrypted with a password.", "Save it without, and attach it again."
            ) from error
        raise Problem("The PDF is damaged.", "Try another copy of it.") from error
    with closing(document):
        yield document


@contextmanager
def _page(
    document: pypdfium2.PdfDocument, number: int
) -> Iterator[tuple[pypdfium2.PdfPage, pypdfium2.PdfTextPage]]:
    """A page and its characters. Filled-in fields and annotations count as the page's own."""
    page = document[number - 1]
    if pdfium.FPDFPage_GetAnnotCount(page) > 0:
        done = pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
        if done == pdfium.FLATTEN_SUCCESS:
            page.close()
            page = document[number - 1]
    with closing(page), closing(page.get_textpage()) as characters:
        yield page, characters


@dataclass(frozen=True, slots=True)
class _Text:
    """A page's text. `numbers`: for each character its number on the page, or `_MADE`."""

    text: str
    numbers: tuple[int, ...]


def _text(characters: pypdfium2.PdfTextPage) -> _Text:
    """The text of a page: lines without spaces at their ends, empty lines between paragraphs."""
    lines = [_stripped(_without_leaders(line)) for line in _lines(characters)]
    lines = [line for line in lines if line]
    breaks = _breaks([_baseline(characters, line) for line in lines])
    text: list[str] = []
    numbers: list[int] = []
    for line, above in zip(lines, breaks, strict=True):
        text += above
        numbers += [_MADE] * len(above)
        for letter, number in line:
            text.append(letter)
            numbers.append(number)
    return _Text("".join(text), tuple(numbers))


_Line = list[tuple[str, int]]


def _lines(characters: pypdfium2.PdfTextPage) -> Iterator[_Line]:
    """Yield each line as (character, its number on the page) pairs."""
    line: _Line = []
    upper = 0  # the first half of a character that has two
    raw = characters.raw  # pypdfium2's wrapper would take longer for each character
    for number in range(pdfium.FPDFText_CountChars(raw)):
        code = pdfium.FPDFText_GetUnicode(raw, number)
        if 0xD800 <= code < 0xDC00:
            upper = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((upper - 0xD800) << 10) + code - 0xDC00 if upper else 0
        upper = 0
        if code in _HYPHENS:
            line.append(("-", number))
        elif code not in _LINE_ENDS and 0 < code <= sys.maxunicode:
            line.append((chr(code), number))
        if code in _HYPHENS or code in _LINE_ENDS:
            yield line
            line = []
    yield line


def _without_leaders(line: _Line) -> _Line:
    """The line with three dots in place of each long row of dots."""
    left: _Line = []
    end = 0
    for row in _LEADERS.finditer("".join(letter for letter, _ in line)):
        dots = [each for each in line[row.start() : row.end()] if each[0] == "."]
        left += line[end : row.start()] + dots[:2]
        end = row.end()
    return left + line[end:]


def _stripped(line: _Line) -> _Line:
    start, end = 0, len(line)
    while start < end and line[start][0].isspace():
        start += 1
    while start < end and line[end - 1][0].isspace():
        end -= 1
    return line[start:end]


def _baseline(characters: pypdfium2.PdfTextPage, line: _Line) -> float:
    """The height of the line's first character above the page's lower edge."""
    x, y = ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetCharOrigin(characters, line[0][1], x, y)
    return y.value


def _breaks(baselines: Sequence[float]) -> list[str]:
    """The separator before each line: "\\n", or "\\n\\n" if the lines are further apart than usual,
    or if the text continues further up."""
    steps = [above - below for above, below in pairwise(baselines)]
    downward = sorted(step for step in steps if step > 0)
    usual = downward[(len(downward) - 1) // 2] if downward else math.inf
    apart = (step > usual * _APART or step < -usual for step in steps)
    return ["", *("\n\n" if each else "\n" for each in apart)][: len(baselines)]


class _Picture:
    """A page in pixels."""

    def __init__(self, page: pypdfium2.PdfPage, *, width: int, grey: bool = False) -> None:
        self._page = page
        across, up = page.get_size()
        if not (across > 0 and up > 0):
            raise pypdfium2.PdfiumError("a page without a size")
        scale = min(width, LONGEST, LONGEST * across / up) / across
        scale = max(scale - 0.5 / across, scale / 2)  # as sizes are rounded up to whole pixels
        bitmap = page.render(scale=scale, grayscale=grey, rev_byteorder=not grey, draw_annots=False)
        self.width, self.height, self._row_bytes = bitmap.width, bitmap.height, bitmap.stride
        self._pixels = bytes(bitmap.buffer)
        bitmap.close()

    def box(
        self, characters: pypdfium2.PdfTextPage, number: int
    ) -> tuple[int, int, int, int] | None:
        """(left, top, right, bottom) of a character in pixels; None if it has no size."""
        rectangle = pdfium.FS_RECTF()
        if not pdfium.FPDFText_GetLooseCharBox(characters, number, rectangle):
            return None
        x, y = ctypes.c_int(), ctypes.c_int()
        corners = []
        for across, up in ((rectangle.left, rectangle.top), (rectangle.right, rectangle.bottom)):
            place = (0, 0, self.width, self.height, 0, across, up, x, y)
            if not pdfium.FPDF_PageToDevice(self._page, *place):
                return None
            corners.append((x.value, y.value))
        (left, right), (top, bottom) = (sorted(each) for each in zip(*corners, strict=True))
        return None if left == right or top == bottom else (left, top, right, bottom)

    def is_even(self, left: int, top: int, right: int, bottom: int) -> bool:
        """Whether a part of a grey picture has one colour, or lies outside the picture."""
        left, right = max(left, 0), min(right, self.width)
        seen = b"".join(
            self._pixels[row * self._row_bytes + left : row * self._row_bytes + right]
            for row in range(max(top, 0), min(bottom, self.height))
        )
        return not seen or max(seen) - min(seen) < _EVEN

    def png(self) -> bytes:
        return png(self._pixels, width=self.width, height=self.height, row_bytes=self._row_bytes)


def _boxes(
    picture: _Picture, characters: pypdfium2.PdfTextPage, spans: Sequence[tuple[int, int]]
) -> Iterator[Box]:
    """Yield the boxes of each span: one for each line, more if the line has gaps."""
    text = _text(characters)
    hidden = set(hidden_places(text.text))  # they are not in the section's text
    numbers = [number for place, number in enumerate(text.numbers) if place not in hidden]
    for index, (start, end) in enumerate(spans):
        before: Box | None = None
        for number in numbers[max(start, 0) : max(end, 0)]:
            found = None if number == _MADE else picture.box(characters, number)
            if found is None:
                continue
            box = Box(index, *found)
            if before is None:
                before = box
            elif (joined := _joined(before, box)) is not None:
                before = joined
            else:
                yield before
                before = box
        if before is not None:
            yield before


def _joined(one: Box, other: Box) -> Box | None:
    """A box around both, if they stand side by side in a line; else None."""
    shared = min(one.bottom, other.bottom) - max(one.top, other.top)
    lower = min(one.bottom - one.top, other.bottom - other.top)
    gap = max(one.left, other.left) - min(one.right, other.right)
    if shared * 2 < lower or gap > lower:
        return None
    left, top = min(one.left, other.left), min(one.top, other.top)
    return Box(one.span, left, top, max(one.right, other.right), max(one.bottom, other.bottom))


_Look = Literal["plain", "tiny", "doubtful", "not painted"]


def _faint(page: pypdfium2.PdfPage, characters: pypdfium2.PdfTextPage, text: _Text) -> int:
    """The number of characters that are tiny, beside the page, or in the colour of their ground."""
    looks: dict[int, _Look] = {}
    faint, doubtful = 0, []
    raw = characters.raw
    recognized = _has_pictures(page)
    for letter, number in zip(text.text, text.numbers, strict=True):
        if letter.isspace() or number == _MADE:
            continue
        written = pdfium.FPDFText_GetTextObject(raw, number)
        if not written:
            continue
        key = ctypes.addressof(written.contents)
        if key not in looks:
            looks[key] = _look(page, characters, number, written)
        look = looks[key]
        if look == "tiny":
            faint += 1
        elif look == "doubtful" or (look == "not painted" and not recognized):
            doubtful.append(number)
    if not doubtful:
        return faint
    picture = _Picture(page, width=_LOOK_WIDTH, grey=True)
    for number in doubtful:
        box = picture.box(characters, number)
        faint += box is not None and picture.is_even(*box)
    return faint


def _look(
    page: pypdfium2.PdfPage, characters: pypdfium2.PdfTextPage, number: int, written: Any
) -> _Look:
    """The look of a character, and of all characters of the same text object."""
    size, matrix = pdfium.FPDFText_GetFontSize(characters, number), pdfium.FS_MATRIX()
    if pdfium.FPDFText_GetMatrix(characters, number, matrix):
        size *= math.hypot(matrix.c, matrix.d)
    if abs(size) < TINY_POINTS:
        return "tiny"
    x, y = ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetCharOrigin(characters, number, x, y)
    left, bottom, right, top = page.get_bbox()
    if not (left <= x.value <= right and bottom <= y.value <= top):
        return "doubtful"
    if pdfium.FPDFTextObj_GetTextRenderMode(written) in _NOT_PAINTED:
        return "not painted"
    colour = [ctypes.c_uint() for _ in range(4)]
    if pdfium.FPDFText_GetFillColor(characters, number, *colour):
        *shades, cover = (each.value for each in colour)
        if min(shades) > _WHITE or cover < _CLEAR:
            return "doubtful"
    return "plain"


def _has_pictures(page: pypdfium2.PdfPage) -> bool:
    """Whether the page has pictures: text that is not painted is then likely recognized text."""
    return any(page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE]))
