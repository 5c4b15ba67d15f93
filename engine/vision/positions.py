"""Where patches lie in a picture: learnt tables at other sizes, and positions in a prompt.

Qwen's positions have three dimensions (arXiv 2409.12191): a token of text has one number thrice, a
picture's token has its row and column as the second and third, counted from where the picture
begins; text goes on after the longer side.
"""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.vision import Grid


def in_blocks(table: mx.array, merged: int) -> mx.array:
    """Return the vectors of a (rows, columns, width) table in the order of `pixels.patches`:
    (rows * columns, width)."""
    rows, columns, width = table.shape
    parts = table.reshape(rows // merged, merged, columns // merged, merged, width)
    return parts.transpose(0, 2, 1, 3, 4).reshape(-1, width)


def stretched(table: mx.array, rows: int, columns: int) -> mx.array:
    """Return a square table, (side, side, width), for another number of rows and columns: linear in
    between, and smoothed where it shrinks, as PyTorch does with `antialias`."""
    side = len(table)
    return _product(_triangles(side, rows), _triangles(side, columns), table)


def spread(table: mx.array, rows: int, columns: int) -> mx.array:
    """Return a square table as `stretched` does, but its corners stay corners, and nothing is
    smoothed."""
    side = len(table)
    return _product(_lines(side, rows), _lines(side, columns), table)


def _product(
    vertical: NDArray[np.float32], level: NDArray[np.float32], table: mx.array
) -> mx.array:
    down, across, rows = mx.array(vertical), mx.array(level), len(vertical)
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


def _lines(before: int, after: int) -> NDArray[np.float32]:
    """Return how much of each of `before` places is in each of `after`, the first and the last of
    which are the same."""
    apart = np.abs(np.arange(before) - np.linspace(0, before - 1, after)[:, None])
    return np.maximum(0.0, 1.0 - apart).astype(np.float32)


def angles(rows: int, columns: int, merged: int, *, head: int, base: float) -> NDArray[np.float32]:
    """Return by which angles patches, in the order of `pixels.patches`, turn the pairs of a head's
    `head` numbers: by their rows, and by their columns, (patches, 2, pairs of each)."""
    places = np.indices((rows, columns)).transpose(1, 2, 0)
    places = places.reshape(rows // merged, merged, -1, merged, 2).transpose(0, 2, 1, 3, 4)
    steps = base ** -(np.arange(0, head // 2, 2) / (head // 2))
    turned: NDArray[np.float32] = (places.reshape(-1, 2, 1) * steps).astype(np.float32)
    return turned


def three_dimensional(length: int, pictures: Sequence[tuple[int, Grid]]) -> NDArray[np.int32]:
    """Return the positions of `length` tokens, (3, length). `pictures`: the index of the first row
    of each, in order, with its grid."""
    positions, index, position = np.empty((3, length), dtype=np.int32), 0, 0
    for first, grid in pictures:
        rows, columns = _shape(grid)
        position = _as_text(positions[:, index:first], position)
        index = first + rows * columns
        positions[0, first:index] = position
        positions[1, first:index] = position + np.arange(rows).repeat(columns)
        positions[2, first:index] = position + np.tile(np.arange(columns), rows)
        position += max(rows, columns)
    _as_text(positions[:, index:], position)
    return positions


def set_back(pictures: Sequence[Grid]) -> int:
    """Return by how much the positions of text are less than its indices after these pictures."""
    return sum(rows * columns - max(rows, columns) for rows, columns in map(_shape, pictures))


def axes(sections: Sequence[int], pairs: int) -> NDArray[np.int32]:
    """Return which of the three positions turns each pair of a head's numbers, (pairs,): they take
    turns while `Tower.sections` has pairs for them, and the first has the rest."""
    order = np.arange(pairs) % 3
    limits = 3 * np.array([0, *sections[1:3]])
    chosen: NDArray[np.int32] = np.where(np.arange(pairs) < limits[order], order, 0)
    return chosen.astype(np.int32)


def _as_text(part: NDArray[np.int32], position: int) -> int:
    """Number the tokens in `part` from `position` on. Returns the next position."""
    part[:] = np.arange(position, position + part.shape[1])
    return position + part.shape[1]


def _shape(grid: Grid) -> tuple[int, int]:
    return grid.shape or (1, grid.tokens)
