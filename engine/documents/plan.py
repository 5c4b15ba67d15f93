"""Decides which parts of a conversation's documents a message gets, and describes that for people.

If a document fits, all of it is in the message that it is attached to. Otherwise each message
gets the passages that its question is about, without the ones in an earlier message: so a sent
message never changes. Knows tokens only by a function that counts them.
"""

import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from engine.documents import Document
from engine.documents.named_places import NamedPlace, named_places, ranges_of
from engine.documents.passages import Key, PassageIndex, choose
from engine.documents.prompt import (
    Attached,
    Passage,
    Sent,
    SentDocument,
    in_passages,
    write_message,
)
from engine.documents.question import looked_for
from engine.documents.tables import header_of
from models.errors import Problem

MOST_PASSAGE_TOKENS = 8192
"""The most tokens of passages in one message, for any room: more of them take longer to read and
seldom help."""

_SAMPLED = 2000  # characters, at three places
_AROUND_A_PASSAGE = 12  # tokens of its place and of the lines around it


@dataclass(frozen=True, slots=True)
class Plan:
    """A message with its documents.

    `tokens`: of each document in it. `words`: the words that passages were looked for by, and the
    names of places that were found, such as "page 88".
    `from_beginning`: the numbers of documents in which none was found; they are given from their
    beginning. `whole_tokens`: of all documents that are given in passages, about. `in_part`: places
    that the question names are given only in part; if it names none, a new document is.
    """

    sent: Sent
    tokens: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    from_beginning: tuple[int, ...] = ()
    whole_tokens: int = 0
    in_part: bool = False

    def told(self, document: SentDocument) -> str:
        """Describe the part of a document that the model gets: "whole, 12,400 tokens"."""
        count = self.tokens[self.sent.documents.index(document)]
        tokens = f", {count:,} tokens" if count else ""  # a picture may not be counted yet
        if not document.passages:
            return f"{document.in_words}{tokens}"
        how = f"found by: {', '.join(self.words)}"
        if document.number in self.from_beginning:
            how = "its beginning, as no word of the question is found in it"
        return f"{in_passages(document.passages, document.among)} ({how}){tokens}"


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
    picture_tokens: Callable[[Document], int] = lambda picture: 0,
) -> Plan:
    """Write a question's message with the parts of the documents that it needs.

    `documents`: of the conversation, by number. `count(text)`: the tokens of a text. `room`: the
    tokens that documents may take; passages may take `share` of it. `before`: the earlier messages
    that are still in the prompt; a document in none of them is new. `asked_before`: the question
    before, whose words are looked for too if this question has few and refers to it.
    `picture_tokens`: the tokens of a picture, which is always given whole. Raises `Problem` without
    room for a new document.
    """
    held = {each.number: not each.whole for sent in before for each in sent.documents}
    pictures = [Attached(n, d) for n, d in documents.items() if d.pixels and n not in held]
    seen = tuple(picture_tokens(each.document) for each in pictures)
    documents = {number: d for number, d in documents.items() if d.pixels is None}
    room -= sum(seen)
    if room < 0 < sum(seen):
        raise Problem(
            f"The pictures take {sum(seen):,} tokens, {-room:,} too many.",
            "Attach fewer pictures, or use a larger context.",
        )
    new = [number for number in documents if number not in held]
    texts = {n: write_message("", [Attached(n, documents[n])]).text for n in new}
    sizes = {number: _size(text, count, room) for number, text in texts.items()}
    whole = _whole(sizes, room)
    partly = [n for n in documents if held.get(n, n not in whole)]
    search = _Search(documents, partly, index, count)
    search.look_for(question, new, asked_before=asked_before)
    search.without = _given(search.passages, before)

    of_whole = {number: sizes[number] for number in whole}
    limit = min(int((room - sum(of_whole.values())) * share), MOST_PASSAGE_TOKENS)
    chosen, attached, tokens = _fitting(search, documents, of_whole, count, limit)
    for number in new:
        if number not in whole and number not in chosen:
            raise Problem(
                f"Only {max(limit, 0):,} tokens are left for {documents[number].name}, less "
                "than one passage needs.",
                "Use a larger context, or attach fewer documents.",
            )
    return Plan(
        write_message(question, [*pictures, *attached]),
        (*seen, *tokens),
        search.words if chosen else (),
        tuple(n for n in search.from_beginning if n in chosen),
        sum(map(search.size, chosen)),
        search.misses(chosen, new),
    )


