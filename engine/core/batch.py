"""One pass of a model over rows that are not one sequence: a tree, or the rows of several decoders.

Most of a pass's cost is reading the model's weights, which are read once for all rows. Every row
goes through the model as a sequence of one token, so nothing is padded: the linear layers see the
rows as they are, and rotary embeddings get an offset for each. Only attention looks at more than
one row. It is computed decoder by decoder, over the decoder's own cache, and a row of a tree sees
only the rows on its path. On the CPU the result of each row is, bit for bit, the same as alone
(`engine.cpu.trees`).

mlx-lm's models call attention by name. During a pass a stand-in under that name splits the rows.
Models with recurrent layers, or with attention of their own, cannot be read so: `can_share` tries.
Knows caches and attention; nothing of the answers that the decoders write.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn

from engine.backend import Backend
from engine.core.cache import AlignedCache
from engine.core.decoder import Decoder
from engine.core.model_parts import recording, standing_in
from engine.tree import Tree

_ATTENTION = "scaled_dot_product_attention"
_ROUNDING = 0.05  # of the logits' own deviation


def read_together(
    decoders: Sequence[Decoder],
    tokens: Sequence[mx.array],
    trees: Sequence[Tree | None] = (),
) -> list[mx.array]:
    """Read with all of `decoders` in one pass; they must hold the same model, which `can_share`.

    `tokens` has (n,) ids for each decoder; returns logits (n, vocabulary) for each, not yet
    computed, equal to `Decoder.read`'s. If it fails, no decoder has read anything.

    `trees`: the tree that a decoder's tokens form; None for a chain. Its cache holds them in the
    order of `tokens`: see `Decoder.keep`.
    """
    trees = trees or [None] * len(decoders)
    sizes = [each.size for each in tokens]
    shapes = [tree or Tree.chain(size) for tree, size in zip(trees, sizes, strict=True)]
    if len(decoders) == 1 and shapes[0].is_chain:
        return [decoders[0].read_draft(tokens[0])]
    device, model, last = decoders[0].device, decoders[0].model, decoders[0].vocabulary - 1
    starts = [decoder.length for decoder in decoders]
    depths = [
        (decoder.length - decoder.lower, tree.depths)
        for decoder, tree in zip(decoders, shapes, strict=True)
    ]
    positions = mx.array([start + depth for start, each in depths for depth in each])
    rows_of = [slice(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]
    parts = [_Part(tree, rows, device) for tree, rows in zip(shapes, rows_of, strict=True)]
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
    """A cache's keys or values, (..., places, dim); this pass's rows begin at place `first`."""

    held: Any
    first: int


class _Sight(NamedTuple):
    """Masks (rows, places). `own`: each row sees its own path. `as_chain`: the mask of the same
    rows as a chain, for a tree that is read exactly."""

    own: Any
    as_chain: mx.array | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """The `rows` of one decoder in a pass. Each row sees its own path in `tree`."""

    tree: Tree
    rows: slice
    device: Backend

    def mask(self, cache: Any, window_size: int | None, return_array: bool) -> _Sight:
        """The rows' masks. Call it before the rows are appended to `cache`."""
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
        return _Sight(own, make(return_array=True) if self.device.exact_rows else None)

    def attend(
        self,
        attention: Callable[..., mx.array],
        queries: mx.array,
        keys: _Held,
        values: _Held,
        mask: _Sight,
        **options: Any,
    ) -> mx.array:
        """Attention of the rows, (1, heads, rows, dim)."""
        return self.device.attend_tree(
            self.tree, attention, queries, keys, values, **mask._asdict(), **options
        )


class _Layer:
    """Replaces a layer's cache in a pass: holds that layer's caches of all decoders.

    Its batch is the rows of all decoders, one token each. Attribute: `offset` (rows,), the
    position of each row.
    """

    def __init__(self, caches: Sequence[Any], parts: Sequence[_Part], offset: mx.array) -> None:
        self.caches = caches
        self.offset = offset
        self._parts = parts

    def make_mask(
        self, _: int, window_size: int | None = None, return_array: bool = False
    ) -> list[Any]:
        """The mask of each decoder's rows."""
        return [
            part.mask(cache, window_size, return_array)
            for cache, part in zip(self.caches, self._parts, strict=True)
        ]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[list[_Held], list[_Held]]:
        """Append (rows, heads, 1, dim) to the caches, each its own rows; returns for each decoder
        the keys and the values that it sees."""
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
    """Make a stand-in for `attention` that computes it decoder by decoder."""

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
    """Whether decoders of `model` can share passes, and whether it can read trees.

    Compares one pass over a chain and a tree with passes over the chain and each path alone: bit
    for bit if rows are exact on this device, otherwise up to rounding.
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
        return all(
            _alike(*logits, exactly=one.device.exact_rows)
            for logits in zip(together, alone, strict=True)
        )
    except Exception:  # a model may do anything with inputs that it does not expect
        return False


def _alike(logits: mx.array, others: mx.array, *, exactly: bool) -> bool:
    if exactly:
        return bool(mx.array_equal(logits, others))
    logits, others = logits.astype(mx.float32), others.astype(mx.float32)
    apart = mx.sqrt(mx.mean(mx.square(logits - others)))
    return bool(apart <= _ROUNDING * mx.std(others))
