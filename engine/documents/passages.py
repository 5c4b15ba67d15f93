"""Cuts documents into passages, and finds the passages that a question is about.

A document is cut at borders of its text: between sections, before a heading, at a blank line,
after a line of a table or of source, after a sentence. Passages are found by the words of the
question alone (BM25, by SQLite's FTS5): names, numbers with and without separators, and other forms
and compounds of a word, by the pieces of four letters that they share; no synonyms. The index is in
memory and made when it is needed, in less than a second for a megabyte of text. So nothing is left
of a deleted document, and the rarity of a word depends on the documents of one conversation only.
"""

import re
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Self

from engine.documents import PRINTED, Document, SectionKind
from engine.documents.prompt import Passage
from engine.documents.question import terms
from engine.documents.words import MARKS, UNSPACED, folded, plain
from models.in_words import clean

FEWEST_UNITS, MOST_UNITS = 190, 280
"""Units of a passage, each about a token; the last passage may have fewer. Longer passages were
found less often in the same room."""

type Key = tuple[int, int]
"""A passage: (number of its document, its own index from 0)."""

# Written without spaces, or, as Korean, with many endings. Two such characters are a unit; so is a
# digit.
_IN_PAIRS = rf"{UNSPACED}\uac00-\ud7af"
_UNIT = re.compile(
    rf"[{_IN_PAIRS}]{{1,2}}[{MARKS}]*|\d|[A-Za-z\u00c0-\u024f]{{1,8}}|[^\W\d_{_IN_PAIRS}]{{1,4}}"
    r"|([!-/:-@\[-`{-~])\1{0,7}|[^\w\s]"
)
_CLOSED = re.compile(r"[)\]}>;],?[^\s)\]}>;,.:]\Z")  # in text without spaces, such as minified JSON
_RUN = re.compile(rf"[{_IN_PAIRS}]+")
_SENTENCE_END = re.compile(  # also of Arabic, Urdu, Hindi, Khmer
    r"(?:[.!?…\u061f\u06d4\u0964\u0965\u17d4][\"'»”’)\]]*\s"
    r"|[\u3002\uff01\uff1f][」』”’\uff09]*)\s*\Z"
)
_LINE = re.compile(r"^[^\n]+", re.MULTILINE)
_MARKED_HEADING = re.compile(r"#{1,6}\s+\S")
_NUMBERED_HEADING = re.compile(
    r"(?:(?:article|appendix|annex|chapter|clause|part|schedule|section)\s+|§+\s*)[\divxlc]"
    r"|(?-i:(?:[A-Z]\.?)?\d{1,3}(?:\.\d{1,3})*[.)]?\s+[^\W\d_a-z])",
    re.IGNORECASE,
)
_UNDERLINE = re.compile(r"([=\-~^\"'*+#`.:_])\1{2,}\s*\Z")
_DEFINITION = re.compile(
    r"(?:(?:abstract|async|default|export|final|private|protected|pub|public|static)\s+)*"
    r"(?:class|def|enum|fn|func|function|impl|interface|module|namespace|struct|trait|type)\s+\w"
)
_LONGEST_HEADING = 100
_BY_LINES: Collection[SectionKind] = ("sheet", "lines", "cell")

_MOST_PHRASES = 64
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]{3,200})[\"”“»]")
_SEPARATED = re.compile(r"(?<![\d.,])\d{1,3}(?=([.,' ]))(?:,\d\d)*(?:\1\d{3})+(?!\d)")
_SPLIT = re.compile(rf"-\n(?<=[^\W\d_]-\n|[{MARKS}]-\n)\s*(?=[^\W\d_])")
_PIECE = 4  # letters of a word by which its other forms are found
_BESIDE = 0.5  # share of its score that a passage lends to its two neighbours

_TABLES = """
    CREATE VIRTUAL TABLE words USING fts5(heading, text,
        tokenize = "unicode61 remove_diacritics 2 categories 'L* N* M* Co' separators '₺₻₼₽₾₿'");
    CREATE VIRTUAL TABLE pieces USING fts5(text, tokenize = trigram)
"""
_FIND = """
    SELECT rowid, sum(score) FROM (
        SELECT rowid, -bm25(words) AS score FROM words WHERE words MATCH ?
        UNION ALL SELECT rowid, -bm25(pieces) FROM pieces WHERE pieces MATCH ?
    ) WHERE rowid BETWEEN ? AND ? GROUP BY rowid
"""
_BITS = 32  # low bits of a row's number: the passage; above them: the document


