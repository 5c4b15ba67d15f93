"""DSpark: DFlash with a Markov head, which corrects each slot by the token before it, and a head
that says how sure it is.

Backbone and context are DFlash's, with Qwen3's or Gemma-4's layers. In most packagings the anchor's
row proposes a token, too. Embedding and output layer are copies of the target's or its own.
"""

import mlx.core as mx
import mlx.nn as nn

from engine.drafters.dflash import Confidence, DFlash, Slots
from models.drafters.blocks import BlockShape


class MarkovHead(nn.Module):
    """Adds to a slot's logits a part that the token before it decides, by a matrix of low rank.

    The part is added as it is, through a gate that the slot's state opens, or through a state that
    runs along the block. The names of the tensors show which of the three.
    """

    def __init__(self, tokens: int, rows: int, *, rank: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(tokens, rank)
        self.markov_w2 = nn.Linear(rank, rows, bias=False)
        self._last, self._rank = tokens - 1, rank

    def begin(self) -> mx.array:
        """Return the running state before the first slot, (1, rank)."""
        return mx.zeros((1, self._rank))

    def embed(self, previous: mx.array) -> mx.array:
        """Return the embedding, (1, rank), of the token before a slot, (1,)."""
        return self.markov_w1(mx.minimum(previous, self._last))

    def __call__(
        self, word: mx.array, state: mx.array, running: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Return the addition to the slot's logits, (1, rows), and the next running state, (1,
        rank).

        `word`: the embedded token before the slot; `state`: the slot's own state, (1, width).
        """
        return self.markov_w2(word), running


class GatedMarkovHead(MarkovHead):
    """Weighs the token before the slot by a gate, which the slot's state and this token set."""

    def __init__(self, tokens: int, rows: int, *, rank: int, width: int) -> None:
        super().__init__(tokens, rows, rank=rank)
        self.gate_proj = nn.Linear(width + rank, rank)

    def __call__(
        self, word: mx.array, state: mx.array, running: mx.array
    ) -> tuple[mx.array, mx.array]:
        gate = mx.sigmoid(self.gate_proj(mx.concatenate([state, word], axis=-1)))
        return self.markov_w2(gate * word), running


class RecurrentMarkovHead(MarkovHead):
    """Carries a state from slot to slot, as a recurrent network does."""

    def __init__(self, tokens: int, rows: int, *, rank: int, width: int) -> None:
        super().__init__(tokens, rows, rank=rank)
        self.joint_proj = nn.Linear(2 * rank + width, 3 * rank)

    def __call__(
        self, word: mx.array, state: mx.array, running: mx.array
    ) -> tuple[mx.array, mx.array]:
        joint = self.joint_proj(mx.concatenate([running.astype(word.dtype), word, state], axis=-1))
        gate, candidate, out = mx.split(joint, 3, axis=-1)
        gate = mx.sigmoid(gate)
        running = gate * running + (1.0 - gate) * mx.tanh(candidate)
        return self.markov_w2(mx.tanh(out)), running


class ConfidenceHead(nn.Module):
    """Estimates the chance that a slot's token is accepted, from the slot's state.

    Reads the token before the slot, too, if `width` has room for it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 1)
        self._width = width

    def __call__(self, features: mx.array) -> mx.array:
        """Return the chance, (1,), from `features`, (1, ...): the state, then the embedded
        token."""
        return mx.sigmoid(self.proj(features[:, : self._width]).astype(mx.float32))[:, 0]


class DSpark(DFlash):
    """The network of a DSpark: a DFlash whose slots depend on each other by a Markov head, and may
    estimate their confidence. Without its embedding and output layer, which are the target's."""

    def __init__(
        self, shape: BlockShape, markov: MarkovHead | None, confidence: ConfidenceHead | None
    ) -> None:
        super().__init__(shape)
        if markov is not None:
            self.markov_head = markov
        if confidence is not None:
            self.confidence_head = confidence

    def slots(self, states: mx.array, logits: mx.array) -> Slots:
        return MarkovSlots(states, logits, self.get("markov_head"), self.get("confidence_head"))


class MarkovSlots(Slots):
    """Slots whose logits depend on the token before each."""

    def __init__(
        self,
        states: mx.array,
        logits: mx.array,
        markov: MarkovHead | None,
        confidence: ConfidenceHead | None,
    ) -> None:
        super().__init__(logits)
        self._states, self._markov, self._head = states, markov, confidence
        self._features = states[:0]
        if markov is not None:
            self._running = markov.begin()

    @property
    def confidence(self) -> Confidence | None:
        return None if self._head is None else self._confidence

    def read(self, previous: mx.array) -> mx.array:
        logits = super().read(previous)
        self._features = state = self._states[self._slot : self._slot + 1]
        if self._markov is None:
            return logits
        word = self._markov.embed(previous)
        self._features = mx.concatenate([state, word.astype(state.dtype)], axis=-1)
        added, self._running = self._markov(word, state, self._running)
        return logits + added.astype(mx.float32)

    def _confidence(self, token: mx.array) -> mx.array:
        assert self._head is not None
        return self._head(self._features)


def dspark(shape: BlockShape) -> DSpark:
    """The network of this shape, untrained."""
    confidence = ConfidenceHead(shape.confidence) if shape.confidence else None
    return DSpark(shape, _markov(shape), confidence)


def _markov(shape: BlockShape) -> MarkovHead | None:
    sizes, width = shape.markov, shape.hidden_size
    if sizes is None:
        return None
    if sizes.form == "plain":
        return MarkovHead(sizes.tokens, sizes.rows, rank=sizes.rank)
    head = GatedMarkovHead if sizes.form == "gated" else RecurrentMarkovHead
    return head(sizes.tokens, sizes.rows, rank=sizes.rank, width=width)
