"""The text of a PDF's pages, and pictures of them with boxes around some of that text.

The text of a page is PDFium's, in its order, line by line; a hyphen at the end of a line stays.
Each of its characters is known by its number on the page, so that its box can be found.
"""

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
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
LONGEST = 6000
"""Side of a picture, in pixels."""

_MADE = -1  # a character of the text that the page does not have: the end of a line
_HYPHENS = (0x02, 0xFFFE, 0xFFFF)  # how PDFium says that a word goes on in the next line
_WHITE = 240  # of 255, in each colour
_CLEAR = 16  # of 255: nearly transparent
_UNSEEN = (pdfium.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium.FPDF_TEXTRENDERMODE_CLIP)
_LOOK_WIDTH = 1200  # of the picture that tells whether a character is seen
_EVEN = 12  # of 255: what differs by less is one colour


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
    """A page, `width` pixels wide; `spans` are the beginnings and ends of parts of its section's
    text, as a `Document` has it. Raises Problem."""
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
    """A page and its characters. What a person filled in or noted counts as the page's own."""
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
    """`numbers`: of each character of the text on its page, or `_MADE`."""

    text: str
    numbers: tuple[int, ...]


def _text(characters: pypdfium2.PdfTextPage) -> _Text:
    """The lines of a page, without spaces at their ends."""
    text: list[str] = []
    numbers: list[int] = []

    def end_line() -> None:
        while text and text[-1].isspace() and (text[-1] != "\n" or text[-2:] == ["\n", "\n"]):
            text.pop()
            numbers.pop()
        if text:
            text.append("\n")
            numbers.append(_MADE)

    upper = 0
    for number in range(pdfium.FPDFText_CountChars(characters)):
        code = pdfium.FPDFText_GetUnicode(characters, number)
        if 0xD800 <= code < 0xDC00:
            upper = code
            continue
        if 0xDC00 <= code < 0xE000:
            if not upper:
                continue
            code = 0x10000 + ((upper - 0xD800) << 10) + code - 0xDC00
        upper = 0
        if code in _HYPHENS:
            text.append("-")
            numbers.append(number)
            end_line()
        elif code in (0x0A, 0x0B, 0x0C):
            end_line()
        elif code not in (0, 0x0D) and code <= 0x10FFFF:
            text.append(chr(code))
            numbers.append(number)
    end_line()
    start = next((i for i, each in enumerate(text) if not each.isspace()), len(text))
    end = max(len(text) - 1, start)
    return _Text("".join(text[start:end]), tuple(numbers[start:end]))


class _Picture:
    """A page in pixels."""

    def __init__(self, page: pypdfium2.PdfPage, *, width: int, grey: bool = False) -> None:
        self._page = page
        across, up = page.get_size()
        if not (across > 0 and up > 0):
            raise pypdfium2.PdfiumError("a page without a size")
        scale = min(width, LONGEST, LONGEST * across / up) / across
        # As it is rounded up; a page may be so long and narrow that nothing is left of its width.
        scale = max(scale - 0.5 / across, 0.5 / across)
        bitmap = page.render(scale=scale, grayscale=grey, rev_byteorder=not grey, draw_annots=False)
        self.width, self.height, self._row_bytes = bitmap.width, bitmap.height, bitmap.stride
        self._pixels = bytes(bitmap.buffer)
        bitmap.close()

    def box(
        self, characters: pypdfium2.PdfTextPage, number: int
    ) -> tuple[int, int, int, int] | None:
        """Left, top, right and bottom of a character; None where it has no size."""
        rectangle = pdfium.FS_RECTF()
        if not pdfium.FPDFText_GetLooseCharBox(characters, number, rectangle):
            return None
        x, y = ctypes.c_int(), ctypes.c_int()
        corners = []
        for across, up in (
            (rectangle.left, rectangle.top),
            (rectangle.right, rectangle.bottom),
        ):
            place = (0, 0, self.width, self.height, 0, across, up, x, y)
            if not pdfium.FPDF_PageToDevice(self._page, *place):
                return None
            corners.append((x.value, y.value))
        (left, right), (top, bottom) = (sorted(each) for each in zip(*corners, strict=True))
        return None if left == right or top == bottom else (left, top, right, bottom)

    def is_even(self, left: int, top: int, right: int, bottom: int) -> bool:
        """Whether a part of a grey picture has one colour, or is beside it."""
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
    """One for each line that a span is in, where it has no gaps."""
    text = _text(characters)
    hidden = set(hidden_places(text.text))  # which the section does not have
    numbers = [number for place, number in enumerate(text.numbers) if place not in hidden]
    for index, (start, end) in enumerate(spans):
        before: Box | None = None
        for number in numbers[start:end]:
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
    """A box around two that stand beside each other in a line."""
    shared = min(one.bottom, other.bottom) - max(one.top, other.top)
    lower = min(one.bottom - one.top, other.bottom - other.top)
    gap = max(one.left, other.left) - min(one.right, other.right)
    if shared * 2 < lower or gap > lower:
        return None
    left, top = min(one.left, other.left), min(one.top, other.top)
    return Box(one.span, left, top, max(one.right, other.right), max(one.bottom, other.bottom))


_Look = Literal["plain", "tiny", "doubtful"]


def _faint(page: pypdfium2.PdfPage, characters: pypdfium2.PdfTextPage, text: _Text) -> int:
    """How many characters are tiny, or have the colour of what is beneath them."""
    looks: dict[int, _Look] = {}
    faint, doubtful = 0, []
    for letter, number in zip(text.text, text.numbers, strict=True):
        if letter.isspace() or number == _MADE:
            continue
        written = pdfium.FPDFText_GetTextObject(characters, number)
        key = ctypes.cast(written, ctypes.c_void_p).value
        if key is None:
            continue
        if key not in looks:
            looks[key] = _look(characters, number, written)
        look = looks[key]
        if look == "tiny":
            faint += 1
        elif look == "doubtful":
            doubtful.append(number)
    if not doubtful or _has_pictures(page):
        return faint
    picture = _Picture(page, width=_LOOK_WIDTH, grey=True)
    for number in doubtful:
        box = picture.box(characters, number)
        faint += box is not None and picture.is_even(*box)
    return faint


def _look(characters: pypdfium2.PdfTextPage, number: int, written: Any) -> _Look:
    """Of a character, and of all that were written with it."""
    size, matrix = pdfium.FPDFText_GetFontSize(characters, number), pdfium.FS_MATRIX()
    if pdfium.FPDFText_GetMatrix(characters, number, matrix):
        size *= math.hypot(matrix.c, matrix.d)
    if abs(size) < TINY_POINTS:
        return "tiny"
    if pdfium.FPDFTextObj_GetTextRenderMode(written) in _UNSEEN:
        return "doubtful"
    colour = [ctypes.c_uint() for _ in range(4)]
    if pdfium.FPDFText_GetFillColor(characters, number, *colour):
        *shades, cover = (each.value for each in colour)
        if min(shades) > _WHITE or cover < _CLEAR:
            return "doubtful"
    return "plain"


def _has_pictures(page: pypdfium2.PdfPage) -> bool:
    """Then unseen text is likely what was recognized in a picture, and white text lies on one."""
    return any(page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE]))
