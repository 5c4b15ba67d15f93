"""Decides which parts of a conversation's documents a message gets, and describes that for people.

If a document fits, it stands whole in the message that it is attached to. Otherwise each message
gets the passages that its question is about, without those that an earlier message has: so a sent
message never changes. Knows tokens only by a function that counts them.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from engine.documents import Document
from engine.documents.passages import Key, PassageIndex, choose, terms
from engine.documents.prompt import (
    Attached,
    Passage,
    Sent,
    SentDocument,
    in_passages,
    write_message,
)
from models.errors import Problem

MOST_PASSAGE_TOKENS = 8192
"""The most tokens of passages in one message, for any room: more of them take longer to read and
seldom help."""

_SAMPLED = 2000  # characters, at three places
_ENOUGH_WORDS = 3  # a question with fewer, which refers to the one before, is joined with it
_AROUND_A_PASSAGE = 12  # tokens of its place and of the lines around it
_REFERS = re.compile(
    r"^\W*(and|but|how about|or|what about)\b|"
    r"\b(he|her|him|his|it|its|same|she|that|their|them|there|these|they|this|those)\b",
    re.IGNORECASE,
)
_ABOUT_ALL = re.compile(
    r"\b(compar(e|ison)|count|gist|how (many|often)|in total|main points|most often|number of|"
    r"outline|overview|proofread|summar\w+|tl;?dr|translate|what is (it|this) about|"
    r"(complete|entire|whole) (document|file|text)|all (its|of|the|their|these|those)|"
    r"(extract|find|give|list|name|show)\b.{0,20}\b(all|each|every))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A message with its documents.

    `tokens`: of each document in it. `words`: the words that passages were looked for by.
    `from_beginning`: the numbers of documents in which none was found; they are given from their
    beginning. `whole_tokens`: of all documents that are given in passages, about. `about_all`: the
    question is about all of a document, and the message has passages only.
    """

    sent: Sent
    tokens: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    from_beginning: tuple[int, ...] = ()
    whole_tokens: int = 0
    about_all: bool = False

    def told(self, document: SentDocument) -> str:
        """Describe the part of a document that the model gets: "whole, 12,400 tokens"."""
        tokens = f"{self.tokens[self.sent.documents.index(document)]:,} tokens"
        if not document.passages:
            return f"whole, {tokens}"
        how = f"found by: {', '.join(self.words)}"
        if document.number in self.from_beginning:
            how = "its beginning, as no word of the question is found in it"
        return f"{in_passages(document.passages, document.among)} ({how}), {tokens}"


def plan(
    question: str,
    documents: Mapping[int, Document],
    *,
    index: PassageIndex,
    count: Callable[[str], int],
    room: int,
    share: float = 0.5,
    before: Sequence[Sent] = (),
    asked_before: str = "",
) -> Plan:
    """Write a question's message with the parts of the documents that it needs.

    `documents`: of the conversation, by number. `count(text)`: the tokens of a text. `room`: the
    tokens that documents may take; passages may take `share` of it. `before`: the earlier messages
    that are still in the prompt; a document in none of them is new. `asked_before`: the question
    before, whose words are looked for too if this question has few and refers to it. Raises
    `Problem` if there is no room for a new document.
    """
    held = {each.number: not each.whole for sent in before for each in sent.documents}
    new = [number for number in documents if number not in held]
    texts = {n: write_message("", [Attached(n, documents[n])]).text for n in new}
    sizes = {number: _size(text, count, room) for number, text in texts.items()}
    whole = _whole(sizes, room)
    partly = [n for n in documents if held.get(n, n not in whole)]
    search = _Search(documents, partly, index, count)
    search.look_for(looked_for(question, asked_before), new)
    search.without = _given(search.passages, before)

    used = sum(sizes[number] for number in whole)
    limit = min(int((room - used) * share), MOST_PASSAGE_TOKENS)
    most = limit
    while True:
        chosen = search.choose(most)
        attached = [
            Attached(n, documents[n], chosen.get(n), len(search.passages.get(n, ())))
            for n in documents
            if n in whole or n in chosen
        ]
        tokens = tuple(
            sizes[each.number] if each.passages is None else count(write_message("", [each]).text)
            for each in attached
        )
        excess = sum(tokens) - used - limit
        if not chosen or excess <= 0:
            break
        most -= excess
    for number in new:
        if number not in whole and number not in chosen:
            raise Problem(
                f"There is room for {max(limit, 0):,} tokens of {documents[number].name}, less "
                "than a passage of it has.",
                "Give a larger context or attach fewer documents.",
            )
    return Plan(
        write_message(question, attached),
        tokens,
        search.words if chosen else (),
        tuple(n for n in search.from_beginning if n in chosen),
        sum(map(search.size, chosen)),
        bool(chosen) and asks_about_all(question),
    )


