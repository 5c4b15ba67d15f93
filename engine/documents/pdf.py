"""Reads the text of a PDF's pages, and draws pages with boxes around parts of the text.

Notes that others wrote on a page and the values of a form count as the page's own. Text that no one
sees (beyond the page's edges or a clip, under later paint, not painted, in the colour of its
ground, on a layer that is off) is left out, and its amount is reported; so are attached files, and
pages that are pictures with hardly any text. Text that was recognized in a picture is read.
"""

import ctypes
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import pypdfium2
import pypdfium2.raw as pdfium

from engine.documents import PRINTED, Section
from engine.documents.hidden import hidden_places
from engine.documents.limits import PAGES
from engine.documents.page_line import MADE, Tick
from engine.documents.page_line import Box as Place
from engine.documents.page_picture import Box, PagePicture, png
from engine.documents.page_text import PageText, codes, page_text
from engine.documents.read import Read, left_out_line, unseen_line
from models.errors import Problem

TINY_POINTS = 4.0
LONGEST = 4000
"""Side of a picture, in pixels."""

_WHITE = 240  # of 255, in each colour
_CLEAR = 16  # of 255: nearly transparent
_NOT_PAINTED = (pdfium.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium.FPDF_TEXTRENDERMODE_CLIP)
_LOOK_WIDTH = 1200  # of the picture in which visible characters are looked for
_THIN = 2.0  # points: a drawn line, which paints over no text
_MANY = 500  # shapes or lines: a drawing
_EVEN = 12  # of 255: shades that differ by less are one colour
_FILLS = 0.6  # of a page: a picture of it, a scan
_BLANK = (*range(9, 14), 32, 160)
_NO_LETTER = re.compile("[\x00-\x08\x0e-\x1f\ue000-\uf8ff]")
_FEW_CODES = 20  # times as many letters as codes of no letter
_PLEASE_WAIT = 1000  # characters: what an XFA form shows in other programs
_STAMP = 200  # characters: a stamp on a scan
_OF_FORMS = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
_NOT_WRITTEN = (pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_POPUP)
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_LONGEST_COMMENT = 100_000  # bytes
_NO_COMMENTS = (*_NOT_WRITTEN, pdfium.FPDF_ANNOT_WIDGET)


def read_pdf(data: bytes) -> Read:
    """A section for each page with text. Raises Problem."""
    sections, without_text, damaged, pictures, nameless = [], [], [], [], []
    faint = off_page = unseen = 0
    with _opened(data) as document:
        is_xfa = document.get_formtype() == pdfium.FORMTYPE_XFA_FULL
        count = len(document)
        numbers = range(document.count_attachments())
        files = [
            _name(lambda i: document.get_attachment(i).get_name(), i) or "unnamed" for i in numbers
        ]
        if count > PAGES:
            raise Problem(
                f"The file has {count:,} pages; the limit is {PAGES:,}.",
                "Attach a part of it.",
            )
        for number in range(1, count + 1):
            try:
                with _page(document, number) as page:
                    text = page.text()
                    if _is_nameless(page.characters, text.text):
                        without_text.append(number)
                        nameless.append(str(number))
                        continue
                    off_page, unseen = off_page + text.off_page, unseen + len(page.unseen)
                    if text.text:
                        printed = _name(document.get_page_label, number - 1)
                        label = PRINTED + printed if printed not in ("", str(number)) else ""
                        sections.append(Section("page", number, text.text, label))
                        faint += sum(each in page.tiny for each in text.numbers)
                        if _is_scan(page, text):
                            pictures.append(str(number))
                    elif pdfium.FPDFPage_CountObjects(page.page) > 0:
                        without_text.append(number)
            except pypdfium2.PdfiumError:
                damaged.append(number)
    if damaged and not (sections or without_text):
        raise Problem("The file's pages are damaged.", "Try another copy of it.")
    left_out = tuple(f"Page {number}, which is damaged." for number in damaged[:10])
    if is_xfa and sum(len(section.text) for section in sections) < _PLEASE_WAIT:
        raise Problem(
            "The file is an XFA form, which only Adobe's programs can show.",
            "Print it as PDF there, and attach the PDF.",
        )
    if is_xfa:
        left_out += ("Parts of an XFA form that only Adobe's programs can show.",)
    if len(damaged) > 10:
        left_out += (f"{len(damaged) - 10} more damaged pages.",)
    left_out += left_out_line("Pictures of whole pages, whose text is not recognized", pictures)
    left_out += left_out_line("Pages whose fonts name no letters (OCR can read them)", nameless)
    left_out += left_out_line("Attached files", files)
    if off_page:
        left_out += (f"{off_page:,} characters beyond the edges of pages.",)
    left_out += unseen_line(unseen)
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
            with _page(document, number) as page:
                picture = _Picture(page.page, width=width)
                boxes = tuple(_boxes(picture, page, spans))
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
                "The file is protected by a password.", "Save it without a password."
            ) from error
        raise Problem("The PDF is damaged.", "Try another copy of it.") from error
    with closing(document):
        if document.get_formtype() != pdfium.FORMTYPE_NONE:
            document.init_forms()
        yield document


