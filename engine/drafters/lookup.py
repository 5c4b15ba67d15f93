"""Copies what followed the longest match of the text's end (prompt lookup).

Costs nothing. It helps where a text repeats itself or its prompt (edits, summaries, code). It
reports how many tokens matched; whether to copy is for the draft-length policy to decide. Pure
Python over token ids. Copied tokens have q = 1, which the acceptance rules allow for.
"""

from collections import defaultdict
from collections.abc import Sequence

import mlx.core as mx

from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Memoryless
from engine.request import Sampling

_SHORTEST = 2  # tokens that must match at the very least; what the index is keyed by
_LONGEST = 32  # longer matches count as this
_OCCURRENCES = 64  # the most recent occurrences that are compared


class LookupDrafter(Memoryless):
    """Proposes what followed the longest match of the text's end in prompt and answer."""

    name = "lookup"

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        self._indexed = 0  # positions before this are in `_seen`

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        start, matched = self._longest_match(tokens)
        return (DraftCandidate(self.name, len(tokens) - start, matched),) if matched else ()

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        start, matched = self._longest_match(tokens)
        if not matched:
            return None
        copied = tokens[start : start + choice.length]
        return DraftArrays(
            tokens=mx.array(copied, dtype=mx.int32),
            q=mx.ones((len(copied),)),
            distributions=None,
            drafter=self.name,
            match=matched,
        )

    def rewind(self, length: int) -> None:
        if length < self._indexed:
            self._seen.clear()
            self._indexed = 0

    def _index(self, tokens: list[int]) -> None:
        """Index every short n-gram that has a continuation."""
        for end in range(max(self._indexed, _SHORTEST), len(tokens)):
            self._seen[tuple(tokens[end - _SHORTEST : end])].append(end)
        self._indexed = max(self._indexed, len(tokens))

    def _longest_match(self, tokens: list[int]) -> tuple[int, int]:
        """Where the text after the longest match starts, and how long the match is; 0 for none."""
        self._index(tokens)
        best = (0, 0)
        for end in reversed(self._seen.get(tuple(tokens[-_SHORTEST:]), [])[-_OCCURRENCES:]):
            matched = _common_suffix(tokens, end)
            if matched > best[1]:
                best = (end, matched)
        return best


def _common_suffix(tokens: list[int], end: int) -> int:
    """How many tokens before `end` equal those at the end of the text, up to a limit."""
    most = min(end, _LONGEST)
    return next((i for i in range(most) if tokens[end - 1 - i] != tokens[-1 - i]), most)
