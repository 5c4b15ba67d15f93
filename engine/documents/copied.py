"""Finds the words of an answer that are copied word for word from a document.

Both texts are split into words (`words.py`). For every word of the answer, the longest run of words
that begins there and is in a document is found. The longest runs are kept, then the rests that
they leave of other runs. A run counts from six words, or four with a number or a name in it: less
is coincidence. It does not matter who wrote the words, or whether a draft was copied. Pure.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import accumulate

from engine.documents import Document
from engine.documents.words import Word, end_of, form_of, names, ranges, words

_SEED = 4  # words: no shorter run is looked for
_ENOUGH, _ENOUGH_NAMED = 12, 8  # halves of words
_RAREST_OF = 32  # words: a long run is looked up by the rarest of its first words
_MOST_LOOKED_AT = 300_000  # of a word's places, from the last; few words have more
_MOST_IN_ALL, _FEW = 5_000_000, 1_000  # places for one answer; beyond that, for each word
_MOST_PLACES = 20  # of one span in one document
_MOST_NAMED = 6  # places of a document in the line beneath an answer
_WIDTH = array("i").itemsize
_BORDER = -1  # the number of no word


@dataclass(frozen=True, slots=True)
class CopiedPlace:
    """The characters from `start` to `end` of the text of document number `document`."""

    document: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CopiedSpan:
    """The characters from `start` to `end` of an answer, whose words are at all of `places`.

    `places` are ordered by document and offset; at most the first twenty of each document.
    """

    start: int
    end: int
    places: tuple[CopiedPlace, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """`part`: the share of an answer's words that are copied, from 0 to 1. `sections`: by a
    document's number, the indices of the sections that they are from."""

    part: float
    sections: Mapping[int, tuple[int, ...]]


