"""Teaches a head, drafts with it at all positions of an answer at once, and measures it so.

Step 0 reads the target's states. Step s reads the head's own state of the token s positions before,
as in drafting (HASS, arXiv 2408.15766; EAGLE-3's training-time test).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.conversation.loading import LoadedModel
from engine.core.model_parts import embedding, output_rows
from engine.device import fetch
from engine.distil.loss import FURTHER, Batch, soft_cross_entropy, unmet
from engine.distil.store import RecordedAnswer
from engine.drafters.head_network import BoundHead, Head, new_head, save_head, shape_for

STEPS = 3
_ONE_STEP = 0.25  # share of the training that begins with one step: from the target's states


@dataclass(frozen=True, slots=True)
class HeadLearner:
    """A head that learns. `embedding`: the target's; `lend(ids)`: the target's output rows (tokens,
    width). Neither of them learns."""

    bound: BoundHead
    embedding: nn.Module
    lend: Callable[[mx.array], mx.array]

    @property
    def network(self) -> Head:
        return self.bound.head

    @property
    def kept(self) -> mx.array:
        """The token id of each row of the output layer, (rows,)."""
        return self.bound.kept

    @property
    def borrows(self) -> bool:
        """Whether the head has rows for the other tokens of a text too."""
        return self.bound.head.borrows

    @classmethod
    def weights(cls, model: nn.Module, *, rows: int) -> int:
        """The number of weights of a head for the target `model`."""
        shape = shape_for(model, rows=rows)
        width = shape.hidden_size
        return width * ((len(shape.layers) + 4) * width + 3 * shape.intermediate_size + rows)

    @classmethod
    def begin(cls, target: LoadedModel, kept: mx.array) -> Self:
        """Make an untrained learner. Raises `Problem`."""
        shape = shape_for(target.model, rows=kept.size)
        model = target.model
        return cls(new_head(model, shape, kept), embedding(model), partial(output_rows, model))

    def steps(self, share: float) -> int:
        """The number of tokens ahead in the loss, with `share` (0 to 1) of the training done.

        One at first, then all. Alone the first step trains on twice as many tokens in the
        same time, but soon learns little more: half an hour gave 2.10 held-out tokens a pass in
        chains of five, and 2.04 with the first step alone for six tenths of it."""
        return 1 if share < _ONE_STEP else STEPS

    def loss(self, batch: Batch, steps: int) -> mx.array:
        """The loss of predictions of up to `steps` tokens: a mean, in nats."""
        lent = mx.stop_gradient(self.lend(batch.borrowed).astype(mx.float32))
        return loss(self.network, batch, embed(self.embedding, batch), lent, steps=steps)

    def chains(self, answer: RecordedAnswer, length: int) -> Iterator[np.ndarray]:
        """Yield the first, second, ... of up to `length` tokens drafted greedily at every position.

        Position j drafts after x[j + 1], so there are two positions fewer than tokens.
        """
        head, positions = self.network, len(answer.tokens) - 2
        unrolled = _Deepening()
        begun = head.begin(answer.states[None, :positions].astype(mx.float32))
        after = mx.array(answer.tokens[1:-1])
        own = mx.eye(positions).astype(mx.bool_)
        others = np.array(self._without_row(answer.tokens), dtype=np.int32)
        sayable = mx.concatenate([self.kept, mx.array(others)])
        rows = head.rows(self.lend(mx.array(others)).astype(mx.float32))
        barred = mx.where(mx.array(unmet(answer.tokens, others)), -mx.inf, 0.0)
        barred = mx.pad(barred, [(0, 0), (self.kept.size, 0)])
        mask = mask_after(0, positions)
        for step in range(length):
            unrolled.offset = step
            embedded = self.embedding(after).astype(mx.float32)[None]
            state = head(begun, embedded, mask=mask, cache=unrolled)
            logits = head.norm(state[0]) @ rows.T + barred
            after = sayable[mx.argmax(logits, axis=-1)]
            yield np.array(fetch(after)[0])
            begun = head.go_on(state)
            mask = mx.concatenate([mask, own], axis=1)

    def _without_row(self, tokens: list[int]) -> list[int]:
        return sorted({*tokens} - {*fetch(self.kept)[0]}) if self.borrows else []

    def save(self, folder: Path, *, target: str, fingerprint: str) -> None:
        """Write the drafter. Raises OSError or RuntimeError if the disk is full."""
        save_head(self.bound, folder, target=target, fingerprint=fingerprint)


def loss(
    head: Head, batch: Batch, embeddings: mx.array, lent: mx.array, *, steps: int = STEPS
) -> mx.array:
    """The mean cross entropy in nats; later steps have less weight.

    `embeddings` (sequences, T, width): the target's, of `batch.after`; `lent` (B, width): the
    target's output rows of `batch.borrowed`. Only keys and values are computed for the positions
    before `batch.lead`, which saves most of the work.
    """
    rows = head.rows(lent)
    lead = batch.lead
    begun, embeddings, before = head.begin(batch.states), embeddings[:, lead:], embeddings[:, :lead]
    unrolled = Unrolled(head.remember(begun[:, :lead], before) if lead else None)
    begun, tail = begun[:, lead:], begun.shape[1] - lead
    prompt = np.arange(lead) >= batch.padding[:, None]
    total = mx.array(0.0)
    for step in range(steps):
        deep = np.flatnonzero(batch.rank >= step)
        if not deep.size:  # no answer is so long
            break
        mask = mask_after(step, tail, prompt=prompt)
        state = head(begun, embeddings, mask=mask, cache=unrolled)
        counted = mx.array(deep)
        places = mx.array(batch.predicting[deep])
        thoughts = head.norm(state.reshape(-1, state.shape[-1])[places])
        entropy = soft_cross_entropy(
            thoughts, rows, batch.rows[counted], batch.chances[counted], batch.unmet[counted]
        )
        total = total + FURTHER**step * entropy
        begun = head.go_on(mx.pad(state[:, :-1], [(0, 0), (1, 0), (0, 0)]))
    return total


class Unrolled:
    """Takes the place of a KV cache: holds the keys and values of all steps so far, in order.

    `prompt`: keys and values of the positions before, (batch, heads, lead, width) each.
    """

    def __init__(self, prompt: tuple[mx.array, mx.array] | None = None) -> None:
        self._keys = [prompt[0]] if prompt else []
        self._values = [prompt[1]] if prompt else []
        self.offset = prompt[0].shape[2] if prompt else 0  # each step has the same positions

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Add a step's keys and values, (batch, heads, positions, width); return all so far."""
        self._keys.append(keys)
        self._values.append(values)
        return mx.concatenate(self._keys, axis=2), mx.concatenate(self._values, axis=2)


