"""Reads a Word document: mammoth converts it to HTML, and the HTML reader makes the text.

Crossed-out text, also by a suggestion, is marked as such; automatic numbers are read as if they
were typed. Notes, comments, and what charts and diagrams say are parts of their own. Hidden text,
pictures, headers and footers are not read, but reported, except headers and footers that only
number the pages.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from xml.etree.ElementTree import Element, ParseError, fromstring, tostring

import mammoth

from engine.documents import BETWEEN, Section
from engine.documents.charts import chart_text
from engine.documents.kinds import kind_of
from engine.documents.numbering import Mark, Numbers, child_value, value_of
from engine.documents.read import Read, reader_of, unseen_line
from engine.documents.runs import DROPPED, Runs
from engine.documents.slides import diagram_text
from engine.documents.web import BETWEEN_CELLS, read_page
from engine.documents.zips import Archive, local_name, reading
from models.errors import Problem

NOTES, COMMENTS, DRAWN = "Notes", "Comments", "Charts and diagrams"

_BEHIND = re.compile(r'<ol><li id="(?:foot|end)note-|<dl><dt id="comment-')
_BACK_TO_TEXT = re.compile(r' ?<a href="#(?:(?:foot|end)note|comment)-ref-[^"]*">↑</a>')
_PAGE = re.compile(r"\b(?:PAGE|NUMPAGES)\b")
_REPORTED = {
    "oMath": "formula",
    "altChunk": "inserted file",
    "subDoc": "linked document",
    "OLEObject": "embedded object",
    "unknown comment": "comment",
    "picture": "picture",
    "chart": "chart",
    "relIds": "diagram",
    "change": "suggested change, with the deleted text crossed out",
}
_CHANGES = ("ins", "moveTo")
_WITH_RUNS = ("document", "footnotes", "endnotes", "comments", "hdr", "ftr")
_KEPT = {  # of the formatting, which is most of a document, and slows mammoth down
    "pPr": {"numPr", "pStyle", "rPr"},
    "rPr": {"del", "strike", "vertAlign"},
    "tcPr": {"gridSpan", "vMerge"},
    "trPr": {"tblHeader"},
}
_DROPPED = {"bookmarkEnd", "bookmarkStart", DROPPED, "sectPr", "tblGrid", "tblPr"}
_TRANSPARENT = {"bdo", "dir", "fldSimple", "rt", "rubyBase"}
"""Mammoth drops these with their content, so only the content is passed on."""
_ALIKE = {"cr": "br", "ptab": "tab"}
"""Replacements that mammoth knows."""
_BULLETS, _NUMBERED = "1", "2"
"""The lists that are passed on: mammoth knows only these two kinds. A number is a part of the text,
so its list has no marks of its own: it is a list of descriptions."""
_LEVELS = 9
_STYLES = "\n".join(
    [
        "comment-reference => sup",
        *(
            f"p{style} => h{level}:fresh"
            for level in range(1, 7)
            for style in (f".Heading{level}", f"[style-name='heading {level}']")
        ),
        *(
            f"p:{kind}-list({level + 1}) => {'dl|ul > dd|li > ' * level}{tags}:fresh"
            for level in range(_LEVELS)
            for kind, tags in (("unordered", "ul > li"), ("ordered", "dl > dd"))
        ),
    ]
)


def read_docx(data: bytes) -> Read:
    with reading("Word document"):
        archive = Archive(data)
        left_out = Counter[str]()
        styles = _part(archive, "styles")
        numbers, runs = Numbers(_part(archive, "numbering"), styles), Runs(styles, left_out)
        comments = _part(archive, "comments")
        known = {value_of(each, "id") for each in (() if comments is None else comments)}

        def prepare(xml: bytes) -> bytes:
            try:
                root = fromstring(xml)
            except ParseError:
                return xml  # mammoth fails where it needs this part
            if local_name(root) in _WITH_RUNS:
                runs.show(root)
            match local_name(root):
                case "chartSpace":
                    return xml
                case "hdr" | "ftr":
                    left_out["around"] += any(map(_says_something, root.iterfind(".//{*}p")))
                case "numbering":
                    root[:] = _lists(root.tag.removesuffix("numbering"))
                case "styles":
                    _repair_styles(root)
                case "document":
                    _write_columns(root)
                    _insert_files(root, archive)
                    _write_marks(root, numbers)
            for element in list(root.iter()):
                name = local_name(element)
                left_out["change" if name in _CHANGES and len(element) else name] += 1
                element[:] = _prepared(element)
                for child in element.findall("{*}commentReference"):
                    if value_of(child, "id") not in known:
                        left_out["unknown comment"] += 1
                        element.remove(child)
            return tostring(root)

        def count(_: object) -> list[object]:
            left_out["picture"] += 1
            return []

        html = mammoth.convert_to_html(
            archive.only_xml(prepare),
            convert_image=count,
            style_map=_STYLES,
            include_embedded_style_map=False,
            external_file_access=False,
        ).value
        sections = list(_sections(html))
        drawn = [text for text in _drawn(archive, left_out) if text]
        if drawn:
            sections.append(Section("part", len(sections) + 1, BETWEEN.join(drawn), DRAWN))
        told = (*_left_out_lines(left_out), *unseen_line(left_out["hidden text"]))
        return Read(tuple(sections), left_out=told)


def _drawn(archive: Archive, left_out: Counter[str]) -> Iterator[str]:
    """Yield the texts of charts and diagrams, which are no longer left out then."""
    for document in archive.related("", "officeDocument").values():
        for chart in archive.related(document, "chart").values():
            with suppress(Problem):
                if text := chart_text(archive.xml(chart)):
                    left_out["chart"] -= 1
                    yield text
        for diagram in archive.related(document, "diagramData").values():
            with suppress(Problem):
                if text := diagram_text(archive.xml(diagram)):
                    left_out["relIds"] -= 1
                    yield text


def _part(archive: Archive, kind: str) -> Element | None:
    """A part next to the document's text; None if it cannot be read."""
    named = re.compile(rf"word/{kind}\d*\.xml")
    name = next(filter(named.fullmatch, archive.names), "")
    try:
        return archive.xml(name) if name else None
    except Problem:
        return None


