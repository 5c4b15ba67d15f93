"""Reads the slides of a presentation in the order in which they are shown, each with its notes.

Hidden slides, pictures, charts and comments are not read, but reported; nor is text that masters
put on every slide.
"""

import posixpath
from collections import Counter
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from engine.documents import Section
from engine.documents.read import Read, left_out_line
from engine.documents.web import BETWEEN_CELLS, raised, shortened
from engine.documents.zips import Archive, local_name, reading

_TITLES = ("title", "ctrTitle")
_REPORTED = {"pic": "picture", "chart": "chart", "cm": "comment"}
_ON_EVERY_SLIDE = ("dt", "ftr", "hdr", "sldNum", "sldImg")


def read_pptx(data: bytes) -> Read:
    with reading("presentation"):
        archive = Archive(data)
        (presentation,) = _related(archive, "", "officeDocument").values()
        by_id = _related(archive, presentation, "slide")
        listed = archive.xml(presentation).iterfind("{*}sldIdLst/{*}sldId")
        sections, without_text, hidden = [], [], []
        seen = Counter[str]()
        for number, slide in enumerate(listed, start=1):
            part = by_id[_id(slide)]
            tree = archive.xml(part)
            if tree.get("show") in ("0", "false"):
                hidden.append(str(number))
                continue
            title, text = _read_slide(archive, part, tree)
            seen.update(map(local_name, tree.iter()))
            comments = _related(archive, part, "comments").values()
            seen["cm"] += sum(
                local_name(each) == "cm" for name in comments for each in archive.xml(name).iter()
            )
            if text:
                sections.append(Section("slide", number, text, shortened(title)))
            else:
                without_text.append(number)
        return Read(
            tuple(sections),
            without_text=tuple(without_text),
            left_out=left_out_line("Hidden slides", hidden)
            + tuple(
                f"{seen[name]} {kind}{'s' * (seen[name] > 1)}."
                for name, kind in _REPORTED.items()
                if seen[name]
            ),
        )


def _read_slide(archive: Archive, part: str, tree: Element) -> tuple[str, str]:
    """Return a slide's title, and all its text."""
    title = ""
    shapes: list[str] = []
    for shape in _shapes(tree):
        kind = _placeholder(shape)
        text = "\n".join(_lines(shape)) if kind not in _ON_EVERY_SLIDE else ""
        if text and kind in _TITLES and not title:
            title = " ".join(text.split())
            shapes.insert(0, text)
        elif text:
            shapes.append(text)
    for diagram in _related(archive, part, "diagramData").values():
        shapes += ["\n".join(_lines(archive.xml(diagram)))]
    for notes in _related(archive, part, "notesSlide").values():
        for shape in _shapes(archive.xml(notes)):
            if _placeholder(shape) == "body":
                shapes += [f"Notes: {text}" for text in ["\n".join(_lines(shape))] if text]
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


def _lines(element: Element) -> Iterator[str]:
    """Yield the paragraphs and table rows that have text."""
    above: list[str] = []
    for child in element:
        if local_name(child) == "tr":
            cells = []
            for column, cell in enumerate(child.iterfind("{*}tc")):
                reaches_in = cell.get("vMerge") in ("1", "true") and column < len(above)
                text = " ".join(" ".join(_lines(cell)).split())
                cells.append(above[column] if reaches_in else text)
            above = cells[:]
            while cells and not cells[-1]:
                cells.pop()
            yield from [BETWEEN_CELLS.join(cells)] if cells else []
        elif local_name(child) == "p":
            text = "".join(_pieces(child)).rstrip()
            properties = child.find("{*}pPr")
            level = 0 if properties is None else int(properties.get("lvl", "0"))
            yield from ["  " * min(level, 8) + text] if text else []
        elif local_name(child) == "AlternateContent":
            yield from _lines(child[0]) if len(child) else ()
        else:
            yield from _lines(child)


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


def _related(archive: Archive, part: str, kind: str) -> dict[str, str]:
    """The parts of this kind that a part refers to, by the identifier of the relation."""
    folder, name = posixpath.split(part)
    listed = posixpath.join(folder, "_rels", f"{name}.rels")
    if listed not in archive.names:
        return {}
    return {
        relation.get("Id", ""): posixpath.normpath(
            posixpath.join("/", folder, relation.get("Target", ""))
        ).lstrip("/")
        for relation in archive.xml(listed)
        if relation.get("Type", "").endswith(f"/{kind}")
        and relation.get("TargetMode") != "External"
    }


def _id(slide: Element) -> str:
    """The identifier of a slide's relation (`r:id`, not the plain `id`)."""
    return next(value for name, value in slide.attrib.items() if name.endswith("}id"))
