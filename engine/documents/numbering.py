"""Computes the automatic numbers of a Word document's paragraphs: "2.1", "Article 2", "(b)".

A file has none of them. It has lists (`num`), which share the levels of a pattern (`abstractNum`)
and may override some; paragraphs, or their styles, name a list and a level. Names in brackets are
as in ECMA-376, section 17.9.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from engine.documents.zips import local_name

_DEEPEST = 8  # levels are counted from 0
_LARGEST = 32_767
_PLACEHOLDER = re.compile(r"%([1-9])")
_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
_HEBREW_VALUES = (400, 300, 200, *range(100, 9, -10), *range(9, 0, -1))
_HEBREW = (*zip(_HEBREW_VALUES, "תשרקצפעסנמלכיטחזוהדגבא", strict=True),)
_LETTERS = {  # of the lists that Word offers in these languages
    "erLetter": "abcdefghijklmnopqrstuvwxyz",  # lower and upper, but not thaiLetters
    "russian": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "arabicAlpha": "أبتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "ganada": "가나다라마바사아자차카타파하",
    "aiueo": (
        "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
    ),
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
}
_CHINESE = ("chineseCounting", "taiwaneseCounting", "japaneseCounting")
_DIGITS = "〇一二三四五六七八九"


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark before a paragraph: `text` with the space after it; empty for a bullet."""

    text: str
    level: int


@dataclass(frozen=True, slots=True)
class _Level:
    """`pattern`: "%1.%2". `restarts_after`: the number, from 1, of the deepest level whose use
    restarts this one; 0: none does."""

    start: int
    kind: str
    pattern: str
    behind: str
    restarts_after: int
    only_digits: bool
    style: str


@dataclass(slots=True)
class _List:
    """`pattern`: of the levels, which other lists may share, with their counts. `starts`: by level,
    where it restarts as soon as the list is first used there."""

    pattern: str
    levels: dict[int, _Level]
    starts: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Style:
    parent: str
    number: str | None
    level: int | None


class Numbers:
    """The marks of a document's paragraphs, which are asked for in order."""

    def __init__(self, numbering: Element | None, styles: Element | None) -> None:
        self._styles: dict[str, _Style] = {}
        self._default = ""
        for style in () if styles is None else styles.iterfind("{*}style"):
            name = value_of(style, "styleId")
            numbers = style.find("{*}pPr/{*}numPr")
            self._styles.setdefault(
                name, _Style(child_value(style, "basedOn"), *_list_and_level(numbers))
            )
            if (
                value_of(style, "default") in ("1", "true")
                and value_of(style, "type") == "paragraph"
            ):
                self._default = name
        self._lists = {} if numbering is None else self._read(numbering)
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._begun: set[tuple[str, int]] = set()

    def mark(self, paragraph: Element) -> Mark | None:
        """Count a paragraph, and return its mark; None without a list."""
        place = self._place(paragraph)
        if place is None:
            return None
        number, level = place
        used = self._lists[number]
        this = used.levels[level]
        counts = self._counts[used.pattern]
        if level in used.starts and (number, level) not in self._begun:
            counts.pop(level, None)
        self._begun.add((number, level))
        counts[level] = counts[level] + 1 if level in counts else _start(used, level)
        for deeper in [each for each in counts if each > level]:
            if level < used.levels.get(deeper, this).restarts_after:
                del counts[deeper]
        if this.kind == "bullet":
            return Mark("", level)
        text = _PLACEHOLDER.sub(
            lambda found: _shown(used, this, counts, int(found[1]) - 1), this.pattern
        ).strip()
        return Mark(text + this.behind, level) if text else None

    def _place(self, paragraph: Element) -> tuple[str, int] | None:
        """The list and the level of a paragraph."""
        properties = paragraph.find("{*}pPr")
        if properties is None:
            properties = paragraph
        own, level = _list_and_level(properties.find("{*}numPr"))
        name = child_value(properties, "pStyle") or self._default
        styles = [self._styles[each] for each in self._line(name)]
        number = next((each for each in (own, *(each.number for each in styles)) if each), "0")
        used = self._lists.get(number)
        if used is None:
            return None
        if level is None:
            level = next(
                (i for i, each in used.levels.items() if name and each.style == name), None
            )
        if level is None and own is None:
            level = next((each.level for each in styles if each.level is not None), None)
        level = level or 0
        return (number, level) if level in used.levels else None

    def _line(self, name: str) -> Iterator[str]:
        """Yield a style, the style that it is based on, and so on."""
        seen: set[str] = set()
        while name in self._styles and name not in seen:
            yield name
            seen.add(name)
            name = self._styles[name].parent

    def _read(self, numbering: Element) -> dict[str, _List]:
        patterns = {
            value_of(each, "abstractNumId"): each for each in numbering.iterfind("{*}abstractNum")
        }
        used = {
            value_of(each, "numId"): child_value(each, "abstractNumId")
            for each in numbering.iterfind("{*}num")
        }
        lists = {}
        for each in numbering.iterfind("{*}num"):
            name = self._linked(child_value(each, "abstractNumId"), patterns, used)
            if name not in patterns:
                continue
            made = _List(name, dict(_levels(patterns[name])))
            for override in each.iterfind("{*}lvlOverride"):
                made.levels.update(_levels(override))
                start = override.find("{*}startOverride")
                if start is not None:
                    made.starts[whole(value_of(override, "ilvl"), 0)] = whole(value_of(start), 1)
            lists[value_of(each, "numId")] = made
        return lists

    def _linked(self, name: str, patterns: dict[str, Element], used: dict[str, str]) -> str:
        """The pattern that has the levels: another one, if this one only names a style."""
        for _ in range(len(patterns)):
            link = child_value(patterns[name], "numStyleLink") if name in patterns else ""
            style = self._styles.get(link)
            if style is None or style.number is None:
                break
            name = used.get(style.number, "")
        return name


