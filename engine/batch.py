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

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

from engine.cache import AlignedCache
from engine.decoder import Decoder
from engine.model_parts import recording
from engine.tree import Tree

_ATTENTION = "scaled_dot_product_attention"
_ROUNDING = 0.05  # of the logits' own deviation


def read_together(
    decoders: Sequence[Decoder], tokens: Sequence[mx.array], trees: Sequence[Tree | None] = ()
) -> list[mx.array]:
    """One pass of the model that all of `decoders` read with: for each its `tokens` (n,), to its
    logits (n, vocabulary), not yet computed. As `Decoder.read` of each, for a model that
    `can_share`. Where it fails, none of them has read anything.

    `trees`: which of a decoder's tokens stands behind which, where that is not a chain. The caches
    have them in the order of `tokens`: see `Decoder.keep`.
    """
    trees = trees or [None] * len(decoders)
    if len(decoders) == 1 and trees[0] is None:
        return [decoders[0].read(tokens[0])]
    model, last = decoders[0].model, decoders[0].vocabulary - 1
    sizes = [each.size for each in tokens]
    shapes = [tree or Tree.chain(size) for tree, size in zip(trees, sizes, strict=True)]
    starts = [decoder.length for decoder in decoders]
    depths = [(start, tree.depths) for start, tree in zip(starts, shapes, strict=True)]
    positions = mx.array([start + depth for start, each in depths for depth in each])
    rows_of = [slice(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]
    parts = _parts_of(shapes)
    recorders = [decoder.recorder for decoder in decoders]
    with ExitStack() as passes:
        caches = [
            passes.enter_context(decoder.one_pass(size))
            for decoder, size in zip(decoders, sizes, strict=True)
        ]
        layers = [_Layer(each, rows_of, parts, positions) for each in zip(*caches, strict=True)]
        with (
            recording(list(zip(recorders, starts, sizes, strict=True))),
            _splitting_attention(model, parts),
        ):
            ids = mx.minimum(mx.concatenate(list(tokens)), last)[:, None]
            logits: mx.array = model(ids, cache=layers)[:, 0]
    return [logits[rows] for rows in rows_of]


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of a pass for which attention is computed at once; all are of one decoder.

    `decoder` is its number, `tree` the shape of all its rows. The part has of these rows `own`,
    which are `rows` of the pass. What they see is what was read before, and then the rows `seen`,
    in this order: all of them, or those of a path.
    """

    decoder: int
    tree: Tree
    rows: tuple[int, ...]
    own: tuple[int, ...]
    seen: tuple[int, ...]


def _parts_of(trees: Sequence[Tree]) -> list[_Part]:
    parts: list[_Part] = []
    first = 0
    for number, tree in enumerate(trees):
        every = tuple(range(len(tree)))
        groups = [(every, every)]
        if not tree.is_chain and mx.default_device() == mx.cpu:
            known: set[int] = set()
            groups = []
            for path in tree.paths:
                groups.append((tuple(i for i in path if i not in known), path))
                known.update(path)
        for own, seen in groups:
            parts.append(_Part(number, tree, tuple(first + i for i in own), own, seen))
        first += len(tree)
    return parts


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

    def make_mask(self, _: int, *arguments: Any, **options: Any) -> list[Any]:
        """For each part the mask of its own rows."""
        return [
            cache.make_mask(len(part.rows), *arguments, **options)
            if part.tree.is_chain
            else _mask(cache, part, *arguments, **options)
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
            in_order = partial(_in_order, part, lengths[part.decoder] - base)
            seen.append(tree_map(in_order, held[part.decoder]))
        return [keys for keys, _ in seen], [values for _, values in seen]


def _in_order(part: _Part, first: int, held: mx.array) -> mx.array:
    """(..., positions, dim) with the part's rows from place `first` on, in its order."""
    if part.seen == tuple(range(len(part.seen))):
        return held
    places = [*range(held.shape[-2])]
    places[first : first + len(part.seen)] = [first + row for row in part.seen]
    return mx.take(held, mx.array(places), axis=-2)


def _mask(
    cache: Any, part: _Part, window_size: int | None = None, return_array: bool = False
) -> mx.array:
    """(rows, keys) of truth values for a part of a tree, before its rows are appended."""
    base, end, window = 0, cache.offset + len(part.tree), window_size
    if isinstance(cache, AlignedCache):
        base, end = cache.span(len(part.tree))
        window = window or cache.window
    depths, before = mx.array(part.tree.depths), mx.array(part.tree.before)
    own, seen = mx.array(part.own), mx.array(part.seen)
    read, unused = cache.offset - base, end - cache.offset - len(part.seen)
    positions = mx.concatenate(
        [mx.arange(base, cache.offset), cache.offset + depths[seen], mx.zeros((unused,), mx.int32)]
    )
    mask = mx.pad(before[own][:, seen], [(0, 0), (0, unused)])
    mask = mx.concatenate([mx.ones((own.size, read), dtype=mx.bool_), mask], axis=1)
    queries = cache.offset + depths[own][:, None]
    return mask if window is None else mask & (positions > queries - window)


def _turned(rows: mx.array) -> mx.array:
    """(n, heads, 1, dim) as (1, heads, n, dim), and back."""
    return rows.transpose(2, 1, 0, 3)


@contextmanager
def _splitting_attention(model: nn.Module, parts: Sequence[_Part]) -> Iterator[None]:
    """Have the model's classes compute attention part by part meanwhile."""
    parts_of_layers = (part for layer in model.layers for part in layer.values())
    modules = {sys.modules[type(part).__module__] for part in parts_of_layers}
    places = [vars(module) for module in modules if _ATTENTION in vars(module)]
    originals = [names[_ATTENTION] for names in places]
    try:
        for names, original in zip(places, originals, strict=True):
            names[_ATTENTION] = _split(original, parts)
        yield
    finally:
        for names, original in zip(places, originals, strict=True):
            names[_ATTENTION] = original


def _split(attention: Callable[..., mx.array], parts: Sequence[_Part]) -> Callable[..., mx.array]:
    rows = [mx.array(part.rows) for part in parts]
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
            attention(_turned(queries[part]), *seen, scale=scale, mask=hidden, cache=own, **options)
            for part, *seen, hidden, own in zip(rows, keys, values, mask, caches, strict=True)
        ]
        together = mx.concatenate([_turned(output) for output in outputs])
        return together if back is None else together[back]

    return call


def can_share(model: nn.Module) -> bool:
    """Whether passes over `model` can be shared.

    Tried with a few rows of two decoders against passes of their own: bit for bit on the CPU; on a
    GPU, where kernels round by the number of rows, nearly.
    """
    readers = [Decoder(model), Decoder(model)]
    before, tokens = [0, 4], [mx.arange(1, 4), mx.arange(7, 12)]
    try:
        readers[1].read(mx.arange(4))
        alone = [reader.read(rows) for reader, rows in zip(readers, tokens, strict=True)]
        for reader, length in zip(readers, before, strict=True):
            reader.rewind(length)
        together = read_together(readers, tokens)
        return all(_alike(*logits) for logits in zip(together, alone, strict=True))
    except Exception:  # whatever a model does with what it does not expect
        return False


def _alike(logits: mx.array, others: mx.array) -> bool:
    if mx.default_device() == mx.cpu:
        return bool(mx.array_equal(logits, others))
    logits, others = logits.astype(mx.float32), others.astype(mx.float32)
    apart = mx.sqrt(mx.mean(mx.square(logits - others)))
    return bool(apart <= _ROUNDING * mx.std(others))
