"""Finds the numbers and quotations of an answer that are in no document.

This is a word search and not a judgement: a missing number may be right, a found one wrong. So it
is lenient. 1,000 is 1000 and may be 1.000; a quotation must be there word for word, with any
punctuation. What the user wrote need not be in a document, nor names of files and pages:
`known_words` makes a text of them. Code is not searched. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.documents import Document
from engine.documents.copied import WordIndex
from engine.documents.words import WORD, Word, plain, words

Kind = Literal["quotation", "number"]

_CODE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)|(`+)[^`].*?\2", re.DOTALL | re.MULTILINE)
_LINE_END = r"\n(?!\s*\n)"  # within a paragraph
_QUOTED = re.compile(
    rf"\u201c((?:[^\u201c\u201d\n]|{_LINE_END})+)\u201d"
    rf"|\u201e((?:[^\u201c\u201d\u201e\n]|{_LINE_END})+)[\u201c\u201d]"
    rf"|\u00ab((?:[^\u00ab\u00bb\n]|{_LINE_END})+)\u00bb"
    rf"|\u300c((?:[^\u300c\u300d\n]|{_LINE_END})+)\u300d"
    rf"|(?<!{WORD})(?<!\u2019)\u2018([^\u2018\n]+?)\u2019(?!\w)|(?<!{WORD})\"([^\"\n]+)\"(?!\w)"
)
_LEFT_OUT = re.compile(r"\[[^\]\n]*\]|\.\.\.|\u2026")  # within a quotation
_SPACES = " \u00a0\u2009\u202f"  # between groups of digits
_GROUPED = re.compile(rf"(?<![\d.,])\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?!\d)")
_NUMBER = re.compile(r"-?(\d+(?:[.,]\d+)*)")


@dataclass(frozen=True, slots=True)
class NotFound:
    """The characters from `start` to `end` of an answer."""

    start: int
    end: int
    kind: Kind


def known_words(documents: Iterable[Document], said: Iterable[str]) -> WordIndex:
    """An index of words that need not be in a document: the user's messages `said`, the
    documents' names and places."""
    named = (f"{each.name}\n" + "\n".join(s.place for s in each.sections) for each in documents)
    return WordIndex("\n".join((*named, *said)))


def not_found(answer: str, texts: Sequence[WordIndex]) -> tuple[NotFound, ...]:
    """The parts of the answer (Markdown) that are in none of the texts, in order.

    They do not overlap: a number within a missing quotation is not listed again.
    """
    found = words(answer)
    code = [match.span() for match in _CODE.finditer(answer)]
    kept: list[NotFound] = []
    for each in (
        *_missing_quotations(answer, found, texts),
        *_missing_numbers(answer, found, texts),
    ):
        others = (*code, *((other.start, other.end) for other in kept))
        if all(each.end <= start or end <= each.start for start, end in others):
            kept.append(each)
    return tuple(sorted(kept, key=lambda each: each.start))


def _missing_quotations(
    answer: str, found: Sequence[Word], texts: Sequence[WordIndex]
) -> Iterator[NotFound]:
    for match in _QUOTED.finditer(answer):
        start, whole_end = match.span(match.lastindex or 0)
        ends = [(left.start(), left.end()) for left in _LEFT_OUT.finditer(answer, start, whole_end)]
        for end, next_start in (*ends, (whole_end, whole_end)):
            inside = [word for word in found if start <= word.start and word.end <= end]
            forms = [word.form for word in inside]
            if inside and not any(text.places(forms, most=1) for text in texts):
                yield NotFound(inside[0].start, inside[-1].end, "quotation")
            start = next_start


def _missing_numbers(
    answer: str, found: Sequence[Word], texts: Sequence[WordIndex]
) -> Iterator[NotFound]:
    known = set().union(*(_numbers(text) for text in texts))
    grouped = [match.span() for match in _GROUPED.finditer(answer)]
    for start, end in grouped:
        parts = [readings(part) for part in answer[start:end].split()]
        if not readings(answer[start:end]) & known and not all(part & known for part in parts):
            yield NotFound(start, end, "number")
    for word in found:
        number = _NUMBER.match(word.form)
        if (
            number
            and not any(start <= word.start < end for start, end in grouped)
            and not any(word.form in text.forms for text in texts)
            and not readings(number[1]) & known
        ):
            yield NotFound(word.start, word.end, "number")


def _numbers(text: WordIndex) -> set[str]:
    """All readings of the numbers in a text."""
    written = {match[1] for form in text.forms if (match := _NUMBER.match(form))}
    written |= {match[0] for match in _GROUPED.finditer(text.text)}
    several = (re.split("[.,]", number) for number in written)  # 10,20,30 may be three
    written |= {part for parts in several if len(parts) > 2 for part in parts if len(part) != 3}
    return set().union(*map(readings, written))


def readings(written: str) -> set[str]:
    """The possible values of a written number: "1,000" gives {"1000", "1"}."""
    groups = re.split(r"[.,]", re.sub(rf"[{_SPACES}]", "", plain(written)))
    whole, last = "".join(groups[:-1]), groups[-1]
    found = {_plain(whole, last)} if whole else {_plain(last, "")}
    if whole and len(last) == 3:
        found.add(_plain(whole + last, ""))
    return found


def _plain(whole: str, decimals: str) -> str:
    whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole
