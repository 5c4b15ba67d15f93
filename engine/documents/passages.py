"""Cuts documents into passages, and finds the passages that a question is about.

A document is cut at borders of its text: between sections, before a heading, at a blank line,
behind a line of a table or of source, behind a sentence. Passages are found by the words of the
question alone (BM25, by SQLite's FTS5): names, numbers and words in any of their English forms, no
synonyms. The index is kept in memory and made anew when it is needed, in less than a second for a
megabyte of text. So nothing is left of a deleted document, and the rarity of a word depends on the
documents of one conversation only.
"""

import re
import sqlite3
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Self

from engine.documents import Document, SectionKind
from engine.documents.prompt import Passage
from models.in_words import clean

FEWEST_WORDS, MOST_WORDS = 150, 220
"""Words of a passage; the last one may have fewer. Longer passages were found less often in the
same room."""

type Key = tuple[int, int]
"""A passage: (number of its document, its own index from 0)."""

# Thai, Lao, Burmese, Khmer, kana, Chinese, Hangul: written without spaces, or with endings that the
# stemmer does not remove. Two such characters count as a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]{{1,24}}")
_RUN = re.compile(rf"[{_UNSPACED}]+")
_SENTENCE_END = re.compile(r"(?:[.!?…][\"'»”’)\]]*\s|[\u3002\uff01\uff1f][」』”’\uff09]*)\s*\Z")
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

