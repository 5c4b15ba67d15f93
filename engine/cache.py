"""A model's caches as one timeline that can be extended and taken back.

mlx-lm gives a list of caches, one per layer: full attention, sliding window, quantized,
recurrent, or mixed. A `Timeline` makes them one thing with a length in tokens. Its law: after
`rewind(n)` the caches are what reading the first `length` tokens afresh would have made them.

- Full-attention and quantized caches are cut at any length.
- Sliding-window caches are our own (`WindowCache`): mlx-lm's ring forgets what a rejected
  token overwrote, and its key order, hence its rounding, depends on the block sizes.
- Recurrent states cannot be cut: they go back to the newest mark at or before the length, and
  the tokens between are read again with the next pass.

Knows nothing of tokens, models or sampling.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import (
    ArraysCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)


@dataclass(frozen=True, slots=True)
class QuantizedCaches:
    """Quantize full-attention caches once `start` tokens are in them."""

    bits: int = 8
    group_size: int = 64
    start: int = 5000


class WindowCache(KVCache):
    """The keys and values of a sliding window, in temporal order.

    Attention sees `[base, offset)`, where `base` moves in steps of `block` positions, and a
    mask makes the window exact. A pass that does not cross such a step (`room`) gives every
    query the keys at the same places that it would have had alone: identical rounding, token
    by token or in blocks. Costs up to `block` more positions than the window.
    """

    def __init__(self, window: int, *, block: int = 256) -> None:
        super().__init__()
        self.keys: mx.array | None
        self.values: mx.array | None
        self.window = self.max_size = window
        self.block = block
        self.base = 0

    def _base_at(self, position: int) -> int:
        """The first key position kept for a query at `position`."""
        return max(0, (position + 1 - self.window) // self.block * self.block)

    @property
    def room(self) -> int:
        """How many rows the next pass may have."""
        return self._base_at(self.offset) + self.block + self.window - 1 - self.offset

    @property
    def floor(self) -> int:
        """The shortest length above 0 that this cache can be cut to."""
        return self.base + self.window - 1 if self.base else 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append (batch, heads, rows, dim); returns all keys and values from `base` on."""
        old, self.base = self.base, self._base_at(self.offset)
        if self.keys is not None and self.values is not None and self.base > old:
            self.keys = self.keys[..., self.base - old :, :]
            self.values = self.values[..., self.base - old :, :]
        self.offset -= self.base  # KVCache counts positions from the start of its arrays
        fetched: tuple[mx.array, mx.array] = super().update_and_fetch(keys, values)
        self.offset += self.base
        return fetched

    def make_mask(
        self, rows: int, window_size: int | None = None, return_array: bool = False
    ) -> mx.array | str | None:
        """The mask for the next `rows` queries over the keys from `base` on."""
        window = window_size or self.window
        keys_before = self.offset - self._base_at(self.offset)
        if keys_before + rows > window or return_array:
            return create_causal_mask(rows, keys_before, window_size=window)
        return None if rows == 1 else "causal"


@dataclass(frozen=True, slots=True)
class _Mark:
    """What it takes to come back to `length`: a copy of each layer, None where cutting will do."""

    length: int
    copies: tuple[Any, ...]

    def serves(self, layers: list[Any]) -> bool:
        """Whether `layers` can still come back to it."""
        pairs = zip(layers, self.copies, strict=True)
        return all(saved is not None or self.length >= _floor(layer) for layer, saved in pairs)


