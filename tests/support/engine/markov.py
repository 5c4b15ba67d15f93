"""A model that is a table, so that its exact distribution is known: for statistical tests.

The logits of the next token depend on the last two tokens. The last but one is found by attention
over a real KV cache, so that a cache that is off by one, or not rolled back, shows, and so does a
position or a mask that is wrong.
"""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.base import create_attention_mask, scaled_dot_product_attention

from engine.core.batch import can_share
from engine.core.decoder import Decoder
from engine.core.sampling import distribution, scores


class _TokenBefore(nn.Module):
    """Attention to the position before, which keys and queries spell in binary."""

    def __init__(self):
        super().__init__()
        positions = mx.arange(1 << 15)[:, None]
        self._spelled = 2.0 * ((positions >> mx.arange(16)) & 1).astype(mx.float32) - 1.0

    def __call__(self, tokens, cache):
        offset = mx.array(0 if cache is None else cache.offset)
        positions = mx.broadcast_to(offset[..., None] + mx.arange(tokens.shape[1]), tokens.shape)
        keys, queries = self._spelled[positions][:, None], self._spelled[positions - 1][:, None]
        values = mx.broadcast_to(tokens[:, None, :, None].astype(mx.float32), keys.shape)
        mask = create_attention_mask(tokens, cache)
        if cache is not None:
            keys, values = cache.update_and_fetch(keys, values)
        found = scaled_dot_product_attention(queries, keys, values, cache, 30.0, mask)
        found = mx.round(found[:, 0, :, 0]).astype(mx.int32)
        return mx.where(positions > 0, found, 0)  # before the first token comes token 0


class _Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = _TokenBefore()


class Markov(nn.Module):
    """`table` is (tokens it knows, tokens it knows, logits that it gives)."""

    def __init__(self, table):
        super().__init__()
        self.table = table
        self.layers = [_Layer()]

    def __call__(self, tokens, cache=None):
        before = self.layers[0].attention(tokens, cache[0] if cache else None)
        return self.table[before, tokens]


def random_table(vocabulary, *, seed=0, sharpness=1.5):
    """Logits (vocabulary, vocabulary, vocabulary)."""
    shape = (vocabulary, vocabulary, vocabulary)
    return sharpness * mx.random.normal(shape, key=mx.random.key(seed))


def drafting_tables(table):
    """The tables of the drafters that every test of losslessness is run with."""
    return {
        "self": table,
        "noisy": table + 0.5 * random_table(len(table), seed=101),
        "random": random_table(len(table), seed=102),
        "hostile": -2.0 * table,
    }


def decoder(table):
    model = Markov(table)
    return Decoder(model, trial=lambda: can_share(model))


def exact(table, sampling):
    """The table's probabilities after the sampler chain; nothing may be penalized."""
    scored = scores(table.reshape(-1, table.shape[-1]), None, sampling)
    rows = distribution(scored, sampling)
    return np.array(rows, dtype=np.float64).reshape(table.shape)


def joint(probabilities, prompt, length):
    """The probability of every text of `length` tokens after `prompt`: one axis per token."""
    result = probabilities[prompt[-2], prompt[-1]]
    if length > 1:
        result = result[:, None] * probabilities[prompt[-1]]
    for _ in range(2, length):
        result = result[..., None] * probabilities  # broadcast over all but the last two tokens
    return result
