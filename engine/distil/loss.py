"""The loss: how far a head's predictions are from the target's distribution, over several steps.

Step 0 reads the target's states. Step s reads the head's own state of the token s places ago, as it
will when it drafts (HASS, arXiv 2408.15766; EAGLE-3's training-time test). Position j of a
sequence x combines the state of x[j] with the token x[j + 1], and predicts x[j + 2].

Answers are aligned so that the first prediction of each is in one column, `lead`. Of the positions
left of it only keys and values are computed, which saves most of the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.distil.store import RecordedAnswer
from engine.drafters.head_network import Head

STEPS = 3
_STEP_WEIGHT = 0.8


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences side by side, padded left and right to T positions; P of them predict a token.

    `states` (sequences, T, layers, width); `after` (sequences, T), the token behind each position;
    `padding` (sequences,), how many positions on the left are nothing; `lead`, how many predict
    nothing. `predicting` (P,) positions in sequences * (T - lead); `rank` (P,), how far behind the
    first one of its answer; `rows` and `chances` (P, 32): the target's distribution, by rows of
    the output layer. Tokens without a row have chance 0.
    """

    states: mx.array
    after: mx.array
    padding: np.ndarray
    lead: int
    predicting: np.ndarray
    rank: np.ndarray
    rows: mx.array
    chances: mx.array


def make_batch(answers: Sequence[RecordedAnswer], row_of: mx.array) -> Batch:
    """`row_of` (vocabulary,): the output row of each token, -1 where there is none."""
    firsts = [max(answer.prompt - 2, 0) for answer in answers]
    lengths = [len(answer.tokens) - 2 for answer in answers]
    lead = max(firsts)
    tail = max(length - first for length, first in zip(lengths, firsts, strict=True))
    after = np.zeros((len(answers), lead + tail), dtype=np.int32)
    predicting, rank, states, tops, log_probs = [], [], [], [], []
    for i, (answer, first, length) in enumerate(zip(answers, firsts, lengths, strict=True)):
        left = lead - first
        right = lead + tail - left - length
        after[i, left : left + length] = answer.tokens[1:-1]
        states.append(mx.pad(answer.states[:length], [(left, right), (0, 0), (0, 0)]))
        rank.append(np.arange(length - first))
        predicting.append(i * tail + rank[-1])
        skipped = first + 2 - answer.prompt
        tops.append(answer.top_tokens[skipped:])
        log_probs.append(answer.top_log_probs[skipped:])
    rows = row_of[mx.concatenate(tops)]
    chances = mx.exp(mx.concatenate(log_probs).astype(mx.float32))
    return Batch(
        states=mx.stack(states).astype(mx.float32),
        after=mx.array(after),
        padding=lead - np.array(firsts),
        lead=lead,
        predicting=np.concatenate(predicting),
        rank=np.concatenate(rank),
        rows=mx.maximum(rows, 0),
        chances=mx.where(rows >= 0, chances, 0.0),
    )


def loss(head: Head, batch: Batch, embeddings: mx.array, *, steps: int = STEPS) -> mx.array:
    """The mean cross entropy in nats, later steps weighing less.

    `embeddings` (sequences, T, width) are the target's, of `batch.after`.
    """
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
            thoughts, head.output.weight, batch.rows[counted], batch.chances[counted]
        )
        total = total + _STEP_WEIGHT**step * entropy
        begun = head.go_on(mx.pad(state[:, :-1], [(0, 0), (1, 0), (0, 0)]))
    return total


def soft_cross_entropy(
    states: mx.array, weight: mx.array, rows: mx.array, chances: mx.array
) -> mx.array:
    """The mean entropy of softmax(`states` @ `weight`.T) against `chances` of some `rows`.

    `states` (n, width), `weight` (all rows, width), `rows` and `chances` (n, 32).
    """
    found: Any = _with_gradients(states, weight, rows, chances)
    total: mx.array = found[0]
    return total


@mx.custom_function
def _with_gradients(
    states: mx.array, weight: mx.array, rows: mx.array, chances: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Loss and gradients together, as both need the powers, which take the most time."""
    chances = chances / states.shape[0]
    mass = chances.sum(axis=-1, keepdims=True)
    logits = states @ weight.T
    highest = logits.max(axis=-1, keepdims=True)
    powers = mx.exp(logits - highest)
    whole = powers.sum(axis=-1, keepdims=True)
    likeliest = mx.take_along_axis(logits, rows, axis=-1)
    total = (mass * (mx.log(whole) + highest)).sum() - (chances * likeliest).sum()
    by_logits = powers * (mass / whole)
    by_logits = by_logits.at[mx.arange(len(rows))[:, None], rows].subtract(chances)
    return total, by_logits @ weight, by_logits.T @ states


@_with_gradients.vjp
def _(
    primals: tuple[mx.array, ...], cotangents: Sequence[mx.array], outputs: Sequence[mx.array]
) -> tuple[mx.array, ...]:
    (_, _, rows, chances), (by_total, _, _), (_, by_states, by_weight) = (
        primals,
        cotangents,
        outputs,
    )
    return (
        by_total * by_states,
        by_total * by_weight,
        mx.zeros_like(rows),
        mx.zeros_like(chances),
    )


class Unrolled:
    """Stands in for a KV cache: the keys and values of all steps so far, side by side.

    `prompt`: those of what comes before, (batch, heads, lead, width) each.
    """

    def __init__(self, prompt: tuple[mx.array, mx.array] | None = None) -> None:
        self._keys = [prompt[0]] if prompt else []
        self._values = [prompt[1]] if prompt else []
        self.offset = prompt[0].shape[2] if prompt else 0  # each step has the same positions

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """(batch, heads, positions, width) of one more step; returns those of all."""
        self._keys.append(keys)
        self._values.append(values)
        return mx.concatenate(self._keys, axis=2), mx.concatenate(self._values, axis=2)


def mask_after(step: int, length: int, *, prompt: np.ndarray | None = None) -> mx.array:
    """(length, (step + 1) * length): a prediction of step `step` began `step` places before.

    It sees the target's states up to there, and then one of the head's own states for each step.
    `prompt` (batch, lead): which positions before are no padding; then (batch, 1, length, ...).
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
    """The target's embeddings that `loss` wants; they are not trained."""
    return mx.stop_gradient(embedding(batch.after).astype(mx.float32))
