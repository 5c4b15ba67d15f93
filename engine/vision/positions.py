"""Where patches lie in a picture: learnt tables at other sizes, and positions in a prompt."""

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray


def in_blocks(table: mx.array, merged: int) -> mx.array:
    """Return the vectors of a (rows, columns, width) table in the order of `pixels.patches`:
    (rows * columns, width)."""
    rows, columns, width = table.shape
    parts = table.reshape(rows // merged, merged, columns // merged, merged, width)
    return parts.transpose(0, 2, 1, 3, 4).reshape(-1, width)


def stretched(table: mx.array, rows: int, columns: int) -> mx.array:
    """Return a square table, (side, side, width), for another number of rows and columns: linear in
    between, and smoothed where it shrinks, as PyTorch does with `antialias`."""
    down = mx.array(_triangles(table.shape[0], rows))
    across = mx.array(_triangles(table.shape[1], columns))
    tall = (down @ table.astype(mx.float32).flatten(1)).reshape(rows, *table.shape[1:])
    return (across @ tall).astype(table.dtype)


def _triangles(before: int, after: int) -> NDArray[np.float32]:
    """Return how much of each of `before` places is in each of `after`: rows of triangles whose
    middles lie evenly, each as wide as the steps between the coarser places."""
    step = before / after
    middles = (np.arange(after) + 0.5) * step - 0.5
    apart = np.abs(np.arange(before) - middles[:, None])
    weights = np.maximum(0.0, 1.0 - apart / max(step, 1.0))
    shares: NDArray[np.float32] = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    return shares