def _fitting(
    search: "_Search",
    documents: Mapping[int, Document],
    of_whole: Mapping[int, int],
    count: Callable[[str], int],
    limit: int,
) -> tuple[Mapping[int, tuple[Passage, ...]], list[Attached], tuple[int, ...]]:
    """Return the passages that take at most `limit` tokens together; and all attached parts, these
    and documents that are given whole, with the tokens of each."""
    most = limit
    while True:
        chosen = search.choose(most)
        attached = [
            Attached(n, documents[n], chosen.get(n), len(search.passages.get(n, ())))
            for n in documents
            if n in of_whole or n in chosen
        ]
        tokens = tuple(
            count(write_message("", [each]).text) if each.passages else of_whole[each.number]
            for each in attached
        )
        excess = sum(tokens) - sum(of_whole.values()) - limit
        if not chosen or excess <= 0:
            return chosen, attached, tokens
        most -= excess


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
        self._at_places: list[Key] = []  # that the question names
        self._first: list[Key] = []  # to be chosen

    def size(self, number: int) -> int:
        """The tokens of a whole document, about."""
        return ceil(len(self._documents[number].text) * self._tokens[number])

    def look_for(self, question: str, new: Collection[int], *, asked_before: str) -> None:
        """Score passages, those at places that the question names before all others. Each of the
        `new` documents gets some, its beginning if none is found."""
        question = unicodedata.normalize("NFC", question)
        named: dict[tuple[int, int], str] = {}  # places that are found, by where they are named
        for place in named_places(question):
            if at_place := [key for number in self.numbers for key in self._at(place, number)]:
                self._at_places += at_place
                named[place.start, place.end] = question[place.start : place.end]
        rest = question if named else looked_for(question, asked_before)
        for start, end in sorted(named, reverse=True):
            rest = f"{rest[:start]} {rest[end:]}"
        found = self._index.find(rest, self.numbers)
        self.words = (*dict.fromkeys(named.values()), *found.words)
        self._scores = dict(found.scores)
        with_hits = {number for number, _ in (*self._scores, *self._at_places)}
        least = min(self._scores.values(), default=1.0)
        for number in self.numbers:
            if number in new and number not in with_hits:
                self.from_beginning.append(number)
                for i in range(len(self.passages[number])):
                    self._scores[number, i] = least / (2 + i)
        self._at_places.sort(key=self._by_score)
        for number in new:
            at_place = [key for key in self._at_places if key[0] == number]
            mine = at_place or [key for key in self._scores if key[0] == number]
            self._first += sorted(mine, key=self._by_score)[:1]
        self._first += self._at_places

    def _by_score(self, key: Key) -> tuple[float, Key]:
        return -self._scores.get(key, 0.0), key

    def misses(self, chosen: Mapping[int, Sequence[Passage]], new: Collection[int]) -> bool:
        """Whether a part of the places that the question names is in no message; if it names none,
        of the `new` documents."""
        if not self._at_places:
            return not chosen.keys().isdisjoint(new)
        return bool(chosen) and any(
            key not in self.without and self.passages[key[0]][key[1]] not in chosen.get(key[0], ())
            for key in self._at_places
        )

    def _at(self, place: NamedPlace, number: int) -> list[Key]:
        """The passages of a document at a place."""
        ranges = ranges_of(place, self._documents[number])
        return [
            (number, i)
            for i, passage in enumerate(self.passages[number])
            if any(start < passage.end and passage.start < end for start, end in ranges)
        ]

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
        number, i = key
        passage = self.passages[number][i]
        characters = passage.end - passage.start
        characters += len(header_of(self._documents[number], passage.start))
        return ceil(characters * self._tokens[number]) + _AROUND_A_PASSAGE


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
