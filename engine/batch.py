"""One pass of a model over rows that are not one sequence: trees, and those of several decoders.

Reading a model's weights is most of what a pass costs, and they are read once for all rows. Every
row goes through the model as a sequence of one token, so nothing is padded: the linear layers see
just the rows that there are, and rotary embeddings an offset for each. Only attention looks at
more than a row. It is computed decoder by decoder, over the decoder's own cache, and a row of a
tree sees the rows on its path alone. On the CPU each row gets, bit for bit, what it would have got
alone (`engine.cpu.trees`).

mlx-lm's models call attention by name. A stand-in for that name, during a pass, splits the rows.
Knows caches and attention; nothing of whose the decoders are. Recurrent layers, and attention that
a model computes in a way of its own, allow none of it: `can_share` tells.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn

from engine.cache import AlignedCache
from engine.cpu.trees import attend_exactly
from engine.decoder import Decoder
from engine.device import backend
from engine.model_parts import recording, standing_in
from engine.tree import Tree

_ATTENTION = "scaled_dot_product_attention"
_ROUNDING = 0.05  # of the logits' own deviation


def read_together(
    decoders: Sequence[Decoder],
    tokens: Sequence[mx.array],
    trees: Sequence[Tree | None] = (),
    *,
    exactly: bool | None = None,
) -> list[mx.array]:
    """One pass of the model that all of `decoders` read with: for each its `tokens` (n,), to its
    logits (n, vocabulary), not yet computed. As `Decoder.read` of each, for a model that
    `can_share`. Where it fails, none of them has read anything.

    `trees`: which of a decoder's tokens stands behind which, where that is not a chain. The caches
    have them in the order of `tokens`: see `Decoder.keep`. `exactly`: whether each row of a tree
    gets the very bits that it would have got alone; None: where rows of a chain do.
    """
    trees = trees or [None] * len(decoders)
    sizes = [each.size for each in tokens]
    shapes = [tree or Tree.chain(size) for tree, size in zip(trees, sizes, strict=True)]
    if len(decoders) == 1 and shapes[0].is_chain:
        return [decoders[0].read(tokens[0])]
    if exactly is None:
        exactly = backend().exact_rows
    model, last = decoders[0].model, decoders[0].vocabulary - 1
    starts = [decoder.length for decoder in decoders]
    depths = [(start, tree.depths) for start, tree in zip(starts, shapes, strict=True)]
    positions = mx.array([start + depth for start, each in depths for depth in each])
    rows_of = [slice(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]
    parts = [_Part(tree, rows, exactly) for tree, rows in zip(shapes, rows_of, strict=True)]
    recorders = [decoder.recorder for decoder in decoders]
    with ExitStack() as passes:
        caches = [
            passes.enter_context(decoder.one_pass(size))
            for decoder, size in zip(decoders, sizes, strict=True)
        ]
        layers = [_Layer(each, parts, positions) for each in zip(*caches, strict=True)]
        with (
            recording(list(zip(recorders, starts, sizes, strict=True))),
            standing_in(model, {_ATTENTION: partial(_split, parts=parts)}),
        ):
            ids = mx.minimum(mx.concatenate(list(tokens)), last)[:, None]
            logits: mx.array = model(ids, cache=layers)[:, 0]
    return [logits[rows] for rows in rows_of]


class _Held(NamedTuple):
    """What a cache holds of keys or values, (..., places, dim), with the rows of this pass from
    place `first` on."""

    held: Any
    first: int


class _Sight(NamedTuple):
    """What rows see, (rows, places) each: their own paths, where these stand; and, of a tree that
    is read exactly, what they would see as a chain."""

    own: Any
    as_chain: mx.array | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """The `rows` of a decoder in a pass, of which each sees its own path in `tree`."""

    tree: Tree
    rows: slice
    exactly: bool

    def mask(self, cache: Any, window_size: int | None, return_array: bool) -> _Sight:
        """Made before the rows are appended to `cache`."""
        make = partial(cache.make_mask, len(self.tree), window_size=window_size)
        if self.tree.is_chain:
            return _Sight(make(return_array=return_array))
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
        own = mx.pad(sees, [(0, 0), (0, end - base - places.size)])
        return _Sight(own, make(return_array=True) if self.exactly else None)

    def attend(
        self,
        attention: Callable[..., mx.array],
        queries: mx.array,
        keys: _Held,
        values: _Held,
        mask: _Sight,
        scale: float,
        **options: Any,
    ) -> mx.array:
        """(1, heads, rows, dim); exactly where that is wanted."""
        if mask.as_chain is None:
            held = keys.held, values.held
            return attention(queries, *held, mask=mask.own, scale=scale, **options)
        return attend_exactly(
            self.tree, attention, queries, keys, values, **mask._asdict(), scale=scale, **options
        )


class _Layer:
    """What the model takes for the cache of a layer: the caches of that layer of all decoders.

    Its batch is the rows of all of them, of one token each. Attribute: `offset` (rows,), the
    position of each.
    """

    def __init__(self, caches: Sequence[Any], parts: Sequence[_Part], offset: mx.array) -> None:
        self.caches = caches
        self.offset = offset
        self._parts = parts

    def make_mask(
        self, _: int, window_size: int | None = None, return_array: bool = False
    ) -> list[Any]:
        """For each decoder the mask of its own rows."""
        return [
            part.mask(cache, window_size, return_array)
            for cache, part in zip(self.caches, self._parts, strict=True)
        ]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[list[_Held], list[_Held]]:
        """Append (rows, heads, 1, dim), to each cache its own; returns what each decoder sees."""
        seen = []
        for cache, part in zip(self.caches, self._parts, strict=True):
            position = cache.offset
            held = cache.update_and_fetch(_turned(keys[part.rows]), _turned(values[part.rows]))
            base = cache.base if isinstance(cache, AlignedCache) else 0
            seen.append([_Held(each, position - base) for each in held])
        return [keys for keys, _ in seen], [values for _, values in seen]


def _turned(rows: mx.array) -> mx.array:
    """(n, heads, 1, dim) as (1, heads, n, dim), and back."""
    return rows.transpose(2, 1, 0, 3)


def _split(attention: Callable[..., mx.array], parts: Sequence[_Part]) -> Callable[..., mx.array]:
    """Attention, computed decoder by decoder."""

    def call(
        queries: mx.array,
        keys: list[_Held],
        values: list[_Held],
        cache: _Layer | None,
        scale: float,
        mask: list[Any],
        **options: Any,
    ) -> mx.array:
        # Layers that see the keys of another one have no cache.
        caches = [None] * len(parts) if cache is None else cache.caches
        outputs = [
            part.attend(
                attention,
                _turned(queries[part.rows]),
                keys[i],
                values[i],
                mask[i],
                cache=caches[i],
                scale=scale,
                **options,
            )
            for i, part in enumerate(parts)
        ]
        return mx.concatenate([_turned(output) for output in outputs])

    return call


def can_share(model: nn.Module) -> bool:
    """Whether passes over `model` can be shared, and whether it can read trees.

    Tried with a few rows of two decoders, of which one has a tree, against passes over what each
    sees alone: bit for bit where rows are exact; elsewhere nearly.
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
    if backend().exact_rows:
        return bool(mx.array_equal(logits, others))
    logits, others = logits.astype(mx.float32), others.astype(mx.float32)
    apart = mx.sqrt(mx.mean(mx.square(logits - others)))
    return bool(apart <= _ROUNDING * mx.std(others))