_MOST_TERMS = 64
_TERM = re.compile(r"\w+(?:['’.\-/+@:]\w+)*")
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]{3,200})[\"”“»]")
_STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any anything are as at be because been before being
    below between both but by can cannot could did do does doing done down during each else ever
    every few for from further get give given go had has have having he her here hers him his how i
    if in into is it its itself just let like many may me mean means might more most much must my no
    nor not now of off on once one only or other our out over own per please put say says she should
    show so some such tell than that the their them then there these they thing things this those
    through to too under until up us use using very want was we were what when where whether which
    while who whom whose why will with within without would write you your
    according answer attached compare describe document documents entire explain file files question
    summarise summarize summary whole
    """.split()  # noqa: SIM905
)
_BESIDE = 0.5  # share of its score that a passage lends to its two neighbours

_TABLE = """
    CREATE VIRTUAL TABLE IF NOT EXISTS passages USING fts5(heading, words,
        tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'")
"""
_ADD = "INSERT INTO passages(rowid, heading, words) VALUES (?, ?, ?)"
_FIND = """
    SELECT rowid, -bm25(passages) FROM passages WHERE passages MATCH ? AND rowid BETWEEN ? AND ?
"""
_BITS = 32  # low bits of a row's number: the passage; above them: the document


# Cutting


def cut(document: Document) -> tuple[Passage, ...]:
    """Cut a document into passages, in order, without overlap, and without gaps but white space."""
    return _cut(document, _headings(document))


def _cut(document: Document, headings: Mapping[int, str]) -> tuple[Passage, ...]:
    passages: list[Passage] = []
    place = 0
    while words := _words(document.text, place):
        count = len(words)
        if count > MOST_WORDS:
            count = max(
                range(FEWEST_WORDS, MOST_WORDS + 1),
                key=lambda count: (
                    _strength(document, headings, words[count - 1][1], words[count][0]),
                    count,
                ),
            )
        place = words[count - 1][1]
        passages.append(Passage(words[0][0], place))
    return tuple(passages)


def _words(text: str, place: int) -> list[tuple[int, int]]:
    """The ranges of the next words, up to one more than a passage may have."""
    return [match.span() for match in islice(_WORD.finditer(text, place), MOST_WORDS + 1)]


def _strength(document: Document, headings: Mapping[int, str], end: int, start: int) -> int:
    """Rate a cut between a word that ends at `end` and one that begins at `start`: 0 to 5."""
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
        self._connection.execute(_TABLE)
        self._passages: dict[int, tuple[Passage, ...]] = {}

    def passages(self, number: int, document: Document) -> tuple[Passage, ...]:
        """The passages of a document. Adds them to the index, if they are not in it."""
        if number not in self._passages:
            headings = _headings(document)
            self._passages[number] = _cut(document, headings)
            self._connection.executemany(_ADD, self._rows(number, document, headings))
        return self._passages[number]

    def find(self, question: str, numbers: Collection[int]) -> Found:
        """Search the documents with these numbers for the words of a question."""
        words = terms(question)
        scores: dict[Key, float] = {}
        if words:
            for number in numbers:
                first = number << _BITS
                values = (_expression(question, words), first, first + (1 << _BITS) - 1)
                for row, score in self._connection.execute(_FIND, values):
                    scores[number, row - first] = score
        return Found(words, scores)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(
        self, number: int, document: Document, headings: Mapping[int, str]
    ) -> Iterable[tuple[int, str, str]]:
        starts = list(headings)
        for index, passage in enumerate(self._passages[number]):
            section = document.section_at(passage.start)
            named = document.sections[section].label
            above = bisect_right(starts, passage.start) - 1
            if above >= 0 and starts[above] >= document.starts[section]:
                named += f" {headings[starts[above]]}"
            words = _indexed(document.text[passage.start : passage.end])
            yield (number << _BITS) + index, _indexed(named), words


def terms(question: str) -> tuple[str, ...]:
    """The words of a question that tell passages apart, without repetition, in order.

    Example: "What does clause 7 say about rent?" gives ("clause", "7", "rent").
    """
    distinct: dict[str, str] = {}
    for match in _TERM.finditer(unicodedata.normalize("NFKC", question)):
        if not _stops(match[0]):
            distinct.setdefault(match[0].casefold(), match[0])
    return tuple(distinct.values())[:_MOST_TERMS]


def _stops(word: str) -> bool:
    folded = word.casefold().replace("’", "'").partition("'")[0]
    return folded in _STOP_WORDS or (len(folded) == 1 and folded.isascii() and folded.isalpha())


def _expression(question: str, words: Sequence[str]) -> str:
    """The FTS5 expression: any of the words, with more weight for pairs that stand side by side in
    the question, and for its quotations. Everything is quoted, so that it holds no operators."""
    phrases = [match[1] for match in _QUOTED.finditer(question)][:_MOST_TERMS]
    folded = unicodedata.normalize("NFKC", question)
    phrases += [f"{a} {b}" for a, b in pairwise(words) if f"{a} {b}" in folded]
    for word in words:
        phrases += _indexed(word).split() if _RUN.search(word) else [word]
    quoted = (_indexed(phrase).replace('"', " ") for phrase in phrases)
    return " OR ".join(f'"{phrase}"' for phrase in dict.fromkeys(quoted))


def _indexed(text: str) -> str:
    """A text in the index's form: words split by a line end are joined, and scripts without spaces
    become pairs of characters."""
    text = unicodedata.normalize("NFKC", clean(text)).replace("\u00ad", "")
    text = re.sub(r"(?<=[^\W\d_])-\n\s*(?=[^\W\d_])", "", text)
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
    first: Collection[Key] = (),
    without: Collection[Key] = (),
) -> tuple[Key, ...]:
    """The passages that fill the room, in the order of the documents.

    Takes passages by score as long as they fit, `first` before all others, none of `without`. A
    passage gains score from a good neighbour, even if it has no word of the question itself.
    `cost(key)`: the tokens of a passage. `last`: the index of each document's last passage.
    """
    lent: dict[Key, float] = {}
    for (number, index), score in scores.items():
        for beside in (index - 1, index + 1):
            if 0 <= beside <= last[number]:
                key = (number, beside)
                lent[key] = max(lent.get(key, 0.0), _BESIDE * score)
    total = {key: scores.get(key, 0.0) + lent.get(key, 0.0) for key in {*scores, *lent}}
    taken: list[Key] = []
    for key in sorted(
        total.keys() - set(without), key=lambda key: (key not in first, -total[key], key)
    ):
        room -= cost(key)
        if room < 0:
            break
        taken.append(key)
    return tuple(sorted(taken))
