"""Drafts as another program does, for comparison: no drafter of the product.

`transformers-lookup` drafts as Hugging Face transformers' prompt lookup does, whose length is
`prompt_lookup_num_tokens` (10 in its documents) and whose `max_matching_ngram_size` is 2. Its
passes are Slipstream's: what is drafted is compared, not how fast another engine is.
"""

from collections.abc import Sequence

import mlx.core as mx

from engine.bench.runners import Peer, SlipstreamRunner
from engine.core.accept import by_block
from engine.core.decoder import Decoder
from engine.draft_length import (
    DraftCandidate,
    DraftChoice,
    DraftLengthPolicy,
    MeasuredRound,
    Reason,
    Why,
)
from engine.drafters import DraftArrays, Drafter
from engine.drafters.lookup import copied
from engine.request import Sampling

TRANSFORMERS = "transformers-lookup"
_LONGEST_MATCH = 2  # tokens: `max_matching_ngram_size`


class TransformersLookup(Drafter):
    """Copies what followed the first place, in prompt or answer, of the text's last two tokens,
    else of its last one, up to a token that `ends` a text."""

    name = TRANSFORMERS

    def __init__(self, ends: frozenset[int]) -> None:
        self._ends = ends
        self._indexed = 0  # tokens behind which the first places are known
        self._first: dict[tuple[int, ...], int] = {}  # behind these tokens, where something follows

    def beside(self, target: Decoder) -> Drafter:
        return TransformersLookup(self._ends)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        start, matched = self._find(tokens)
        text = self._text(tokens, start, len(tokens))
        return (DraftCandidate(self.name, len(text), matched),) if text else ()

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        start, matched = self._find(tokens)
        text = self._text(tokens, start, choice.length)
        return copied(text, drafter=self.name, matched=matched, source=start) if text else None

    def rewind(self, length: int) -> None:
        self._indexed, self._first = 0, {}

    def _find(self, tokens: list[int]) -> tuple[int, int]:
        """Where the copy begins, and how many tokens match before it; the text's end where none
        does."""
        for end in range(self._indexed + 1, len(tokens)):
            for size in range(1, min(_LONGEST_MATCH, end) + 1):
                self._first.setdefault(tuple(tokens[end - size : end]), end)
        self._indexed = len(tokens) - 1
        for size in range(min(_LONGEST_MATCH, len(tokens) - 1), 0, -1):
            if (start := self._first.get(tuple(tokens[-size:]))) is not None:
                return start, size
        return len(tokens), 0

    def _text(self, tokens: list[int], start: int, most: int) -> list[int]:
        text = tokens[start : start + most]
        return next((text[:i] for i, token in enumerate(text) if token in self._ends), text)


class EveryRound:
    """Drafts `length` tokens in every round, however short the match, or as many as follow it."""

    def __init__(self, length: int) -> None:
        self._length = length

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, beside: int = 0
    ) -> DraftChoice:
        for candidate in candidates:
            if length := min(self._length, most, candidate.most):
                return DraftChoice(
                    length, Reason(Why.FIXED, length=self._length), candidate.drafter
                )
        return DraftChoice(0, Reason(Why.NO_CANDIDATE))

    def observe(self, measured: MeasuredRound) -> None:
        pass

    def restart(self) -> None:
        pass

    def another(self) -> DraftLengthPolicy:
        return self


def transformers_lookup(length: int) -> Peer:
    """Slipstream's passes with this drafter, `length` tokens a round."""
    return lambda target, reader: SlipstreamRunner(
        f"slipstream {TRANSFORMERS} {length}",
        target=target,
        make=lambda target, decoder: TransformersLookup(target.ends),
        policy=EveryRound(length),
        rule=by_block,
        reader=reader,
    )
