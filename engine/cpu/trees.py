"""Attention of a tree's rows on a CPU: each row gets, bit for bit, what it would have got alone.

Where that takes it, path by path, over keys and values in the order of the path.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map

from engine.cpu.blas import choose_blas
from engine.cpu.exponentials import attend, can_attend
from engine.tree import Tree

_SUMS_IN_TURN = choose_blas().sums_in_turn

Held = tuple[Any, int]
"""What a cache holds of keys or values, (..., places, dim), and where the tree begins."""


def attend_exactly(
    tree: Tree,
    attention: Callable[..., mx.array],
    queries: mx.array,
    keys: Held,
    values: Held,
    *,
    own: mx.array,
    as_chain: mx.array,
    scale: float,
    **options: Any,
) -> mx.array:
    """What `attention` gives the rows of `tree`, (1, heads, rows, dim): all rows at once where no
    number is rounded by what others see, else path by path.

    `own`: which places each row sees, (rows, places); `as_chain`: which it would see in a chain.
    """
    if _SUMS_IN_TURN and can_attend(queries, keys[0], values[0], own, **options):
        return attend(queries, keys[0], values[0], scale, own)
    paths = _paths(tree)
    outputs = [
        attention(
            queries[:, :, mx.array(path.own)],
            path.seen(keys),
            path.seen(values),
            mask=as_chain[path.depths],
            scale=scale,
            **options,
        )
        for path in paths
    ]
    order = [row for path in paths for row in path.own]
    return mx.concatenate(outputs, axis=2)[:, :, mx.argsort(mx.array(order))]


@dataclass(frozen=True, slots=True)
class _Path:
    """Rows that end a path of a tree, which see it as if it were alone: its rows in a chain, and as
    many places as before. `own`: which rows they are; `depths`: how deep; `order`: the path's rows
    among all, or None where they are the first ones.
    """

    own: tuple[int, ...]
    depths: mx.array
    order: mx.array | None

    def seen(self, part: Held) -> Any:
        """Of keys or values, which are several arrays where they are quantized."""
        held, first = part
        return tree_map(partial(self._in_order, first=first), held)

    def _in_order(self, held: mx.array, first: int) -> mx.array:
        if self.order is None:
            return held
        seen = mx.array(held)
        seen[..., first : first + self.order.size, :] = held[..., first + self.order, :]
        return seen


@lru_cache(maxsize=8)
def _paths(tree: Tree) -> tuple[_Path, ...]:
    """The paths of a tree, and to each the rows that no path before it has."""
    paths: list[_Path] = []
    read: set[int] = set()
    for path in tree.paths:
        own = tuple(row for row in path if row not in read)
        read.update(own)
        in_place = path == tuple(range(len(path)))
        depths = mx.array([tree.depths[row] for row in own])
        paths.append(_Path(own, depths, None if in_place else mx.array(path)))
    return tuple(paths)
