"""Reads the slides of a presentation in the order in which they are shown, each with its notes.

A chart is read as its table. Notes and comments follow a slide's text. Hidden slides, shapes
that are hidden or off the slide, letters without a colour or white on white, and pictures are not
read, but reported; nor is text that masters put on every slide.
"""

import re
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from math import inf, isnan, nan
from typing import NamedTuple
from xml.etree.ElementTree import Element

from engine.documents import Section
from engine.documents.charts import chart_text
from engine.documents.formulas import apart, formula_text, raised
from engine.documents.numbering import whole, written
from engine.documents.read import Read, counted_line, left_out_line, unseen_line
from engine.documents.web import BEGIN, BETWEEN_CELLS, END, crossed, shortened
from engine.documents.zips import Archive, local_name, reading
from models.errors import Problem

_TITLES = ("title", "ctrTitle")
_ON_EVERY_SLIDE = ("dt", "ftr", "hdr", "sldNum", "sldImg")
_SHAPES = ("sp", "graphicFrame", "cxnSp", "grpSp", "pic", "contentPart")
_COUNTED = {
    **dict.fromkeys(("pic", "model3d", "sldZm"), "Pictures"), "chart": "Charts",
    "relIds": "Diagrams", "oleObj": "Embedded objects", "contentPart": "Drawings in ink",
}  # fmt: skip
_DEEPEST = 8  # levels that are indented
_KINDS = {  # of automatic numbers; others are decimal
    "alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman",
    "romanUc": "upperRoman", "circleN": "decimalEnclosedCircle", "ea1ChsP": "chineseCounting",
}  # fmt: skip
_AROUND = {"Both": "({}) ", "renR": "{}) ", "riod": "{}. "}
_FRAMES = ("ln", "highlight")
_WHITE = ("FFFFFF", "bg1", "lt1")
_PAINTED = re.compile(  # other than white: the ground of a slide, or a shape that text may lie on
    rb"""blip|(?:grad|patt)Fill|:tbl>|bg1="(?!lt1)|fillRef idx="[1-9]|"""
    rb"""bgRef[^>]*><\S+ val="(?!bg1)"""
    rb"""|(?:Geom|bgPr|xfrm|spPr)[^<>]*>\s*<\w+:solidFill>(?!<\w+:\w+ val="(?:FFFFFF|bg1|lt1)"/)"""
)


def read_pptx(data: bytes) -> Read:
    with reading("presentation"):
        archive = Archive(data)
        (presentation,) = archive.related("", "officeDocument").values()
        by_id = archive.related(presentation, "slide")
        root = archive.xml(presentation)
        size = [_length(root, "sldSz", side) or inf for side in ("cx", "cy")]
        listed = root.iterfind("{*}sldIdLst/{*}sldId")
        sections, without_text, hidden = [], [], []
        left_out, unread = Counter[str](), 0
        for number, slide in enumerate(listed, start=1):
            part = by_id[_id(slide)]
            tree = archive.xml(part)
            if tree.get("show") in ("0", "false"):
                hidden.append(str(number))
                continue
            unseen = list(_without_unseen(tree, size))
            unread += sum(len(text) for shape in unseen for text in paragraphs(shape))
            unread += _show_runs(tree, cache(partial(_is_painted, archive, part)))
            title, text = _read_slide(archive, part, tree, unseen, left_out)
            if text:
                sections.append(Section("slide", number, text, shortened(title)))
            else:
                without_text.append(number)
        return Read(
            tuple(sections),
            without_text=tuple(without_text),
            left_out=left_out_line("Hidden slides", hidden)
            + tuple(line for each in left_out.items() for line in counted_line(*each))
            + unseen_line(unread),
        )


def _read_slide(
    archive: Archive, part: str, tree: Element, unseen: Sequence[Element], left_out: Counter[str]
) -> tuple[str, str]:
    """Return a slide's title, and all its text. Counts in `left_out` the unread parts."""
    hidden = {value for shape in unseen for each in shape.iter() for value in each.attrib.values()}
    not_read = Counter(map(local_name, tree.iter()))
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
    for kind, name in (("diagramData", "relIds"), ("chart", "chart")):
        for identifier, drawn in archive.related(part, kind).items():
            with suppress(Problem):
                xml = archive.xml(drawn) if identifier not in hidden else Element("")
                if text := chart_text(xml) if kind == "chart" else diagram_text(xml):
                    not_read[name] -= 1
                    shapes.append(text)
    for notes in archive.related(part, "notesSlide").values():
        for shape in _shapes(archive.xml(notes)):
            if _placeholder(shape) == "body":
                shapes += [f"Notes: {text}" for text in ["\n".join(paragraphs(shape))] if text]
    for comments in archive.related(part, "comments").values():
        for comment in archive.xml(comments).iterfind(".//{*}cm"):
            text = comment.findtext("{*}text") or " ".join(paragraphs(comment))
            shapes += [f"Comment: {' '.join(text.split())}"] if text.strip() else []
    for name, kind in _COUNTED.items():
        left_out[kind] += max(not_read[name], 0)
    return title, "\n\n".join(filter(None, shapes))


