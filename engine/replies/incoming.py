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
    """The text that has arrived and is not taken yet.

    Attribute: `cut`, whether the text ended before its writer was ready. Then a mark may be
    unfinished at its end; it is never taken, and `over` is true in front of it.
    """

    def __init__(self) -> None:
        self._text = ""
        self._before = 0  # characters that were dropped from its front
        self._place = 0
        self._began: int | None = None
        self._ended = False
        self._unfinished = False  # the text was cut within a mark or a word
        self.cut = False

    @property
    def over(self) -> bool:
        """Whether no more text will arrive, and all is taken except an unfinished mark or word."""
        return self._ended and (self._unfinished or self._place == len(self._text))

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

    def end(self, *, cut: bool = False) -> None:
        """Declare that no more text will arrive. `cut`: its writer was not ready."""
        self._ended, self.cut = True, cut

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

    def take_all(self) -> None:
        """Take all text that has arrived."""
        self._place = len(self._text)

    def run(self, pattern: re.Pattern[str]) -> str:
        """Take the text at the front that matches, as far as it has arrived."""
        found = pattern.match(self._text, self._place)
        return self.take(found.end() - self._place) if found else ""

    def peek(self, count: int = 1) -> Reading[str]:
        """Return the next `count` characters without taking them; fewer if the text ends."""
        while len(self._text) - self._place < count and not self._ended:
            yield
        here = self._text[self._place : self._place + count]
        self._unfinished |= self.cut and len(here) < count
        return here

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
            begun = any(word.startswith(here) for word in words)
            if self._ended or not begun:
                self._unfinished |= self.cut and begun
                return None
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

        Returns "" if the text ends first. With `trim`, white space before the mark, or before an
        unfinished mark, is not taken either.
        """
        while True:
            here = self._text[self._place :]
            place, mark = min(
                ((at, mark) for mark in marks if (at := here.find(mark)) >= 0),
                default=(len(here), ""),
            )
            if not mark and (self.cut or not self._ended):
                place = may_begin(here, marks)
                self._unfinished |= self.cut and place < len(here)
            if trim and (place < len(here) or not self._ended):
                place = len(here[:place].rstrip())
            if text := self.take(place):
                emit(text)
            if mark or self._ended:
                return mark
            yield


def may_begin(text: str, marks: Sequence[str]) -> int:
    """Return the first place from which the rest of `text` could begin a mark; else its end."""
    longest = max(map(len, marks), default=0)
    for place in range(max(0, len(text) - longest + 1), len(text)):
        if any(mark.startswith(text[place:]) for mark in marks):
            return place
    return len(text)
