"""Reads the slides of a presentation in the order in which they are shown, each with its notes.

A chart is read as its table. Notes and comments stand below a slide's text. Hidden slides and
pictures are not read, but reported; nor is text that masters put on every slide.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from xml.etree.ElementTree import Element

from engine.documents import Section
from engine.documents.charts import chart_text
from engine.documents.read import Read, left_out_line
from engine.documents.web import BETWEEN_CELLS, raised, shortened
from engine.documents.zips import Archive, local_name, reading
from models.errors import Problem

_TITLES = ("title", "ctrTitle")
_ON_EVERY_SLIDE = ("dt", "ftr", "hdr", "sldNum", "sldImg")


def read_pptx(data: bytes) -> Read:
    with reading("presentation"):
        archive = Archive(data)
        (presentation,) = archive.related("", "officeDocument").values()
        by_id = archive.related(presentation, "slide")
        listed = archive.xml(presentation).iterfind("{*}sldIdLst/{*}sldId")
        sections, without_text, hidden = [], [], []
        left_out = Counter[str]()
        for number, slide in enumerate(listed, start=1):
            part = by_id[_id(slide)]
            tree = archive.xml(part)
            if tree.get("show") in ("0", "false"):
                hidden.append(str(number))
                continue
            title, text = _read_slide(archive, part, tree, left_out)
            if text:
                sections.append(Section("slide", number, text, shortened(title)))
            else:
                without_text.append(number)
        return Read(
            tuple(sections),
            without_text=tuple(without_text),
            left_out=left_out_line("Hidden slides", hidden)
            + tuple(f"{kind}: {count}." for kind, count in left_out.items() if count > 0),
        )


def _read_slide(
    archive: Archive, part: str, tree: Element, left_out: Counter[str]
) -> tuple[str, str]:
    """Return a slide's title, and all its text. Counts in `left_out` what is not read."""
    seen = Counter(map(local_name, tree.iter()))
    left_out["Pictures"] += seen["pic"]
    left_out["Charts"] += seen["chart"]
    title = ""
    shapes: list[str] = []
    for shape in _shapes(tree):
        kind = _placeholder(shape)
        text = "\n".join(paragraphs(shape)) if kind not in _ON_EVERY_SLIDE else ""
        if text and kind in _TITLES and not title:
            title = " ".join(text.split())
            shapes.insert(0, text)
        elif text:
            shapes.append(text)
    for diagram in archive.related(part, "diagramData").values():
        shapes += ["\n".join(paragraphs(archive.xml(diagram)))]
    for chart in archive.related(part, "chart").values():
        with suppress(Problem):
            if text := chart_text(archive.xml(chart)):
                left_out["Charts"] -= 1
                shapes.append(text)
    for notes in archive.related(part, "notesSlide").values():
        for shape in _shapes(archive.xml(notes)):
            if _placeholder(shape) == "body":
                shapes += [f"Notes: {text}" for text in ["\n".join(paragraphs(shape))] if text]
    for comments in archive.related(part, "comments").values():
        for comment in archive.xml(comments).iterfind(".//{*}cm"):
            text = comment.findtext("{*}text") or " ".join(paragraphs(comment))
            shapes += [f"Comment: {' '.join(text.split())}"] if text.strip() else []
    return title, "\n\n".join(filter(None, shapes))


def _shapes(element: Element) -> Iterator[Element]:
    """Yield the shapes of a slide and of its groups, in drawing order; of alternatives for
    different programs, the first."""
    for child in element:
        if local_name(child) in ("sp", "graphicFrame", "cxnSp"):
            yield child
        elif local_name(child) == "AlternateContent":
            yield from _shapes(child[0]) if len(child) else ()
        else:
            yield from _shapes(child)


def _placeholder(shape: Element) -> str:
    placeholder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    return "" if placeholder is None else placeholder.get("type", "body")


def paragraphs(element: Element) -> Iterator[str]:
    """Yield the paragraphs and table rows that have text."""
    above: list[str] = []
    for child in element:
        if local_name(child) == "tr":
            cells, is_new = [], False
            for column, cell in enumerate(child.iterfind("{*}tc")):
                reaches_in = cell.get("vMerge") in ("1", "true") and column < len(above)
                text = " ".join(" ".join(paragraphs(cell)).split())
                cells.append(above[column] if reaches_in else text)
                is_new |= bool(text)
            above = cells[:]
            while cells and not cells[-1]:
                cells.pop()
            yield from [BETWEEN_CELLS.join(cells)] if is_new else []
        elif local_name(child) == "p":
            text = "".join(_pieces(child)).rstrip()
            properties = child.find("{*}pPr")
            level = 0 if properties is None else int(properties.get("lvl", "0"))
            yield from ["  " * min(level, 8) + text] if text else []
        elif local_name(child) == "AlternateContent":
            yield from paragraphs(child[0]) if len(child) else ()
        else:
            yield from paragraphs(child)


def _pieces(paragraph: Element) -> Iterator[str]:
    for child in paragraph:
        if local_name(child) == "br":
            yield "\n"
        elif local_name(child) in ("r", "fld"):
            text = child.findtext("{*}t") or ""
            properties = child.find("{*}rPr")
            high = properties is not None and not properties.get("baseline", "0").startswith(
                ("0", "-")
            )
            yield raised(text) if high else text


def _id(slide: Element) -> str:
    """The identifier of a slide's relation (`r:id`, not the plain `id`)."""
    return next(value for name, value in slide.attrib.items() if name.endswith("}id"))
