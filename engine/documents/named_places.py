"""Finds the places that a question names: "page 88", "§ 23", "rows 5 to 9", "第7章".

A page, slide or row is found by its number in the document; a chapter or clause by a line that
begins with its number. It knows the words for places in seven languages, and their words for
numbers; pages by the numbers that are printed on them, and appendices by their letters.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from engine.documents import PRINTED, Document, SectionKind
from engine.documents.number_words import CARDINAL, IDEOGRAPHS, ORDINAL, in_digits
from engine.documents.numbering import roman
from engine.documents.words import folded, without_accents

Kind = Literal["page", "row", "chapter", "clause", "appendix"]

# Without accents. A presentation's pages are its slides, and a PDF of slides has pages.
_NAMES: Mapping[Kind, str] = {
    "page": r"pages?|pp?\.|pg\.|seiten?|s\.|pagin(?:as?|e)|pag\.|bladzijden?|blz\.|slides?|folien?"
    r"|diapositiv[ae]s?|diapos?|dia's|laminas?",
    "row": r"rows?|lines?|zeilen?|reihen?|filas?|lineas?|renglon(?:es)?|lignes?|righ?[ae]|linhas?"
    r"|rij(?:en)?|regels?",
    "chapter": r"chapters?|ch\.|chap\.|kapiteln?|kapitels?|kap\.|capitul?os?|cap\.|capitol[oi]"
    r"|chapitres?|hoofdstuk(?:ken)?|parts?|teil|teile",
    "clause": r"sections?|sec\.|clauses?|articles?|art\.|paragraphs?|para\.|schedules?|items?"
    r"|points?|§§?|abschnitt[es]?|klauseln?|artikels?|artikeln|paragraf(?:en)?|paragraphen|ziffern?"
    r"|punkt|clausulas?|apartados?|articulos?|secciones|seccion|parrafos?|puntos?|paragraphes?"
    r"|alineas?|clausol[ae]|articol[oi]|sezion[ei]|paragraf[oi]|punt[oi]|artigos?|secao|secoes"
    r"|secties?|paragra(?:af|fen)",
    "appendix": r"appendi(?:x|xes|ces|ce|ci)|app\.|annex(?:es|e)?|exhibits?|anhange?|anlagen?"
    r"|anexos?|apendices?|allegat[oi]|bijlagen?",
}
_NO_PRONOUN = r"(?!I\s[a-z])"
_ROMAN = rf"{_NO_PRONOUN}[IVXLC]{{1,9}}|[ivx]{{2,6}}|[vx]"
_NUMBER = rf"(?:\d{{1,7}}(?:\.\d{{1,4}})*|{_ROMAN}|[A-HJ-Z]|(?i:{ORDINAL}|{CARDINAL}))(?!\w)"
_TO = r"\s*[-–—]\s*|\s(?:to|through|until|bis|a|al|hasta|jusqu'a|ate|tot)\s"
_AND = r"\s*[,&]\s+|,?\s(?:and|or|und|oder|y|o|et|ou|e|en)\s"
_LAST = "last"
_NAMED_LAST = re.compile(
    rf"(?<!\w)(?:last|final|letzte[mnrs]?|ultima|derniere|laatste)\s(?:{_NAMES['page']})(?!\w)",
    re.IGNORECASE,
)
_UNSPACED: Mapping[str, Kind] = {
    "页": "page", "頁": "page", "ページ": "page", "张": "page", "枚": "page", "행": "row",
    "行": "row", "章": "chapter", "장": "chapter", "条": "clause", "條": "clause", "節": "clause",
    "节": "clause", "조": "clause", "항": "clause", "페이지": "page", "쪽": "page",
}  # fmt: skip
_NAMED_UNSPACED = re.compile(
    rf"[第제]?\s*(?<!\d)(?P<number>\d{{1,7}}|(?<=第){IDEOGRAPHS})\s*(?P<kind>{'|'.join(_UNSPACED)})目?"
)
_ROMAN_VALUES: Mapping[str, int] = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_COUNTED: Collection[Kind] = ("page", "chapter", "appendix")  # "the third chapter"
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
_LETTERED_LINE = re.compile(
    rf"{_MARKS}(?P<number>[A-Z]|[IVXLC]{{2,9}})(?:[.):]+[ \t]|[.)]?[ \t]*$)", re.MULTILINE
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
        for first, last in _numbers(match[match.lastgroup or 0])
    ]
    found += [
        NamedPlace("page", _LAST, _LAST, *match.span()) for match in _NAMED_LAST.finditer(plain)
    ]
    found += [
        NamedPlace(_UNSPACED[match["kind"]], number, number, *match.span())
        for match in _NAMED_UNSPACED.finditer(question)
        for number in [in_digits(match["number"])]
    ]
    return tuple(sorted(found, key=lambda each: each.start)[:_MOST_NAMED])


def ranges_of(place: NamedPlace, document: Document) -> tuple[tuple[int, int], ...]:
    """The ranges (start, end) of a document's text that a place names; () if it has no such."""
    match place.kind:
        case "page":
            found = _sections(place, document, _PAGES, printed=True)
            found = found or _sections(place, document, _PAGES)
        case "row":
            found = _rows(place, document)
        case "chapter":
            found = _under_names(place, document) or _under_numbers(place, document)
            found = found or _sections(place, document, ["chapter"])
        case "clause":
            found = _under_names(place, document) or _under_numbers(place, document)
        case "appendix":
            found = _under_names(place, document)
    return tuple(found) if len(found) <= _MOST_ALIKE else ()


