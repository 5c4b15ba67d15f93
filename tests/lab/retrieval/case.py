"""A document, and questions whose answers stand at known places of it.

The texts around the answers are put together from sentences on the same subject, by seeded chance:
so the words of a question stand in many passages, as in real documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

WIDE = "/MediaBox [0 0 700 300]"
"""Of a PDF's page that has lines of 90 characters."""

type Language = Literal[
    "English", "German", "Spanish",
    "Hindi", "Tamil", "Bengali", "Telugu", "Malayalam", "Hebrew", "Arabic",
]  # fmt: skip
type Kind = Literal["contract", "handbook", "table", "slides", "novel", "machine", "lease"]
type Style = Literal["words", "forms", "place", "number", "other words"]
"""How a question asks: with the document's words, with other forms of them, by a place, with a
number that is written in another way, or in other words, of which a few are the document's."""


@dataclass(frozen=True, slots=True)
class Question:
    """`answer`: words that stand in the document once, and must be given."""

    style: Style
    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class Case:
    """A file with its questions. `header`: the first row of a table, which its rows need."""

    name: str
    kind: Kind
    language: Language
    data: bytes
    questions: Sequence[Question]
    header: str = ""


def prose(chance: Random, sentences: Sequence[str], words: Mapping[str, Sequence[str]]) -> str:
    """One of the sentences, with chosen words in its braces and numbers for `{n}`."""
    chosen = {name: chance.choice(list(each)) for name, each in words.items()}
    return chance.choice(list(sentences)).format(n=chance.randint(2, 98), **chosen)


def paragraph(
    chance: Random,
    sentences: Sequence[str],
    words: Mapping[str, Sequence[str]],
    *,
    count: int,
    fact: str = "",
) -> str:
    """`count` sentences, with the fact among them."""
    made = [prose(chance, sentences, words) for _ in range(count)]
    if fact:
        made.insert(chance.randint(1, count - 1), fact)
    return " ".join(made)
