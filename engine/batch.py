"""One pass of a model over rows that are not one sequence: trees, and those of several decoders.

Reading a model's weights is most of what a pass costs, and they are read once for all rows. Every
row goes through the model as a sequence of one token, so nothing is padded: the linear layers see
just the rows that there are, and rotary embeddings an offset for each. Only attention looks at
more than a row. It is computed decoder by decoder, over the decoder's own cache, and a row of a
tree sees the rows on its path alone. On the CPU it is even computed path by path, over keys and
values in the order of the path: so each row gets, bit for bit, what it would have got alone.

mlx-lm's models call attention by name. A stand-in for that name, during a pass, splits the rows.
Knows caches and attention; nothing of whose the decoders are. Recurrent layers, and attention that
a model computes in a way of its own, allow none of it: `can_share` tells.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

from engine.cache import AlignedCache
from engine.decoder import Decoder
from engine.model_parts import recording, standing_in
from engine.tree import Tree

_ATTENTION = "scaled_dot_product_attention"
_ROUNDING = 0.05  # of the logits' own deviation


def read_together(
    decoders: Sequence[Decoder],
    tokens: Sequence[mx.array],
    trees: Sequence[Tree | None] = (),
    *,
    by_path: bool | None = None,
) -> list[mx.array]:
    """One pass of the model that all of `decoders` read with: for each its `tokens` (n,), to its
    logits (n, vocabulary), not yet computed. As `Decoder.read` of each, for a model that
    `can_share`. Where it fails, none of them has read anything.

    `trees`: which of a decoder's tokens stands behind which, where that is not a chain. The caches
    have them in the order of `tokens`: see `Decoder.keep`. `by_path`: whether attention is computed
    for each path of a tree by itself; None: on the CPU.
    """
    trees = trees or [None] * len(decoders)
    sizes = [each.size for each in tokens]
    shapes = [tree or Tree.chain(size) for tree, size in zip(trees, sizes, strict=True)]
    if len(decoders) == 1 and shapes[0].is_chain:
        return [decoders[0].read(tokens[0])]
    if by_path is None:
        by_path = mx.default_device() == mx.cpu
    model, last = decoders[0].model, decoders[0].vocabulary - 1
    starts = [decoder.length for decoder in decoders]
    depths = [(start, tree.depths) for start, tree in zip(starts, shapes, strict=True)]
    positions = mx.array([start + depth for start, each in depths for depth in each])
    rows_of = [slice(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]
    parts = [
        part
        for number, (tree, rows) in enumerate(zip(shapes, rows_of, strict=True))
        for part in _parts_of(number, tree, rows.start, by_path=by_path)
    ]
    recorders = [decoder.recorder for decoder in decoders]
    with ExitStack() as passes:
        caches = [
            passes.enter_context(decoder.one_pass(size))
            for decoder, size in zip(decoders, sizes, strict=True)
        ]
        layers = [_Layer(each, rows_of, parts, positions) for each in zip(*caches, strict=True)]
        with (
            recording(list(zip(recorders, starts, sizes, strict=True))),
            standing_in(model, {_ATTENTION: partial(_split, parts=parts)}),
        ):
            ids = mx.minimum(mx.concatenate(list(tokens)), last)[:, None]
            logits: mx.array = model(ids, cache=layers)[:, 0]
    return [logits[rows] for rows in rows_of]


@dataclass(frozen=True, slots=True)
class _Part(ABC):
    """Rows of a pass for which attention is computed at once. `decoder`: the number of the one
    whose they are; `rows`: which they are in the pass."""

    decoder: int
    rows: tuple[int, ...]

    @abstractmethod
    def mask(self, cache: Any, window_size: int | None, return_array: bool) -> Any:
        """What of the `seen` each row sees: made before the rows are appended to `cache`."""

    def seen(self, held: mx.array, first: int) -> mx.array:
        """What is seen, (..., places, dim), of what the cache holds, with the decoder's rows of
        this pass from place `first` on."""
        return held


class _Chain(_Part):
    """All rows of a decoder, each behind the one before it."""

    def mask(self, cache: Any, window_size: int | None, return_array: bool) -> Any:
        return cache.make_mask(len(self.rows), return_array=return_array, window_size=window_size)


@dataclass(frozen=True, slots=True)
class _Path(_Part):
    """Rows that end a path of a tree with `size` tokens. They see the path as if it were alone: its
    rows in a chain, and as many places as before.

    `depths` of the rows; `order`: the path's rows among the decoder's, or None where they are the
    first ones.
    """

    size: int
    depths: mx.array
    order: mx.array | None

    def mask(self, cache: Any, window_size: int | None, return_array: bool) -> Any:
        whole = cache.make_mask(self.size, return_array=True, window_size=window_size)
        return whole[self.depths]

    def seen(self, held: mx.array, first: int) -> mx.array:
        if self.order is None:
            return held
        path = held[..., first : first + self.size, :][..., self.order, :]
        seen = mx.array(held)
        seen[..., first : first + self.order.size, :] = path
        return seen


@dataclass(frozen=True, slots=True)
class _Branching(_Part):
    """All rows of a decoder, in the shape of a tree, of which each row sees its own path."""

    tree: Tree

    def mask(self, cache: Any, window_size: int | None, return_array: bool) -> mx.array:
        base, end = 0, cache.offset + len(self.tree)
        if isinstance(cache, AlignedCache):
            base, end = cache.span(len(self.tree))
            window_size = window_size or cache.window
        depths = cache.offset + mx.array(self.tree.depths)
        places = mx.concatenate([mx.arange(base, cache.offset), depths])
        sees = mx.ones((depths.size, cache.offset - base), dtype=mx.bool_)
        sees = mx.concatenate([sees, mx.array(self.tree.before)], axis=1)
        if window_size is not None:
            sees = sees & (places > depths[:, None] - window_size)
        return mx.pad(sees, [(0, 0), (0, end - base - places.size)])


def _parts_of(decoder: int, tree: Tree, first: int, *, by_path: bool) -> Iterator[_Part]:
    """The parts of a decoder whose rows are those from `first` on."""
    every = tuple(range(first, first + len(tree)))
    if tree.is_chain:
        yield _Chain(decoder, every)
    elif not by_path:
        yield _Branching(decoder, every, tree)
    else:
        read: set[int] = set()
        for path in tree.paths:
            own = [row for row in path if row not in read]
            read.update(own)
            in_place = path == tuple(range(len(path)))
            yield _Path(
                decoder,
                tuple(first + row for row in own),
                size=len(tree),
                depths=mx.array([tree.depths[row] for row in own]),
                order=None if in_place else mx.array(path),
            )


class _Layer:
    """What the model takes for the cache of a layer: the caches of that layer of all decoders.

    Its batch is the rows of all of them, of one token each. Attribute: `offset` (rows,), the
    position of each.
    """

    def __init__(
        self,
        caches: Sequence[Any],
        rows: Sequence[slice],
        parts: Sequence[_Part],
        offset: mx.array,
    ) -> None:
        self.caches = [caches[part.decoder] for part in parts]
        self.offset = offset
        self._each, self._rows, self._parts = caches, rows, parts

    def make_mask(
        self, _: int, window_size: int | None = None, return_array: bool = False
    ) -> list[Any]:
        """For each part the mask of its own rows."""
        return [
            part.mask(cache, window_size, return_array)
            for cache, part in zip(self.caches, self._parts, strict=True)
        ]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[list[Any], list[Any]]:
        """Append (rows, heads, 1, dim), to each cache its own; returns what each part sees."""
        lengths = [cache.offset for cache in self._each]
        held = [
            cache.update_and_fetch(_turned(keys[rows]), _turned(values[rows]))
            for cache, rows in zip(self._each, self._rows, strict=True)
        ]
        seen = []
        for cache, part in zip(self.caches, self._parts, strict=True):
            base = cache.base if isinstance(cache, AlignedCache) else 0
            of_part = partial(part.seen, first=lengths[part.decoder] - base)
            seen.append(tree_map(of_part, held[part.decoder]))
        return [keys for keys, _ in seen], [values for _, values in seen]


def _turned(rows: mx.array) -> mx.array:
    """(n, heads, 1, dim) as (1, heads, n, dim), and back."""
    return rows.transpose(2, 1, 0, 3)


def _split(attention: Callable[..., mx.array], parts: Sequence[_Part]) -> Callable[..., mx.array]:
    """Attention, computed part by part."""
    rows = [_as_slice(part.rows) for part in parts]
    order = [row for part in parts for row in part.rows]
    back = None if order == sorted(order) else mx.argsort(mx.array(order))

    def call(
        queries: mx.array,
        keys: list[Any],
        values: list[Any],
        cache: _Layer | None,
        scale: float,
        mask: list[Any],
        **options: Any,
    ) -> mx.array:
        # Layers that see the keys of another one have no cache.
        caches = [None] * len(parts) if cache is None else cache.caches
        outputs = [
            attention(_turned(queries[own]), *seen, scale=scale, mask=hidden, cache=each, **options)
            for own, *seen, hidden, each in zip(rows, keys, values, mask, caches, strict=True)
        ]
        together = mx.concatenate([_turned(output) for output in outputs])
        return together if back is None else together[back]

    return call


def _as_slice(rows: Sequence[int]) -> slice | mx.array:
    """What picks these rows, without copying them where they stand side by side."""
    beside = list(rows) == list(range(rows[0], rows[0] + len(rows)))
    return slice(rows[0], rows[0] + len(rows)) if beside else mx.array(list(rows))


def can_share(model: nn.Module) -> bool:
    """Whether passes over `model` can be shared, and whether it can read trees.

    Tried with a few rows of two decoders, of which one has a tree, against passes over what each
    sees alone: bit for bit on the CPU; on a GPU, where kernels round by the number of rows, nearly.
    """
    one, other = Decoder(model), Decoder(model)
    chain, branching = mx.arange(1, 4), mx.arange(7, 12)
    tree = Tree((-1, -1, 0, 1, 2))
    try:
        other.read(mx.arange(4))
        alone = [one.read(chain)]
        one.rewind(0)
        for path in tree.paths:
            alone.append(other.read(branching[mx.array(path)]))
            other.rewind(4)
        rows, of_tree = read_together([one, other], [chain, branching], [None, tree])
        together = [rows, *(of_tree[mx.array(path)] for path in tree.paths)]
        return all(_alike(*logits) for logits in zip(together, alone, strict=True))
    except Exception:  # whatever a model does with what it does not expect
        return False


def _alike(logits: mx.array, others: mx.array) -> bool:
    if mx.default_device() == mx.cpu:
        return bool(mx.array_equal(logits, others))
    logits, others = logits.astype(mx.float32), others.astype(mx.float32)
    apart = mx.sqrt(mx.mean(mx.square(logits - others)))
    return bool(apart <= _ROUNDING * mx.std(others))