def _lists(space: str) -> Iterator[Element]:
    """Yield the numbering that mammoth needs: a list with bullets, and a list with numbers."""

    def made(name: str, *children: Element, **values: str) -> Element:
        element = Element(f"{space}{name}", {f"{space}{key}": each for key, each in values.items()})
        element[:] = children
        return element

    kinds = {_BULLETS: "bullet", _NUMBERED: "decimal"}
    for number, kind in kinds.items():
        levels = (
            made("lvl", made("numFmt", val=kind), ilvl=str(level)) for level in range(_LEVELS)
        )
        yield made("abstractNum", *levels, abstractNumId=number)
    for number in kinds:
        yield made("num", made("abstractNumId", val=number), numId=number)


def _repair_styles(styles: Element) -> None:
    """Give each style the type that mammoth needs, and that is the one of a style without it."""
    for style in styles.iterfind("{*}style"):
        if not any(name.endswith("}type") for name in style.attrib):
            style.set(style.tag.removesuffix("style") + "type", "paragraph")


def _write_marks(root: Element, numbers: Numbers) -> None:
    """Write the automatic numbers of all paragraphs before their text.

    A paragraph whose end is deleted continues in the next one, whose number comes before both.
    """
    first: Element | None = None
    for paragraph in _paragraphs(root):
        properties = paragraph.find("{*}pPr")
        ended = properties.find("{*}rPr/{*}del") if properties is not None else None
        first = paragraph if first is None else first
        if ended is None:
            mark = numbers.mark(paragraph)
            _write_mark(paragraph, properties, mark)
            if mark is not None and any(map(_is_shown, paragraph.iter())):
                begin = int(len(first) > 0 and local_name(first[0]) == "pPr")
                first.insert(begin, _text_run(paragraph, mark.text))
            first = None


def _write_columns(root: Element) -> None:
    """Write bars for the tabs of paragraphs with several: an empty cell is between two of them."""
    for paragraph in root.iter(root.tag.removesuffix("document") + "p"):
        inside = [part for run in paragraph.iterfind("{*}r") for part in run]
        first = next((i for i, part in enumerate(inside) if _is_shown(part)), len(inside))
        tabs = [part for part in inside[first:] if local_name(part) == "tab"]
        for tab in tabs if len(tabs) > 1 else ():
            tab.tag, tab.text = tab.tag.removesuffix("tab") + "t", BETWEEN_CELLS


def _insert_files(root: Element, archive: Archive) -> None:
    """Put the text of inserted files (`altChunk`) in their places, as far as they are read."""
    space, files = root.tag.removesuffix("document"), dict[str, str]()
    for document in archive.related("", "officeDocument").values():
        files |= archive.related(document, "aFChunk")
    for parent in [each for each in root.iter() if each.find("{*}altChunk") is not None]:
        for place, child in reversed([*enumerate(parent)]):
            name = files.get(value_of(child, "id"), "") if local_name(child) == "altChunk" else ""
            with suppress(Problem):
                data = archive.read(name) if name else b""
                found = reader_of(kind_of(name, data))(data).sections if data else ()
                lines = [line for each in found for line in each.text.split("\n") if line]
                parent[place : place + bool(lines)] = [_paragraph(space, line) for line in lines]


