"""A model that is a table, so that its exact distribution is known: for statistical tests.

The logits of the next token depend on the last two tokens. The last but one is found in a real
KV cache, so that a cache that is off by one, or not rolled back, shows.
"""

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.cache import KVCache
from numpy.typing import NDArray

from engine.decoder import Decoder
from engine.request import Sampling
from engine.sampling import distribution, log_weights, scores


class Markov(nn.Module):
    """`table` is (tokens it knows, tokens it knows, logits that it gives)."""

    def __init__(self, table: mx.array) -> None:
        super().__init__()
        self.table = table

    def make_cache(self) -> list[KVCache]:
        return [KVCache()]

    def __call__(self, tokens: mx.array, cache: list[KVCache] | None = None) -> mx.array:
        seen = tokens
        if cache is not None:
            entries = tokens[:, None, :, None].astype(mx.float32)
            keys, _ = cache[0].update_and_fetch(entries, entries)
            seen = keys[:, 0, : cache[0].offset, 0].astype(mx.int32)
        seen = mx.pad(seen, [(0, 0), (1, 0)])  # before the first token comes token 0
        return self.table[seen[:, -tokens.shape[1] - 1 : -1], tokens]


def random_table(vocabulary: int, *, seed: int = 0, sharpness: float = 1.5) -> mx.array:
    """Logits (vocabulary, vocabulary, vocabulary)."""
    shape = (vocabulary, vocabulary, vocabulary)
    return sharpness * mx.random.normal(shape, key=mx.random.key(seed))


def drafting_tables(table: mx.array) -> dict[str, mx.array]:
    """The tables of the drafters that every test of losslessness is run with."""
    return {
        "self": table,
        "noisy": table + 0.5 * random_table(len(table), seed=101),
        "random": random_table(len(table), seed=102),
        "hostile": -2.0 * table,
    }


def decoder(table: mx.array) -> Decoder:
    return Decoder(Markov(table))


def exact(table: mx.array, sampling: Sampling) -> NDArray[np.float64]:
    """The table's probabilities after the sampler chain; nothing may be penalized."""
    scored = scores(table.reshape(-1, table.shape[-1]), None, sampling)
    rows = distribution(log_weights(scored, sampling))
    return np.array(rows, dtype=np.float64).reshape(table.shape)


def joint(
    probabilities: NDArray[np.float64], prompt: Sequence[int], length: int
) -> NDArray[np.float64]:
    """The probability of every text of `length` tokens after `prompt`: one axis per token."""
    result = probabilities[prompt[-2], prompt[-1]]
    if length > 1:
        result = result[:, None] * probabilities[prompt[-1]]
    for _ in range(2, length):
        result = result[..., None] * probabilities  # broadcast over all but the last two tokens
    return result