@dataclass(frozen=True, slots=True)
class _Page:
    """A page with all that is written on it. `own`: the number of characters before what others
    wrote and filled in; None if there is none of it. `ticks`: the boxes of a form. `comments`: what
    a program shows in windows of their own. `struck`: the places that others crossed out, and thin
    lines, which may do so. `unseen`, `tiny`: the numbers of characters that no one sees, or
    hardly."""

    page: pypdfium2.PdfPage
    characters: pypdfium2.PdfTextPage
    own: int | None
    ticks: tuple[Tick, ...]
    comments: tuple[str, ...]
    struck: tuple[Place, ...]
    unseen: frozenset[int]
    tiny: frozenset[int]

    def text(self) -> PageText:
        return page_text(
            self.page,
            self.characters,
            own=self.own,
            ticks=self.ticks,
            comments=self.comments,
            unseen=self.unseen,
            struck=self.struck,
        )


@contextmanager
def _page(document: pypdfium2.PdfDocument, number: int) -> Iterator[_Page]:
    page = document[number - 1]
    before: list[int] = []
    ticks: tuple[Tick, ...] = ()
    own = None
    comments = tuple(filter(None, map(_comment, _annotations(page))))
    struck = tuple(place for note in _annotations(page) for place in _struck(note))
    if _is_written_on(page):
        with closing(page.get_textpage()) as characters:
            before = codes(characters)
        ticks = tuple(_ticks(document, page))
        done = pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
        if done == pdfium.FLATTEN_SUCCESS:
            page.close()
            page = document[number - 1]
            own = len(before)
    with closing(page), closing(page.get_textpage()) as characters:
        if own is not None and codes(characters)[:own] != before:
            own = None
        unseen, tiny, rules = _overlooked(page, characters)
        yield _Page(page, characters, own, ticks, comments, struck + rules, unseen, tiny)


def _name(read: Callable[..., str], *number: int) -> str:
    """A name in the file; empty if it is damaged."""
    with suppress(pypdfium2.PdfiumError, UnicodeDecodeError):
        return read(*number)
    return ""


def _is_nameless(characters: pypdfium2.PdfTextPage, text: str) -> bool:
    """Whether the fonts of a page do not say which letters its characters are."""
    if len(_NO_LETTER.findall(text)) * _FEW_CODES <= len(text):
        return False
    inked = [(i, code) for i, code in enumerate(codes(characters)) if code not in _BLANK]
    unknown = sum(
        0xE000 <= code < 0xF900 or pdfium.FPDFText_HasUnicodeMapError(characters.raw, number) == 1
        for number, code in inked
    )
    return unknown * 2 > len(inked)


def _is_written_on(page: pypdfium2.PdfPage) -> bool:
    """Whether there is more on a page than its content: a stamp, a filled-in field."""
    return any(pdfium.FPDFAnnot_GetSubtype(note) not in _NOT_WRITTEN for note in _annotations(page))