def asks_about_all(question: str) -> bool:
    """Whether a question, by its words, is about all of a document."""
    return _ABOUT_ALL.search(question) is not None


def looked_for(question: str, asked_before: str) -> str:
    """The text whose words are looked for: the question, with the one before if it refers to it."""
    refers = 0 < len(terms(question)) < _ENOUGH_WORDS and _REFERS.search(question)
    return f"{asked_before}\n{question}" if refers else question


class _Search:
    """Searches some documents for passages that a question is about."""

    def __init__(
        self,
        documents: Mapping[int, Document],
        numbers: Sequence[int],
        index: PassageIndex,
        count: Callable[[str], int],
    ) -> None:
        self._documents, self.numbers = documents, numbers
        self.passages = {n: index.passages(n, documents[n]) for n in numbers}
        self._index = index
        self._tokens = {n: _tokens_per_character(documents[n].text, count) for n in numbers}
        self.words: tuple[str, ...] = ()
        self.from_beginning: list[int] = []
        self.without: Collection[Key] = ()
        self._scores: dict[Key, float] = {}
        self._first: list[Key] = []

    def size(self, number: int) -> int:
        """The tokens of a whole document, about."""
        return ceil(len(self._documents[number].text) * self._tokens[number])

    def look_for(self, question: str, new: Collection[int]) -> None:
        """Score passages. Each of the `new` documents gets some, its beginning if none is found."""
        found = self._index.find(question, self.numbers)
        self.words, self._scores = found.words, dict(found.scores)
        with_hits = {number for number, _ in self._scores}
        least = min(self._scores.values(), default=1.0)
        for number in self.numbers:
            if number in new and number not in with_hits:
                self.from_beginning.append(number)
                for i in range(len(self.passages[number])):
                    self._scores[number, i] = least / (2 + i)
            if number in new and self.passages[number]:
                mine = [key for key in self._scores if key[0] == number]
                self._first.append(max(mine, key=lambda key: (self._scores[key], -key[1])))

    def choose(self, room: int) -> dict[int, tuple[Passage, ...]]:
        """The best passages that fit into `room` tokens, by the document's number."""
        chosen = choose(
            self._scores,
            self._cost,
            room=room,
            last={n: len(passages) - 1 for n, passages in self.passages.items()},
            first=self._first,
            without=self.without,
        )
        grouped: dict[int, tuple[Passage, ...]] = {}
        for number, i in chosen:
            grouped[number] = (*grouped.get(number, ()), self.passages[number][i])
        return grouped

    def _cost(self, key: Key) -> int:
        passage = self.passages[key[0]][key[1]]
        return ceil((passage.end - passage.start) * self._tokens[key[0]]) + _AROUND_A_PASSAGE


def _whole(sizes: Mapping[int, int], room: int) -> set[int]:
    """The documents that are given whole: all if they fit, otherwise the smallest in half of the
    room."""
    if sum(sizes.values()) <= room:
        return set(sizes)
    taken: set[int] = set()
    used = 0
    for number in sorted(sizes, key=lambda number: sizes[number]):
        used += sizes[number]
        if used > room // 2:
            break
        taken.add(number)
    return taken


def _size(text: str, count: Callable[[str], int], room: int) -> int:
    """The tokens of a text: counted, or estimated if there are far too many for the room."""
    about = ceil(len(text) * _tokens_per_character(text, count))
    return about if about > 2 * room else count(text)


def _tokens_per_character(text: str, count: Callable[[str], int]) -> float:
    """Tokens / characters of a text, measured at its beginning, middle and end."""
    middle = max(len(text) - _SAMPLED, 0) // 2
    sample = text
    if len(text) > 3 * _SAMPLED:
        sample = text[:_SAMPLED] + text[middle : middle + _SAMPLED] + text[-_SAMPLED:]
    return count(sample) / max(len(sample), 1)


def _given(passages: Mapping[int, Sequence[Passage]], before: Sequence[Sent]) -> frozenset[Key]:
    """The passages that overlap with a part that an earlier message has."""
    ranges = [
        (document.number, part.offset, part.offset + part.length)
        for sent in before
        for document in sent.documents
        for part in document.ranges
    ]
    return frozenset(
        (number, i)
        for number, cut in passages.items()
        for i, passage in enumerate(cut)
        if any(n == number and a < passage.end and passage.start < b for n, a, b in ranges)
    )
