"""Makes batches of answers, and computes the cross entropy.

Position j of a sequence x is the moment when the target has read x[j] and x[j + 1] is committed:
the first token to predict is x[j + 2]. Answers are aligned so that the first predictions of all are
in the same column, `lead`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from engine.distil.store import RecordedAnswer

FURTHER = 0.8  # weight of a token in a loss / the weight of the token before it in the draft


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences side by side, padded left and right to T positions; P of them predict a token.

    `states` (sequences, T, layers, width); `after` (sequences, T): the token after each position;
    `padding` (sequences,): padded positions on the left; `lead`: columns that predict nothing.
    `predicting` (P,): positions in sequences * (T - lead); `rank` (P,): the distance from the first
    prediction of the same answer. `rows` and `chances` (P, 32): the target's distribution, by rows
    of the output layer; tokens without a row have chance 0. `borrowed` (B,): tokens of these
    answers that borrow the target's rows, which follow the layer's own rows. `unmet` (P, B): true
    if a borrowed token is not in the text yet, so that its row cannot be used.
    """

    states: mx.array
    after: mx.array
    padding: np.ndarray
    lead: int
    predicting: np.ndarray
    rank: np.ndarray
    rows: mx.array
    chances: mx.array
    borrowed: mx.array
    unmet: mx.array


def make_batch(
    answers: Sequence[RecordedAnswer], row_of: mx.array, *, borrows: bool = False
) -> Batch:
    """Put answers into a batch.

    `row_of` (vocabulary,): the output row of each token, or -1. `borrows`: tokens that occur in the
    text and have no row borrow the target's.
    """
    firsts = [max(answer.prompt - 2, 0) for answer in answers]
    lengths = [len(answer.tokens) - 2 for answer in answers]
    lead = max(firsts)
    tail = max(length - first for length, first in zip(lengths, firsts, strict=True))
    after = np.zeros((len(answers), lead + tail), dtype=np.int32)
    borrowed = without_row(answers, row_of) if borrows else np.zeros(0, dtype=np.int32)
    predicting, rank, states, tops, log_probs, absent = [], [], [], [], [], []
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
        absent.append(unmet(answer.tokens, borrowed)[first:])
    absent_there = mx.array(np.concatenate(absent))
    own = int((np.array(row_of) >= 0).sum())
    with_borrowed = mx.array(row_of)
    with_borrowed[mx.array(borrowed)] = mx.arange(own, own + len(borrowed), dtype=row_of.dtype)
    rows = with_borrowed[mx.concatenate(tops)]
    missing = rows < 0
    if len(borrowed):
        column = mx.maximum(rows - own, 0)
        missing |= (rows >= own) & mx.take_along_axis(absent_there, column, axis=-1)
    chances = mx.exp(mx.concatenate(log_probs).astype(mx.float32))
    return Batch(
        states=mx.stack(states).astype(mx.float32),
        after=mx.array(after),
        padding=lead - np.array(firsts),
        lead=lead,
        predicting=np.concatenate(predicting),
        rank=np.concatenate(rank),
        rows=mx.where(missing, 0, rows),
        chances=mx.where(missing, 0.0, chances),
        borrowed=mx.array(borrowed),
        unmet=absent_there,
    )


def without_row(answers: Sequence[RecordedAnswer], row_of: mx.array) -> np.ndarray:
    """The token ids in these answers that have no output row, in order."""
    found = np.unique(np.concatenate([answer.tokens for answer in answers])).astype(np.int32)
    return found[np.array(row_of)[found] < 0]


def unmet(tokens: Sequence[int], borrowed: np.ndarray) -> np.ndarray:
    """A mask (positions, B): whether each `borrowed` token is not among x[0] to x[j + 1]."""
    places = np.arange(len(tokens) - 2)
    first = {token: place for place, token in reversed(list(enumerate(tokens)))}
    met = np.array([first.get(token, len(tokens)) for token in borrowed.tolist()], dtype=int)
    return met > places[:, None] + 1


def soft_cross_entropy(
    states: mx.array,
    weight: mx.array,
    rows: mx.array,
    chances: mx.array,
    unmet: mx.array | None = None,
) -> mx.array:
    """The mean cross entropy of softmax(`states` @ `weight`.T) against `chances` of some `rows`.

    `states` (n, width), `weight` (all rows, width), `rows` and `chances` (n, 32); `unmet` (n, B):
    the last B rows that are impossible. In nats.
    """
    if unmet is None:
        unmet = mx.zeros((states.shape[0], 0), dtype=mx.bool_)
    found: Any = _with_gradients(states, weight, rows, chances, mx.where(unmet, -mx.inf, 0.0))
    total: mx.array = found[0]
    return total


@mx.custom_function
def _with_gradients(
    states: mx.array, weight: mx.array, rows: mx.array, chances: mx.array, barred: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Loss and gradients together: both need the powers, which take the most time."""
    chances = chances / states.shape[0]
    mass = chances.sum(axis=-1, keepdims=True)
    logits = states @ weight.T
    if barred.size:
        own = weight.shape[0] - barred.shape[-1]
        logits = mx.concatenate([logits[:, :own], logits[:, own:] + barred], axis=-1)
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
    (_, _, rows, chances, barred), (by_total, _, _), (_, by_states, by_weight) = (
        primals,
        cotangents,
        outputs,
    )
    return (
        by_total * by_states,
        by_total * by_weight,
        mx.zeros_like(rows),
        mx.zeros_like(chances),
        mx.zeros_like(barred),
    )