def mask_after(step: int, length: int, *, prompt: np.ndarray | None = None) -> mx.array:
    """The mask of step `step`, (length, (step + 1) * length).

    A prediction began `step` positions before: it sees the target's states up to there, then one of
    the head's own states for each step. With `prompt` (batch, lead), which is true for earlier
    positions that are not padding, the mask is (batch, 1, length, lead + (step + 1) * length).
    """
    blocks = [np.tri(length, k=-step, dtype=bool)]
    blocks += [np.eye(length, k=earlier - step, dtype=bool) for earlier in range(1, step + 1)]
    own = np.concatenate(blocks, axis=1)
    if prompt is None:
        return mx.array(own)
    batch, lead = prompt.shape
    seen = np.broadcast_to(prompt[:, None, None], (batch, 1, length, lead))
    own = np.broadcast_to(own, (batch, 1, *own.shape))
    return mx.array(np.concatenate([seen, own], axis=-1))


def embed(embedding: nn.Module, batch: Batch) -> mx.array:
    """Return the target's embeddings for `loss`. They are not trained."""
    return mx.stop_gradient(embedding(batch.after).astype(mx.float32))


class _Deepening(Unrolled):
    """Takes the place of a KV cache while drafting. `offset` is the number of the step, as each
    step is a position further."""

    offset = 0


@dataclass(frozen=True, slots=True)
class ChainAcceptance:
    """The result of greedy chains of a fixed length: committed tokens, and passes of the target."""

    committed: int
    passes: int

    @property
    def length(self) -> float:
        """The acceptance length; 1 if nothing was accepted."""
        return self.committed / self.passes if self.passes else 1.0


def measure(
    learner: HeadLearner, answers: Sequence[RecordedAnswer], *, chain: int = 5
) -> ChainAcceptance:
    """Measure on greedy `answers`, with `chain` tokens a pass, or as many as the learner drafts."""
    committed = passes = 0
    for answer in answers:
        accepted = _accepted(learner, answer, chain)
        place, last = max(answer.prompt - 2, 0), len(answer.tokens) - 3
        while place <= last:
            committed += min(int(accepted[place]) + 1, last - place + 1)
            passes += 1
            place += int(accepted[place]) + 1
    return ChainAcceptance(committed, passes)


def _accepted(learner: HeadLearner, answer: RecordedAnswer, chain: int) -> np.ndarray:
    """Return the number of accepted tokens of the chain at each position, (positions,)."""
    tokens = np.array(answer.tokens)
    length = len(tokens) - 2
    alive, count = np.ones(length, dtype=bool), np.zeros(length, dtype=int)
    for step, drafted in enumerate(learner.chains(answer, chain)):
        place = np.arange(length) + 2 + step
        alive &= (place < len(tokens)) & (drafted == tokens[np.minimum(place, len(tokens) - 1)])
        count += alive
    return count