def _without_unseen(
    parent: Element,
    size: Sequence[float],
    *,
    spaces: Sequence[tuple[float, float]] = ((0, 1), (0, 1)),
) -> Iterator[Element]:
    """Take out the shapes that are hidden or off the slide, and yield them; of alternatives for
    different programs, all but the first.

    `spaces`: across and down, the place of 0 on the slide, and the length of a unit there.
    """
    for child in list(parent):
        if local_name(child) == "AlternateContent":
            child[1:] = []
        known, frame = child.find("*/{*}cNvPr"), child.find("{*}xfrm")
        frame = child.find("*/{*}xfrm") if frame is None else frame
        is_hidden, inner = known is not None and known.get("hidden") in ("1", "true"), spaces
        if frame is not None and local_name(child) in _SHAPES:
            inner = []
            for (zero, unit), axis, width in zip(spaces, "xy", size, strict=True):
                start = zero + unit * _length(frame, "off", axis)
                length = unit * _length(frame, "ext", f"c{axis}")
                off_slide = start + length <= 0 < length or start >= width
                is_hidden |= off_slide and not frame.get("rot")
                unit = length / (_length(frame, "chExt", f"c{axis}") or inf)
                inner.append((start - unit * _length(frame, "chOff", axis), unit))
        if is_hidden and local_name(child) in _SHAPES:
            parent.remove(child)
            yield child
        else:
            yield from _without_unseen(child, size, spaces=inner)


def _is_painted(archive: Archive, part: str) -> bool:
    """Whether a slide, its layout or their master may have another ground than white."""
    for kind in ("slideLayout", "slideMaster", ""):
        if part in archive.names and _PAINTED.search(archive.read(part)):
            return True
        part = next(iter(archive.related(part, kind).values()), "")
    return False


def _show_runs(tree: Element, is_painted: Callable[[], bool]) -> int:
    """Give runs the looks that their list has, and take out the unseen ones. Returns their
    number of characters."""
    unseen = 0
    for body in tree.iterfind(".//{*}txBody"):
        for paragraph in body.iterfind("{*}p"):
            usual = body.find(f"{{*}}lstStyle/{{*}}lvl{_level(paragraph) + 1}pPr/{{*}}defRPr")
            for run in paragraph.findall("{*}r") + paragraph.findall("{*}fld"):
                given = [each for each in (run.find("{*}rPr"), usual) if each is not None]
                looks = Element("rPr", dict(ChainMap(*(each.attrib for each in given))))
                looks[:] = chain(*given)
                run.insert(0, looks)  # before its own
                fill = next((each for each in looks if local_name(each).endswith("Fill")), looks)
                white = any(each.get("val") in _WHITE and not len(each) for each in fill)
                names = {*map(local_name, looks)}
                clear = "noFill" in names or fill.find("*/{*}alpha[@val='0']") is not None
                if names.isdisjoint(_FRAMES) and (clear or (white and not is_painted())):
                    unseen += len("".join((run.findtext("{*}t") or "").split()))
                    paragraph.remove(run)
    return unseen


def _level(paragraph: Element) -> int:
    properties = paragraph.find("{*}pPr")
    return 0 if properties is None else whole(properties.get("lvl"))


def _length(parent: Element, name: str, side: str) -> float:
    part = parent.find(f"{{*}}{name}")
    length = "0" if part is None else part.get(side, "0")
    return float(length) if length.lstrip("-").isdecimal() else nan  # compares as on the slide


class _Placed(NamedTuple):
    """Shapes, and their place on the slide; nan if it is not known."""

    left: float
    top: float
    width: float
    height: float
    shapes: Sequence[Element]


def _shapes(parent: Iterable[Element]) -> Iterator[Element]:
    """Yield the shapes of a slide and of its groups that have text, in the order in which they are
    read; of alternatives for different programs, the first."""
    found = []
    for child in parent:
        name, frame = local_name(child), child.find("{*}xfrm")
        frame = child.find("*/{*}xfrm") if frame is None else frame
        is_shape = name in ("sp", "graphicFrame", "cxnSp")
        inner = child[:1] if name == "AlternateContent" else [*child]
        shapes = [child] if is_shape else [*_shapes(inner)]
        if child.find(".//{*}t") is not None:
            sides = (("off", "x"), ("off", "y"), ("ext", "cx"), ("ext", "cy"))
            place = [nan if frame is None else _length(frame, *side) for side in sides]
            found.append(_Placed(place[0], place[1], place[2], place[3], shapes))
    for placed in _as_read(found):
        yield from placed.shapes