# Cutting


def cut(document: Document) -> tuple[Passage, ...]:
    """Cut a document into passages, in order, without overlap, and without gaps but white space."""
    return _cut(document, _headings(document))


def _cut(document: Document, headings: Mapping[int, str]) -> tuple[Passage, ...]:
    passages: list[Passage] = []
    place = 0
    while units := _units(document.text, place):
        count = len(units)
        if count > MOST_UNITS:
            count = max(
                range(FEWEST_UNITS, MOST_UNITS + 1),
                key=lambda count: (
                    _strength(document, headings, units[count - 1][1], units[count][0]),
                    count,
                ),
            )
        place = units[count - 1][1]
        passages.append(Passage(units[0][0], place))
    return tuple(passages)


def _units(text: str, place: int) -> list[tuple[int, int]]:
    """The ranges of the next units, up to one more than a passage may have."""
    return [match.span() for match in islice(_UNIT.finditer(text, place), MOST_UNITS + 1)]


def _strength(document: Document, headings: Mapping[int, str], end: int, start: int) -> int:
    """Rate a cut between units, the first up to `end`, the second from `start`: -2 to 5, below 0
    within a word."""
    gap = document.text[end:start]
    lines = gap.count("\n")
    section = document.section_at(start)
    if lines and section != document.section_at(end - 1):
        if not document.continues(section):
            return 5
        lines = 1
    if start in headings:
        return 4
    if lines > 1:
        return 3
    sentence = _SENTENCE_END.search(document.text, max(end - 4, 0), start) is not None
    if not gap and not sentence:
        closed = _CLOSED.search(document.text, max(end - 2, 0), start + 1)
        return 1 if closed else -1 if document.text[end - 1] == "," else -2
    if document.sections[section].kind in _BY_LINES:
        return 2 * lines + (sentence and not lines)
    return 2 * sentence + (lines and not sentence)


def _headings(document: Document) -> dict[int, str]:
    """The headings of a document, by their offsets, in order."""
    text = document.text
    lines = [match.span() for match in _LINE.finditer(text)]
    found: dict[int, str] = {}
    for (start, end), (behind, its_end) in pairwise([*lines, (len(text), len(text))]):
        if end - start > _LONGEST_HEADING:
            continue
        line = text[start:end]
        kind = document.sections[document.section_at(start)].kind
        underlined = behind == end + 1 and _UNDERLINE.match(text, behind, its_end)
        if _names(line, kind) or (underlined and line.strip() and not _UNDERLINE.match(line)):
            found[start + len(line) - len(line.lstrip())] = line.strip(" #\t")
    return found


def _names(line: str, kind: SectionKind) -> bool:
    """Whether a line is a heading, or begins a definition in source."""
    if kind == "sheet":
        return False
    if _MARKED_HEADING.match(line):
        return True
    if kind in _BY_LINES and _DEFINITION.match(line):
        return True
    if line.rstrip()[-1:] in (*".,;:!?", ""):
        return False
    capitals = sum(map(str.isalpha, line)) > 3 and line.isupper()
    return capitals or _NUMBERED_HEADING.match(line) is not None


# Finding


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: a score for each passage found, the higher the better.

    `words`: the words that were looked for, as written; () if the question has no distinctive ones.
    """

    words: tuple[str, ...] = ()
    scores: Mapping[Key, float] = field(default_factory=dict)


class PassageIndex:
    """Finds passages of documents by their words. For one thread; close it at the end."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.executescript(_TABLES)
        self._passages: dict[int, tuple[Passage, ...]] = {}

    def passages(self, number: int, document: Document) -> tuple[Passage, ...]:
        """The passages of a document, which can be searched from now on."""
        if number not in self._passages:
            headings = _headings(document)
            self._passages[number] = cut = _cut(document, headings)
            for row, (heading, text) in enumerate(_rows(document, headings, cut), number << _BITS):
                self._add("words(rowid, heading, text) VALUES (?, ?, ?)", row, heading, text)
                self._add("pieces(rowid, text) VALUES (?, ?)", row, folded(f"{heading} {text}"))
        return self._passages[number]

    def find(self, question: str, numbers: Collection[int]) -> Found:
        """Search the documents with these numbers for the words of a question."""
        words = terms(question)
        sought = (_phrases(question, words), _pieces(words))
        scores: dict[Key, float] = {}
        for number in numbers if words else ():
            first = number << _BITS
            for row, score in self._connection.execute(
                _FIND, (*sought, first, first + (1 << _BITS) - 1)
            ):
                scores[number, row - first] = score
        return Found(words, scores)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, into: str, *values: object) -> None:
        self._connection.execute(f"INSERT INTO {into}", values)


