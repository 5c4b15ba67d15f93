"""The rows of a drafter's output layer, and the target's token of each.

Many drafters have rows for frequent tokens only (FR-Spec, arXiv 2502.14856). They draw among these:
over the target's vocabulary the sampler chain would mostly sort and sum tokens that cannot be
drawn. A token's penalties and biases are applied to its row.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

import mlx.core as mx

from engine.core.sampling import Candidates, scores
from engine.request import Sampling

MOST = 256
"""How many rows a drafter's filters choose from: what they would keep beyond these is hardly ever
accepted."""


class Rows:
    """The rows of an output layer. `kept`: the token of each row; None if row i is token i's.
    `vocabulary`: the number of the target's logits. Raises ValueError for a token beyond it."""

    def __init__(self, vocabulary: int, kept: Sequence[int] | None = None) -> None:
        self._vocabulary = vocabulary
        self._row = None if kept is None else {token: row for row, token in enumerate(kept)}
        if self._row is not None:
            if max(self._row) >= vocabulary:
                raise ValueError("it has tokens that the target does not have")
            self._tokens = mx.array(list(self._row), dtype=mx.int32)
            no_row = [-1]  # for a token without one, and for -1, which means no token
            self._rows = mx.array([self._row.get(i, -1) for i in range(vocabulary)] + no_row)

    def missing(self, tokens: Iterable[int]) -> list[int]:
        """Return the target's tokens that have no row, each once."""
        if self._row is None:
            return []
        known, last = self._row, self._vocabulary - 1
        return [token for token in dict.fromkeys(tokens) if token not in known and token <= last]

    def and_of(self, tokens: list[int]) -> Self:
        """Return these rows with rows for `tokens`, which have none yet, after them."""
        if self._row is None or not tokens:
            return self
        more, first = copy.copy(self), len(self._row)
        more._row = self._row | {token: first + i for i, token in enumerate(tokens)}
        added = mx.array(tokens, dtype=mx.int32)
        more._tokens = mx.concatenate([self._tokens, added])
        more._rows = mx.array(self._rows)
        more._rows[added] = mx.arange(first, first + len(tokens), dtype=mx.int32)
        return more

    def scores(self, logits: mx.array, history: mx.array | None, sampling: Sampling) -> mx.array:
        """Return `engine.core.sampling.scores` of a drafter's `logits`, (n, rows). `history` has
        tokens, not rows."""
        if self._row is None:
            return scores(self._fitted(logits), history, sampling)
        bias = {self._row[i]: b for i, b in sampling.logit_bias.items() if i in self._row}
        seen = None if history is None else self.of(history)
        return scores(logits, seen, replace(sampling, logit_bias=bias))

    def tokens(self, rows: mx.array) -> mx.array:
        """Return the tokens of these rows, int32, in their shape."""
        return rows if self._row is None else self._tokens[rows]

    def of(self, tokens: mx.array) -> mx.array:
        """Return the rows of these tokens, in their shape; -1 for a token without a row."""
        return tokens if self._row is None else self._rows[mx.minimum(tokens, self._vocabulary)]

    def over_vocabulary(self, drawn_from: Candidates) -> mx.array:
        """Return probabilities of the target's tokens, (n, vocabulary), from probabilities of rows,
        whose numbers are the `ids` of `drawn_from`."""
        p, ids = drawn_from
        if self._row is not None:
            tokens = self._tokens if ids is None else self._tokens[ids]
            ids = mx.broadcast_to(tokens, p.shape)
        return Candidates(p, ids).over(self._vocabulary)

    def _fitted(self, logits: mx.array) -> mx.array:
        """Return `logits` as wide as the vocabulary: surplus columns are dropped, missing ones
        -inf."""
        missing = self._vocabulary - logits.shape[-1]
        if missing > 0:
            return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)
        return logits[:, : self._vocabulary]
