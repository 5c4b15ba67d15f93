"""How the text of a reply is told apart: prose, reasoning, calls of tools."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Prose:
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallText:
    text: str


Part = Prose | Thought | CallStart | CallText


class Reader(Protocol):
    """Takes the text of one reply as it comes."""

    def push(self, text: str) -> list[Part]:
        """What more text makes certain."""

    def finish(self) -> list[Part]:
        """What is left at the end."""


class _Prose:
    def push(self, text: str) -> list[Part]:
        return [Prose(text)]

    def finish(self) -> list[Part]:
        return []


def everything_is_prose() -> Reader:
    """The reader of a model that marks nothing."""
    return _Prose()
