"""Copies what most often followed the text's end, here and in earlier answers (suffix decoding).

Where the end of the text occurred before, its continuations vote: longer matches weigh more. The
likeliest one is drafted for as long as its share of the votes is high enough; a text that repeats
itself is continued beyond its end. After SuffixDecoding (arXiv 2411.04975), with an index of places
instead of a tree, so that a token costs a few microseconds and a few numbers. Costs nothing beside
a pass; copied tokens have q = 1. How many to draft is for the draft-length policy to decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import LONGEST, LONGEST_COPY, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.lookup import SLOTS, copied, merged
from engine.earlier_answers import EarlierAnswers
from engine.places import GAP, LastCopy, Matches, Places
from engine.request import Sampling

_LEAST_SHARE = 0.5  # of the votes, below which a continuation is not followed
_PER_TOKEN = 2.0  # how many times as much a place weighs for one more token that matches
_NEARER = 1  # tokens that a match in earlier answers must be longer than one here
_ALTERNATIVES = 4  # ways to go on that a tree may have

Votes = list[tuple[int, float]]  # places, and what the vote of each weighs


@dataclass(frozen=True, slots=True)
class Continuation:
    """A way in which the text may go on.

    `share` of the votes; `match`: the number of tokens that matched at the best place. `place`: a
    place with all of this continuation, where the last copy goes on, or otherwise the latest;
    `here`: whether it is in the text itself.
    """

    tokens: tuple[int, ...]
    share: float
    match: int
    place: int
    here: bool


class SuffixDrafter(Drafter):
    """Proposes the likeliest continuation of the text's end, if there is one."""

    name = "suffix"

    def __init__(self, earlier: EarlierAnswers | None = None) -> None:
        self._earlier = earlier
        self._here = Places(slots=SLOTS)
        self._likeliest: tuple[int, list[Continuation]] = (0, [])  # after so many tokens
        self._proposed: tuple[int, ...] = ()  # of these, the tokens of the last draft
        self._copy = LastCopy()

    def beside(self, target: Decoder) -> Drafter:
        return SuffixDrafter(self._earlier)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        found = self._find(tokens)
        if not found:
            return ()
        most, match = len(found[0].tokens), found[0].match
        return (DraftCandidate(self.name, most, match, alternatives=len(found)),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        found = self._find(tokens)
        if not found:
            return None
        first, texts = found[0], [each.tokens for each in found]
        text, tree = list(texts[0][: choice.length]), None
        if choice.tree is not None:
            text, tree = merged(texts, choice.tree)
        source = first.place if first.here else None
        draft = copied(text, tree, drafter=self.name, matched=first.match, source=source)
        self._proposed = draft.copied
        return draft

    def accept(self, path: Sequence[int]) -> None:
        length, found = self._likeliest
        accepted = tuple(self._proposed[i] for i in path)
        proposed = next(each for each in found if each.tokens[: len(accepted)] == accepted)
        places = self._here
        if not proposed.here and self._earlier is not None:
            places = self._earlier.places
            if accepted:
                self._earlier.use(proposed.place)
        self._copy.keep(
            places,
            proposed.place + len(accepted),
            length=length + len(accepted),
            copied=proposed.match + len(accepted),
        )

    def rewind(self, length: int) -> None:
        self._here.cut(length)
        self._likeliest, self._proposed = (0, []), ()
        self._copy.forget()

    def continuations(self, tokens: list[int], count: int) -> list[Continuation]:
        """Return up to `count` of the likeliest continuations of `tokens`, likeliest first. No two
        begin with the same token.

        Each has at most `LONGEST_COPY` tokens; those after the first `LONGEST` are from one place.
        """
        self._here.extend(tokens[len(self._here.text) :])
        places, found = self._here, self._copy.matches(self._here, tokens)
        if self._earlier is not None:
            earlier = self._copy.matches(self._earlier.places, tokens)
            if _longest(earlier) > _longest(found) + _NEARER:
                places, found = self._earlier.places, earlier
        match, here = _longest(found), places is self._here
        votes = [(place, _PER_TOKEN ** (matched - match)) for place, matched in found]
        total, made = _weight(votes), []
        for token, voters in _ways(places.text, votes, [], wraps=here)[:count]:
            drafted, share = [token], _weight(voters) / total
            while len(drafted) < LONGEST:
                ways = _ways(places.text, voters, drafted, wraps=here)
                if not ways or _weight(ways[0][1]) < _LEAST_SHARE * share * total:
                    break
                token, voters = ways[0]
                drafted.append(token)
            place = voters[0][0]
            if len(drafted) == LONGEST:
                _go_on(drafted, places.text, place, wraps=here)
            made.append(Continuation(tuple(drafted), share, match, place, here))
        return made

    def _find(self, tokens: list[int]) -> list[Continuation]:
        """Return the continuations, likeliest first; empty if the first has too few of the
        votes."""
        if self._likeliest[0] != len(tokens):
            found = self.continuations(tokens, _ALTERNATIVES)
            sure = found and found[0].share >= _LEAST_SHARE
            self._likeliest = (len(tokens), found if sure else [])
        return self._likeliest[1]


def _ways(
    text: Sequence[int], votes: Votes, drafted: Sequence[int], *, wraps: bool
) -> list[tuple[int, Votes]]:
    """Return the tokens that followed `drafted` at the places, each with the votes for it, the
    heaviest first. If the text `wraps`, the draft itself continues it after its end."""
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


def _go_on(drafted: list[int], text: Sequence[int], place: int, *, wraps: bool) -> None:
    """Extend `drafted` by the tokens that follow at `place`, up to `LONGEST_COPY` in all."""
    for behind in range(place + len(drafted), place + LONGEST_COPY):
        if behind >= len(text) and not wraps:
            return
        token = text[behind] if behind < len(text) else drafted[behind - len(text)]
        if token == GAP:
            return
        drafted.append(token)


def _longest(found: Matches) -> int:
    return max((matched for _, matched in found), default=0)


def _weight(votes: Votes) -> float:
    return sum(weight for _, weight in votes)
