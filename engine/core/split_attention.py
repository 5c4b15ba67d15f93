"""Attention of a draft's rows over a long context on a GPU: in parts that suit MLX's fast kernel.

MLX's kernel for few rows takes up to 8 of them, and up to 32 products of rows with the query heads
that share keys. With one row more another kernel runs, which over a long context may take several
times as long: others measured 2.5 ms a layer for 5 rows and 7.1 for 6 (an M4 Pro, 6 query heads to
a key head, 32,000 tokens). Two calls of the fast kernel read the keys twice and are quicker. Where
they are not, nothing is split: that is measured while a model is loaded, over 1,024, 4,096 and
16,384 keys, as in a round it would wait for all that is under way and spoil the round's times.

A row sees the same keys in a part, so it gets the same, up to rounding. Where a row must have the
bits of a row alone, parts are what MLX computes row by row anyway: up to 8 rows while one pass over
the keys is enough, else single rows with the keys that each would have had. Untested on Metal.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any

import mlx.core as mx

from engine.device import wait
from models.limits import FEW_ROWS
from models.speed import this_chip

LEAST_KEYS = 1024
"""With fewer of them attention is a small part of a pass: larger chips read them in two
passes of MLX's fast kernel from there on, and others from 4,096."""

_MEASURED = (LEAST_KEYS, 4096, 16384)  # keys; more are as the most of these that are there
_MOST_ROWS, _MOST_PRODUCTS = 8, 32  # of the kernel: MLX's scaled_dot_product_attention.cpp
_FUSED = {(width, width) for width in (64, 96, 128, 256)}  # widths of keys and values that it takes
_MOST_PARTS = 4  # more rows belong to a prompt
_TRIALS = 3
_WORTH = 0.95  # of the time of a single call

Attention = Callable[..., mx.array]
Shape = tuple[int, int, int, int, mx.Dtype]
"""The sizes that decide the time: heads, key heads, the width of keys and of values, the type."""

_PAYS: dict[tuple[Shape, int, int], bool] = {}  # by the numbers of keys, as measured, and of parts
_longest = ContextVar("longest", default=0)  # number of keys to be measured now


def in_parts(stock: Attention) -> Attention:
    """Return a function like mlx-lm's `scaled_dot_product_attention` that splits a draft's rows if
    there are many keys and that is quicker. Quantized keys have kernels of their own."""

    def attention(
        queries: mx.array, keys: Any, values: Any, cache: Any, scale: float, mask: Any, **more: Any
    ) -> mx.array:
        options = {"cache": cache, "scale": scale, "mask": mask, **more}
        return attend(stock, queries, keys, values, **options)

    return attention


def as_alone(stock: Attention) -> Attention:
    """Return a function like mlx-lm's `scaled_dot_product_attention` that gives each of a few rows
    the bits that it has alone on a GPU, for a model with the attribute `attends_alone`. In two
    passes the keys' blocks depend on the rows. Quantized keys cannot be read so."""

    def attention(
        queries: mx.array, keys: Any, values: Any, cache: Any, scale: float, mask: Any, **more: Any
    ) -> mx.array:
        options = {"cache": cache, "scale": scale, "mask": mask, **more}
        if not isinstance(keys, mx.array) or not 1 < queries.shape[2] <= FEW_ROWS:
            return stock(queries, keys, values, **options)
        fused = (queries.shape[3], values.shape[3]) in _FUSED and keys.shape[2] < LEAST_KEYS
        most = most_rows(queries, keys) if fused else 1
        return split(stock, most, queries, keys, values, **options)

    return attention


def attend(stock: Attention, queries: mx.array, keys: Any, values: Any, **options: Any) -> mx.array:
    """Return `stock`'s result, in parts where they were measured to be quicker."""
    if isinstance(keys, mx.array):
        shape = queries.shape[1], keys.shape[1], keys.shape[3], values.shape[3], queries.dtype
        if longest := _longest.get():
            _measure(shape, longest)
        most = most_rows(queries, keys)
        parts = -(-queries.shape[2] // most)
        places = max((each for each in _MEASURED if each <= keys.shape[2]), default=0)
        if parts > 1 and _PAYS.get((shape, places, parts)):
            return split(stock, most, queries, keys, values, **options)
    return stock(queries, keys, values, **options)


@contextmanager
def measuring(longest: int) -> Iterator[None]:
    """Inside the block, find out which parts pay for what attends there, over up to `longest` keys.
    Takes some milliseconds for each number of keys and parts, once."""
    before = _longest.set(longest)
    try:
        yield
    finally:
        _longest.reset(before)


def _measure(shape: Shape, longest: int) -> None:
    chip = this_chip()
    for places in _MEASURED if chip and chip.large else _MEASURED[1:]:
        for parts in range(2, _MOST_PARTS + 1):
            if places <= longest and (shape, places, parts) not in _PAYS:
                _PAYS[shape, places, parts] = _pays(shape, places, parts)


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


def _pays(shape: Shape, places: int, parts: int) -> bool:
    """Whether `parts` calls are quicker than a single one for all of their rows."""
    heads, groups, width, value_width, dtype = shape
    keys, values = (mx.zeros((1, groups, places, each), dtype) for each in (width, value_width))
    most = most_rows(mx.zeros((1, heads, 1, width)), keys)
    queries = mx.zeros((1, heads, most * parts, width), dtype)
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