def _rows(
    document: Document, headings: Mapping[int, str], passages: Sequence[Passage]
) -> Iterator[tuple[str, str]]:
    """Yield the heading above each passage, with the name of its section, and its text."""
    starts = list(headings)
    for passage in passages:
        section = document.section_at(passage.start)
        named = document.sections[section].label.partition(PRINTED)[0]
        above = bisect_right(starts, passage.start) - 1
        if above >= 0 and starts[above] >= document.starts[section]:
            named += f" {headings[starts[above]]}"
        text = _indexed(document.text[passage.start : passage.end])
        yield _indexed(named), " ".join((text, *_plain_numbers(text)))


def _phrases(question: str, words: Sequence[str]) -> str:
    """The FTS5 expression for any of the words, with more weight for pairs that are side by side
    in the question, and for its quotations. Everything is quoted, so that it has no operators."""
    phrases = [match[1] for match in _QUOTED.finditer(question)][:_MOST_PHRASES]
    asked = plain(question)
    phrases += [f"{a} {b}" for a, b in pairwise(words) if f"{a} {b}" in asked]
    for word in words:
        phrases += _indexed(word).split() if _RUN.search(word) else [word]
    phrases += _plain_numbers(asked)
    distinct = dict.fromkeys(_indexed(phrase).replace('"', " ") for phrase in phrases)
    single = (f'text : "{word}" *' for word in words if len(word) == 1 and _RUN.match(word))
    return " OR ".join([*(f'"{phrase}"' for phrase in distinct), *single])


def _pieces(words: Sequence[str]) -> str:
    """The FTS5 expression for any four letters of the words: "kund", "undi", ... of "Kündigung"."""
    spelled = [folded(_indexed(word)) for word in words if not _RUN.search(word)]
    found = (word[i : i + _PIECE] for word in spelled for i in range(len(word) - _PIECE + 1))
    return " OR ".join(f'"{piece}"' for piece in dict.fromkeys(found)) or '""'


def _plain_numbers(text: str) -> list[str]:
    """The numbers of a text that have separators between thousands, without them: "225871"."""
    return [re.sub(r"\D", "", match[0]) for match in _SEPARATED.finditer(text)]


def _indexed(text: str) -> str:
    """A text in the index's form: words split by a line end are joined, and scripts without spaces
    become pairs of characters."""
    text = _SPLIT.sub("", plain(clean(text)))
    return _RUN.sub(lambda match: f" {' '.join(_pairs(match[0]))} ", text)


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


# Choosing


def choose(
    scores: Mapping[Key, float],
    cost: Callable[[Key], int],
    *,
    room: int,
    last: Mapping[int, int],
    first: Sequence[Key] = (),
    without: Collection[Key] = (),
) -> tuple[Key, ...]:
    """The passages that fill the room, in the order of the documents.

    Takes passages by score as long as they fit, before all others the passages of `first`, in their
    order; none of `without`. A passage gains score from a good neighbour, even if it has no word of
    the question itself.
    `cost(key)`: the tokens of a passage. `last`: the index of each document's last passage.
    """
    lent: dict[Key, float] = {}
    for (number, index), score in scores.items():
        for neighbour in (index - 1, index + 1):
            if 0 <= neighbour <= last[number]:
                key = (number, neighbour)
                lent[key] = max(lent.get(key, 0.0), _BESIDE * score)
    total = {key: scores.get(key, 0.0) + lent.get(key, 0.0) for key in {*scores, *lent, *first}}
    order = {key: place for place, key in reversed(list(enumerate(first)))}
    taken: list[Key] = []
    for key in sorted(
        total.keys() - set(without),
        key=lambda key: (order.get(key, len(first)), -total[key], key),
    ):
        room -= cost(key)
        if room < 0:
            break
        taken.append(key)
    return tuple(sorted(taken))
