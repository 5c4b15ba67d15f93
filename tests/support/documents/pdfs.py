"""Small PDFs, written by hand: just what a test needs, and no other program's idea of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

WIDTH, HEIGHT = 400, 300  # of a page, in points
_FONTS = "/Font << /F1 3 0 R /F2 4 0 R >>"
_UNICODE = """/CIDInit /ProcSet findresource begin begincmap
/CMapName /U def /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
2 beginbfrange <0000> <D7FF> <0000> <E000> <FFFF> <E000> endbfrange
1 beginbfchar <D800> <{}> endbfchar
endcmap end"""


@dataclass(frozen=True, slots=True)
class Page:
    """`more`: entries of its dictionary, `notes`: what others wrote on it, as content streams,
    `ticks`: boxes that can be ticked, each by its left and lower edge, and whether it is,
    `resources`: more of them."""

    content: str
    more: str = ""
    notes: Sequence[str] = field(default=())
    ticks: Sequence[tuple[float, float, bool]] = field(default=())
    resources: str = ""


def line(text, *, x=20, y=250, size=12, before="", matrix="1 0 0 1"):
    """A line of text in Helvetica; `before`: operators that say how it is painted."""
    shown = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    placed = f"{matrix} {x} {y} Tm"
    return f"q {before} BT /F1 {size} Tf {placed} ({shown}) Tj ET Q\n"


def unicode_line(text, *, x=20, y=250):
    """The same of any characters of the first 65,536; U+D800 stands for a grinning face."""
    codes = "".join(f"{ord(each):04X}" for each in text)
    return f"BT /F2 12 Tf 1 0 0 1 {x} {y} Tm <{codes}> Tj ET\n"


def risen(*pieces, x=20, y=250):
    """A line of pieces, each with its height above the line; those that are not on it are small."""
    shown = " ".join(f"/F1 {7 if up else 12} Tf {up} Ts ({text}) Tj" for text, up in pieces)
    return f"BT 1 0 0 1 {x} {y} Tm {shown} ET\n"


def lines(texts, *, x=20, top=270, apart=15):
    return "".join(line(text, x=x, y=top - i * apart) for i, text in enumerate(texts))


def pdf(*pages, encrypted=False, catalog="", more=(), odd="D83DDE00"):
    """A file with these pages; those that are only content are 400 x 300 points. `catalog`: entries
    of the dictionary that is its root. `more`: objects, which have the numbers from 8 on.
    `odd`: the codes of what U+D800 stands for."""
    made = [page if isinstance(page, Page) else Page(page) for page in pages]
    objects = [
        "",  # the catalog, and the pages, which are known later
        "",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        "<< /Type /Font /Subtype /Type0 /BaseFont /U /Encoding /Identity-H /ToUnicode 5 0 R"
        " /DescendantFonts [6 0 R] >>",
        _stream(_UNICODE.format(odd)),
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /U /DW 600 /FontDescriptor 7 0 R"
        " /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
        "<< /Type /FontDescriptor /FontName /U /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0"
        " /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >>",
        *more,
    ]

    def add(content):
        objects.append(content)
        return len(objects)

    kids, fields = [], list[int]()
    for page in made:
        notes = [add(_note(add(_appearance(note)))) for note in page.notes]
        ticks = [add(_tick(*tick, add(_appearance("")))) for tick in page.ticks]
        notes, fields = notes + ticks, fields + ticks
        annotations = f"/Annots [{' '.join(f'{note} 0 R' for note in notes)}]" if notes else ""
        content = add(_stream(page.content))
        box = "" if "/MediaBox" in page.more else f"/MediaBox [0 0 {WIDTH} {HEIGHT}]"
        kids.append(
            add(
                f"<< /Type /Page /Parent 2 0 R {box} /Resources << {_FONTS} {page.resources} >>"
                f" /Contents {content} 0 R {annotations} {page.more} >>"
            )
        )
    if fields:
        listed = " ".join(f"{number} 0 R" for number in fields)
        catalog += f" /AcroForm << /Fields [{listed}] >>"
    objects[0] = f"<< /Type /Catalog /Pages 2 0 R {catalog} >>"
    listed = " ".join(f"{kid} 0 R" for kid in kids)
    objects[1] = f"<< /Type /Pages /Kids [{listed}] /Count {len(kids)} >>"
    locked = f"/Encrypt {add(_LOCK)} 0 R /ID [<{'00' * 16}> <{'00' * 16}>]" if encrypted else ""
    return _file(objects, locked)


_LOCK = (  # of a password that no one knows
    f"<< /Filter /Standard /V 1 /R 2 /P -4 /O <{'5A' * 32}> /U <{'A5' * 32}> >>"
)


def _note(appearance):
    return (
        f"<< /Type /Annot /Subtype /Stamp /F 4 /Rect [0 0 {WIDTH} {HEIGHT}]"
        f" /AP << /N {appearance} 0 R >> >>"
    )


def _tick(left, lower, ticked, appearance):
    state = "/Yes" if ticked else "/Off"
    return (
        f"<< /Type /Annot /Subtype /Widget /F 4 /FT /Btn /T (t{left}-{lower}) /V {state}"
        f" /AS {state} /Rect [{left} {lower} {left + 12} {lower + 12}]"
        f" /AP << /N << /Yes {appearance} 0 R /Off {appearance} 0 R >> >> >>"
    )


def _appearance(content):
    head = f"/Type /XObject /Subtype /Form /BBox [0 0 {WIDTH} {HEIGHT}]"
    return _stream(content, f"{head} /Resources << {_FONTS} >>")


def _stream(content, entries=""):
    size = len(content.encode("cp1252"))
    return f"<< /Length {size} {entries} >>\nstream\n{content}\nendstream"


def _file(objects, trailer):
    data = b"%PDF-1.7\n"
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(data))
        data += f"{number} 0 obj\n{content}\nendobj\n".encode("cp1252")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    return (
        data
        + (
            f"xref\n0 {count}\n0000000000 65535 f \n{table}"
            f"trailer\n<< /Size {count} /Root 1 0 R {trailer} >>\nstartxref\n{len(data)}\n%%EOF\n"
        ).encode()
    )


def with_stream(stream, entries):
    """A file with one page, whose content is this stream, as it is."""
    mark = "\xbf" * 8
    before, _, after = pdf(mark).partition(mark.encode("cp1252"))
    start = before.rindex(b"<< /Length")
    head = f"<< /Length {len(stream)} {entries} >>\nstream\n".encode()
    return before[:start] + head + stream + after
