"""Reads a Word document: mammoth converts it to HTML, and the HTML reader makes the text.

Suggested changes are read as if they were accepted. Text that is formatted as hidden is dropped.
Pictures, formulas, comments, headers and footers are not read, but reported, except headers and
footers that only number the pages.
"""

import re
from collections import Counter
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError, fromstring, tostring

import mammoth

from engine.documents import Section
from engine.documents.read import Read
from engine.documents.web import read_page
from engine.documents.zips import Archive, local_name, reading

NOTES = "Notes"

_FIRST_NOTE = re.compile(r'<ol><li id="(?:foot|end)note-')
_BACK_TO_TEXT = re.compile(r' ?<a href="#(?:foot|end)note-ref-[^"]*">↑</a>')
_PAGE = re.compile(r"\b(?:PAGE|NUMPAGES)\b")
_REPORTED = {"oMath": "formula", "commentReference": "comment", "picture": "picture"}
_KEPT = {  # of the formatting, which is most of a document, and slows mammoth down
    "pPr": {"numPr", "pStyle", "rPr"},
    "rPr": {"del", "vertAlign"},
    "tcPr": {"gridSpan", "vMerge"},
    "trPr": {"del", "tblHeader"},
}
_DROPPED = {"bookmarkEnd", "bookmarkStart", "proofErr", "sectPr", "tblGrid", "tblPr"}
_TRANSPARENT = {"bdo", "dir", "fldSimple", "rt", "rubyBase"}
"""Mammoth drops these with their content, so only the content is passed on."""
_ALIKE = {"cr": "br", "ptab": "tab"}
"""Replacements that mammoth knows."""


def read_docx(data: bytes) -> Read:
    with reading("Word document"):
        archive = Archive(data)
        left_out = Counter[str]()

        def prepare(xml: bytes) -> bytes:
            try:
                root = fromstring(xml)
            except ParseError:
                return xml  # mammoth fails where it needs this part
            if local_name(root) in ("hdr", "ftr"):
                left_out["around"] += any(map(_says_something, root.iterfind(".//{*}p")))
            for element in list(root.iter()):
                left_out[local_name(element)] += 1
                element[:] = _prepared(element)
            return tostring(root)

        def count(_: object) -> list[object]:
            left_out["picture"] += 1
            return []

        html = mammoth.convert_to_html(
            archive.only_xml(prepare),
            convert_image=count,
            include_embedded_style_map=False,
            external_file_access=False,
        ).value
        return Read(tuple(_sections(html)), left_out=tuple(_left_out_lines(left_out)))


def _prepared(parent: Element) -> Iterator[Element]:
    """Yield the children of an element that mammoth needs, without hidden ones."""
    for child in parent:
        name = local_name(child)
        if name == "ruby":
            yield from _prepared(_with_reading_behind(child))
        elif name in _TRANSPARENT:
            yield from _prepared(child)
        elif name in _KEPT:
            child[:] = [part for part in child if local_name(part) in _KEPT[name]]
            if len(child):
                yield child
        elif name not in _DROPPED and not (name == "r" and _is_hidden(child)):
            child.tag = child.tag.removesuffix(name) + _ALIKE.get(name, name)
            yield child


def _with_reading_behind(ruby: Element) -> Element:
    """Move the reading that stands above a word into brackets behind it."""
    base, above = ruby.findall("{*}rubyBase"), ruby.findall("{*}rt")
    texts = [text for part in above for text in part.iterfind(".//{*}t") if text.text]
    if texts:
        texts[0].text = f"({texts[0].text}"
        texts[-1].text = f"{texts[-1].text})"
    ruby[:] = base + above
    return ruby


def _is_hidden(run: Element) -> bool:
    hidden = run.find("{*}rPr/{*}vanish")
    return hidden is not None and not any(
        name.endswith("}val") and value in ("0", "false", "off")
        for name, value in hidden.attrib.items()
    )


def _says_something(paragraph: Element) -> bool:
    """Whether a paragraph of a header or footer has more than the number of the page."""
    names = {local_name(element) for element in paragraph.iter()}
    fields = [element.text or "" for element in paragraph.iterfind(".//{*}instrText")]
    fields += [
        value
        for element in paragraph.iterfind(".//{*}fldSimple")
        for name, value in element.attrib.items()
        if name.endswith("}instr")
    ]
    numbers = any(_PAGE.search(field) for field in fields) and names.isdisjoint({"tab", "ptab"})
    written = "".join(element.text or "" for element in paragraph.iterfind(".//{*}t"))
    return any(map(str.isalnum, written)) and not numbers


def _sections(html: str) -> Iterator[Section]:
    """Yield the parts; foot- and endnotes, which come last, are a part of their own."""
    notes = _FIRST_NOTE.search(html)
    end = notes.start() if notes else len(html)
    parts = read_page(html[:end]).parts
    for number, part in enumerate(parts, start=1):
        yield Section("part", number, part.text, part.label)
    for part in read_page(_BACK_TO_TEXT.sub("", html[end:])).parts:
        yield Section("part", len(parts) + 1, part.text, NOTES)


def _left_out_lines(seen: Counter[str]) -> Iterator[str]:
    for name, kind in _REPORTED.items():
        if seen[name]:
            yield f"{seen[name]} {kind}{'s' * (seen[name] > 1)}."
    if seen["around"]:
        yield "Headers and footers."
