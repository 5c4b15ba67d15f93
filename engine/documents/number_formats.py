"""Writes a value as a cell of a workbook shows it: "$1,234.50", "01234", "37 kg", "2026-03-01".

A format (ECMA-376, 18.8.31) has up to four sections, for positive numbers, negative ones, zero and
texts. All decimals that a number has are written, also where the cell rounds them, and
dates as ISO 8601 does, but a day of the week alone as a word. Where a section for losses has no
sign of its own, a minus is written.
"""

import re
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

FIRST_DAY, FIRST_DAY_OF_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
"""Day 0 of a workbook. Excel counts a 29 February 1900, so dates before that are a day later."""

_TOKEN = re.compile(
    r"""" (?P<quoted> [^"]* ) "? | \\ (?P<escaped> . ) | [_*] .
    | \[ \$ (?P<currency> [^\]-]* ) [^\]]* \]
    | \[ (?P<condition> [<>=]{1,2} -?[0-9]+ (?:\.[0-9]+)? ) \]
    | (?P<general> General | G/通用格式 | E[+-][0\#?]+ | /\ ?[0-9\#?]+ ) | (?P<cell> @ )
    | (?P<date> AM/PM | \[ [hms]+ \] | aaaa? | [bdeghmsy]+ (?: (?<=s) \.0+ )? ) | (?P<section> ; )
    | \[ (?P<colour> [^\]]* ) \] | (?P<digit> [0\#?] ) | (?P<sign> [.,%/] ) | (?P<other> . )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_LITERALS = ("quoted", "escaped", "currency", "other")
_MINUS = re.compile("[-(\u2010-\u2015\u2212\u25b2-\u25bd]")  # hyphens, dashes, triangles
_OF_EAST_ASIA = re.compile(r"\[\$[^\]]*-\w*?(411|[48]04|ja|zh)\b", re.IGNORECASE)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FORMATS_KEPT = 500
_LONGEST_FORMAT = 255
_LARGEST = 1e21


class _Token(NamedTuple):
    """`kind`: "text", "digit", "sign", "general", "cell" (its own text), "date" or "colour"."""

    kind: str
    text: str


_POINT = _Token("sign", ".")


class _Section(NamedTuple):
    """`kind`: "digit", "general" (a number in its plain form), "cell" (or a text), "date", "text"
    (no number). `before`, `after`: the texts around `tokens`, which are those from the first digit
    to the last, or all of a date. `whole`, `decimals`: the signs around the point, "#,##0" and
    "00". `places`: by which the point moves."""

    condition: str
    kind: str
    before: str = ""
    after: str = ""
    tokens: tuple[_Token, ...] = ()
    whole: str = ""
    decimals: str = ""
    places: int = 0


_GENERAL = _Section("", "general")


def with_format(value: float, number_format: str, *, first_day: datetime = FIRST_DAY) -> str:
    """The number as text, in its plain form where no section is for it; "" if its format hides it.

    `first_day`: day 0 of the workbook's dates.
    """
    if (
        number_format == "General"
        or not abs(value) < _LARGEST
        or len(number_format) > _LONGEST_FORMAT
    ):
        return plain(value)
    sections = _sections(number_format)
    section, opposite = (_chosen(each, sections) for each in (value, -value))
    if section.kind == "date":
        return _moment(value, number_format, tokens=section.tokens, first_day=first_day)
    own, other = (set(_MINUS.findall(each.before + each.after)) for each in (section, opposite))
    shows_sign = section.kind != "text" or section is opposite
    minus = "-" if value < 0 and shows_sign and not own - other else ""
    return " ".join(f"{minus}{_filled(section, abs(value))}".split())


def text_with_format(text: str, number_format: str) -> str:
    """The text of a cell as the cell shows it; "" if its format hides it."""
    *others, last = _sections(number_format)
    if last.kind == "cell":
        return f"{last.before}{text}{last.after}"
    return last.before if last.kind == "text" and len(others) == 3 else text


def plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.15g}"


def written(moment: datetime | time) -> str:
    """A date, with its time unless that is midnight: "2026-03-01", "2026-03-01 12:00", "18:00"."""
    text = str(moment)
    return text.rstrip("0") if "." in text else text.removesuffix(" 00:00:00").removesuffix(":00")


def elapsed(value: timedelta, number_format: str) -> str:
    """A length of time in hours, minutes and seconds: "30:15"; in minutes for "[mm]"."""
    seconds = round(abs(value).total_seconds())
    sign = "-" if value < timedelta(0) else ""
    if re.search(r"\[s+\]", number_format, re.IGNORECASE):
        return f"{sign}{seconds}"
    if re.search(r"\[m+\]", number_format, re.IGNORECASE):
        return f"{sign}{seconds // 60:02}:{seconds % 60:02}"
    with_seconds = f":{seconds % 60:02}" if seconds % 60 or "s" in number_format.lower() else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}{with_seconds}"


def _moment(
    value: float, number_format: str, *, tokens: Sequence[_Token], first_day: datetime
) -> str:
    """A date, a time of day, or a length of time, which alone can be less than nothing."""
    signs = "".join(token.text for token in tokens if token.kind == "date").lower()
    try:
        if value < 0 or "[" in signs:
            return elapsed(timedelta(days=value), number_format)
        day = value + (first_day == FIRST_DAY and 1 <= value < 60)
        moment = first_day + timedelta(seconds=round(day * 86_400, 3 if "." in signs else None))
    except OverflowError:
        return "#VALUE!"
    if re.fullmatch("d{3,4}|aaaa?", signs):
        return _weekday(moment, number_format, whole=len(signs) > 3)
    only_time = value < 1 or (set(signs) & set("hs") and not set(signs) & set("bdegy"))
    return written(moment.time() if only_time else moment)


def _weekday(moment: datetime, number_format: str, *, whole: bool) -> str:
    """In English, or in Japanese or Chinese where the format names it."""
    day, language = moment.weekday(), _OF_EAST_ASIA.search(number_format)
    if language is None:
        return _WEEKDAYS[day] if whole else _WEEKDAYS[day][:3]
    if language[1].lower() in ("411", "ja"):
        return "月火水木金土日"[day] + "曜日" * whole
    return ("星期" if whole else "周") + "一二三四五六日"[day]


@lru_cache(maxsize=_FORMATS_KEPT)
def _sections(number_format: str) -> tuple[_Section, ...]:
    sections, condition, tokens = [], "", list[_Token]()
    for found in _TOKEN.finditer(number_format):
        kind = found.lastgroup or ""
        text = found[kind] if kind else ""
        if kind == "section":
            sections.append(_section(condition, tokens))
            condition, tokens = "", []
        elif kind == "condition":
            condition = text
        elif kind:
            tokens.append(_Token("text" if kind in _LITERALS else kind, text))
    sections.append(_section(condition, tokens))
    return tuple(sections[:4])


def _section(condition: str, tokens: Sequence[_Token]) -> _Section:
    kinds = [token.kind for token in tokens]
    kind = next((each for each in ("cell", "general", "digit", "date") if each in kinds), "text")
    shown = [i for i, each in enumerate(kinds) if each in ("digit", "general", "cell")]
    if not shown:
        kind = "general" if "colour" in kinds and not _texts(tokens) else kind
        return _Section(condition, kind, _texts(tokens), tokens=tuple(tokens))
    first, last = shown[0], shown[-1]
    signs = "".join(t.text for t in tokens if t.kind in ("digit", "sign"))
    whole, _, decimals = signs.replace("%", "").partition(".")
    thousands = len(whole) - len(whole.rstrip(",")) + decimals.count(",")
    places = 2 * tokens.count(_Token("sign", "%")) - 3 * thousands
    before, after = _texts(tokens[:first]), _texts(tokens[last:])
    inner = tuple(tokens[first : last + 1])
    return _Section(condition, kind, before, after, inner, whole.rstrip(","), decimals, places)


def _texts(tokens: Sequence[_Token]) -> str:
    return "".join(t.text for t in tokens if t.kind in ("text", "date") or t.text == "%")


def _chosen(value: float, sections: Sequence[_Section]) -> _Section:
    """The section for a number: by its condition, or by its place."""
    first, few = sections[0], len(sections) < 3
    by_place = (
        value > 0 or (few and value == 0) or len(sections) == 1,
        value < 0 or (few and bool(first.condition)),
        True,
    )
    for section, holds in zip(sections, by_place, strict=False):
        if _holds(value, section.condition) if section.condition else holds:
            return section
    return _GENERAL


def _holds(value: float, condition: str) -> bool:
    other = float(condition.strip("<=>"))
    return ("<" if value < other else ">" if value > other else "=") in condition


def _filled(section: _Section, value: float) -> str:
    """The texts of a section with the digits of a number."""
    if section.kind == "text":
        return section.before
    text = plain(value)
    if section.kind != "digit":
        return f"{section.before}{text}{section.after}"
    if section.places or "e" in text:
        text = f"{Decimal(text).scaleb(section.places):f}"
    whole, _, rest = text.partition(".")
    rest = rest.rstrip("0").ljust(section.decimals.count("0"), "0")
    width = section.whole.count("0")
    blank = not value and "?" in section.whole and not section.whole.strip(",?")
    whole = "" if blank else whole.zfill(width)
    if _texts(section.tokens):
        whole = _spread(whole, section.tokens)
    elif "," in section.whole:
        whole = f"{int(whole or 0):,}".zfill(width)
    return f"{section.before}{whole}{'.' if rest else ''}{rest}{section.after}"


def _spread(whole: str, tokens: Sequence[_Token]) -> str:
    """Put digits into their places among texts, from the last one; the first has all that are left:
    "(300) 555-1234"."""
    tokens = tokens[: tokens.index(_POINT)] if _POINT in tokens else tokens
    rest = sum(token.kind == "digit" for token in tokens) - 1
    digits = iter([whole[: max(len(whole) - rest, 0)], *whole.rjust(rest)[-rest:]])
    return "".join(next(digits) if each.kind == "digit" else _texts([each]) for each in tokens)
