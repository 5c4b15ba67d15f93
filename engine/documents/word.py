"""Reads a Word document: mammoth makes HTML of it, and what reads HTML makes the text.

Changes that are suggested in it are read as if they were accepted. Text that is formatted as hidden
is dropped, since nobody sees it. Pictures, comments, headers and footers are not read.
"""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, fromstring, tostring

import mammoth

from engine.documents import Section
from engine.documents.read import Read
from engine.documents.web import read_page
from engine.documents.zips import Archive, reading

NOTES = "Notes"

_FIRST_NOTE = re.compile(r'<ol><li id="(?:foot|end)note-')
_BACK_TO_TEXT = re.compile(r' ?<a href="#(?:foot|end)note-ref-[^"]*">↑</a>')


def read_docx(data: bytes) -> Read:
    archive = Archive(data)
    with reading("Word document"):
        seen = _Seen()
        copy = archive.only_xml(seen.change)
        html = mammoth.convert_to_html(
            copy,
            convert_image=seen.image,
            include_embedded_style_map=False,
            external_file_access=False,
        ).value
        return Read(tuple(_sections(html)), left_out=seen.left_out())


def _sections(html: str) -> Iterator[Section]:
    """Foot- and endnotes, which come last, are no part of what the last heading is about."""
    notes = _FIRST_NOTE.search(html)
    end = notes.start() if notes else len(html)
    parts = read_page(html[:end]).parts
    for number, part in enumerate(parts, start=1):
        yield Section("part", number, part.text, part.label)
    for part in read_page(_BACK_TO_TEXT.sub("", html[end:])).parts:
        yield Section("part", len(parts) + 1, part.text, NOTES)


class _Seen:
    """What of a document is not read, counted while the rest is."""

    def __init__(self) -> None:
        self.pictures = self.formulas = self.comments = 0

    def image(self, _: object) -> list[object]:
        self.pictures += 1
        return []

    def change(self, xml: bytes) -> bytes:
        """A part without its hidden text."""
        self.formulas += len(re.findall(rb"<(?:\w+:)?oMath[ >]", xml))
        self.comments += len(re.findall(rb"<(?:\w+:)?commentReference[ />]", xml))
        if b"vanish" not in xml:
            return xml
        root = fromstring(xml)
        for parent in list(root.iter()):
            for run in parent.findall("{*}r"):
                if _is_hidden(run):
                    parent.remove(run)
        return tostring(root)

    def left_out(self) -> tuple[str, ...]:
        counted = {
            "picture": self.pictures,
            "formula": self.formulas,
            "comment": self.comments,
        }
        return tuple(f"{n} {what}{'s' * (n > 1)}" for what, n in counted.items() if n)


def _is_hidden(run: Element) -> bool:
    hidden = run.find("{*}rPr/{*}vanish")
    return hidden is not None and not any(
        name.endswith("}val") and value in ("0", "false", "off")
        for name, value in hidden.attrib.items()
    )
