"""Copies what followed the longest match of the text's end (prompt lookup).

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

_SHORTEST = 2  # tokens that must match at the very least; what the index is keyed by
LONGEST_MATCH = 32  # longer matches count as this
_OCCURRENCES = 64  # the most recent occurrences that are compared


class LookupDrafter(Memoryless):
    """Proposes what followed the longest match of the text's end in prompt and answer."""

    name = "lookup"

    def __init__(self) -> None:
        self._index = MatchIndex()

    def beside(self, target: Decoder) -> Drafter:
        return LookupDrafter()

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        start, matched = self._longest_match(tokens)
        return (DraftCandidate(self.name, len(tokens) - start, matched),) if matched else ()

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        start, matched = self._longest_match(tokens)
        return (
            copied(tokens[start : start + choice.length], self.name, matched) if matched else None
        )

    def rewind(self, length: int) -> None:
        if length < self._index.length:
            self._index = MatchIndex()

    def _longest_match(self, tokens: list[int]) -> tuple[int, int]:
        self._index.extend(tokens)
        return self._index.longest_match(tokens, tokens)


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

    def longest_match(self, tokens: list[int], text: list[int]) -> tuple[int, int]:
        """Where in `text` the longest match of the end of `tokens` ends, and its length; 0 for
        none. Of equally long ones the latest."""
        best = (0, 0)
        for end in reversed(self._seen.get(tuple(tokens[-_SHORTEST:]), [])[-_OCCURRENCES:]):
            matched = _common_suffix(tokens, text, end)
            if matched > best[1]:
                best = (end, matched)
        return best


def copied(text: list[int], drafter: str, matched: int) -> DraftArrays:
    """A draft of copied tokens."""
    return DraftArrays(
        tokens=mx.array(text, dtype=mx.int32),
        q=mx.ones((len(text),)),
        distributions=None,
        drafter=drafter,
        match=matched,
        copied=tuple(text),
    )


def _common_suffix(tokens: list[int], text: list[int], end: int) -> int:
    """How many tokens before `end` of `text` equal the last of `tokens`, up to a limit."""
    most = min(end, len(tokens), LONGEST_MATCH)
    return next((i for i in range(most) if text[end - 1 - i] != tokens[-1 - i]), most)
