"""Which words of an answer stand word for word in a document, and where.

Both texts are taken as their words (`words.py`). For every word of the answer the longest run of
words that begins there and stands in a document is found; of these runs the longest are kept, and
what they leave of others. A run counts from six words, or four with a number or a name in it: less
is coincidence. Who wrote the words, and whether a draft was copied, does not matter. Pure.
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
_RAREST_OF = 32  # words: a long run is looked up by the rarest of its first ones
_MOST_LOOKED_AT = 300_000  # places of a word, the last ones; few words have more
_MOST_IN_ALL, _FEW = 5_000_000, 1_000  # for one answer, and for each word then: columns of zeros
_MOST_PLACES = 20  # of one span in one document
_MOST_NAMED = 6  # places of a document in the line beneath an answer
_WIDTH = array("i").itemsize


@dataclass(frozen=True, slots=True)
class CopiedPlace:
    """The characters from `start` to `end` of the text of the document of this number."""

    document: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CopiedSpan:
    """The characters from `start` to `end` of an answer, whose words stand in all of `places`: by
    document, and in its order; of each document the first twenty."""

    start: int
    end: int
    places: tuple[CopiedPlace, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """`part`: how many of an answer's words are copied, of 1. `sections`: which ones of each
    document they are from, from 0, by the document's number."""

    part: float
    sections: Mapping[int, tuple[int, ...]]


class WordIndex:
    """The words of a text, and where each of them stands. Made once for a text, in a time that
    grows with its length; twelve bytes for each, and some for each that is another."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._numbers: dict[str, int] = {}  # of the words, by their forms
        last: list[int] = []  # where each of them stands last,
        counts: list[int] = []  # and how often
        before = array("i")  # for each word of the text, where it stands the last time before
        starts, stream = array("i"), array("i")
        known: dict[str, int] = {}  # the words by how they are written
        for place, (start, end) in enumerate(ranges(text)):
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
        """The words of the text in the form in which they are compared."""
        return self._numbers

    def places(self, forms: Sequence[str], *, most: int = _MOST_PLACES) -> list[tuple[int, int]]:
        """From where to where in the text these words stand one after the other; the first ones."""
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
        """For each of these words, how many from it on stand in the text one after the other;
        less than four do not count, unless as the end of a longer run."""
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
        """How many of the first of these words stand somewhere, where at least `least` do."""
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
        """Where in the stream a run of words may begin whose word at `offset` is this one, from
        the last place to the first."""
        place = self._last[number]
        for _ in range(most):
            if place < offset:
                return
            yield (place - offset) * _WIDTH
            place = self._before[place]


def find_copied(answer: str, documents: Mapping[int, WordIndex]) -> tuple[CopiedSpan, ...]:
    """What of the answer, which is Markdown, stands in documents, which have these numbers; in the
    order of the answer, and apart from each other."""
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
    """Whether a run of the answer's words counts."""

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
    """Runs that do not overlap: the longest of all, then the longest of what is left."""
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
    """Of a span that stands in a document several times, the section is named that others are
    from too; else the first."""
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
    """ "31 % word for word: contract.pdf p. 3, 7"; empty where nothing is copied."""
    if not share.sections:
        return ""
    percent = max(1, int(100 * share.part))  # not 100 where a word is another
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
