"""Drafters that copy: what followed the end of the text before, here or in another text.

Lookup (prompt lookup) copies what followed the longest match. Suffix (after SuffixDecoding, arXiv
2411.04975, with an index of places instead of a tree) lets all matches vote, in the text and in
earlier answers. Prediction copies a text that a client expects the answer to resemble. All of it is
pure Python over token ids and costs next to nothing. Copied tokens have q = 1, which the acceptance
rules allow for. How many tokens to copy is for the draft-length policy to decide.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import LONGEST, LONGEST_COPY, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.earlier_answers import EarlierAnswers
from engine.places import GAP, LONGEST_MATCH, LastCopy, Matches, Places
from engine.request import Sampling
from engine.tree import COMMITTED, Tree

_SLOTS = 1 << 15  # of an index: a prompt and an answer have about as many tokens
_LEAST_SHARE = 0.5  # of the votes, below which a continuation is not followed
_PER_TOKEN = 2.0  # how many times as much a place weighs for one more token that matches
_NEARER = 1  # tokens that a match in earlier answers must be longer than one here
_ALTERNATIVES = 4  # continuations that a tree of the suffix drafter may have

Votes = list[tuple[int, float]]  # places, and the weight of the vote of each


@dataclass(frozen=True, slots=True)
class Continuation:
    """A way in which the text may go on: `tokens`, at least one.

    `share`: of the votes; `match`: the number of tokens that matched at the best place. `place`: a
    place that is followed by all of these tokens, where the last copy goes on, or otherwise the
    latest; `here`: whether it is in the text itself.
    """

    tokens: tuple[int, ...]
    share: float
    match: int
    place: int
    here: bool


class CopyingDrafter(Drafter):
    """Proposes the first continuation that its kind finds, or a tree of all of them."""

    def __init__(self, earlier: EarlierAnswers | None = None, *, slots: int = _SLOTS) -> None:
        """`earlier`: answers to copy from, too; `slots`: of the index of the text."""
        self._earlier = earlier
        self._here = Places(slots=slots)
        self._copy = LastCopy()
        self._found: tuple[int, Sequence[Continuation]] = (0, ())  # after this many tokens
        self._drafted: tuple[int, ...] = ()

    @abstractmethod
    def find(self, tokens: list[int]) -> Sequence[Continuation]:
        """Return the continuations of `tokens`, the best first."""

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        found = self._continuations(tokens)
        if not found:
            return ()
        most, match = len(found[0].tokens), found[0].match
        different = len({each.tokens[0] for each in found})
        return (DraftCandidate(self.name, most, match, alternatives=different),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        found = self._continuations(tokens)
        if not found:
            return None
        first = found[0]
        text, tree = list(first.tokens[: choice.length]), None
        if choice.tree is not None:
            text, tree = merged([each.tokens for each in found], choice.tree)
        source = first.place if first.here else None
        draft = copied(text, tree, drafter=self.name, matched=first.match, source=source)
        self._drafted = draft.copied
        return draft

    def accept(self, path: Sequence[int]) -> None:
        length, found = self._found
        accepted = tuple(self._drafted[i] for i in path)
        source = next(each for each in found if each.tokens[: len(accepted)] == accepted)
        places = self._here
        if not source.here and self._earlier is not None:
            places = self._earlier.places
            if accepted:
                self._earlier.use(source.place)
        self._copy.keep(
            places,
            source.place + len(accepted),
            length=length + len(accepted),
            copied=source.match + len(accepted),
        )

    def rewind(self, length: int) -> None:
        self._here.cut(length)
        self._copy.forget()
        self._found, self._drafted = (0, ()), ()

    def _continuations(self, tokens: list[int]) -> Sequence[Continuation]:
        """Return what `find` returns; for the same tokens it is asked once."""
        if self._found[0] != len(tokens):
            self._found = len(tokens), self.find(tokens)
        return self._found[1]

    def _matches(self, tokens: list[int]) -> Matches:
        """Return the earlier places in the text that match its end, after adding new tokens."""
        self._here.extend(tokens[len(self._here.text) :])
        return self._copy.matches(self._here, tokens)


class LookupDrafter(CopyingDrafter):
    """Proposes the tokens after the longest match of the text's end in prompt and answer; of
    equally long matches, those after the latest."""

    name = "lookup"

    def fork(self, target: Decoder) -> Drafter:
        return LookupDrafter()

    def find(self, tokens: list[int]) -> Sequence[Continuation]:
        return [
            Continuation(tuple(tokens[place : place + LONGEST_COPY]), 1.0, match, place, here=True)
            for place, match in sorted(self._matches(tokens), key=lambda each: -each[1])
        ]


class PredictionDrafter(CopyingDrafter):
    """Proposes from `prediction`, token ids, once the prompt's `start` tokens are there: first its
    beginning, then the tokens after the longest match of the answer's end. The model never reads
    the prediction: a wrong one costs rejected drafts, and changes nothing."""

    name = "prediction"

    def __init__(self, prediction: list[int], *, start: int) -> None:
        super().__init__(slots=1)
        self._prediction, self._start = prediction, start
        self._places = Places(slots=_SLOTS)
        self._places.extend(prediction)

    def fork(self, target: Decoder) -> Drafter:
        return PredictionDrafter(self._prediction, start=self._start)

    def find(self, tokens: list[int]) -> Sequence[Continuation]:
        answer = tokens[self._start :][-LONGEST_MATCH:]
        found = self._places.find(answer) if answer else [(0, LONGEST_MATCH)]
        place, match = max(found, key=lambda each: each[1], default=(len(self._prediction), 0))
        text = tuple(self._prediction[place : place + LONGEST_COPY])
        return [Continuation(text, 1.0, match, place, here=False)] if text else []


class SuffixDrafter(CopyingDrafter):
    """Proposes the likeliest continuation of the text's end, if it has half of the votes.

    The continuations at all matches vote, and longer matches weigh more. A continuation is followed
    for as long as its share of the votes is high enough; a text that repeats itself is continued
    beyond its end.
    """

    name = "suffix"

    def fork(self, target: Decoder) -> Drafter:
        return SuffixDrafter(self._earlier)

    def find(self, tokens: list[int]) -> Sequence[Continuation]:
        found = self.continuations(tokens, _ALTERNATIVES)
        return found if found and found[0].share >= _LEAST_SHARE else []

    def continuations(self, tokens: list[int], count: int) -> list[Continuation]:
        """Return up to `count` of the likeliest continuations of `tokens`, likeliest first. No two
        begin with the same token.

        Each has at most `LONGEST_COPY` tokens; those after the first `LONGEST` are from one place.
        """
        places, found = self._here, self._matches(tokens)
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


def copied(
    text: Sequence[int],
    tree: Tree | None = None,
    *,
    drafter: str,
    matched: int,
    source: int | None = None,
) -> DraftArrays:
    """Return a draft of copied tokens. `tree`: its shape; None for a chain."""
    return DraftArrays(
        tokens=mx.array(list(text), dtype=mx.int32),
        q=mx.ones((len(text),)),
        distributions=None,
        drafter=drafter,
        match=matched,
        copied=tuple(text),
        tree=None if tree is None or tree.is_chain else tree,
        source=source,
    )


def merged(texts: Sequence[Sequence[int]], shape: Tree) -> tuple[list[int], Tree]:
    """Join several continuations to one tree, in which equal beginnings are one path. Returns its
    tokens and the tree, which has at most as many tokens as `shape`, and at most its height.

    Alternatives are tried in the order of `texts`. First come the tokens that fill a place of
    `shape` (as deep, after the same tokens, with as many alternatives before them); if places stay
    empty, other tokens of the texts follow, in their order.
    """
    tokens: list[int] = []
    parents: list[int] = []
    after: dict[int, dict[int, int]] = {COMMITTED: {}}  # by token, its number after another
    for text in texts:
        place = COMMITTED
        for token in text[: shape.height]:
            if token not in after[place]:
                after[place][token], after[len(tokens)] = len(tokens), {}
                tokens.append(token)
                parents.append(place)
            place = after[place][token]
    filled = {COMMITTED: COMMITTED}  # by the number in `shape`
    for number, (parent, rank) in enumerate(zip(shape.parents, shape.ranks, strict=True)):
        alternatives = [*after[filled[parent]].values()] if parent in filled else []
        if rank < len(alternatives):
            filled[number] = alternatives[rank]
    chosen = [place for place in filled.values() if place != COMMITTED]
    chosen += [place for place in range(len(tokens)) if place not in chosen]
    chosen = chosen[: len(shape)]
    return [tokens[place] for place in chosen], Tree(tuple(parents)).only(chosen)


def _ways(
    text: Sequence[int], votes: Votes, drafted: Sequence[int], *, wraps: bool
) -> list[tuple[int, Votes]]:
    """Return the tokens that followed `drafted` at the places, each with the votes for it, the
    heaviest first. If the text `wraps`, the draft itself continues it after its end."""
    ways: dict[int, Votes] = {}
    for place, weight in votes:
        past = place + len(drafted) - len(text)  # the end, or before it where negative
        if past < 0:
            token = text[past]
        elif wraps:
            token = drafted[past]
        else:
            continue
        if token != GAP:
            ways.setdefault(token, []).append((place, weight))
    return sorted(ways.items(), key=lambda way: -_weight(way[1]))


def _go_on(drafted: list[int], text: Sequence[int], place: int, *, wraps: bool) -> None:
    """Extend `drafted` by the tokens that follow at `place`, up to `LONGEST_COPY` in all."""
    for number in range(place + len(drafted), place + LONGEST_COPY):
        if number >= len(text) and not wraps:
            return
        token = text[number] if number < len(text) else drafted[number - len(text)]
        if token == GAP:
            return
        drafted.append(token)


def _longest(found: Matches) -> int:
    return max((matched for _, matched in found), default=0)


def _weight(votes: Votes) -> float:
    return sum(weight for _, weight in votes)
