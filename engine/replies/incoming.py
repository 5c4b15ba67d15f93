"""Text that is still coming in, read from its front.

A reader is a generator: it yields where it needs more text, and returns what it has read. So it is
written as if all the text were there, and reads the same however the text is cut.
"""

import re
from collections.abc import Callable, Generator, Sequence

type Steps[T] = Generator[None, None, T]
"""A reader of a T."""
Emit = Callable[[str], None]

_SPACES = re.compile(r"\s*")


class Unreadable(Exception):
    """The text is not what a reader expected. The character that shows it is not taken."""


class Incoming:
    """The text that has come and is not taken yet."""

    def __init__(self) -> None:
        self._text = ""
        self._place = 0
        self._began: int | None = None
        self._ended = False

    @property
    def over(self) -> bool:
        """Whether all text is taken, and none will come."""
        return self._ended and self._place == len(self._text)

    def add(self, text: str) -> None:
        kept = self._place if self._began is None else self._began
        self._text = self._text[kept:] + text
        self._place -= kept
        if self._began is not None:
            self._began = 0

    def end(self) -> None:
        """No more text will come."""
        self._ended = True

    def remember(self) -> None:
        """What is taken from here on can be had again from `taken`."""
        self._began = self._place

    def taken(self) -> str:
        """All that was taken since `remember`, which is forgotten."""
        began = self._place if self._began is None else self._began
        self._began = None
        return self._text[began : self._place]

    def take(self, count: int) -> str:
        """So many of the characters that are here."""
        text = self._text[self._place : self._place + count]
        self._place += len(text)
        return text

    def run(self, pattern: re.Pattern[str]) -> str:
        """What of the text that is here matches at its front, which is taken."""
        found = pattern.match(self._text, self._place)
        return self.take(found.end() - self._place) if found else ""

    def peek(self, count: int = 1) -> Steps[str]:
        """The next characters, which are not taken; fewer where the text ends before."""
        while len(self._text) - self._place < count and not self._ended:
            yield
        return self._text[self._place : self._place + count]

    def expect(self, word: str) -> Steps[None]:
        """Take this word, or raise Unreadable."""
        if (yield from self.comes(word)) is None:
            raise Unreadable
        self.take(len(word))

    def word(self, pattern: re.Pattern[str]) -> Steps[str]:
        """Take all letters that come and match; raises Unreadable where there is none."""
        found = ""
        while (yield from self.peek()) and (more := self.run(pattern)):
            found += more
        if not found:
            raise Unreadable
        return found

    def comes(self, *words: str) -> Steps[str | None]:
        """Which of these words is next; it is not taken. None of them begins another."""
        while True:
            here = self._text[self._place : self._place + max(map(len, words))]
            for word in words:
                if here.startswith(word):
                    return word
            if self._ended or not any(word.startswith(here) for word in words):
                return None
            yield

    def spaces(self) -> Steps[str]:
        """Take all white space that comes."""
        found = ""
        while True:
            found += self.run(_SPACES)
            if self._place < len(self._text) or self._ended:
                return found
            yield

    def text_until(self, marks: Sequence[str], emit: Emit, *, trim: bool = False) -> Steps[str]:
        """Hand on text up to the first of these marks; returns the mark, which is not taken.

        Returns nothing where the text ends before one. With `trim` white space before the mark is
        not taken either.
        """
        while True:
            here = self._text[self._place :]
            place, mark = min(
                ((at, mark) for mark in marks if (at := here.find(mark)) >= 0),
                default=(len(here), ""),
            )
            if not mark and not self._ended:
                place = _final(here, marks)
            if trim and (mark or not self._ended):
                place = len(here[:place].rstrip())
            if text := self.take(place):
                emit(text)
            if mark or self._ended:
                return mark
            yield


def _final(text: str, marks: Sequence[str]) -> int:
    """Where `text` ends in the beginning of a mark; else its end."""
    longest = max(map(len, marks), default=0)
    for place in range(max(0, len(text) - longest + 1), len(text)):
        if any(mark.startswith(text[place:]) for mark in marks):
            return place
    return len(text)
