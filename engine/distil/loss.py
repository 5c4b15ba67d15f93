"""How far a head's guesses are from what the target thought, over several steps of guessing.

Step 0 sees the target's states. Step s sees what the head itself made of the token s places ago
and has guessed on from: as it will be when it drafts (HASS, arXiv 2408.15766; EAGLE-3's
training-time test). Position j of a sequence x stands for the state of x[j] with the token
x[j + 1], and guesses x[j + 2].
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.distil.answers import Answer
from engine.head import Head

STEPS = 3
_STEP_WEIGHT = 0.8


@dataclass(frozen=True, slots=True)
class Batch:
    """`answers` sequences padded to T + 2 tokens, of which P positions are to be guessed.

    `states` (answers, T, layers, width); `after` (answers, T), the token behind each position;
    `guessed` (P,) positions in answers * T; `rank` (P,), how far behind its answer's first;
    `rows` and `chances` (P, 32): what the target thought, as rows of the output layer. Tokens
    without a row have no chance.
    """

    states: mx.array
    after: mx.array
    guessed: mx.array
    rank: np.ndarray
    rows: mx.array
    chances: mx.array


def make_batch(answers: Sequence[Answer], row_of: mx.array) -> Batch:
    """`row_of` (vocabulary,): the output row of each token, -1 where there is none."""
    width = max(len(one.tokens) for one in answers) - 2
    after = np.zeros((len(answers), width), dtype=np.int32)
    guessed, rank, states, tops, log_probs = [], [], [], [], []
    for i, one in enumerate(answers):
        length, first = len(one.tokens) - 2, max(one.prompt - 2, 0)
        after[i, :length] = one.tokens[1:-1]
        guessed.append(i * width + np.arange(first, length))
        rank.append(np.arange(length - first))
        states.append(mx.pad(one.states[:length], [(0, width - length), (0, 0), (0, 0)]))
        skipped = first + 2 - one.prompt
        tops.append(one.top_tokens[skipped:])
        log_probs.append(one.top_log_probs[skipped:])
    rows = row_of[mx.concatenate(tops)]
    chances = mx.exp(mx.concatenate(log_probs).astype(mx.float32))
    return Batch(
        states=mx.stack(states).astype(mx.float32),
        after=mx.array(after),
        guessed=mx.array(np.concatenate(guessed)),
        rank=np.concatenate(rank),
        rows=mx.maximum(rows, 0),
        chances=mx.where(rows >= 0, chances, 0.0),
    )


def loss(head: Head, batch: Batch, embeddings: mx.array, *, steps: int = STEPS) -> mx.array:
    """The mean cross entropy in nats, later steps weighing less.

    `embeddings` (answers, T, width) are the target's, of `batch.after`.
    """
    length = batch.after.shape[1]
    unrolled = Unrolled()
    begun = head.begin(batch.states)
    total = mx.array(0.0)
    for step in range(steps):
        deep = np.flatnonzero(batch.rank >= step)
        if not deep.size:  # no answer is so long
            break
        state = head(begun, embeddings, mask=mask_after(step, length), cache=unrolled)
        counted = mx.array(deep)
        places = batch.guessed[counted]
        logits = head.logits(state.reshape(-1, state.shape[-1])[places])
        entropy = soft_cross_entropy(logits, batch.rows[counted], batch.chances[counted])
        total = total + _STEP_WEIGHT**step * entropy
        begun = head.go_on(mx.pad(state[:, :-1], [(0, 0), (1, 0), (0, 0)]))
    return total


def soft_cross_entropy(logits: mx.array, rows: mx.array, chances: mx.array) -> mx.array:
    """Of `logits` (n, all rows) against `chances` of some `rows`, both (n, 32)."""
    likeliest = mx.take_along_axis(logits, rows, axis=-1)
    mass = chances.sum(axis=-1)
    return mx.mean(mass * mx.logsumexp(logits, axis=-1) - (chances * likeliest).sum(axis=-1))


class Unrolled:
    """Stands in for a KV cache: the keys and values of all steps so far, side by side."""

    offset = 0  # each step stands at the same positions

    def __init__(self) -> None:
        self._keys: list[mx.array] = []
        self._values: list[mx.array] = []

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """(batch, heads, positions, width) of one more step; returns those of all."""
        self._keys.append(keys)
        self._values.append(values)
        return mx.concatenate(self._keys, axis=2), mx.concatenate(self._values, axis=2)


def mask_after(step: int, length: int) -> mx.array:
    """(length, (step + 1) * length): a guess `step` steps deep began at the place `step` before.

    It sees the target's states up to there, and after it one state of each step of its own.
    """
    blocks = [np.tri(length, k=-step, dtype=bool)]
    blocks += [np.eye(length, k=earlier - step, dtype=bool) for earlier in range(1, step + 1)]
    return mx.array(np.concatenate(blocks, axis=1))


def embed(embedding: nn.Module, batch: Batch) -> mx.array:
    """The target's embeddings that `loss` wants; they are not trained."""
    return mx.stop_gradient(embedding(batch.after).astype(mx.float32))
