"""Writes a number as a cell of a workbook shows it: "$1,234.50", "01234", "37 kg".

A format is that of ECMA-376, 18.8.31: up to three sections, for positive numbers, negative ones and
zero. All decimals that a number has are written, also where the cell rounds them. Knows no dates.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache

_TOKEN = re.compile(
    r"""" (?P<quoted> [^"]* ) "? | \\ (?P<escaped> . ) | [_*] .
    | \[ \$ (?P<currency> [^\]-]* ) [^\]]* \]
    | \[ (?P<condition> [<>=]+ -?[0-9.]+ ) \] | \[ [^\]]* \]
    | (?P<general> General | @ ) | (?P<exponent> E[+-] ) | (?P<section> ; ) | (?P<digit> [0\#?] )
    | (?P<sign> [.,%/] ) | (?P<other> . )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)(-?[0-9]+(?:\.[0-9]+)?)")
_LITERALS = ("quoted", "escaped", "currency", "other")
_FORMATS_KEPT = 500
_LONGEST_FORMAT = 255
_LARGEST = 1e21


@dataclass(frozen=True, slots=True)
class _Token:
    """`kind`: "text", "digit", "sign", "general" or "exponent"."""

    kind: str
    text: str


_POINT = _Token("sign", ".")


@dataclass(frozen=True, slots=True)
class _Section:
    """`before`, `after`: the texts around the digits. `width`: of digits before the point, with
    leading zeros. `decimals`: the least number of digits behind it. `places`: by which the point
    moves. `template`: the tokens from the first digit to the last, if texts stand between them."""

    condition: str
    shows: bool  # the number itself
    is_plain: bool
    before: str = ""
    after: str = ""
    width: int = 0
    groups: bool = False
    decimals: int = 0
    places: int = 0
    blank_zero: bool = False
    template: tuple[_Token, ...] = ()


def with_format(value: float, number_format: str) -> str:
    """The number as text: in its plain form where the format shows nothing, or a fraction."""
    if (
        number_format == "General"
        or not abs(value) < _LARGEST
        or len(number_format) > _LONGEST_FORMAT
    ):
        return plain(value)
    sections = _sections(number_format)
    index = _chosen(value, sections)
    section = sections[index]
    if section.is_plain:
        return plain(value)
    has_sign = len(sections) > 1 and index == 1 and not sections[0].condition
    minus = "-" if value < 0 and section.shows and not has_sign else ""
    return " ".join(f"{minus}{_filled(section, abs(value))}".split())


def plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.15g}"


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
    return tuple(sections[:3])


def _section(condition: str, tokens: Sequence[_Token]) -> _Section:
    kinds = [token.kind for token in tokens]
    if not tokens or "exponent" in kinds or _Token("sign", "/") in tokens:
        return _Section(condition, shows=True, is_plain=True)
    shown = [i for i, kind in enumerate(kinds) if kind in ("digit", "general")]
    if not shown:
        return _Section(condition, shows=False, is_plain=False, before=_texts(tokens))
    point = tokens.index(_POINT) if _POINT in tokens else len(tokens)
    whole = [i for i in shown if i < point] or [shown[0]]
    commas = [i for i, token in enumerate(tokens) if token == _Token("sign", ",")]
    inner = tokens[shown[0] : shown[-1]]
    return _Section(
        condition,
        shows=True,
        is_plain=False,
        before=_texts(tokens[: shown[0]]),
        after=_texts(tokens[shown[-1] :]),
        width=sum(tokens[i].text == "0" for i in whole),
        groups=any(whole[0] < i < whole[-1] for i in commas),
        decimals=sum(tokens[i].text == "0" for i in shown if i > point),
        places=2 * tokens.count(_Token("sign", "%")) - 3 * sum(i > whole[-1] for i in commas),
        blank_zero=all(tokens[i].text == "?" for i in whole),
        template=tuple(tokens[shown[0] : shown[-1] + 1]) if _texts(inner) else (),
    )


def _texts(tokens: Sequence[_Token]) -> str:
    return "".join(each.text for each in tokens if each.kind == "text" or each.text == "%")


def _chosen(value: float, sections: Sequence[_Section]) -> int:
    if any(section.condition for section in sections):
        holding = (i for i, each in enumerate(sections) if _holds(value, each.condition))
        return next(holding, len(sections) - 1)
    if value < 0 and len(sections) > 1:
        return 1
    return 2 if value == 0 and len(sections) > 2 else 0


def _holds(value: float, condition: str) -> bool:
    found = _CONDITION.fullmatch(condition)
    if found is None:
        return not condition
    other = float(found[2])
    return {
        "<": value < other, "<=": value <= other, ">": value > other,
        ">=": value >= other, "=": value == other, "<>": value != other,
    }[found[1]]  # fmt: skip


def _filled(section: _Section, value: float) -> str:
    """The texts of a section with the digits of a number."""
    if not section.shows:
        return section.before
    text = plain(value)
    if section.places or "e" in text:
        text = f"{Decimal(text).scaleb(section.places):f}"
    whole, _, rest = text.partition(".")
    rest = rest.rstrip("0").ljust(section.decimals, "0")
    whole = "" if section.blank_zero and not value else whole.zfill(section.width)
    if section.template:
        whole = _spread(whole, section.template)
    elif section.groups:
        whole = f"{int(whole or 0):,}".zfill(section.width)
    return f"{section.before}{whole}{'.' if rest else ''}{rest}{section.after}"


def _spread(whole: str, template: Sequence[_Token]) -> str:
    """Put digits into the places of a template, from the last one; the first has all that are left:
    "(300) 555-1234"."""
    point = template.index(_POINT) if _POINT in template else len(template)
    pieces: list[str] = []
    places = sum(token.kind == "digit" for token in template[:point])
    for token in reversed(template[:point]):
        if token.kind == "digit":
            places -= 1
            pieces.append(whole[-1:] if places else whole)
            whole = whole[:-1]
        else:
            pieces.append(_texts([token]))
    return "".join(reversed(pieces))
