"""Exponentials on a CPU as powers of two, which take less than half of the time.

On x86-64 MLX computes exponentials one by one, by calls. With four rows softmax and SwiGLU were a
tenth of a small target's pass, and no other part grows with the rows as they do. So the sampler
calls `softmax` here, and passes call stand-ins for the functions that mlx-lm's models call by name.
The results are MLX's own up to rounding, and a row's result does not depend on the other rows.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx

from engine.backend import StandIn

_LOG2_E = 1.0 / math.log(2.0)
_LARGE_LAYER = 100_000  # weights; for smaller layers an early start costs more than it gains
_LEAST = 2.0**-126  # smaller floats have fewer digits, and are slow to compute with


def begin(array: mx.array) -> None:
    """Let MLX begin with an array."""
    mx.async_eval(array)


def softmax(scores: mx.array) -> mx.array:
    """Probabilities over the last axis of `scores`, float32; 0 for those below 2**-126."""
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
    """The result of mlx-lm's `scaled_dot_product_attention`, for arguments that `can_attend`.

    Needs few passes over the scores: it divides by their sum last of all, and keeps tiny weights,
    which hardly occur here.
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
    """Whether `attend` can compute it: float32, and one boolean mask (rows, keys) for all heads."""
    usual = isinstance(mask, mx.array) and mask.ndim == 2 and mask.dtype == mx.bool_
    return usual and more.get("sinks") is None and _is_float32(queries, keys, values)


def _attention(stock: Callable[..., mx.array]) -> Callable[..., mx.array]:
    """Replace mlx-lm's `scaled_dot_product_attention`; call `stock` if `attend` cannot do it."""

    def attention(
        queries: mx.array, keys: Any, values: Any, cache: Any, scale: float, mask: Any, **more: Any
    ) -> mx.array:
        if isinstance(mask, mx.array) and isinstance(keys, mx.array):
            keys, values = _as_long_as(mask, keys), _as_long_as(mask, values)
        if can_attend(queries, keys, values, mask, **more):
            return attend(queries, keys, values, scale, mask)
        return stock(queries, keys, values, cache=cache, scale=scale, mask=mask, **more)

    return attention


def _as_long_as(mask: mx.array, held: mx.array) -> mx.array:
    """Return `held`, (..., positions, dim), with zeros after it so that it has as many positions
    as `mask`, which hides them.

    Keys that a layer shares with another end with the last token read, but a mask ends with the
    cache's block.
    """
    missing = mask.shape[-1] - held.shape[-2]
    return (
        mx.pad(held, [(0, 0)] * (held.ndim - 2) + [(0, missing), (0, 0)]) if missing > 0 else held
    )


def _swiglu(stock: Callable[..., mx.array]) -> Callable[..., mx.array]:
    """Replace mlx-lm's `swiglu`: the gate times its sigmoid, times `x`."""

    def swiglu(gate: mx.array, x: mx.array) -> mx.array:
        if not _is_float32(gate, x):
            return stock(gate, x)
        return gate / (1.0 + mx.power(2.0, gate * -_LOG2_E)) * x

    return swiglu


def _is_float32(*arrays: Any) -> bool:
    """Whether all are float32 arrays. Quantized keys are tuples."""
    return all(isinstance(each, mx.array) and each.dtype == mx.float32 for each in arrays)


STAND_INS: Mapping[str, StandIn] = {"scaled_dot_product_attention": _attention, "swiglu": _swiglu}
"""By the name of a function of mlx-lm: the function that makes its replacement on a CPU."""


def stand_ins(weights_per_layer: float) -> Mapping[str, StandIn]:
    """Return functions that make the replacements in a pass of a model, by the name of the function
    of mlx-lm that is replaced."""
    return _BEGUN if weights_per_layer > _LARGE_LAYER else STAND_INS


def _at_once(stand_in: StandIn) -> StandIn:
    """Return a stand-in that makes the same replacement, which also starts the computation of its
    result.

    So a CPU computes a pass while the rest of it is built. A model of 30 layers with 4 million
    weights each takes 0.93 of the time, a model with 50,000 up to 1.2 times as long. A GPU gains
    nothing, as it gets its work in larger parts.
    """

    def begun(stock: Callable[..., mx.array]) -> Callable[..., mx.array]:
        call = stand_in(stock)

        def call_and_begin(*arrays: Any, **options: Any) -> mx.array:
            result = call(*arrays, **options)
            begin(result)
            return result

        return call_and_begin

    return begun


_BEGUN = {name: _at_once(stand_in) for name, stand_in in STAND_INS.items()}
