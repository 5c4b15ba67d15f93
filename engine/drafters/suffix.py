"""Copies what most often followed the text's end, here and in earlier answers (suffix decoding).

Where the end of the text occurred before, its continuations vote: longer matches weigh more. The
likeliest one is drafted for as long as its share of the votes is high enough; a text that repeats
itself is continued beyond its end. After SuffixDecoding (arXiv 2411.04975), with an index of places
instead of a tree, so that a token costs a few microseconds and a few numbers. Costs nothing beside
a pass; copied tokens have q = 1. How many to draft is for the draft-length policy to decide.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.decoder import Decoder
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter, Untaught
from engine.drafters.lookup import copied
from engine.earlier_answers import EarlierAnswers
from engine.places import GAP, Places
from engine.request import Sampling

_SLOTS = 1 << 15
_LEAST_SHARE = 0.5  # of the votes, below which a continuation is not followed
_PER_TOKEN = 2.0  # how many times as much a place weighs for one more token that matches
_NEARER = 1  # tokens that a match in earlier answers must be longer than one here
_COPY = 5  # tokens, matched or accepted, that make a copy which is worth resuming
_RESUMED = 2  # tokens that a place matches more for resuming it
_LATELY = 8  # tokens committed since then, at most

Matches = list[tuple[int, int]]  # places, and how many tokens match before each
Votes = list[tuple[int, float]]  # places, and what the vote of each weighs


@dataclass(frozen=True, slots=True)
class Continuation:
    """How the text may go on. `share` of the votes; `match`: how many tokens matched at the best
    place. `place`: the latest one with this continuation; `here`: whether in the text itself."""

    tokens: tuple[int, ...]
    share: float
    match: int
    place: int
    here: bool


@dataclass(frozen=True, slots=True)
class _Copy:
    """The last accepted copy: it would have gone on at `place` behind `length` tokens."""

    places: Places
    place: int
    length: int


class SuffixDrafter(Untaught):
    """Proposes the likeliest continuation of the text's end, if there is one."""

    name = "suffix"

    def __init__(self, earlier: EarlierAnswers | None = None) -> None:
        self._earlier = earlier
        self._here = Places(slots=_SLOTS)
        self._likeliest: tuple[int, Continuation | None] = (0, None)  # behind so many tokens
        self._proposed: Continuation | None = None
        self._copy: _Copy | None = None

    def beside(self, target: Decoder) -> Drafter:
        return SuffixDrafter(self._earlier)

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        return iter(())

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        found = self._find(tokens)
        return (DraftCandidate(self.name, len(found.tokens), found.match),) if found else ()

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        self._proposed = found = self._find(tokens)
        return (
            copied(list(found.tokens[: choice.length]), self.name, found.match) if found else None
        )

    def accept(self, path: Sequence[int]) -> None:
        length, accepted, proposed = self._likeliest[0], len(path), self._proposed
        if proposed is None or proposed.match + accepted < _COPY:
            return
        places = self._here
        if not proposed.here and self._earlier is not None:
            places = self._earlier.places
            self._earlier.use(proposed.place)
        self._copy = _Copy(places, proposed.place + accepted, length + accepted)

    def rewind(self, length: int) -> None:
        self._here.cut(length)
        self._likeliest, self._proposed, self._copy = (0, None), None, None

    def continuations(self, tokens: list[int], count: int) -> list[Continuation]:
        """The `count` likeliest ways to go on behind `tokens`, likeliest first, each at most
        `LONGEST` tokens; no two begin alike."""
        self._here.extend(tokens[len(self._here.text) :])
        places, found = self._here, self._matches(self._here, tokens)
        if self._earlier is not None:
            earlier = self._matches(self._earlier.places, tokens)
            if _longest(earlier) > _longest(found) + _NEARER:
                places, found = self._earlier.places, earlier
        match, here = _longest(found), places is self._here
        votes = [(place, _PER_TOKEN ** (matched - match)) for place, matched in found]
        total, made = _weight(votes), []
        for token, voters in _ways(places.text, votes, [], wraps=here)[:count]:
            drafted, share = [token], _weight(voters) / total
            place = voters[0][0]
            while len(drafted) < LONGEST:
                ways = _ways(places.text, voters, drafted, wraps=here)
                if not ways or _weight(ways[0][1]) < _LEAST_SHARE * share * total:
                    break
                token, voters = ways[0]
                drafted.append(token)
            made.append(Continuation(tuple(drafted), share, match, place, here))
        return made

    def _matches(self, places: Places, tokens: list[int]) -> Matches:
        """The places of the longest matches. Behind a token that the last accepted copy did not
        have, it may go on: with that token replaced, or put in, or another one left out."""
        found, copy = places.find(tokens), self._copy
        since = len(tokens) - copy.length if copy else 0
        if copy is None or copy.places is not places or since > _LATELY:
            return found
        resumed = []
        for place in (copy.place + since, copy.place + since - 1, copy.place + since + 1):
            matched = places.match(tokens, place)
            if 0 < matched <= since:
                resumed.append((place, matched + _RESUMED))
        known = {place for place, _ in resumed}
        return [*resumed, *(each for each in found if each[0] not in known)]

    def _find(self, tokens: list[int]) -> Continuation | None:
        if self._likeliest[0] != len(tokens):
            likeliest = self.continuations(tokens, 1)
            chosen = likeliest[0] if likeliest and likeliest[0].share >= _LEAST_SHARE else None
            self._likeliest = (len(tokens), chosen)
        return self._likeliest[1]


def _ways(
    text: Sequence[int], votes: Votes, drafted: Sequence[int], *, wraps: bool
) -> list[tuple[int, Votes]]:
    """The tokens that followed `drafted` at the places, each with the votes for it, the heaviest
    first. Where the text `wraps`, what is drafted goes on behind its end."""
    ways: dict[int, Votes] = {}
    for place, weight in votes:
        behind = place + len(drafted) - len(text)
        if behind < 0:
            token = text[behind]
        elif wraps:
            token = drafted[behind]
        else:
            continue
        if token != GAP:
            ways.setdefault(token, []).append((place, weight))
    return sorted(ways.items(), key=lambda way: -_weight(way[1]))


def _longest(found: Matches) -> int:
    return max((matched for _, matched in found), default=0)


def _weight(votes: Votes) -> float:
    return sum(weight for _, weight in votes)
