"""A line of a PDF's page: its characters, each with its number on the page, by which its box is
found."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

MADE = -1
"""The number of a character that the page does not have: the end of a line, a tick in a box."""


class Box(NamedTuple):
    """A rectangle on the page, in points from its lower left corner."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    @property
    def height(self) -> float:
        return self.top - self.bottom

    def meets(self, other: "Box") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top

    def contains(self, other: "Box") -> bool:
        """Whether the middle of another box is in this one."""
        x, y = other.middle
        return self.left <= x <= self.right and self.bottom <= y <= self.top

    def around(self, other: "Box") -> "Box":
        lower, upper = map(min, self[:2], other[:2]), map(max, self[2:], other[2:])
        return Box(*lower, *upper)


@dataclass(frozen=True, slots=True)
class Tick:
    """A box of a form that can be ticked."""

    box: Box
    ticked: bool


class Char(NamedTuple):
    """`number`: its number on the page; `MADE`, or less for ticks."""

    letter: str
    number: int


Line = list[Char]
SPACE_MADE = Char(" ", MADE)


class Boxes:
    """The places of a page's characters, which are looked up only where they matter."""

    def __init__(self, characters: pypdfium2.PdfTextPage, ticks: Sequence[Tick]) -> None:
        self._characters = characters
        self._known: dict[int, Box | None] = {MADE: None}
        for index, tick in enumerate(ticks):
            self._known[MADE - 1 - index] = tick.box

    def of(self, number: int) -> Box | None:
        """The room that a character takes in its line; None if it has none."""
        if number not in self._known:
            self._known[number] = self._room(number)
        return self._known[number]

    def around(self, line: Line) -> Box | None:
        """The box around a line; None if no character of it has one."""
        boxes = [box for each in line if (box := self.of(each.number))]
        return reduce(Box.around, boxes) if boxes else None

    def ink(self, number: int) -> Box | None:
        """The painted part of a character; None if it has none."""
        sides = [ctypes.c_double() for _ in range(4)]
        if number < 0 or not pdfium.FPDFText_GetCharBox(self._characters.raw, number, *sides):
            return None
        left, right, bottom, top = (each.value for each in sides)
        return Box(left, bottom, right, top) if right > left else None

    def baseline(self, line: Line) -> float:
        """The height of the line's first character above the page's lower edge."""
        x, y = ctypes.c_double(), ctypes.c_double()
        number = next((each.number for each in line if each.number >= 0), MADE)
        if number == MADE:
            box = self.around(line)
            return box.bottom if box else 0
        pdfium.FPDFText_GetCharOrigin(self._characters.raw, number, x, y)
        return y.value

    def _room(self, number: int) -> Box | None:
        box = pdfium.FS_RECTF()
        if not pdfium.FPDFText_GetLooseCharBox(self._characters.raw, number, box):
            return None
        left, right = sorted((box.left, box.right))
        bottom, top = sorted((box.bottom, box.top))
        return Box(left, bottom, right, top) if top > bottom else None


def text_of(line: Line) -> str:
    """The characters of a line, in which each has one place."""
    return "".join([each.letter for each in line])


def end_of(line: Line) -> int:
    """The number of characters up to the last that is not a space."""
    return next((i for i in range(len(line), 0, -1) if not line[i - 1].letter.isspace()), 0)


def stripped(line: Line) -> Line:
    start = next((i for i, each in enumerate(line) if not each.letter.isspace()), 0)
    return line[start : end_of(line)]
