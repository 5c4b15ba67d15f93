"""Attention of a draft's rows over a long context on a GPU: in parts that suit MLX's fast kernel.

MLX's kernel for few rows takes up to 8 of them, and up to 32 products of rows with the query heads
that share keys. With one row more another kernel runs, which over a long context may take several
times as long: others measured 2.5 ms a layer for 5 rows and 7.1 for 6 (an M4 Pro, 6 query heads to
a key head, 32,000 tokens). Two calls of the fast kernel read the keys twice and are quicker. Where
they are not, nothing is split: that is measured on the device, once for each doubling of the keys.

A row sees the same keys in a part, so it gets the same, up to rounding. Untested on Metal.
"""

from collections.abc import Callable
from functools import cache as remembered
from time import perf_counter
from typing import Any

import mlx.core as mx

from engine.device import wait

LEAST_KEYS = 4096
"""With fewer of them attention is a small part of a pass."""

_MOST_ROWS, _MOST_PRODUCTS = 8, 32  # of the kernel: MLX's scaled_dot_product_attention.cpp
_MOST_PARTS = 4  # more rows are those of a prompt
_TRIALS = 3
_WORTH = 0.95  # of the time of a single call

Attention = Callable[..., mx.array]


def in_parts(stock: Attention) -> Attention:
    """Return a function like mlx-lm's `scaled_dot_product_attention` that splits a draft's rows if
    there are many keys and that is quicker. Quantized keys have kernels of their own."""

    def attention(
        queries: mx.array, keys: Any, values: Any, cache: Any, scale: float, mask: Any, **more: Any
    ) -> mx.array:
        options = {"cache": cache, "scale": scale, "mask": mask, **more}
        if isinstance(keys, mx.array) and keys.shape[2] >= LEAST_KEYS:
            most = most_rows(queries, keys)
            parts = -(-queries.shape[2] // most)
            if 1 < parts <= _MOST_PARTS and _pays(*_shape(queries, keys, values), most, parts):
                return split(stock, most, queries, keys, values, **options)
        return stock(queries, keys, values, **options)

    return attention


def most_rows(queries: mx.array, keys: mx.array) -> int:
    """The number of rows that the kernel takes at once, for (batch, heads, ..., dim) arrays."""
    sharing = queries.shape[1] // keys.shape[1]
    return max(1, min(_MOST_ROWS, _MOST_PRODUCTS // sharing))


def split(
    stock: Attention,
    most: int,
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    *,
    mask: Any,
    **options: Any,
) -> mx.array:
    """Return `stock`'s result, (batch, heads, rows, dim), from calls of at most `most` rows."""
    rows, outputs = queries.shape[2], []
    for first in range(0, rows, most):
        end = min(first + most, rows)
        seen, sight = keys.shape[2], mask
        if isinstance(mask, mx.array):
            sight = mask[..., first:end, :]
        elif mask == "causal":  # the last row sees all keys, each row before it one fewer
            seen -= rows - end
        part = queries[:, :, first:end], keys[:, :, :seen], values[:, :, :seen]
        outputs.append(stock(*part, mask=sight, **options))
    return mx.concatenate(outputs, axis=2)


def _shape(queries: mx.array, keys: mx.array, values: mx.array) -> tuple[Any, ...]:
    """Return the sizes that decide the time: heads, key heads, both widths, type, and the number of
    keys, rounded down to a power of 2."""
    widths = keys.shape[3], values.shape[3]
    places = 1 << (keys.shape[2].bit_length() - 1)
    return queries.shape[1], keys.shape[1], *widths, queries.dtype, places


@remembered
def _pays(
    heads: int,
    groups: int,
    width: int,
    value_width: int,
    dtype: mx.Dtype,
    places: int,
    most: int,
    parts: int,
) -> bool:
    """Whether `parts` calls for `most` rows each are quicker than a single call for all of them.
    Measures it: waits for all work under way, and then for a few milliseconds."""
    queries = mx.zeros((1, heads, most * parts, width), dtype)
    keys, values = (mx.zeros((1, groups, places, each), dtype) for each in (width, value_width))
    stock = mx.fast.scaled_dot_product_attention

    def seconds(rows: int) -> float:
        began = perf_counter()
        wait(split(stock, rows, queries, keys, values, scale=1.0, mask="causal"))
        return perf_counter() - began

    wait(queries, keys, values)
    for rows in (most * parts, most):  # the kernels are loaded
        seconds(rows)
    trials = [(seconds(most * parts), seconds(most)) for _ in range(_TRIALS)]
    whole, split_up = map(min, zip(*trials, strict=True))
    return split_up < _WORTH * whole