def _as_read(found: Sequence[_Placed]) -> Iterator[_Placed]:
    """Yield shapes row by row; of cards side by side that have several rows, card by card; shapes
    without a place of their own first."""
    rows: list[list[_Placed]] = []
    for each in sorted(found, key=lambda each: -inf if isnan(each.top) else each.top):
        if isnan(each.top):
            yield each
        elif rows and each.top < rows[-1][0].top + rows[-1][0].height / 2:
            rows[-1].append(each)
        else:
            rows.append([each])
    cards: list[list[_Placed]] = []  # rows that belong together, joined
    for row in (sorted(row, key=lambda each: (each.left, each.top)) for row in rows):
        columns = zip(cards, row, strict=False)
        alike = len(row) == len(cards) > 1 and all(
            abs(column[0].left - each.left) < each.width / 4 for column, each in columns
        )
        if not alike:
            yield from chain(*cards)
            cards = [[] for _ in row]
        for column, each in zip(cards, row, strict=True):
            column.append(each)
    yield from chain(*cards)


def diagram_text(model: Element) -> str:
    """The texts of a diagram in its order, those below another one indented."""
    points = {each.get("modelId"): each for each in model.iterfind(".//{*}pt")}
    links = [each for each in model.iterfind(".//{*}cxn") if each.get("type", "parOf") == "parOf"]
    below = defaultdict[str | None, list[str | None]](list)
    for each in sorted(links, key=lambda each: -whole(each.get("srcOrd"))):
        below[each.get("srcId")].append(each.get("destId"))
    roots = points.keys() - {each.get("destId") for each in links}
    waiting = [(0, name) for name in reversed(points) if name in roots]
    lines = []
    while waiting:
        depth, name = waiting.pop()
        texts = [*paragraphs(points.pop(name, Element("pt")))]
        lines += ["  " * min(depth, _DEEPEST) + text for text in texts]
        waiting += [(depth + bool(texts), each) for each in below.pop(name, ())]
    return "\n".join(lines or paragraphs(model))


def _placeholder(shape: Element) -> str:
    placeholder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    return "" if placeholder is None else placeholder.get("type", "body")


def paragraphs(element: Element) -> Iterator[str]:
    """Yield the paragraphs and table rows that have text."""
    above: list[str] = []
    counts: dict[int, tuple[str, int]] = {}
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
            if text := crossed("".join(_pieces(child))).rstrip():
                yield "  " * min(_level(child), _DEEPEST) + _mark(child, counts) + text
        elif local_name(child) == "AlternateContent":
            yield from paragraphs(child[0]) if len(child) else ()
        else:
            yield from paragraphs(child)


def _mark(paragraph: Element, counts: dict[int, tuple[str, int]]) -> str:
    """The automatic number of a paragraph. `counts`: by level, the kind and the last number."""
    level, given = _level(paragraph), paragraph.find("{*}pPr/{*}buAutoNum")
    kind = "" if given is None else given.get("type", "")
    for n in [n for n, (old, _) in counts.items() if n > level or (n == level and old != kind)]:
        del counts[n]
    if given is None:
        return ""
    _, last = counts.get(level, ("", whole(given.get("startAt"), 1) - 1))
    counts[level] = kind, last + 1
    number = written(last + 1, _KINDS.get(kind[:7], "decimal"))
    return _AROUND.get(kind[-4:], "{} ").format(number)


def _pieces(paragraph: Element) -> Iterator[str]:
    before = ""
    for child in paragraph:
        text = "\n" if local_name(child) == "br" else ""
        if local_name(child) in ("r", "fld"):
            properties = child.find("{*}rPr")
            looks = {} if properties is None else properties.attrib
            text, baseline = child.findtext("{*}t") or "", looks.get("baseline", "0")
            if baseline.strip("0%"):
                text = raised(text, before=before, sign="_" if baseline < "0" else "^")
            struck = text and looks.get("strike", "noStrike") != "noStrike"
            text = f"{BEGIN}{text}{END}" if struck else text
        elif local_name(child) in ("m", "AlternateContent"):
            text = apart(before, " ".join(map(formula_text, child.iterfind(".//{*}oMath"))))
        yield text
        before += text.strip(f"{BEGIN}{END}")


def _id(slide: Element) -> str:
    """The identifier of a slide's relation (`r:id`, not the plain `id`)."""
    return next(value for name, value in slide.attrib.items() if name.endswith("}id"))
