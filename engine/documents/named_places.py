"""Finds the places that a question names: "page 88", "§ 23", "rows 5 to 9", "第7章".

A page, slide or row is found by its number in the document; a chapter or clause by a line that
begins with its number. It knows the words for places in seven languages.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from engine.documents import Document, SectionKind
from engine.documents.numbering import roman
from engine.documents.words import folded, without_accents

Kind = Literal["page", "row", "chapter", "clause"]

# Without accents. A presentation's pages are its slides, and a PDF of slides has pages.
_NAMES: Mapping[Kind, str] = {
    "page": r"pages?|pp?\.|pg\.|seiten?|s\.|pagin(?:as?|e)|pag\.|bladzijden?|blz\.|slides?|folien?"
    r"|diapositiv[ae]s?|diapos?|dia's|laminas?",
    "row": r"rows?|lines?|zeilen?|reihen?|filas?|lineas?|renglon(?:es)?|lignes?|righ?[ae]|linhas?"
    r"|rij(?:en)?|regels?",
    "chapter": r"chapters?|ch\.|chap\.|kapiteln?|kapitels?|kap\.|capitul?os?|cap\.|capitoli?"
    r"|chapitres?|hoofdstuk(?:ken)?|parts?|teil|teile",
    "clause": r"sections?|sec\.|clauses?|articles?|art\.|paragraphs?|para\.|schedules?|items?"
    r"|points?|§§?|abschnitt[es]?|klauseln?|artikels?|artikeln|paragraf(?:en)?|paragraphen|ziffern?"
    r"|punkt|clausulas?|apartados?|articulos?|secciones|seccion|parrafos?|puntos?|paragraphes?"
    r"|alineas?|clausol[ae]|articol[oi]|sezion[ei]|paragraf[oi]|punt[oi]|artigos?|secao|secoes"
    r"|secties?|paragra(?:af|fen)",
}
_ROMAN = r"(?!I\s[a-z])[IVXLC]{1,9}"
_NUMBER = rf"(?:\d{{1,7}}(?:\.\d{{1,4}})*|{_ROMAN})(?!\w)"
_TO = r"\s*[-–—]\s*|\s(?:to|through|until|bis|a|al|hasta|jusqu'a|ate|tot)\s"
_AND = r"\s*[,&]\s+|,?\s(?:and|or|und|oder|y|o|et|ou|e|en)\s"
_LAST = "last"
_NAMED_ENDS = re.compile(
    r"(?<!\w)(?:(?P<first>first|erste[mnrs]?|primera?|premiere|prima|primeira|eerste)"
    rf"|last|final|letzte[mnrs]?|ultima|derniere|laatste)\s(?:{_NAMES['page']})(?!\w)",
    re.IGNORECASE,
)
_UNSPACED: Mapping[str, Kind] = {
    "页": "page", "頁": "page", "ページ": "page", "张": "page", "枚": "page", "행": "row",
    "行": "row", "章": "chapter", "장": "chapter", "条": "clause", "條": "clause", "節": "clause",
    "节": "clause", "조": "clause", "항": "clause", "페이지": "page", "쪽": "page",
}  # fmt: skip
_NAMED_UNSPACED = re.compile(
    rf"第?\s*(?<!\d)(?P<number>\d{{1,7}})\s*(?P<kind>{'|'.join(_UNSPACED)})目?"
)
_ROMAN_VALUES: Mapping[str, int] = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_NO_ROMAN = 400
_PAGES: Collection[SectionKind] = ("page", "slide")
_ROWS: Collection[SectionKind] = ("lines", "sheet")

_READ = 10_000  # characters of a question: a longer one is mostly a text
_MOST_NAMED = 16
_MOST_ALIKE = 8  # places with the same number, as in a table of contents; of more none is meant
_MARKS = r"^[ \t#*>_]*"  # before a heading
_NUMBERED_LINE = re.compile(
    rf"{_MARKS}(?P<number>\d{{1,7}}(?:\.\d{{1,4}})*)(?=[.):]*\s+[^\W\d_a-z]|[.):]+\s)",
    re.MULTILINE,
)
_HEADED = re.compile(r"[.:)\]–—-]*[ \t]*(?:$|[^\W\d_a-z]|[\"“„(])", re.MULTILINE)  # no reference


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """The pages, rows, chapters or clauses with the numbers from `first` to `last`: "88", "4.2",
    or "last" for the last page.

    `start`, `end`: of its name in the question.
    """

    kind: Kind
    first: str
    last: str
    start: int
    end: int


def named_places(question: str) -> tuple[NamedPlace, ...]:
    """The places that the beginning of a question names, in order, at most `_MOST_NAMED`."""
    question = question[:_READ]
    plain = without_accents(question)
    found = [
        NamedPlace(kind, first, last, *match.span())
        for kind in _NAMES
        for match in _named(kind).finditer(plain)
        for first, last in _numbers(match["numbers"] or match["ordinal"])
    ]
    found += [
        NamedPlace("page", number, number, *match.span())
        for match in _NAMED_ENDS.finditer(plain)
        for number in ["1" if match["first"] else _LAST]
    ]
    found += [
        NamedPlace(_UNSPACED[match["kind"]], match["number"], match["number"], *match.span())
        for match in _NAMED_UNSPACED.finditer(question)
    ]
    return tuple(sorted(found, key=lambda each: each.start)[:_MOST_NAMED])


def ranges_of(place: NamedPlace, document: Document) -> tuple[tuple[int, int], ...]:
    """The ranges (start, end) of a document's text that a place names; () if it has no such."""
    match place.kind:
        case "page":
            found = _sections(place, document, _PAGES)
        case "row":
            found = _rows(place, document)
        case "chapter":
            found = _under_names(place, document) or _under_numbers(place, document)
            found = found or _sections(place, document, ["chapter"])
        case "clause":
            found = _under_names(place, document) or _under_numbers(place, document)
    return tuple(found) if len(found) <= _MOST_ALIKE else ()


