"""One pass of a model for several decoders, each with caches of its own.

Reading a model's weights is most of what a pass costs, and they are read once for all rows. Every
row goes through the model as a sequence of one token, so nothing is padded: the linear layers see
just the rows that there are, and rotary embeddings an offset for each. Only attention looks at
more than a row, and is computed decoder by decoder, over the decoder's own cache: so each gets, bit
for bit on the CPU, what it would have got alone.

mlx-lm's models call attention by name. A stand-in for that name, during a pass, splits the rows.
Knows caches and attention; nothing of whose the decoders are. Recurrent layers, and attention that
a model computes in a way of its own, cannot be shared: `can_share` tells.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate, pairwise
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.decoder import Decoder
from engine.model_parts import recording

_ATTENTION = "scaled_dot_product_attention"
_ROUNDING = 0.05  # of the logits' own deviation


def read_together(decoders: Sequence[Decoder], tokens: Sequence[mx.array]) -> list[mx.array]:
    """One pass of the model that all of `decoders` read with: for each its `tokens` (n,), to its
    logits (n, vocabulary), not yet computed. As `Decoder.read` of each, for a model that
    `can_share`. Where it fails, none of them has read anything.
    """
    if len(decoders) == 1:
        return [decoders[0].read(tokens[0])]
    model, last = decoders[0].model, decoders[0].vocabulary - 1
    sizes = [each.size for each in tokens]
    starts = [decoder.length for decoder in decoders]
    parts = [slice(*ends) for ends in pairwise(accumulate(sizes, initial=0))]
    positions = mx.concatenate(
        [mx.arange(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    )
    recorders = [decoder.recorder for decoder in decoders]
    with ExitStack() as passes:
        caches = [
            passes.enter_context(decoder.one_pass(size))
            for decoder, size in zip(decoders, sizes, strict=True)
        ]
        layers = [_Layer(each, parts, positions) for each in zip(*caches, strict=True)]
        with (
            recording(list(zip(recorders, starts, sizes, strict=True))),
            _splitting_attention(model, parts),
        ):
            rows = mx.minimum(mx.concatenate(list(tokens)), last)[:, None]
            logits: mx.array = model(rows, cache=layers)[:, 0]
    return [logits[part] for part in parts]


class _Layer:
    """What the model takes for the cache of a layer: the caches of that layer of all decoders.

    Its batch is the rows of all of them, of one token each; `parts` are the rows of each decoder.
    Attribute: `offset` (rows,), the position of each.
    """

    def __init__(self, caches: Sequence[Any], parts: Sequence[slice], offset: mx.array) -> None:
        self.caches = caches
        self.parts = parts
        self.offset = offset

    def make_mask(self, _: int, *arguments: Any, **options: Any) -> list[Any]:
        """For each decoder the mask of its own rows."""
        return [
            cache.make_mask(part.stop - part.start, *arguments, **options)
            for cache, part in zip(self.caches, self.parts, strict=True)
        ]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[list[Any], list[Any]]:
        """Append (rows, heads, 1, dim), to each cache its own; returns what each decoder sees."""
        seen = [
            cache.update_and_fetch(_turned(keys[part]), _turned(values[part]))
            for cache, part in zip(self.caches, self.parts, strict=True)
        ]
        return [keys for keys, _ in seen], [values for _, values in seen]


def _turned(rows: mx.array) -> mx.array:
    """(n, heads, 1, dim) as (1, heads, n, dim), and back."""
    return rows.transpose(2, 1, 0, 3)


@contextmanager
def _splitting_attention(model: nn.Module, parts: Sequence[slice]) -> Iterator[None]:
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


def _split(attention: Callable[..., mx.array], parts: Sequence[slice]) -> Callable[..., mx.array]:
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
            for part, *seen, hidden, own in zip(parts, keys, values, mask, caches, strict=True)
        ]
        return mx.concatenate([_turned(output) for output in outputs])

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