def _paragraphs(parent: Element) -> Iterator[Element]:
    """Yield the paragraphs in order; of alternatives for different programs, one."""
    for child in parent:
        if local_name(child) == "p":
            yield child
        yield from _paragraphs(_alternative(child))


def _write_mark(paragraph: Element, properties: Element | None, mark: Mark | None) -> None:
    """Put a paragraph into one of the two lists that mammoth knows, or into none."""
    space = paragraph.tag.removesuffix("p")
    if properties is None:
        properties = Element(f"{space}pPr")
        paragraph.insert(0, properties)
    for old in properties.findall("{*}numPr"):
        properties.remove(old)
    if mark is not None:
        list_of = Element(f"{space}numPr")
        for name, value in (
            ("ilvl", str(mark.level)),
            ("numId", _NUMBERED if mark.text else _BULLETS),
        ):
            list_of.append(Element(f"{space}{name}", {f"{space}val": value}))
        properties.append(list_of)


def _paragraph(space: str, text: str) -> Element:
    paragraph = Element(f"{space}p")
    paragraph.append(_text_run(paragraph, text))
    return paragraph


def _text_run(like: Element, text: str) -> Element:
    space = like.tag.removesuffix(local_name(like))
    run, written = Element(f"{space}r"), Element(f"{space}t")
    written.text = text
    run.append(written)
    return run


def _is_shown(element: Element) -> bool:
    return local_name(element) == "sym" or (
        local_name(element) == "t" and bool((element.text or "").strip())
    )


def _alternative(element: Element) -> Element:
    """Of alternatives for different programs, the one to read: older programs' if it has as much
    text; any other element itself."""
    if local_name(element) != "AlternateContent" or not len(element):
        return element
    *others, last = element
    boxes = element.find("{*}Choice//{*}txbxContent")
    return others[0] if others and boxes is not None and last.find(".//{*}t") is None else last


def _prepared(parent: Element) -> Iterator[Element]:
    """Yield the children of an element that mammoth needs, without hidden ones."""
    for child in parent:
        name = local_name(child)
        if name == "ruby":
            yield from _prepared(_with_reading_behind(child))
        elif name in _TRANSPARENT:
            yield from _prepared(child)
        elif name == "AlternateContent":
            yield from _prepared(_alternative(child))
        elif name == "drawing" and (boxes := child.findall(".//{*}txbxContent")):
            child.tag = child.tag.removesuffix(name) + "pict"  # in which mammoth reads boxes
            child[:] = boxes
            yield child
        elif name == "fldChar" and (chosen := _chosen(child)):
            yield child
            yield from _text_run(child, chosen)
        elif name in _KEPT:
            child[:] = [part for part in child if local_name(part) in _KEPT[name]]
            if len(child):
                yield child
        elif name not in _DROPPED:
            child.tag = child.tag.removesuffix(name) + _ALIKE.get(name, name)
            yield child


def _with_reading_behind(ruby: Element) -> Element:
    """Move the reading above a word into brackets after it."""
    base, above = ruby.findall("{*}rubyBase"), ruby.findall("{*}rt")
    texts = [text for part in above for text in part.iterfind(".//{*}t") if text.text]
    if texts:
        texts[0].text = f"({texts[0].text}"
        texts[-1].text = f"{texts[-1].text})"
    ruby[:] = base + above
    return ruby


def _chosen(begin: Element) -> str:
    """The choice in a list of a form, which belongs to the sign that begins its field."""
    choices = begin.find("{*}ffData/{*}ddList")
    if choices is None:
        return ""
    given = [child_value(choices, name) for name in ("result", "default")]
    number = next((int(each) for each in given if each.isdecimal()), 0)
    listed = [value_of(each) for each in choices.iterfind("{*}listEntry")]
    return listed[number] if number < len(listed) else ""


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
    """Yield the parts; notes and comments, which come last, are parts of their own."""
    behind = list(_BEHIND.finditer(html))
    starts = [found.start() for found in behind]
    number = 0
    for start, end, found in zip([0, *starts], [*starts, len(html)], [None, *behind], strict=True):
        for part in read_page(_BACK_TO_TEXT.sub("", html[start:end])).parts:
            number += 1
            name = COMMENTS if found and "comment" in found[0] else NOTES
            yield Section("part", number, part.text, name if found else part.label)


def _left_out_lines(seen: Counter[str]) -> Iterator[str]:
    for name, kind in _REPORTED.items():
        if seen[name] > 0:
            first, comma, rest = kind.partition(",")
            yield f"{seen[name]} {first}{'s' * (seen[name] > 1)}{comma}{rest}."
    if seen["around"]:
        yield "Headers and footers."