@cache  # compiled with the first question, as that takes longer than all imports
def _named(kind: Kind) -> re.Pattern[str]:
    """The pattern of a place of this kind in a question without accents."""
    names = _NAMES[kind]
    return re.compile(
        rf"(?<!\w)(?i:{names})(?:\s+|(?<=[.§])\s*)(?i:(?:no|nr|num|n[°º])\.?\s*)?"
        rf"(?P<numbers>{_NUMBER}(?:(?i:{_TO}|{_AND}){_NUMBER})*)"
        r"|(?<!\w)(?P<ordinal>\d{1,7})(?i:st|nd|rd|th|\.|ª|º|a|o|e|er|eme|de)"
        rf"\s(?i:{names})(?!\w)"
    )


def _numbers(written: str) -> Iterator[tuple[str, str]]:
    """Yield the first and the last number of each range: "3, 5 to 7" gives 3 to 3 and 5 to 7."""
    for part in re.split(_AND, written, flags=re.IGNORECASE):
        numbers = re.findall(_NUMBER, part)
        yield numbers[0], numbers[-1]


def _sections(
    place: NamedPlace, document: Document, kinds: Collection[SectionKind]
) -> list[tuple[int, int]]:
    """The range from the first to the last section with these numbers."""
    all_parts = [
        (section.number, start, start + len(section.text))
        for section, start in zip(document.sections, document.starts, strict=True)
        if section.kind in kinds
    ]
    end = max((number for number, _, _ in all_parts), default=0)
    first, last = (end if each == _LAST else _value(each) for each in (place.first, place.last))
    parts = [(start, end) for number, start, end in all_parts if first <= number <= last]
    return [(parts[0][0], parts[-1][1])] if parts else []


def _rows(place: NamedPlace, document: Document) -> list[tuple[int, int]]:
    """The range of the rows with these numbers in each sheet or file."""
    found = []
    for section, start in zip(document.sections, document.starts, strict=True):
        rows = section.text.split("\n") if section.kind in _ROWS else []
        number = max(section.number, 1)
        skipped, end = _value(place.first) - number, _value(place.last) - number + 1
        if rows[max(skipped, 0) : max(end, 0)]:
            begin = start + sum(len(row) + 1 for row in rows[: max(skipped, 0)])
            found.append((begin, begin + len("\n".join(rows[max(skipped, 0) : end]))))
    return found


def _under_names(place: NamedPlace, document: Document) -> list[tuple[int, int]]:
    """The ranges from a line that begins with the place's name, such as "Article 5" or "§ 5", to
    the next line that begins with such a name; of headings, where there are any."""
    text, plain = document.text, folded(document.text)
    names = f"{_MARKS}(?:{_NAMES[place.kind]})\\s*"
    numbers = "|".join(map(re.escape, _spellings(place)))
    begins = re.compile(rf"{names}(?:{numbers})(?!\w|\.\d)", re.MULTILINE).finditer(plain)
    following = re.compile(rf"{names}(?:\d|[ivxlc]+\b)", re.MULTILINE)
    found = [match.span() for match in begins]
    found = [span for span in found if _HEADED.match(text, span[1])] or found
    ends = (following.search(plain, end) for _, end in found)
    return [
        (start, end.start() if end else len(text))
        for (start, _), end in zip(found, ends, strict=True)
    ]


def _under_numbers(place: NamedPlace, document: Document) -> list[tuple[int, int]]:
    """The ranges from a line that begins with the place's number to the next line that begins with
    a higher number of the same or of a higher level."""
    lines = [
        (match.start(), tuple(map(int, match["number"].split("."))))
        for match in _NUMBERED_LINE.finditer(document.text)
    ]
    first, last = _parts(place.first), _parts(place.last)
    found = []
    for index, (start, number) in enumerate(lines):
        if number == first:
            end = (
                at
                for at, other in lines[index + 1 :]
                if other > last and len(other) <= len(last) and other[: len(last)] != last
            )
            found.append((start, next(end, len(document.text))))
    return found


def _parts(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split("."))) if number[0].isdigit() else (_value(number),)


def _value(number: str) -> int:
    """The value of a number; of "4.2", 4."""
    if number[0].isdigit():
        return int(number.partition(".")[0])
    values = [_ROMAN_VALUES[letter] for letter in number]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )


def _spellings(place: NamedPlace) -> list[str]:
    """The numbers of a place as headings have them, in small letters: "7", "vii"."""
    if "." in place.first + place.last:
        return [place.first, place.last]
    first, last = _value(place.first), _value(place.last)
    values = range(first, min(last, first + _MOST_NAMED) + 1)
    in_letters = [roman(value).lower() for value in values if 0 < value < _NO_ROMAN]
    return [*map(str, values), *in_letters]
