"""Reads text from its front while it arrives.

A reader is a generator: it yields when it needs more text, and returns its result. So it is written
as if all the text were there, and its result does not depend on how the text was cut.
"""

import re
from collections.abc import Callable, Generator, Sequence

type Reading[T] = Generator[None, None, T]
"""A reader that yields while it waits for more text, and returns a T."""
Emit = Callable[[str], None]
"""Passes a piece of text on."""

_SPACES = re.compile(r"\s*")


class Unreadable(Exception):
    """The text is not as a reader expects. The unexpected character is not taken."""


class Incoming:
    """The text that has arrived and is not taken yet."""

    def __init__(self) -> None:
        self._text = ""
        self._before = 0  # characters that were dropped from its front
        self._place = 0
        self._began: int | None = None
        self._ended = False

    @property
    def over(self) -> bool:
        """Whether all text is taken, and no more will arrive."""
        return self._ended and self._place == len(self._text)

    @property
    def ended(self) -> bool:
        """Whether no more text will arrive."""
        return self._ended

    @property
    def position(self) -> int:
        """The number of characters that are taken."""
        return self._before + self._place

    def add(self, text: str) -> None:
        kept = self._place if self._began is None else self._began
        self._text = self._text[kept:] + text
        self._before += kept
        self._place -= kept
        if self._began is not None:
            self._began = 0

    def end(self) -> None:
        """Declare that no more text will arrive."""
        self._ended = True

    def remember(self) -> None:
        """Remember this place: `taken` returns the text taken from here on."""
        self._began = self._place

    def go_back(self) -> None:
        """Go back to the remembered place, and go on remembering it."""
        assert self._began is not None
        self._place = self._began

    def taken(self) -> str:
        """Return the text taken since `remember`, and forget that place."""
        began = self._place if self._began is None else self._began
        self._began = None
        return self._text[began : self._place]

    def take(self, count: int) -> str:
        """Take the next `count` characters, or as many as have arrived."""
        text = self._text[self._place : self._place + count]
        self._place += len(text)
        return text

    def rest(self) -> str:
        """Take all that has arrived."""
        return self.take(len(self._text) - self._place)

    def run(self, pattern: re.Pattern[str]) -> str:
        """Take the text at the front that matches, as far as it has arrived."""
        found = pattern.match(self._text, self._place)
        return self.take(found.end() - self._place) if found else ""

    def peek(self, count: int = 1) -> Reading[str]:
        """Return the next `count` characters without taking them; fewer if the text ends."""
        while len(self._text) - self._place < count and not self._ended:
            yield
        return self._text[self._place : self._place + count]

    def expect(self, word: str) -> Reading[None]:
        """Take `word`. Raises Unreadable if another text comes."""
        if (yield from self.comes(word)) is None:
            raise Unreadable
        self.take(len(word))

    def word(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Take all text that matches. Raises Unreadable if nothing does."""
        found = ""
        while (yield from self.peek()) and (more := self.run(pattern)):
            found += more
        if not found:
            raise Unreadable
        return found

    def comes(self, *words: str) -> Reading[str | None]:
        """Return the one of `words` that is next, without taking it; None if none is.

        No word may be the beginning of another.
        """
        while True:
            here = self._text[self._place : self._place + max(map(len, words))]
            for word in words:
                if here.startswith(word):
                    return word
            if self._ended or not any(word.startswith(here) for word in words):
                return None
            yield

    def ends_within(self, *words: str) -> Reading[bool]:
        """Whether the text that is left ends within one of `words`, which it begins with."""
        while True:
            here = self._text[self._place :]
            within = any(word.startswith(here) and word != here for word in words)
            if self._ended or not within:
                return within and bool(here)
            yield

    def spaces(self) -> Reading[str]:
        """Take all white space."""
        found = ""
        while True:
            found += self.run(_SPACES)
            if self._place < len(self._text) or self._ended:
                return found
            yield

    def text_until(self, marks: Sequence[str], emit: Emit, *, trim: bool = False) -> Reading[str]:
        """Pass text to `emit` up to the first of `marks`; return the mark, which is not taken.

        Returns "" if the text ends first. With `trim`, white space before the mark is not taken
        either.
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
    """The first place from which the rest of `text` could begin a mark; the end without one."""
    longest = max(map(len, marks), default=0)
    for place in range(max(0, len(text) - longest + 1), len(text)):
        if any(mark.startswith(text[place:]) for mark in marks):
            return place
    return len(text)
