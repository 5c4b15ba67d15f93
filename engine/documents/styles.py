"""Tells from a web page's styles whether its text is seen, and whether it is crossed out.

Knows rules for elements, classes and identifiers, also within others; none for print, small screens
and states. Loads nothing: with styles in other files the colour of the ground is unknown.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from PIL.ImageColor import getrgb

_SHEET = re.compile(
    r"""<style\b(?![^<>]*\bmedia\s*=\s*["']?(?!all|screen)\w)[^<>]*>([^<]*(?:<(?!/style)[^<]*)*)"""
    r"|<link\b[^<>]*stylesheet",
    re.IGNORECASE,
)
_DROPPED = re.compile(  # comments, and the frames of rules for all screens
    r"/\*(?:[^*]|\*(?!/))*+\*/|<!--|-->|@(?:charset|import|namespace)[^;{}]*;"
    r"|@(?:media\s+(?:screen|all)\s*|layer[^{};@]*|supports[^{};@]*)\{"
)
_FOR_OTHERS = re.compile(r"@[^{};@]*+\{(?:[^{}]*\{[^{}]*\})*+[^{}]*+\}")
_COMPOUND = re.compile(r"(?:\*|[\w-]*)(?:[.#][\w-]+)*")
_GONE = re.compile(  # of the declarations, sorted backwards
    r";(?:display:none|content-visibility:hidden|clip:rect\((?:[01](?:px)?[,\s]*){4}\)"
    r"|clip-path:(?:inset\((?:50|100)%|circle\(0)|transform:(?:scale\(0\)|translate[xy]?\(-\d{4})"
    r"|(?:text-indent|(?:margin-)?(?:left|top)|right|bottom):-(?:\d{4}|\d\d+(?:r?em|v[wh]))"
    r"|opacity:0*\.?0*;|overflow:(?:hidden|clip);.*height:0[a-z]*;)"
)
_NOTHING = re.compile(r"(?:[01](?:\.\d*)?|\.\d+)(?:px|pt)|0+(?:\.0*)?[a-z%]*")
_RELATIVE = re.compile(r"[\d.]+(?:em|%)|inherit|smaller|larger|")
_FAR = r"(?:0?\.[2-9]|[1-9])[\d.]*(?:em|ex|px|pt|%);"  # enough for an exponent
_SMALL = r".*;font-size:(?:smaller|(?:xx?-)?small|[1-9]?\d%|0?\.\d+r?em|[1-9](?:px|pt))"
_MOVED = (
    (re.compile(rf";vertical-align:(?:super|{_FAR})|;top:-{_FAR}.*:relative{_SMALL}"), "^"),
    (re.compile(rf";vertical-align:(?:text-)?top;{_SMALL}"), "^"),
    (re.compile(rf";vertical-align:(?:sub|-{_FAR})|;top:{_FAR}.*:relative{_SMALL}"), "_"),
)
_USUAL = {  # a control and a link have colours of their own
    **{name: {"text-decoration": "line-through"} for name in ("s", "del", "strike")},
    **{name: {"background": "its own"} for name in ("button", "input", "select", "textarea")},
    "sup": {"vertical-align": "super"}, "sub": {"vertical-align": "sub"}, "a": {"color": "its own"},
}  # fmt: skip

_EVEN = 12  # of 255: shades that differ by less are one colour
_Colour = tuple[int, ...] | None  # None: not known
_Rule = tuple[tuple[bool, int], tuple[frozenset[str], ...], dict[str, str]]
"""Whether it is important and its weight; the names that each element needs; its declarations."""


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks of an element's text. `gone`: neither it nor the elements in it are shown. `moved`:
    "^" if it is raised, "_" if it is lowered. `listed`: the style of a list's marks."""

    names: frozenset[str] = frozenset()
    gone: bool = False
    hidden: bool = False
    tiny: bool = False
    struck: bool = False
    moved: str = ""
    listed: str = ""
    colour: _Colour = (0, 0, 0)
    ground: _Colour = (255, 255, 255)

    @property
    def unseen(self) -> bool:
        both = zip(self.colour or (), self.ground or (), strict=False)
        same = None not in (self.colour, self.ground) and all(abs(a - b) < _EVEN for a, b in both)
        clear = self.colour is not None and self.colour[3:] == (0,)
        return self.gone or self.hidden or self.tiny or same or clear


class Styles:
    """The styles of a page, and of `sheets` that come with it."""

    def __init__(self, html: str, *sheets: str) -> None:
        own = [found[1] for found in _SHEET.finditer(html)]
        self._rules = defaultdict[str, list[_Rule]](list)
        for rule in (rule for sheet in (*sheets, *filter(None, own)) for rule in _rules(sheet)):
            self._rules[min(rule[1][-1], default="*")].append(rule)
        self.outermost = Looks() if sheets or None not in own else Looks(ground=None)

    def looks(self, tag: str, given: Mapping[str, str | None], around: Sequence[Looks]) -> Looks:
        """The looks of an element within others, the outermost first."""
        above, names, said = around[-1], frozenset[str](), dict(_USUAL.get(tag, {}))
        if {"hidden", "popover"} & given.keys() or (tag == "dialog" and "open" not in given):
            said["display"] = "none"
        if {"background", "bgcolor", "text", "color"} & given.keys():
            said["background"] = given.get("background") or given.get("bgcolor") or ""
            said["color"] = given.get("text") or (tag == "font" and given.get("color")) or ""
        if tag in ("g", "svg", "text", "tspan"):
            said |= {each: given[each] or "" for each in ("display", "visibility") if each in given}
        if self._rules or given.get("style"):
            classes = (f".{name}" for name in (given.get("class") or "").split())
            names = frozenset((tag, f"#{given.get('id')}", *classes))
            rules = [rule for key in (*names, "*") for rule in self._rules.get(key, ())]
            rules = [rule for rule in rules if _fits(rule[1], names, around)]
            rules += _said(given.get("style") or "", (), 1_000_000)
            for *_, each in sorted(rules, key=lambda rule: rule[0]):
                said |= each
        if tag in ("sup", "sub"):  # the tag says it; a style sheet only sets how far
            said |= _USUAL[tag]
        if not said:
            return replace(above, names=names, moved="", listed="")
        if {"animation", "transition"} & said.keys():
            said.pop("opacity", None)  # it appears in a moment
        size, shown = said.get("font-size", ""), said.get("visibility", "inherit")
        line = said.get("text-decoration-line", said.get("text-decoration", ""))
        painted = " ".join(said[name] for name in said if name.startswith("background")).strip()
        over = said.get("position") in ("absolute", "fixed")  # perhaps over a picture
        ground = None if over else _colour(painted, above.ground)
        written = "".join(f";{name}:{said[name]};" for name in sorted(said, reverse=True))
        return Looks(
            names,
            gone=_GONE.search(written) is not None,
            hidden=above.hidden if shown == "inherit" else shown in ("hidden", "collapse"),
            tiny=bool(_NOTHING.fullmatch(size) or (above.tiny and _RELATIVE.fullmatch(size))),
            struck=above.struck or "line-through" in line,
            moved=next((sign for where, sign in _MOVED if where.search(written)), ""),
            listed=said.get("list-style-type", said.get("list-style", "")),
            colour=_colour(said.get("color", ""), above.colour),
            ground=above.ground if ground and ground[3:] == (0,) else ground,
        )


@lru_cache(maxsize=8)
def _rules(sheet: str) -> tuple[_Rule, ...]:
    rules: list[_Rule] = []
    for each in _FOR_OTHERS.sub("", _DROPPED.sub("", sheet)).split("}"):
        head, _, declared = each.rpartition("{")
        for selector in re.split("[{;]", head)[-1].split(","):
            path = selector.replace(">", " ").split()
            if path and all(map(_COMPOUND.fullmatch, path)):
                weight = 100 * selector.count("#") + 10 * selector.count(".") + len(path)
                steps = tuple(frozenset(re.findall(r"[.#]?[\w-]+", step)) for step in path)
                rules += _said(declared, steps, weight)
    return tuple(rules)


def _said(written: str, path: tuple[frozenset[str], ...], weight: int) -> list[_Rule]:
    """The rule of some declarations, and the rule of the important ones."""
    parts: tuple[dict[str, str], dict[str, str]] = {}, {}
    for name, _, value in (
        each.partition(":") for each in written.lower().split(";") if ":" in each
    ):
        parts["!important" in value][name.strip()] = value.replace("!important", "").strip()
    return [((bool(i), weight), path, said) for i, said in enumerate(parts) if said]


def _fits(path: Sequence[frozenset[str]], names: frozenset[str], around: Sequence[Looks]) -> bool:
    outer = reversed(around)
    steps = (any(step <= each.names for each in outer) for step in reversed(path[:-1]))
    return path[-1] <= names and all(steps)


def _colour(written: str, otherwise: _Colour) -> _Colour:
    """Red, green, blue, and perhaps the opacity."""
    if written in ("", "inherit", "none"):
        return otherwise
    with suppress(ValueError):
        return getrgb(re.sub(r"(?<=\d) +", ",", written.replace("transparent", "#0000")))
    return None