def _comment(note: Any) -> str:
    """A comment on a place of the page; empty for other annotations."""
    kind, drawn = pdfium.FPDFAnnot_GetSubtype(note), pdfium.FPDFAnnot_HasKey(note, b"AP")
    if kind in _NO_COMMENTS or (kind == pdfium.FPDF_ANNOT_FREETEXT and drawn):
        return ""
    size = min(pdfium.FPDFAnnot_GetStringValue(note, b"Contents", None, 0), _LONGEST_COMMENT)
    text = (ctypes.c_ushort * (size // 2 + 1))()
    pdfium.FPDFAnnot_GetStringValue(note, b"Contents", text, size)
    words = bytes(text).decode("utf-16-le", "replace").replace("\0", "").split()
    file = pdfium.FPDFAnnot_GetFileAttachment(note)
    named = [_name(pypdfium2.PdfAttachment(file, None).get_name)] if file else []
    return " ".join([*named, *words])


def _struck(note: Any) -> Iterator[Place]:
    """Yield the places that an annotation crosses out."""
    if pdfium.FPDFAnnot_GetSubtype(note) != pdfium.FPDF_ANNOT_STRIKEOUT:
        return
    quad = pdfium.FS_QUADPOINTSF()
    for number in range(pdfium.FPDFAnnot_CountAttachmentPoints(note)):
        if pdfium.FPDFAnnot_GetAttachmentPoints(note, number, quad):
            across, up = (quad.x1, quad.x2, quad.x3, quad.x4), (quad.y1, quad.y2, quad.y3, quad.y4)
            yield Place(min(across), min(up), max(across), max(up))


def _annotations(page: pypdfium2.PdfPage) -> Iterator[Any]:
    for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
        note = pdfium.FPDFPage_GetAnnot(page, number)
        if note:
            if not pdfium.FPDFAnnot_GetFlags(note) & _HIDDEN:
                yield note
            pdfium.FPDFPage_CloseAnnot(note)


def _ticks(document: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> Iterator[Tick]:
    form = document.formenv
    for note in _annotations(page) if form else ():
        place = pdfium.FS_RECTF()
        kind = pdfium.FPDFAnnot_GetFormFieldType(form, note)
        if kind in _OF_FORMS and pdfium.FPDFAnnot_GetRect(note, place):
            box = Place(place.left, place.bottom, place.right, place.top)
            yield Tick(box, bool(pdfium.FPDFAnnot_IsChecked(form, note)))


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


def _boxes(picture: _Picture, page: _Page, spans: Sequence[tuple[int, int]]) -> Iterator[Box]:
    """Yield the boxes of each span: one for each line, more if the line has gaps."""
    text, characters = page.text(), page.characters
    hidden = set(hidden_places(text.text))  # they are not in the section's text
    numbers = [number for place, number in enumerate(text.numbers) if place not in hidden]
    for index, (start, end) in enumerate(spans):
        before: Box | None = None
        for number in numbers[max(start, 0) : max(end, 0)]:
            found = None if number == MADE else picture.box(characters, number)
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
    """A box around both, if they are side by side in a line; else None."""
    shared = min(one.bottom, other.bottom) - max(one.top, other.top)
    lower = min(one.bottom - one.top, other.bottom - other.top)
    gap = max(one.left, other.left) - min(one.right, other.right)
    if shared * 2 < lower or gap > lower:
        return None
    left, top = min(one.left, other.left), min(one.top, other.top)
    return Box(one.span, left, top, max(one.right, other.right), max(one.bottom, other.bottom))


_Look = Literal["plain", "tiny", "doubtful", "not painted"]


def _is_scan(page: _Page, text: PageText) -> bool:
    """Whether pictures fill the page, and hardly any text is on them."""
    if len(text.text) > _STAMP:
        return False
    left, bottom, right, top = page.page.get_bbox()
    area = 0.0
    for picture in page.page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE]):
        sides = picture.get_bounds()
        across = min(sides[2], right) - max(sides[0], left)
        up = min(sides[3], top) - max(sides[1], bottom)
        area += max(across, 0) * max(up, 0)
    return area > (right - left) * (top - bottom) * _FILLS


def _overlooked(
    page: pypdfium2.PdfPage, characters: pypdfium2.PdfTextPage
) -> tuple[frozenset[int], frozenset[int], tuple[Place, ...]]:
    """The numbers of the characters that no one sees, and of the tiny ones; lines on the page."""
    looks: dict[int, _Look] = {}
    covered, rules = _drawn(page)
    has_forms = any(page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_FORM], max_depth=1))
    texts = page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_TEXT]) if has_forms else ()
    covered |= {ctypes.addressof(each.raw.contents) for each in texts if each.level}
    found: dict[_Look, list[int]] = defaultdict(list)
    for number, code in enumerate(codes(characters)):
        written = pdfium.FPDFText_GetTextObject(characters.raw, number)
        if not written or (code <= sys.maxunicode and chr(code).isspace()):
            continue
        key = ctypes.addressof(written.contents)
        if key not in looks:
            looks[key] = _look(characters, number, written)
            if looks[key] != "not painted" and (key in covered or _is_layered(written)):
                looks[key] = "doubtful"
        found[looks[key]].append(number)
    doubtful = found["doubtful"] + [*_without_picture(page, characters, found["not painted"])]
    unseen = set[int]()
    if doubtful:
        picture = _Picture(page, width=_LOOK_WIDTH, grey=True)
        boxes = ((number, picture.box(characters, number)) for number in doubtful)
        unseen |= {number for number, box in boxes if box and picture.is_even(*box)}
    return frozenset(unseen), frozenset(found["tiny"]), rules


