"""Small files of office programs and books, made of the XML that matters in them."""

from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from openpyxl import Workbook

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    f'xmlns:r="{OFFICE}" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
)
_SLIDE = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    f'xmlns:r="{OFFICE}"'
)
_TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
_RELATED = "http://schemas.openxmlformats.org/package/2006/relationships"


def zipped(parts):
    """The same bytes for the same parts, at any time."""
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(ZipInfo(name), content, compress_type=ZIP_DEFLATED)
    return file.getvalue()


def parts_of(data):
    with ZipFile(BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def related(*relations):
    """Identifier, kind and target of each."""
    listed = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for name, kind, target in relations
    )
    return f'<Relationships xmlns="{_RELATED}">{listed}</Relationships>'


# Word


def docx(body, *, parts=None):
    """`parts`: others, by name; those in word/ are wrapped in their root."""
    return zipped(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": related(("r1", "officeDocument", "word/document.xml")),
            "word/document.xml": f"<w:document {_WORD}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": _styles(),
            **(parts or {}),
        }
    )


def word_part(root, content):
    return f"<w:{root} {_WORD}>{content}</w:{root}>"


def paragraph(content, *, style="", item_of=0, level=0):
    """A list's item has the list's number in `item_of`."""
    looks = f'<w:pStyle w:val="{style}"/>' if style else ""
    if item_of:
        looks += f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{item_of}"/></w:numPr>'
    return f"<w:p><w:pPr>{looks}</w:pPr>{content}</w:p>"


def run(text, looks=""):
    return f'<w:r><w:rPr>{looks}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def numbering_of(*lists, uses=""):
    """Lists with these levels, numbered from 1. `uses`: more XML, of lists that share them."""
    kinds = "".join(
        f'<w:abstractNum w:abstractNumId="{i}">{levels}</w:abstractNum>'
        for i, levels in enumerate(lists, start=1)
    )
    used = "".join(used_list(i, i) for i in range(1, len(lists) + 1))
    return word_part("numbering", kinds + used + uses)


def used_list(number, kind, overrides=""):
    return f'<w:num w:numId="{number}"><w:abstractNumId w:val="{kind}"/>{overrides}</w:num>'


def numbering():
    """List 1 has bullets, list 2 has numbers."""
    return numbering_of(
        *(
            "".join(numbered_level(level, f"%{level + 1}.", kind=kind) for level in range(3))
            for kind in ("bullet", "decimal")
        )
    )


def numbered_level(level, pattern, *, kind="decimal", more=""):
    """A level of a list, from 0; in `pattern` %1 stands for the number of level 0."""
    return (
        f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>{more}'
        f'<w:lvlText w:val="{pattern}"/></w:lvl>'
    )


def _styles():
    return word_part(
        "styles",
        "".join(
            f'<w:style w:type="paragraph" w:styleId="H{i}"><w:name w:val="heading {i}"/></w:style>'
            for i in range(1, 4)
        ),
    )


# Excel


def xlsx(fill):
    workbook = Workbook()
    fill(workbook)
    file = BytesIO()
    workbook.save(file)
    parts = parts_of(file.getvalue())
    return zipped({name: parts[name] for name in parts if not name.startswith("docProps/")})


# PowerPoint


def pptx(slides, *, order=None, notes=None, parts=None):
    """`order`: the numbers, from 1, of the slides' files. `notes`: by such a number."""
    numbers = range(1, len(slides) + 1)
    listed = "".join(f'<p:sldId id="{255 + i}" r:id="s{i}"/>' for i in order or numbers)
    made = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": related(("r1", "officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": (
            f"<p:presentation {_SLIDE}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>"
        ),
        "ppt/_rels/presentation.xml.rels": related(
            *((f"s{i}", "slide", f"slides/slide{i}.xml") for i in numbers)
        ),
    }
    for i, slide in zip(numbers, slides, strict=True):
        made[f"ppt/slides/slide{i}.xml"] = slide
    for i, text in (notes or {}).items():
        made[f"ppt/slides/_rels/slide{i}.xml.rels"] = related(
            ("n", "notesSlide", f"../notesSlides/notesSlide{i}.xml")
        )
        made[f"ppt/notesSlides/notesSlide{i}.xml"] = text
    return zipped({**made, **(parts or {})})


def slide(*shapes):
    return f"<p:sld {_SLIDE}><p:cSld><p:spTree>{''.join(shapes)}</p:spTree></p:cSld></p:sld>"


def shape(*paragraphs, kind=""):
    """`kind`: of placeholder. A paragraph is text, or XML of its own."""
    placeholder = f'<p:ph type="{kind}"/>' if kind else ""
    lines = "".join(
        each if each.startswith("<a:p>") else f"<a:p><a:r><a:t>{each}</a:t></a:r></a:p>"
        for each in paragraphs
    )
    return (
        f"<p:sp><p:nvSpPr><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr>"
        f"<p:txBody>{lines}</p:txBody></p:sp>"
    )


# Charts of both


def chart(title, categories, series):
    """A chart with percentages as its numbers."""

    def points(values):
        return "".join(f'<c:pt idx="{i}"><c:v>{each}</c:v></c:pt>' for i, each in enumerate(values))

    drawn = "".join(
        f"<c:ser><c:tx><c:strRef><c:strCache>{points([name])}</c:strCache></c:strRef></c:tx>"
        f"<c:cat><c:strRef><c:strCache>{points(categories)}</c:strCache></c:strRef></c:cat>"
        "<c:val><c:numRef><c:numCache><c:formatCode>0%</c:formatCode>"
        f"{points(numbers)}</c:numCache></c:numRef></c:val></c:ser>"
        for name, numbers in series.items()
    )
    return (
        '<c:chartSpace xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><c:chart><c:title><c:tx>'
        f"<c:rich><a:p><a:r><a:t>{title}</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea>"
        f"<c:barChart>{drawn}</c:barChart></c:plotArea></c:chart></c:chartSpace>"
    )


# EPUB


def epub(chapters, *, parts=None):
    """`chapters`: pages by the name of their file in OEBPS."""
    items = "".join(
        f'<item id="i{n}" href="{target}" media-type="application/xhtml+xml"/>'
        for n, target in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(len(chapters)))
    container = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": (
                f'{container}<rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles>'
                "</container>"
            ),
            "OEBPS/book.opf": (
                '<package xmlns="http://www.idpf.org/2007/opf">'
                f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
            ),
            **{f"OEBPS/{name}": page for name, page in chapters.items()},
            **(parts or {}),
        }
    )


def page(body):
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml">'
        f"<head><title>A book</title></head><body>{body}</body></html>"
    )
