"""Attention of a tree's rows on a CPU: each row's result has the same bits as alone.

If necessary it is computed path by path, over keys and values in the order of the path.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map

from engine.backend import Held
from engine.cpu.blas import choose_blas
from engine.cpu.exponentials import attend, can_attend
from engine.tree import Tree

_SUMS_IN_TURN = choose_blas().sums_in_turn


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
    """The result of `attention` for the rows of `tree`, (1, heads, rows, dim).

    All rows at once if a row's rounding does not depend on the others, otherwise path by path.
    `own` (rows, places): the places that each row sees; `as_chain`: the same for a chain.
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
    """A path of a tree, read as a chain over as many places as the tree has.

    `own`: the rows that no earlier path has, at these `depths`. `order`: the path's rows in the
    tree; None if they are the tree's first rows.
    """

    own: tuple[int, ...]
    depths: mx.array
    order: mx.array | None

    def seen(self, part: Held) -> Any:
        """Keys or values in the path's order; quantized ones are several arrays."""
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
    """The paths of a tree; each row belongs to the first path that has it."""
    paths: list[_Path] = []
    read: set[int] = set()
    for path in tree.paths:
        own = tuple(row for row in path if row not in read)
        read.update(own)
        in_place = path == tuple(range(len(path)))
        depths = mx.array([tree.depths[row] for row in own])
        paths.append(_Path(own, depths, None if in_place else mx.array(path)))
    return tuple(paths)
