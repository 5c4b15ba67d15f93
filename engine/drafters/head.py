"""A trained head drafts from the target's hidden states (EAGLE: see `head_network.py`).

For each committed token but the last the head reads the target's hidden states with the token
that came next. Then it continues from its own states, one drafted token at a time; these are
forgotten after the round, when the target's are there. It proposes a chain: a tree would branch
in `propose`, and change nothing else.
"""

from collections.abc import Iterator, Sequence

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from engine.decoder import Decoder
from engine.device import fetch
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays
from engine.drafters.chain import draft_chain
from engine.drafters.head_network import BoundHead
from engine.model_parts import embedding
from engine.request import Sampling

_PREFILL_ROWS = 512


class HeadDrafter:
    """Drafts for `target`, whose hidden states are recorded from now on."""

    name = "head"

    def __init__(self, target: Decoder, fitted: BoundHead) -> None:
        self._head = fitted.head
        self._embed = embedding(target.model)
        self._states = target.record(fitted.shape.layers)
        self._vocabulary = target.vocabulary
        (kept,) = fetch(fitted.kept)
        row_of = [
            fitted.shape.rows
        ] * self._vocabulary  # one row more, for tokens that the head cannot propose
        for row, token in enumerate(kept):
            row_of[token] = row
        self._row_of = mx.array(row_of)
        self._cache = KVCache()
        self._base = 0  # the position of the cache's first entry
        self._read = 0  # entries from the target's states; those behind are from the head's own

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        self._forget_drafted()
        while self._next_position() < min(len(tokens) - 1, self._states.end):
            mx.eval(self._read_target(tokens, rows=_PREFILL_ROWS))
            yield self._base + self._read

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        position = self._base + self._read
        behind = max(min(len(tokens) - 1, self._states.end) - position - 1, 0)
        return (DraftCandidate(self.name, LONGEST, behind=behind),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        self._forget_drafted()
        self.rewind(min(len(tokens) - 1, self._states.end))  # at least one is to be read
        if self._states.end == self._states.first:
            return None
        state: mx.array | None = None

        def read(inputs: mx.array) -> mx.array:
            nonlocal state
            state = self._catch_up(tokens) if state is None else self._step(state, inputs)
            return self._spread(self._head.logits(state)[0])

        return draft_chain(
            read,
            unread=tokens[-1:],
            tokens=tokens,
            choice=choice,
            vocabulary=self._vocabulary,
            sampling=sampling,
            key=key,
            drafter=self.name,
        )

    def accept(self, accepted: int) -> None:
        self._forget_drafted()

    def rewind(self, length: int) -> None:
        """The entry of the last of `length` tokens goes too, as another token may follow it."""
        self._forget_drafted()
        entries = max(0, min(self._read, length - 1 - self._base))
        self._cache.trim(self._read - entries)
        self._read = entries

    def _forget_drafted(self) -> None:
        self._cache.trim(self._cache.offset - self._read)

    def _next_position(self) -> int:
        """The next position to read; where states in between are missing, all is read again."""
        position = self._base + self._read
        if self._read == 0 or not self._states.first <= position <= self._states.end:
            self._cache, self._read = KVCache(), 0
            position = self._base = self._states.first
        return position

    def _read_target(self, tokens: list[int], rows: int) -> mx.array:
        """Read up to `rows` of the target's states; returns the head's, (1, n, width)."""
        start = self._next_position()
        end = min(start + rows, len(tokens) - 1, self._states.end)
        begun = self._head.begin(self._states.between(start, end)[None])
        after = mx.array([tokens[start + 1 : end + 1]])
        mask = "causal" if end - start > 1 else None
        state = self._head(begun, self._embed(after), mask, self._cache)
        self._read += end - start
        return state

    def _catch_up(self, tokens: list[int]) -> mx.array:
        """Read the committed tokens; returns the last state, (1, 1, width).

        Where the target has not read all of them (recurrent ones read again what they took back),
        the head continues from its own states.
        """
        while True:
            state = self._read_target(tokens, rows=_PREFILL_ROWS)[:, -1:]
            position = self._base + self._read
            if position >= min(len(tokens) - 1, self._states.end):
                break
        for token in tokens[position + 1 :]:
            state = self._step(state, mx.array([token]))
        return state

    def _step(self, state: mx.array, token: mx.array) -> mx.array:
        return self._head(self._head.go_on(state), self._embed(token[None]), None, self._cache)

    def _spread(self, logits: mx.array) -> mx.array:
        """(n, rows) to (n, the target's vocabulary): tokens without a row are impossible."""
        padded = mx.pad(logits, [(0, 0), (0, 1)], constant_values=-mx.inf)
        return mx.take(padded, self._row_of, axis=1)