class WordIndex:
    """The words of a text, and the places of each.

    Made once for a text, in linear time; takes twelve bytes for each word of the text, and some
    more for each distinct word.
    """

    def __init__(self, text: str, borders: Sequence[int] = ()) -> None:
        """`borders`: offsets that no run of words crosses: where pages or files begin."""
        self.text = text
        self._numbers: dict[str, int] = {}  # of the distinct words, by their forms
        last: list[int] = []  # by number: the last place of a word,
        counts: list[int] = []  # and its number of places
        before = array("i")  # by place: the last place before it of the same word
        starts, stream = array("i"), array("i")
        known: dict[str, int] = {}  # numbers, by the spelling in the text
        coming = iter((*sorted(borders), len(text)))
        border = next(coming)
        for start, end in ranges(text):
            while start >= border:
                border = next(coming)
                for each, nothing in ((stream, _BORDER), (starts, start), (before, -1)):
                    each.append(nothing)
            place = len(stream)
            written = text[start:end]
            number = known.get(written)
            if number is None:
                number = self._numbers.setdefault(form_of(written), len(self._numbers))
                known[written] = number
                if number == len(last):
                    last.append(-1)
                    counts.append(0)
            stream.append(number)
            starts.append(start)
            before.append(last[number])
            last[number] = place
            counts[number] += 1
        self._last, self._counts, self._before, self._starts = last, counts, before, starts
        self._stream = stream.tobytes()

    @property
    def forms(self) -> Mapping[str, int]:
        """The distinct words of the text, in the form in which they are compared."""
        return self._numbers

    def places(self, forms: Sequence[str], *, most: int = _MOST_PLACES) -> list[tuple[int, int]]:
        """The first `most` ranges (start, end) of the text that consist of these words."""
        numbers = [self._numbers.get(form, -1) for form in forms]
        if not numbers or min(numbers) < 0:
            return []
        wanted = array("i", numbers).tobytes()
        rarest = self._rarest(numbers)
        beginnings = self._beginnings(numbers[rarest], rarest)
        found = [at for at in beginnings if self._stream.startswith(wanted, at)]
        firsts = [at // _WIDTH for at in reversed(found)][:most]
        return [
            (self._starts[at], end_of(self.text, self._starts[at + len(numbers) - 1]))
            for at in firsts
        ]

    def reach(self, forms: Sequence[str]) -> list[int]:
        """For each of these words, the length of the run that begins there and is in the text.

        A run of less than four words counts as 0, unless it is the end of a longer run.
        """
        numbers = [self._numbers.get(form, -1) for form in forms]
        unknown = [place for place, number in enumerate(numbers) if number < 0]
        unknown.append(len(numbers))
        wanted = array("i", numbers)
        reached, length, left = [], 0, _MOST_IN_ALL
        for place in range(len(numbers)):
            length = max(length - 1, 0)
            end = unknown[bisect_left(unknown, place)]
            least = max(length + 1, _SEED)
            if place + least <= end:
                rarest = self._rarest(numbers[place : place + min(least, _RAREST_OF)])
                most = _MOST_LOOKED_AT if left > 0 else _FEW
                left -= min(self._counts[numbers[place + rarest]], most)
                beginnings = self._beginnings(numbers[place + rarest], rarest, most)
                length = self._longest(wanted[place:end], least, beginnings) or length
            reached.append(length)
        return reached

    def _longest(self, wanted: array[int], least: int, beginnings: Iterator[int]) -> int:
        """The length of the longest prefix of `wanted` at one of `beginnings`; 0 if it is shorter
        than `least`."""
        stream = self._words
        best, sought = 0, wanted[:least].tobytes()
        for at in beginnings:
            if self._stream.startswith(sought, at):
                place = at // _WIDTH
                best = max(best, least)
                most = min(len(wanted), len(stream) - place)
                while best < most and stream[place + best] == wanted[best]:
                    best += 1
                if best == len(wanted):
                    break
                sought = wanted[: best + 1].tobytes()
        return best

    @cached_property
    def _words(self) -> memoryview:
        return memoryview(self._stream).cast("i")

    def _rarest(self, numbers: Sequence[int]) -> int:
        return min(range(len(numbers)), key=lambda place: self._counts[numbers[place]])

    def _beginnings(self, number: int, offset: int, most: int = _MOST_LOOKED_AT) -> Iterator[int]:
        """Yield the byte offsets in the stream at which a run may begin whose word at `offset` is
        `number`, from the last to the first, at most `most` of them."""
        place = self._last[number]
        for _ in range(most):
            if place < offset:
                return
            yield (place - offset) * _WIDTH
            place = self._before[place]


def find_copied(answer: str, documents: Mapping[int, WordIndex]) -> tuple[CopiedSpan, ...]:
    """The spans of the answer (Markdown) that are in the documents, in order, without overlap.

    `documents`: the index of each document, by its number.
    """
    found = words(answer)
    forms = [word.form for word in found]
    reached = [0] * len(found)
    for index in documents.values():
        reached = [max(pair) for pair in zip(reached, index.reach(forms), strict=True)]
    return tuple(
        CopiedSpan(found[first].start, found[last - 1].end, places)
        for first, last in _longest_first(reached, _Worth(answer, found))
        if (places := tuple(_places(forms[first:last], documents)))
    )


def _places(forms: Sequence[str], documents: Mapping[int, WordIndex]) -> Iterator[CopiedPlace]:
    for number, index in documents.items():
        for start, end in index.places(forms):
            yield CopiedPlace(number, start, end)


class _Worth:
    """Decides whether a run of the answer's words is long enough to count."""

    def __init__(self, answer: str, found: Sequence[Word]) -> None:
        named = set(names(answer, found))
        self._halves = list(accumulate((word.halves for word in found), initial=0))
        self._named = list(
            accumulate(
                (
                    number in named or any(map(str.isdigit, word.form))
                    for number, word in enumerate(found)
                ),
                initial=0,
            )
        )

    def counts(self, first: int, last: int) -> bool:
        named = self._named[last] > self._named[first]
        return self._halves[last] - self._halves[first] >= (_ENOUGH_NAMED if named else _ENOUGH)


def _longest_first(reached: Sequence[int], worth: _Worth) -> list[tuple[int, int]]:
    """Runs (first, last) that do not overlap: the longest one, then the longest of the rest, ..."""
    runs = [
        (-length, first, first + length)
        for first, length in enumerate(reached)
        if length >= _SEED and (first == 0 or length >= reached[first - 1])
    ]
    heapify(runs)
    taken = bytearray(len(reached))
    kept = []
    while runs:
        _, first, last = heappop(runs)
        begin, end = first, last
        while begin < end and taken[begin]:
            begin += 1
        while begin < end and taken[end - 1]:
            end -= 1
        if not worth.counts(begin, end):
            continue
        if (begin, end) == (first, last):
            taken[first:last] = b"\1" * (last - first)
            kept.append((first, last))
        else:
            heappush(runs, (begin - end, begin, end))
    return sorted(kept)


def share(answer: str, spans: Sequence[CopiedSpan], documents: Mapping[int, Document]) -> Share:
    """The share of the answer that is copied, and the sections that it comes from.

    If a span is in several sections of a document, a section that another span comes from
    too is named, otherwise the first.
    """
    found = words(answer)
    halves = list(accumulate((word.halves for word in found), initial=0))
    starts, ends = [word.start for word in found], [word.end for word in found]
    copied = sum(
        halves[bisect_right(ends, span.end)] - halves[bisect_left(starts, span.start)]
        for span in spans
    )
    sections: dict[int, tuple[int, ...]] = {}
    for number, document in documents.items():
        where = [
            [document.section_at(place.start) for place in span.places if place.document == number]
            for span in spans
        ]
        named = {each[0] for each in where if len(set(each)) == 1}
        for each in where:
            if each and not named.intersection(each):
                named.add(each[0])
        if named:
            sections[number] = tuple(sorted(named))
    return Share(copied / halves[-1] if halves[-1] else 0.0, sections)


def in_words(share: Share, documents: Mapping[int, Document]) -> str:
    """ "31 % word for word: contract.pdf p. 3, 7"; "" if nothing is copied."""
    if not share.sections:
        return ""
    percent = max(1, int(100 * share.part))  # rounded down: 100 if every word is copied
    named = "; ".join(
        f"{documents[number].name} {_sections(documents[number], sections)}".strip()
        for number, sections in share.sections.items()
    )
    return f"{percent} % word for word: {named}"


def _sections(document: Document, numbers: Sequence[int]) -> str:
    if len(document.sections) == 1:
        return ""
    named = [document.sections[number] for number in numbers[:_MOST_NAMED]]
    pages = all(section.kind == "page" for section in named)
    places = ", ".join(str(each.number) if pages else each.place for each in named)
    more = f" and {len(numbers) - len(named)} more" if len(numbers) > len(named) else ""
    return ("p. " if pages else "") + places + more