def _drawn(page: pypdfium2.PdfPage) -> tuple[set[int], tuple[Place, ...]]:
    """The texts that later paint or the edge of a clip may hide, and the lines across the page."""
    covered, rules, later = set[int](), list[Place](), list[Place]()
    for number in reversed(range(pdfium.FPDFPage_CountObjects(page))):
        drawn = pdfium.FPDFPage_GetObject(page, number)
        kind, sides = pdfium.FPDFPageObj_GetType(drawn), [ctypes.c_float() for _ in range(4)]
        if not pdfium.FPDFPageObj_GetBounds(drawn, *sides):
            continue
        box = Place(*(each.value for each in sides))
        if kind == pdfium.FPDF_PAGEOBJ_TEXT:
            many = len(later) > _MANY  # a drawing, in which comparing would take long
            if many or any(map(box.meets, later)) or _is_clipped(drawn, box):
                covered.add(ctypes.addressof(drawn.contents))
        elif box.top - box.bottom <= _THIN < box.right - box.left:
            rules.append(box)
        else:
            later.append(box)
    return covered, tuple(rules if len(rules) + len(later) < _MANY else ())


def _is_clipped(drawn: Any, box: Place) -> bool:
    """Whether a part of a text may be beyond the edge to which its page is painted."""
    clip, x, y = pdfium.FPDFPageObj_GetClipPath(drawn), ctypes.c_float(), ctypes.c_float()
    for path in range(pdfium.FPDFClipPath_CountPaths(clip) if clip else 0):
        across, up = list[float](), list[float]()
        for number in range(pdfium.FPDFClipPath_CountPathSegments(clip, path)):
            corner = pdfium.FPDFClipPath_GetPathSegment(clip, path, number)
            if pdfium.FPDFPathSegment_GetPoint(corner, x, y):
                across.append(x.value)
                up.append(y.value)
        edge = Place(min(across), min(up), max(across), max(up)) if up else box
        ends = box._replace(right=box.left), box._replace(left=box.right)
        if not all(edge.contains(end) for end in ends):
            return True
    return False


def _is_layered(written: Any) -> bool:
    """Whether a text is on a layer, which may be off: only a picture of the page tells."""
    name, size = (ctypes.c_ushort * 8)(), ctypes.c_ulong()
    for number in range(pdfium.FPDFPageObj_CountMarks(written)):
        mark = pdfium.FPDFPageObj_GetMark(written, number)
        if pdfium.FPDFPageObjMark_GetName(mark, name, 16, size) and name[:3] == [79, 67, 0]:
            return True
    return False


def _without_picture(
    page: pypdfium2.PdfPage, characters: pypdfium2.PdfTextPage, numbers: Sequence[int]
) -> Iterator[int]:
    """Yield the unpainted characters without a picture under them: the others were recognized."""
    images = [*page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE])] if numbers else []
    places = [Place(*(page.get_bbox() if each.level else each.get_bounds())) for each in images]
    for number in numbers:
        box = Place(*characters.get_charbox(number, loose=True))
        if not any(place.contains(box) for place in places):
            yield number


def _look(characters: pypdfium2.PdfTextPage, number: int, written: Any) -> _Look:
    """The look of a character, and of all characters of the same text object."""
    size, matrix = pdfium.FPDFText_GetFontSize(characters, number), pdfium.FS_MATRIX()
    if pdfium.FPDFText_GetMatrix(characters, number, matrix):
        size *= math.hypot(matrix.c, matrix.d)
    if abs(size) < TINY_POINTS:
        return "tiny"
    if pdfium.FPDFTextObj_GetTextRenderMode(written) in _NOT_PAINTED:
        return "not painted"
    colour = [ctypes.c_uint() for _ in range(4)]
    if pdfium.FPDFText_GetFillColor(characters, number, *colour):
        *shades, cover = (each.value for each in colour)
        if min(shades) > _WHITE or cover < _CLEAR:
            return "doubtful"
    return "plain"
