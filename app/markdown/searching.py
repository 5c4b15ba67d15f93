"""Finds words in the text as it is shown: across bold, in code and in tables, not in the Markdown.

A formula is searched as its source. Folded reasoning is searched too. Case, accents and the kind of
white space do not matter. Reads the text in the same parts as a document, a limited piece at a
time, but needs no document. The hits are places of the given text. Knows pages; no Qt.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from app.markdown.page import Item, TextLine, TextMark, TextRun, with_formulas_as_source
from app.markdown.streaming import ReadingPlace, StreamingMarkdown, StreamingPlainText
from engine.documents.words import OTHER_WORDS, searched
from engine.stretches import Stretch


class SearchedText:
    """A growing text to be searched again and again. Finished parts are read once."""

    def __init__(self, stream: StreamingMarkdown | StreamingPlainText) -> None:
        """`stream` reads the text. Nothing else may use it."""
        self._stream = stream
        self._place = ReadingPlace()
        self._lines: list[_ShownLine] = []  # of the finished parts
        self._tail: tuple[_ShownLine, ...] | None = None
        self._length = 0

    def grow(self, text: str, stretches: tuple[Stretch, ...] = ()) -> None:
        """Set the whole text so far, which begins with the text set before, and its stretches."""
        self._stream.set_stretches(stretches)
        if len(text) > self._length:
            self._stream.append(text[self._length :])
            self._length = len(text)
            self._tail = None

    def step(self) -> bool:
        """Read a limited piece. Returns False if all is read."""
        if self._stream.reread() is not None:
            self._lines, self._place, self._tail = [], ReadingPlace(), None
        part = self._stream.finished(self._place)
        if part is not None:
            self._lines += _shown_lines(part.items)
            self._place = part.next
            return True
        if self._tail is None:
            self._tail = tuple(_shown_lines(self._stream.tail(self._place)))
            return True
        return False

    def find(self, wanted: re.Pattern[str]) -> tuple[TextMark, ...]:
        """Return the hits of `wanted` (from `pattern_of` or `pattern_of_any`) in the text read so
        far."""
        given_at = self._stream.given_at
        return tuple(
            TextMark(given_at(start), given_at(end - 1) + 1)
            for line in (*self._lines, *(self._tail or ()))
            for start, end in line.find(wanted)
        )


def pattern_of(text: str) -> re.Pattern[str] | None:
    """Return the pattern of what the user typed; None if it is empty."""
    words = searched(text)[0].split()
    return re.compile(r"\s+".join(map(re.escape, words))) if words else None


def pattern_of_any(text: str) -> re.Pattern[str] | None:
    """Return a pattern for the beginning of any of these words, as the search through all
    conversations finds them."""
    words = sorted(set(searched(text)[0].split()), key=len, reverse=True)
    begins = rf"(?:(?<!\w)|(?=[{OTHER_WORDS}]))"
    return re.compile(f"{begins}(?:{'|'.join(map(re.escape, words))})") if words else None


class _ShownLine:
    """The text of a line as it is searched, and the sources of its characters."""

    def __init__(self, runs: Iterable[TextRun]) -> None:
        self._runs = [run for run in runs if run.length and run.style.role == "text"]
        self._starts: list[int] = []
        text = ""
        for run in self._runs:
            self._starts.append(len(text))
            text += run.text
        self._text, self._places = searched(text)

    def find(self, wanted: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        for found in wanted.finditer(self._text):
            first, last = found.start(), found.end() - 1
            yield self._source(self._places[first])[0], self._source(self._places[last])[1]

    def _source(self, place: int) -> tuple[int, int]:
        """Return the source range of a shown character."""
        number = bisect_right(self._starts, place) - 1
        run = self._runs[number]
        if not run.exact:
            return run.source, run.end
        start = run.source + place - self._starts[number]
        return start, start + 1


def _shown_lines(items: Iterable[Item]) -> Iterator[_ShownLine]:
    for item in with_formulas_as_source(items):
        if isinstance(item, TextLine):
            yield _ShownLine(item.runs)
        else:
            for row in item.rows:
                yield from (_ShownLine(cell.runs) for cell in row)
