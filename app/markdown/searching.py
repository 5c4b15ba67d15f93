"""Finding words in a text as it is shown: across bold, in code and in tables, not in its Markdown.

Case and accents do not matter, and any white space is as good as another. Reads the text by the
same parts as a document would, a bounded piece at a time, and needs none. What is found stands at
places of the given text. Knows pages; nothing of Qt.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.markdown.page import Item, TextLine, TextRun
from app.markdown.streaming import ReadingPlace, StreamingMarkdown, StreamingPlainText

_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class FoundText:
    """From `start` to `end` in the given text."""

    start: int
    end: int


class SearchedText:
    """A text that may grow, to be searched again and again; what is finished is read once."""

    def __init__(self, stream: StreamingMarkdown | StreamingPlainText) -> None:
        """`stream`, which nobody else reads, says how the text is read."""
        self._stream = stream
        self._place = ReadingPlace()
        self._lines: list[_ShownLine] = []  # of the finished parts
        self._tail: tuple[_ShownLine, ...] | None = None
        self._length = 0

    def grow(self, text: str) -> None:
        """The whole text so far, which begins with what was given before."""
        if len(text) > self._length:
            self._stream.append(text[self._length :])
            self._length = len(text)
            self._tail = None

    def step(self) -> bool:
        """Read a bounded piece; False where all is read."""
        part = self._stream.finished(self._place)
        if part is not None:
            self._lines += _shown_lines(part.items)
            self._place = part.next
            return True
        if self._tail is None:
            self._tail = tuple(_shown_lines(self._stream.tail(self._place)))
            return True
        return False

    def find(self, wanted: re.Pattern[str]) -> tuple[FoundText, ...]:
        """Where `wanted`, of `pattern_of` or `pattern_of_any`, is in what was read, in order."""
        given_at = self._stream.given_at
        return tuple(
            FoundText(given_at(start), given_at(end - 1) + 1)
            for line in (*self._lines, *(self._tail or ()))
            for start, end in line.find(wanted)
        )


def pattern_of(text: str) -> re.Pattern[str] | None:
    """What a person typed, as it is looked for; None where that is nothing."""
    words = _folded(text)[0].split()
    return re.compile(r"\s+".join(map(re.escape, words))) if words else None


def pattern_of_any(text: str) -> re.Pattern[str] | None:
    """Any of the words, where one begins: what the search through all conversations finds."""
    words = sorted(set(_folded(text)[0].split()), key=len, reverse=True)
    return re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, words)) + ")") if words else None


class _ShownLine:
    """The text of a line as it is looked through, and where its characters come from."""

    def __init__(self, runs: Iterable[TextRun]) -> None:
        self._runs = [run for run in runs if run.length and run.style.role == "text"]
        self._starts: list[int] = []
        text = ""
        for run in self._runs:
            self._starts.append(len(text))
            text += run.text
        self._text, self._places = _folded(text)

    def find(self, wanted: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        for found in wanted.finditer(self._text):
            first, last = found.start(), found.end() - 1
            if self._places is not None:
                first, last = self._places[first], self._places[last]
            yield self._source(first)[0], self._source(last)[1]

    def _source(self, place: int) -> tuple[int, int]:
        """From where to where in the source a shown character stands."""
        number = bisect_right(self._starts, place) - 1
        run = self._runs[number]
        if not run.exact:
            return run.source, run.end
        start = run.source + place - self._starts[number]
        return start, start + 1


def _shown_lines(items: Iterable[Item]) -> Iterator[_ShownLine]:
    for item in items:
        if isinstance(item, TextLine):
            yield _ShownLine(item.runs)
        else:
            for row in item.rows:
                yield from (_ShownLine(cell.runs) for cell in row)


def _folded(text: str) -> tuple[str, list[int] | None]:
    """The text without case and accents, and of which character each of its own is; None where
    they are the same."""
    if text.isascii():
        return text.lower(), None
    folded, places = "", []
    for place, character in enumerate(text):
        parts = unicodedata.normalize("NFKD", character)
        kept = "".join(c for c in parts if not unicodedata.combining(c)).casefold()
        folded += kept
        places += [place] * len(kept)
    return folded, places