class Timeline:
    """A list of caches with one length.

    Attributes: `layers`, what the model is called with; `length`, the tokens in it.
    """

    _BOOKMARKS = 4

    def __init__(self, layers: Sequence[Any], *, quantized: QuantizedCaches | None = None) -> None:
        self.layers = list(layers)
        self.length = 0
        self._quantized = quantized
        self._marks: list[_Mark] = []  # bookmarks in order, then the round's own
        self._start = _Mark(0, tuple(_copy(layer) for layer in self.layers))

    @classmethod
    def of(
        cls, model: nn.Module, *, quantized: QuantizedCaches | None = None, block: int = 256
    ) -> "Timeline":
        """An empty timeline for a model that mlx-lm loaded."""
        layers = [
            WindowCache(layer.max_size, block=block) if type(layer) is RotatingKVCache else layer
            for layer in make_prompt_cache(model)
        ]
        return cls(layers, quantized=quantized)

    @property
    def nbytes(self) -> int:
        """Bytes held by the caches."""
        return sum(layer.nbytes for layer in self.layers)

    def room(self) -> int:
        """How many rows the next pass may have, at least 1.

        No row may see a change of shape too late: a window's base that moves, quantization
        that starts. Those happen between passes, at the same token however it is reached.
        """
        rooms = [layer.room for layer in self.layers if isinstance(layer, WindowCache)]
        if self._quantized and self.length < self._quantized.start:
            rooms.append(self._quantized.start - self.length)
        return min(rooms, default=1 << 30)

    def open(self) -> list[Any]:
        """The caches for the next pass, of which `advance` must be told."""
        if self._quantized and self.length >= self._quantized.start:
            self.layers = [_quantize(layer, self._quantized) for layer in self.layers]
        return self.layers

    def advance(self, rows: int) -> None:
        """A pass reads `rows` tokens."""
        self.length += rows

    def mark(self) -> None:
        """Remember here for the round that follows. Free where every layer can be cut."""
        copies = tuple(None if _can_be_cut(layer) else _copy(layer) for layer in self.layers)
        if any(copies):
            self._marks = [*self._marks[: self._BOOKMARKS], _Mark(self.length, copies)]

    def bookmark(self) -> None:
        """Remember here for longer: where a turn's prompt ends. The last few are kept."""
        copies = tuple(None if _keeps_all(layer) else _copy(layer) for layer in self.layers)
        if any(copies):
            older = [mark for mark in self._marks if mark.length < self.length]
            self._marks = [*older, _Mark(self.length, copies)][-self._BOOKMARKS :]

    def rewind(self, length: int) -> None:
        """Forget every token past the first `length`; `self.length` may come out shorter.

        It is shorter where a layer cannot be cut: then it is the newest mark's, and the tokens
        between have to be read again.
        """
        if length >= self.length:
            return
        self._marks = [mark for mark in self._marks if mark.length <= length]
        if all(_can_be_cut(layer) and length >= _floor(layer) for layer in self.layers):
            mark = _Mark(length, (None,) * len(self.layers))
        else:
            mark = next((m for m in reversed(self._marks) if m.serves(self.layers)), self._start)
        _restore(self.layers, mark)
        self.length = mark.length

    @contextmanager
    def borrow(self, count: int) -> Iterator[list[Any]]:
        """The first `count` caches, for passes that leave no trace: at most `room()` rows."""
        layers = self.open()[:count]
        copies = tuple(None if _can_be_cut(layer) else _copy(layer) for layer in layers)
        try:
            yield layers
        finally:
            _restore(layers, _Mark(self.length, copies))


def _restore(layers: list[Any], mark: _Mark) -> None:
    for i, saved in enumerate(mark.copies):
        if saved is None:
            layers[i].trim(layers[i].offset - mark.length)
        elif type(saved) is type(layers[i]):
            vars(layers[i]).update(vars(_copy(saved)))  # in place: others may hold the layer
        else:
            layers[i] = _copy(saved)


def _keeps_all(layer: Any) -> bool:
    return type(layer) in (KVCache, QuantizedKVCache)


def _can_be_cut(layer: Any) -> bool:
    return _keeps_all(layer) or type(layer) is WindowCache


def _floor(layer: Any) -> int:
    """The shortest length that the layer can be cut to."""
    return getattr(layer, "floor", 0)


def _quantize(layer: Any, to: QuantizedCaches) -> Any:
    if type(layer) is not KVCache:
        return layer
    quantized = layer.to_quantized(group_size=to.group_size, bits=to.bits)
    quantized.floor = layer.offset  # what came before was read at full precision
    return quantized


def _copy(layer: Any) -> Any:
    """A copy that later passes leave alone.

    Arrays are values, but `a[i:j] = b` rebinds the handle that a cache holds, so a copy needs
    handles of its own; no data moves before one of the two is written.
    """
    if isinstance(layer, ArraysCache):
        copied = copy.copy(layer)
        copied.cache = list(layer.cache)
        return copied
    if isinstance(layer, KVCache) and layer.keys is not None:
        copied = copy.copy(layer)
        copied.keys, copied.values = mx.array(layer.keys), mx.array(layer.values)
        return copied
    return copy.deepcopy(layer)