def _levels(parent: Element) -> Iterator[tuple[int, _Level]]:
    for each in parent.iterfind("{*}lvl"):
        level = min(whole(value_of(each, "ilvl"), 0), _DEEPEST)
        pattern = each.find("{*}lvlText")
        legal = each.find("{*}isLgl")
        yield (
            level,
            _Level(
                start=whole(child_value(each, "start"), 0),
                kind=_kind(each),
                pattern=f"%{level + 1}." if pattern is None else value_of(pattern),
                behind="" if child_value(each, "suff") == "nothing" else " ",
                restarts_after=whole(child_value(each, "lvlRestart"), level),
                only_digits=legal is not None and value_of(legal) not in ("0", "false", "off"),
                style=child_value(each, "pStyle"),
            ),
        )


def _kind(level: Element) -> str:
    """The kind of a level's numbers; of alternatives for different programs, the newest."""
    kind = next((each for each in level.iter() if local_name(each) == "numFmt"), None)
    if kind is None:
        return "decimal"
    if value_of(kind) == "custom":  # "001, 002, 003, ..."
        return value_of(kind, "format").partition(",")[0]
    return value_of(kind)


def _start(used: _List, level: int) -> int:
    return used.starts.get(level, used.levels[level].start)


def _shown(used: _List, shown_in: _Level, counts: dict[int, int], level: int) -> str:
    """The number of a level as a paragraph shows it."""
    if level not in used.levels:
        return ""
    kind = used.levels[level].kind
    count = counts.get(level, _start(used, level))
    if kind == "none":
        return ""
    return str(count) if shown_in.only_digits else written(count, kind)


def written(count: int, kind: str) -> str:
    """A count in one of Word's formats; in digits, if the format is not known here."""
    if kind.startswith("0") and kind.isdigit():
        return f"{count:0{min(len(kind), 9)}}"
    if kind == "decimalZero":
        return f"{count:02}"
    if not 0 < count <= _LARGEST:
        return str(count)
    match kind:
        case "upperRoman" | "lowerRoman":
            return _cased(roman(count), kind)
        case "hebrew1":  # 15 and 16 as 9 + 6 and 9 + 7
            return roman(count, _HEBREW).replace("יה", "טו").replace("יו", "טז")  # noqa: RUF001
        case "ordinal":
            return f"{count}{_ordinal_ending(count)}"
        case "decimalEnclosedCircle" | "decimalEnclosedCircleChinese" if count <= 20:
            return chr(0x2460 + count - 1)
        case "decimalFullWidth" | "decimalFullWidth2":
            return str(count).translate({0x30 + digit: 0xFF10 + digit for digit in range(10)})
    if kind.startswith(_CHINESE):
        return _chinese(count)
    for name, letters in _LETTERS.items():
        if name in kind:
            letter, times = letters[(count - 1) % len(letters)], (count - 1) // len(letters) + 1
            return _cased(letter * min(times, 30), kind)
    return str(count)


def _cased(text: str, kind: str) -> str:
    return text.lower() if "ower" in kind else text.upper()


def roman(count: int, signs: Sequence[tuple[int, str]] = _ROMAN) -> str:
    """A number as a sum of signs: in Roman letters, or in others."""
    text = ""
    for value, sign in signs:
        text += sign * (count // value)
        count %= value
    return text


def _ordinal_ending(count: int) -> str:
    if count % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")


def _chinese(count: int) -> str:
    digits = [_DIGITS[int(digit)] for digit in str(count)]
    if count > 9999:
        return "".join(digits)
    units = ("千", "百", "十", "")[-len(digits) :]
    zero = _DIGITS[0]
    text = "".join(
        zero if digit == zero else digit + unit for digit, unit in zip(digits, units, strict=True)
    )
    text = re.sub(f"{zero}+", zero, text).removesuffix(zero)
    return text.removeprefix("一") if text.startswith("一十") else text


def _list_and_level(numbers: Element | None) -> tuple[str | None, int | None]:
    if numbers is None:
        return None, None
    level = child_value(numbers, "ilvl")
    return child_value(numbers, "numId") or None, whole(level, 0) if level else None


def child_value(parent: Element, name: str) -> str:
    """The value of a child; empty without it."""
    child = parent.find(f"{{*}}{name}")
    return "" if child is None else value_of(child)


def value_of(element: Element, name: str = "val") -> str:
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return value
    return ""


def whole(text: str | None, otherwise: int = 0) -> int:
    """The number of an attribute, or `otherwise` if it is missing or odd."""
    return int(text) if text and re.fullmatch(r"\s*[0-9]{1,6}\s*", text) else otherwise
