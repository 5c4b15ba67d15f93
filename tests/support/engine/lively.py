"""A tiny random head, and made-up answers for it to learn from: no model is needed."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_map

from engine.distil.store import RecordedAnswer
from engine.drafters.head_network import Head, HeadShape

VOCABULARY, WIDTH, LAYERS = 40, 16, (2, 3)
KEPT = [1, 2, 3, 5, 8, 13, 21, 34, 39]  # the tokens that have a row
SHAPE = HeadShape(
    hidden_size=WIDTH,
    layers=LAYERS,
    rows=len(KEPT),
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=4,
    intermediate_size=24,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
)


def lively_head():
    """Return a head in which places, steps and contexts make a difference, unlike a new one."""
    mx.random.seed(3)
    head = Head(SHAPE)
    head.update(
        tree_map(lambda weight: 2 * weight if weight.ndim == 2 else weight, head.parameters())
    )
    head.moved = mx.random.normal((WIDTH,))
    mx.eval(head.parameters())
    return head


def sayable(tokens):
    """Return the tokens of a borrowing head's rows after a text of `tokens`."""
    return [*KEPT, *sorted({*tokens} - {*KEPT})]


def logits_behind(tokens, head, table, state):
    """(rows,): of the last `state`, for what can be said after a text of `tokens`."""
    more = mx.array(sayable(tokens)[len(KEPT) :], dtype=mx.int32)
    logits = head.logits(state, table(more) + head.moved)[0, -1]
    return logits


def embeddings():
    """Return made-up embeddings of a target."""
    mx.random.seed(4)
    return nn.Embedding(VOCABULARY, WIDTH)


def answer(prompt, answered, *, likeliest=6):
    """Return a made-up answer. Its chances are about half of the mass, some of it of tokens without
    a row."""
    random = np.random.default_rng(1000 * prompt + answered)
    top = [random.choice(VOCABULARY, likeliest, replace=False) for _ in range(answered)]
    return RecordedAnswer(
        random.integers(0, VOCABULARY, prompt + answered).tolist(),
        prompt,
        True,
        mx.array(random.standard_normal((prompt + answered - 1, len(LAYERS), WIDTH))).astype(
            mx.bfloat16
        ),
        mx.array(np.array(top)),
        mx.array(np.log(random.dirichlet([1.0] * likeliest, answered) / 2)).astype(mx.float16),
    )


def row_of():
    """The row of each token, -1 where there is none."""
    rows = np.full(VOCABULARY, -1)
    rows[KEPT] = np.arange(len(KEPT))
    return mx.array(rows)


def cross_entropy(logits, one, predicted, *, kept):
    """Return the cross entropy of `logits` (rows,) and the target's chances of the token at
    `predicted`; `kept` has the token of each row."""
    values = np.array(logits, dtype=np.float64)
    log_probs = values - np.logaddexp.reduce(values)
    place, total = predicted - one.prompt, 0.0
    tokens, log_chances = one.top_tokens[place].tolist(), one.top_log_probs[place].tolist()
    for token, log_chance in zip(tokens, log_chances, strict=True):
        if token in kept:
            total -= np.exp(log_chance) * log_probs[kept.index(token)]
    return total