@cache  # compiled with the first question, as that takes longer than all imports
def _named(kind: Kind) -> re.Pattern[str]:
    """The pattern of a place of this kind in a question without accents."""
    names = _NAMES[kind]
    number = _NUMBER.replace(_NO_PRONOUN, "") if kind == "appendix" else _NUMBER
    return re.compile(
        rf"(?<!\w)(?i:{names})(?:\s+|(?<=[.§])\s*)(?i:(?:no|nr|num|n[°º])\.?\s*)?"
        rf"(?P<numbers>{number}(?:(?i:{_TO}|{_AND}){number})*)"
        rf"|(?<!\w)(?:(?P<ordinal>\d{{1,7}})(?i:st|nd|rd|th|\.|ª|º|a|o|e|er|eme|de)|"
        rf"(?P<words>(?i:{ORDINAL if kind in _COUNTED else '(?!)'})))\s(?i:{names})(?!\w)"
    )


def _numbers(written: str) -> Iterator[tuple[str, str]]:
    """Yield the first and the last number of each range: "3, 5 to 7" gives 3 to 3 and 5 to 7."""
    for part in re.split(_AND, in_digits(written), flags=re.IGNORECASE):
        numbers = re.findall(_NUMBER, part)
        yield numbers[0], numbers[-1]


def _sections(
    place: NamedPlace,
    document: Document,
    kinds: Collection[SectionKind],
    *,
    printed: bool = False,
) -> list[tuple[int, int]]:
    """The ranges of the sections with these numbers; of pages, with the `printed` ones."""
    every = zip(document.sections, document.starts, strict=True)
    parts = [(section, start) for section, start in every if section.kind in kinds]
    end = max((section.number for section, _ in parts), default=0)
    first, last = (end if each == _LAST else _value(each) for each in (place.first, place.last))
    printed &= place.first != _LAST
    found, follows = list[tuple[int, int]](), False
    for section, start in parts:
        label = section.label.rpartition(PRINTED)[2] if PRINTED in section.label else ""
        name = label.lower() if printed and label else str(section.number)
        inside = name.isdecimal() and first <= int(name) <= last
        if printed and place.first[0].isalpha():  # "xii" is another page than 12
            inside = name == place.first.lower()
        if inside:
            begin = found.pop()[0] if follows else start
            found.append((begin, start + len(section.text)))
        follows = inside
    return found


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


@cache
def _heading(kind: Kind) -> re.Pattern[str]:
    """The pattern of a line that begins with a place of this kind, in a folded text."""
    names = _NAMES[kind]
    signs = "|".join(sign for sign, other in _UNSPACED.items() if other == kind) or "(?!)"
    return re.compile(
        rf"{_MARKS}(?:(?:(?:{names})\s*(?P<number>\d{{1,7}}[a-z]?(?:\.\d{{1,4}})*|[ivxlc]{{1,9}}"
        rf"|[a-z]|{ORDINAL}|{CARDINAL})|(?P<ordinal>{ORDINAL})\s(?:{names}))(?!\w|\.\d)"
        rf"|[第제]\s*(?P<unspaced>\d{{1,7}}|{IDEOGRAPHS})\s*(?:{signs}))",
        re.MULTILINE,
    )


def _under_names(place: NamedPlace, document: Document) -> list[tuple[int, int]]:
    """The ranges from a line that begins with the place's name, such as "Article 5" or "§ 5", to
    the next line that begins with such a name; of headings, where there are any."""
    text = document.text
    lines = [*_heading(place.kind).finditer(folded(text))]
    found = _to_the_next(lines, place, document)
    ends = {line.start(): line.end() for line in lines}
    return [each for each in found if _HEADED.match(text, ends[each[0]])] or found


def _to_the_next(
    lines: Sequence[re.Match[str]], place: NamedPlace, document: Document
) -> list[tuple[int, int]]:
    """The ranges from each of the lines with the place's number to the line after it."""
    first, last, wanted = _value(place.first), _value(place.last), set[str]()
    if "." not in place.first + place.last and first:
        wanted = {str(value) for value in range(first, min(last, first + _MOST_NAMED) + 1)}
    if len(place.first + place.last) == 2:
        wanted |= {chr(code) for code in range(*map(ord, (place.first + place.last).lower()))}
    wanted |= _readings(place.first) | _readings(place.last)
    ends = [*(line.start() for line in lines[1:]), len(document.text)]
    return [
        (line.start(), end)
        for line, end in zip(lines, ends, strict=False)
        if not wanted.isdisjoint(_readings(line[line.lastgroup or 0]))
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
    return found or _to_the_next([*_LETTERED_LINE.finditer(document.text)], place, document)


def _parts(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split("."))) if number[0].isdigit() else (_value(number) or -1,)


def _value(number: str) -> int:
    """The value of a number; of "4.2", 4; 0 of a letter."""
    if number[0].isdigit():
        return int(number.partition(".")[0])
    values = [_ROMAN_VALUES.get(letter, 0) for letter in number.upper()]
    value = sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
    return value if roman(value) == number.upper() else 0


def _readings(number: str) -> set[str]:
    """The forms in which a number of a heading is compared: "7" and "vii" of "VII"."""
    written = in_digits(number.lower())
    value = "" if written[0].isdigit() else _value(written)
    return {written, str(value or written)}
