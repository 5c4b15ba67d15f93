"""Exponentials on a CPU: by powers, which MLX computes there in less than half of the time.

On x86-64 its exponentials are computed one by one, by calls. With four rows softmax and SwiGLU were
a tenth of a small target's pass, and they grow with the rows as nothing else in it does. So the
sampler calls `softmax` here, and passes call a stand-in for what mlx-lm's models call by name. All
are within rounding of MLX's own, and what they make of a row does not depend on those beside it.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx

StandIn = Callable[[Callable[..., mx.array]], Callable[..., mx.array]]
"""Makes of a function the one that is called instead of it."""

_LOG2_E = 1.0 / math.log(2.0)
_LEAST = 2.0**-126  # below it a float has fewer digits, and is slow to compute with


def softmax(scores: mx.array) -> mx.array:
    """Probabilities over the last axis of `scores`, float32; 0 where they are next to nothing."""
    below = scores - mx.max(scores, axis=-1, keepdims=True)
    mass = mx.maximum(mx.power(2.0, below * _LOG2_E) - _LEAST, 0.0)
    return mass / mx.sum(mass, axis=-1, keepdims=True)


def log_mass(scores: mx.array) -> mx.array:
    """The logarithm of the sum of the exponentials of each row of `scores`, (rows, n): (rows,)."""
    highest = mx.max(scores, axis=-1, keepdims=True)
    mass = mx.sum(mx.power(2.0, (scores - highest) * _LOG2_E), axis=-1)
    return highest[..., 0] + mx.log(mass)


def attend(
    queries: mx.array, keys: mx.array, values: mx.array, scale: float, mask: mx.array
) -> mx.array:
    """What mlx-lm's `scaled_dot_product_attention` gives, where it `can_attend`.

    With few passes over the scores: their `softmax` is divided by its sum last of all, and weights
    next to nothing, which hardly occur there, are kept.
    """
    batch, heads, rows, width = queries.shape
    groups = keys.shape[1]  # of heads, each with the same keys
    grouped = (queries * (scale * _LOG2_E)).reshape(batch, groups, -1, width)
    scores = (grouped @ keys.swapaxes(-1, -2)).reshape(batch, groups, heads // groups, rows, -1)
    scores = scores + mx.where(mask, 0.0, -mx.inf)
    mass = mx.power(2.0, scores - mx.max(scores, axis=-1, keepdims=True))
    attended = (mass @ values[:, :, None]) / mx.sum(mass, axis=-1, keepdims=True)
    return attended.reshape(batch, heads, rows, -1)


def can_attend(queries: mx.array, keys: Any, values: Any, mask: Any, **more: Any) -> bool:
    """Whether this is what the CPU usually has: float32, and a mask of truth values (rows, keys)
    that is the same for all heads."""
    usual = isinstance(mask, mx.array) and mask.ndim == 2 and mask.dtype == mx.bool_
    return usual and more.get("sinks") is None and _is_float32(queries, keys, values)


def _attention(stock: Callable[..., mx.array]) -> Callable[..., mx.array]:
    """As mlx-lm's `scaled_dot_product_attention`. What `attend` cannot do is left to `stock`."""

    def attention(
        queries: mx.array, keys: Any, values: Any, cache: Any, scale: float, mask: Any, **more: Any
    ) -> mx.array:
        if can_attend(queries, keys, values, mask, **more):
            return attend(queries, keys, values, scale, mask)
        return stock(queries, keys, values, cache=cache, scale=scale, mask=mask, **more)

    return attention


def _swiglu(stock: Callable[..., mx.array]) -> Callable[..., mx.array]:
    """As mlx-lm's `swiglu`: the gate times its sigmoid, times what is gated."""

    def swiglu(gate: mx.array, x: mx.array) -> mx.array:
        if not _is_float32(gate, x):
            return stock(gate, x)
        return gate / (1.0 + mx.power(2.0, gate * -_LOG2_E)) * x

    return swiglu


def _is_float32(*arrays: Any) -> bool:
    """Quantized keys are no arrays."""
    return all(isinstance(each, mx.array) and each.dtype == mx.float32 for each in arrays)


STAND_INS: Mapping[str, StandIn] = {
    "scaled_dot_product_attention": _attention,
    "swiglu": _swiglu,
}
"""By the name of a function of mlx-lm: what makes the one that passes on a CPU call instead."""
