"""Copies what followed the longest match of the text's end (prompt lookup); in a tree, what
followed others too.

Costs nothing. It helps where a text repeats itself or its prompt (edits, summaries, code). It
reports how many tokens matched; whether to copy is for the draft-length policy to decide. Pure
Python over token ids. Copied tokens have q = 1, which the acceptance rules allow for.
"""

from collections import defaultdict
from collections.abc import Sequence

import mlx.core as mx

from engine.decoder import Decoder
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter, Memoryless
from engine.request import Sampling
from engine.tree import COMMITTED, Tree

_SHORTEST = 2  # tokens that must match at the very least; what the index is keyed by
LONGEST_MATCH = 32  # longer matches count as this
_OCCURRENCES = 64  # the most recent occurrences that are compared


class LookupDrafter(Memoryless):
    """Proposes what followed the longest matches of the text's end in prompt and answer."""

    name = "lookup"

    def __init__(self) -> None:
        self._index = MatchIndex()

    def beside(self, target: Decoder) -> Drafter:
        return LookupDrafter()

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        matches = self._matches(tokens)
        if not matches:
            return ()
        start, matched = matches[0]
        different = len({tokens[end] for end, _ in matches})
        return (DraftCandidate(self.name, len(tokens) - start, matched, alternatives=different),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        matches = self._matches(tokens)
        if not matches:
            return None
        start, matched = matches[0]
        if choice.tree is None:
            return copied(tokens[start : start + choice.length], drafter=self.name, matched=matched)
        texts = [tokens[end : end + choice.length] for end, _ in matches]
        return copied(*merged(texts, choice.tree), drafter=self.name, matched=matched)

    def rewind(self, length: int) -> None:
        if length < self._index.length:
            self._index = MatchIndex()

    def _matches(self, tokens: list[int]) -> list[tuple[int, int]]:
        self._index.extend(tokens)
        return self._index.matches(tokens, tokens)


class MatchIndex:
    """Where short n-grams of a growing text end. Attribute: `length`, of the text so far."""

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        self.length = 0

    def extend(self, text: list[int]) -> None:
        """Index every short n-gram that has a continuation in `text`, which begins with the text so
        far."""
        for end in range(max(self.length, _SHORTEST), len(text)):
            self._seen[tuple(text[end - _SHORTEST : end])].append(end)
        self.length = max(self.length, len(text))

    def matches(self, tokens: list[int], text: list[int]) -> list[tuple[int, int]]:
        """Where in `text` matches of the end of `tokens` end, and their lengths: the longest first,
        of equally long ones the latest."""
        ends = reversed(self._seen.get(tuple(tokens[-_SHORTEST:]), [])[-_OCCURRENCES:])
        found = [(end, _common_suffix(tokens, text, end)) for end in ends]
        return sorted(found, key=lambda match: -match[1])

    def longest_match(self, tokens: list[int], text: list[int]) -> tuple[int, int]:
        """The first of `matches`; 0 for none."""
        return next(iter(self.matches(tokens, text)), (0, 0))


def copied(
    text: Sequence[int], tree: Tree | None = None, *, drafter: str, matched: int
) -> DraftArrays:
    """A draft of copied tokens; `tree`: which stands behind which, where that is not a chain."""
    return DraftArrays(
        tokens=mx.array(list(text), dtype=mx.int32),
        q=mx.ones((len(text),)),
        distributions=None,
        drafter=drafter,
        match=matched,
        copied=tuple(text),
        tree=None if tree is None or tree.is_chain else tree,
    )


def merged(texts: Sequence[Sequence[int]], shape: Tree) -> tuple[list[int], Tree]:
    """Several continuations as one tree, in which those that begin alike are one: its tokens, and
    which stands behind which. It has no more tokens than `shape`, and is no higher.

    Alternatives are tried in the order of the `texts`. What has a place in `shape` comes first: as
    deep there, behind the same tokens, with as many alternatives before it; then, where some places
    stay empty, what is left of the texts, in their order.
    """
    tokens: list[int] = []
    parents: list[int] = []
    behind: dict[int, dict[int, int]] = {COMMITTED: {}}  # by token, where it stands behind another
    for text in texts:
        place = COMMITTED
        for token in text[: shape.height]:
            if token not in behind[place]:
                behind[place][token], behind[len(tokens)] = len(tokens), {}
                tokens.append(token)
                parents.append(place)
            place = behind[place][token]
    filled = {COMMITTED: COMMITTED}  # by the number in `shape`
    for number, (parent, rank) in enumerate(zip(shape.parents, shape.ranks, strict=True)):
        alternatives = [*behind[filled[parent]].values()] if parent in filled else []
        if rank < len(alternatives):
            filled[number] = alternatives[rank]
    chosen = [place for place in filled.values() if place != COMMITTED]
    chosen += [place for place in range(len(tokens)) if place not in chosen]
    chosen = chosen[: len(shape)]
    return [tokens[place] for place in chosen], Tree(tuple(parents)).only(chosen)


def _common_suffix(tokens: list[int], text: list[int], end: int) -> int:
    """How many tokens before `end` of `text` equal the last of `tokens`, up to a limit."""
    most = min(end, len(tokens), LONGEST_MATCH)
    return next((i for i in range(most) if text[end - 1 - i] != tokens[-1 - i]), most)
