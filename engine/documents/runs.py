"""Reduces the runs of a Word document to what its reader sees: results of fields, no hidden text.

Formats each run itself as crossed out, raised or lowered, where a style or a suggestion does so.
Writes formulas as text.
"""

import re
from collections import Counter
from itertools import zip_longest
from xml.etree.ElementTree import Element, SubElement

from mammoth.docx.dingbats import dingbats

from engine.documents.formulas import apart, formula_text
from engine.documents.numbering import child_value, value_of
from engine.documents.zips import local_name

DROPPED = "proofErr"
"""The name of an element that is not read."""

_OFF = ("", "0", "false", "off", "none", "auto", "baseline")
_BOXES = str.maketrans("\U0001f78e\U0001f78f\U0001f790\U0001f5f7\U0001f5f9", "☐☐☐☒☒")
_TOGGLES = {"vanish", "strike"}  # in a character style they invert the paragraph's
_CONTENT = re.compile(
    "t|tab|br|cr|ptab|sym|drawing|pict|object|oMath|ruby|delText|AlternateContent|.*(Hyphen|Reference)"
)


class Runs:
    """`left_out` counts "hidden text" in characters, "oMath" and "change"."""

    def __init__(self, styles: Element | None, left_out: Counter[str]) -> None:
        self._left_out, self._before, self._space = left_out, "", ""
        self._normal: dict[str, str] = {}
        self._known: dict[str, dict[str, str]] = {}
        self._styles: dict[str, Element] = {}
        styles = Element("styles") if styles is None else styles
        self._defaults = _properties(styles.find("{*}docDefaults/{*}rPrDefault"))
        for style in styles.iterfind("{*}style"):
            self._styles[value_of(style, "styleId")] = style
            if value_of(style, "default") in ("1", "true"):
                self._normal[value_of(style, "type")] = value_of(style, "styleId")

    def show(self, root: Element) -> None:
        """Change a part of a document."""
        self._space = root.tag.removesuffix(local_name(root))
        self._drop_instructions(root)
        self._show(root, "", struck=False, painted=root.find("{*}background") is not None)

    def _drop_instructions(self, root: Element) -> None:
        """Drop what the instructions of fields hold: the results of other fields, alternatives."""
        fields: list[list[Element] | None] = []  # of each instruction; None after its end
        for element in root.iter():
            name, kind = local_name(element), value_of(element, "fldCharType")
            if name == "fldChar" and kind == "begin":
                fields.append([])
            elif name == "fldChar" and fields:
                for each in fields.pop() or ():
                    each.tag = DROPPED
                fields += [None] if kind == "separate" else []
            elif name == "instrText" and re.match(r"\s*eq\b", element.text or "", re.IGNORECASE):
                self._left_out["oMath"] += 1
            elif _CONTENT.fullmatch(name):
                inside = next((each for each in reversed(fields[-9:]) if each is not None), None)
                if inside is not None:
                    inside.append(element)

    def _show(self, parent: Element, style: str, *, struck: bool, painted: bool) -> None:
        """`style`: of the paragraph. `painted`: the colour around the letters is not known."""
        children = list(parent)
        for child, after in zip_longest(children, children[1:]):
            name, crossed, ground = local_name(child), struck, painted
            if name in ("del", "moveFrom") and len(child):
                child.tag, crossed = self._space + ("ins" if name == "del" else "smartTag"), True
            elif name in ("tr", "tc"):
                given, ground = _properties(child.find(f"{{*}}{name}Pr")), True
                if {"del", "cellDel"} & given.keys():
                    self._left_out["change"], crossed = self._left_out["change"] + 1, True
                if given.get("hidden", "0") not in _OFF:
                    self._drop(child)
            elif name == "p":
                style, self._before = child_value(_part(child, "pPr"), "pStyle"), ""
            elif name == "oMathPara":
                child.tag = f"{self._space}smartTag"
            elif name == "oMath":
                text = apart(self._before, formula_text(child))
                child.clear()
                child.tag, name = f"{self._space}r", "r"
                SubElement(child, f"{self._space}t").text = text
            self._show(child, style, struck=crossed, painted=ground or name == "txbxContent")
            if name == "r":
                self._show_run(child, style, struck=struck, painted=painted)
            elif name == "p" and after is not None and local_name(after) == "p":
                self._end(child, style)

    def _show_run(self, run: Element, style: str, *, struck: bool, painted: bool) -> None:
        looks = self._looks(run.find("{*}rPr"), style)
        white = looks.get("color", "").lower() == "ffffff" and not painted
        if "vanish" in looks or (white and not {"shd", "highlight"} & looks.keys()):
            for each in run:
                if _CONTENT.fullmatch(local_name(each)):
                    self._drop(each)
            return
        rise, crossed = looks.get("position", ""), struck or {"strike", "dstrike"} & looks.keys()
        half_points = int(rise) if re.fullmatch(r"-?\d{1,4}", rise) else 0
        moved = "superscript" if half_points > 3 else "subscript" if half_points < -3 else ""
        kept = {"strike": "1" if crossed else "", "vertAlign": looks.get("vertAlign", moved)}
        _part(run, "rPr")[:] = [
            Element(self._space + name, {f"{self._space}val": kept[name]})
            for name in kept
            if kept[name]
        ]
        for each in run:
            if local_name(each) == "delText":
                each.tag = f"{self._space}t"
            if local_name(each) == "sym":
                code = re.fullmatch("[0-9A-Fa-f]{1,4}", value_of(each, "char"))
                sign = chr(int(code[0], 16)) if code else ""
                each.text = _in_unicode(sign, value_of(each, "font"))
                each.tag = f"{self._space}t"
            elif local_name(each) == "t" and "rFonts" in looks:
                each.text = _in_unicode(each.text or "", looks["rFonts"])
            self._before = each.text or "" if local_name(each) == "t" else self._before

    def _end(self, paragraph: Element, style: str) -> None:
        """Join a paragraph whose end is hidden to the next one, as if its end was deleted."""
        mark = _part(_part(paragraph, "pPr"), "rPr")
        looks = self._looks(mark, style)
        if "vanish" in looks and "specVanish" not in looks:
            SubElement(mark, f"{self._space}del")
        elif mark.find("{*}del") is not None:  # a crossed-out one comes before the next
            SubElement(SubElement(paragraph, f"{self._space}r"), f"{self._space}t").text = " "

    def _drop(self, element: Element) -> None:
        element.tag = DROPPED
        written = "".join(each.text or "" for each in element.iter() if not len(each))
        self._left_out["hidden text"] += len("".join(written.split()))

    def _looks(self, own: Element | None, style: str) -> dict[str, str]:
        """The properties of a run that are on: its own, else its styles'."""
        mine = _properties(own)
        of_paragraph = self._of_style(style or self._normal.get("paragraph", ""))
        of_letters = self._of_style(mine.get("rStyle", ""))
        looks = {**self._defaults, **of_paragraph, **of_letters, **mine}
        for name in _TOGGLES - mine.keys():
            always, one, other = (
                each.get(name, "0") not in _OFF
                for each in (self._defaults, of_paragraph, of_letters)
            )
            looks[name] = "1" if always or one != other else "0"
        return {name: value for name, value in looks.items() if value not in _OFF}

    def _of_style(self, name: str) -> dict[str, str]:
        if name not in self._known:
            self._known[name] = {}
            style = self._styles.get(name, Element("style"))
            self._known[name] = self._of_style(child_value(style, "basedOn")) | _properties(style)
        return self._known[name]


def _properties(parent: Element | None) -> dict[str, str]:
    """The values of the properties of runs that an element holds, or that it has itself."""
    found = () if parent is None else (*parent, *parent.iterfind("*/*"))
    return {
        local_name(each): value_of(each, "fill")
        or value_of(each, "ascii")
        or (value_of(each) if each.attrib else "1")
        for each in found
    }


def _in_unicode(text: str, font: str) -> str:
    """The text of a font of symbols as Unicode; of another font, the text itself."""
    codes = ((font, ord(each) - 0xF000 * (ord(each) >= 0xF000)) for each in text)
    known = (dingbats.get(code, ord(each)) for code, each in zip(codes, text, strict=True))
    return "".join(map(chr, known)).translate(_BOXES)


def _part(parent: Element, name: str) -> Element:
    """The properties of an element, at its beginning."""
    part = parent.find(f"{{*}}{name}")
    if part is None:
        part = Element(parent.tag.removesuffix(local_name(parent)) + name)
        parent.insert(0, part)
    return part
