"""A model's caches as one timeline that can be extended and rewound.

mlx-lm gives a list of caches, one per layer: full attention, sliding window, quantized,
recurrent, or mixed. A `Timeline` holds them with one length in tokens. Its law: after `rewind(n)`
the caches are equal to caches that read the first `length` tokens afresh.

- Full-attention and quantized caches are cut at any length.
- Sliding windows have caches of our own (`AlignedCache`): mlx-lm's ring forgets what a rejected
  token overwrote, and its key order, hence its rounding, depends on the block sizes. On the
  CPU full attention has them too: sums over more than 384 keys round by their number.
- Recurrent states cannot be cut. Inside a round they are computed again up to the length, from
  the round's mark and the inputs that a `Tape` recorded. Otherwise they go back to the newest
  mark at or before the length, and the tokens between are read again with the next pass.

Knows nothing of tokens, models or sampling.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map
from mlx_lm.models.cache import (
    ArraysCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from engine.core.recurrent import Tape, states_of
from models.limits import BOOKMARKS, CACHE_BLOCK


@dataclass(frozen=True, slots=True)
class QuantizedCaches:
    """Quantize full-attention caches once `start` tokens are in them."""

    bits: int = 8
    group_size: int = 64
    start: int = 5000


class AlignedCache(KVCache):
    """Keys and values in temporal order, of a sliding `window` or of everything (None).

    Attention sees positions `[base, end)`, which move in steps of `block`; a mask makes the
    window exact and hides positions that are not read yet. A pass that crosses no step (`room`)
    gives every query the same keys, at the same places, as it would have had alone: the rounding
    is identical, token by token or in blocks. Holds up to two blocks more than the window.

    If passes of a round cross a step, the positions that the window drops are held from `hold` to
    `forget`, so that the passes can be taken back.
    """

    def __init__(self, window: int | None, *, block: int) -> None:
        super().__init__()
        self.keys: mx.array | None
        self.values: mx.array | None
        self.window = window
        self.block = block
        self.base = 0
        self._dropped: list[tuple[Any, Any, int]] | None = None  # in a round: keys, values, base

    def base_for(self, position: int) -> int:
        """The first position that is kept for a query at `position`."""
        if self.window is None:
            return 0
        return max(0, (position + 1 - self.window) // self.block * self.block)

    def _end_for(self, length: int) -> int:
        """The position after the last key, once `length` tokens are read.

        One less than a whole number of blocks: BLAS is a third slower for multiples of eight.
        """
        return -(-(length + 1) // self.block) * self.block - 1

    @property
    def room(self) -> int:
        """The number of rows that the next pass may have."""
        steps = [self._end_for(self.offset + 1)]
        if self.window is not None:
            steps.append(self.base_for(self.offset) + self.block + self.window - 1)
        return min(steps) - self.offset

    @property
    def floor(self) -> int:
        """The shortest length above 0 that this cache can be cut to."""
        base = self._dropped[0][2] if self._dropped else self.base
        return base + self.window - 1 if base and self.window else 0

    @property
    def holds(self) -> bool:
        """Whether a round is under way."""
        return self._dropped is not None

    def hold(self) -> None:
        """Begin a round: hold the positions that the window drops from now on."""
        self._dropped = []

    def forget(self) -> None:
        """End the round: release the held positions. Later passes are not taken back."""
        self._dropped = None

    def trim(self, n: int) -> int:
        """Remove the newest `n` positions, down to `floor` at least. Returns `n`."""
        self.offset -= n
        while self._dropped and self.window and self.offset < self.base + self.window - 1:
            self.keys, self.values, self.base = self._dropped.pop()
        return n

    def span(self, rows: int) -> tuple[int, int]:
        """(base, end): the key positions visible to a pass of `rows` rows."""
        return self.base_for(self.offset), self._end_for(self.offset + rows)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append (batch, heads, rows, dim); returns the keys and values at `[base, end)`."""
        base, end = self.span(keys.shape[2])
        if base > self.base and self._dropped is not None:
            self._dropped.append((self.keys, self.values, self.base))
        self.keys = self._put(self.keys, keys, base, end - base)
        self.values = self._put(self.values, values, base, end - base)
        self.base = base
        self.offset += keys.shape[2]
        return self.keys, self.values

    def _put(self, old: mx.array | None, new: mx.array, base: int, size: int) -> mx.array:
        """Return `size` positions of `old` from `base` on, with `new` written at `offset`."""
        batch, heads, rows, dim = new.shape
        if old is None:
            old = mx.zeros((batch, heads, size, dim), new.dtype)
        elif base > self.base or size < old.shape[2]:
            old = old[..., base - self.base : base - self.base + size, :]
        if old.shape[2] < size:
            more = mx.zeros((batch, heads, size - old.shape[2], dim), new.dtype)
            old = mx.concatenate([old, more], axis=2)
        first = self.offset - base
        old[..., first : first + rows, :] = new
        return old

    def keys_and_values(self) -> tuple[Any, Any]:
        """The keys and values for a layer that shares them, (batch, heads, positions, dim) each.

        Without a window these are the positions read so far, as in mlx-lm's cache: AFM computes
        positions from their number. Otherwise they are what the latest pass saw.
        """
        if self.window is not None or self.keys is None or self.values is None:
            return self.keys, self.values
        return self.keys[..., : self.offset, :], self.values[..., : self.offset, :]

    def make_mask(
        self, rows: int, window_size: int | None = None, return_array: bool = False
    ) -> mx.array:
        """A boolean mask (rows, end - base) for the next `rows` queries."""
        queries = mx.arange(self.offset, self.offset + rows)[:, None]
        keys = mx.arange(*self.span(rows))
        mask = keys <= queries
        window = window_size or self.window
        return mask if window is None else mask & (keys > queries - window)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A way back to `length`: a copy of each layer, or None for a layer that can be cut."""

    length: int
    copies: tuple[Any, ...]

    def serves(self, layers: list[Any]) -> bool:
        """Whether `layers` can still return to it."""
        pairs = zip(layers, self.copies, strict=True)
        return all(saved is not None or self.length >= _floor(layer) for layer, saved in pairs)


class _Round:
    """The mark where a round began, and the tape of its passes.

    Attributes: `mark`; `tape`, None if it cannot serve all layers.
    """

    def __init__(self, mark: _Mark) -> None:
        self.mark = mark
        kinds = {type(saved) for saved in mark.copies if saved is not None}
        self.tape = Tape() if kinds == {ArraysCache} else None

    def mark_for(self, length: int) -> _Mark:
        """The mark at `length`, or as near before it as the tape reaches."""
        if self.tape is None:
            return self.mark
        rows = min(length - self.mark.length, self.tape.rows)
        states = iter(self.tape.replay(states_of(self.mark.copies), rows))
        copies = [saved and copy_of(saved) for saved in self.mark.copies]
        for saved in filter(None, copies):
            saved.cache = [next(states) for _ in saved.cache]
        return _Mark(self.mark.length + rows, tuple(copies))

    def forget_after(self, length: int) -> None:
        if self.tape:
            self.tape.cut(length - self.mark.length)


class Timeline:
    """A list of caches with one length.

    Attributes: `layers`, the caches that the model is called with; `length` in tokens; `quantized`.
    """

    def __init__(
        self,
        layers: Sequence[Any],
        *,
        quantized: QuantizedCaches | None = None,
        exact_rows: bool = True,
    ) -> None:
        self.layers = list(layers)
        self.length = 0
        self.quantized = quantized
        self._exact_rows = exact_rows
        self._bookmarks: list[_Mark] = []
        self._round: _Round | None = None
        self._start = _Mark(0, tuple(copy_of(layer) for layer in self.layers))

    @classmethod
    def of(
        cls,
        model: nn.Module,
        *,
        quantized: QuantizedCaches | None = None,
        block: int = CACHE_BLOCK,
        exact_rows: bool,
    ) -> "Timeline":
        """Make an empty timeline for a model that mlx-lm loaded. `exact_rows`: of the device."""
        layers = [_ours(layer, block, exact_rows) for layer in make_prompt_cache(model)]
        return cls(layers, quantized=quantized, exact_rows=exact_rows)

    @classmethod
    def quantizes(cls, model: nn.Module, to: QuantizedCaches) -> bool:
        """Return whether the model attends to quantized caches: tried, and nothing is computed."""
        layers = cls.of(model, quantized=replace(to, start=0), exact_rows=False).open()
        try:
            model(mx.zeros((1, 2), dtype=mx.int32), cache=layers)
        except Exception:  # each architecture of mlx-lm fails in its own way
            return False
        return any(isinstance(layer, QuantizedKVCache) for layer in layers)

    def copy(self) -> "Timeline":
        """Return a timeline with the same tokens. The two share memory until one is written to."""
        other = copy.copy(self)
        other.layers = [copy_of(layer) for layer in self.layers]
        other._bookmarks, other._round = list(self._bookmarks), None
        return other

    @property
    def nbytes(self) -> int:
        """Bytes held by the caches."""
        return sum(layer.nbytes for layer in self.layers)

    def room(self, *, exact: bool = False) -> int:
        """The number of rows that the next pass may have, at least 1; `exact`, on any device.

        Shapes change (a window's base moves, quantization starts) between passes only, at the same
        token for any block sizes. Example: 100 tokens read, a block of 128 gives room for 27 rows.
        """
        rooms = []
        if exact or self._exact_rows:
            rooms = [layer.room for layer in self.layers if isinstance(layer, AlignedCache)]
        if self.quantized and self.length < self.quantized.start:
            rooms.append(self.quantized.start - self.length)
        return min(rooms, default=1 << 30)

    def open(self) -> list[Any]:
        """The caches for the next pass. Call `advance` with its rows afterwards."""
        if self.quantized and self.length >= self.quantized.start:
            self.layers = [_quantize(layer, self.quantized) for layer in self.layers]
        return self.layers

    @property
    def tape(self) -> Tape | None:
        """The tape for the next pass, if it is part of a round: see `Recurrences`."""
        begun = self._round
        if begun is None or begun.tape is None:
            return None
        return begun.tape if begun.mark.length + begun.tape.rows == self.length else None

    def advance(self, rows: int) -> None:
        """Count the `rows` tokens of a pass."""
        self.length += rows

    def mark(self) -> None:
        """Mark the present length for the round that follows. Free if every layer can be cut."""
        for layer in filter(is_window, self.layers):
            layer.hold()
        copies = tuple(None if _can_be_cut(layer) else copy_of(layer) for layer in self.layers)
        self._round = _Round(_Mark(self.length, copies)) if any(copies) else None

    def forget(self) -> None:
        """End the round: later passes are not taken back to before the present length."""
        for layer in filter(is_window, self.layers):
            layer.forget()

    def bookmark(self) -> None:
        """Mark the present length for longer, at the end of a turn's prompt. Keeps the last few."""
        copies = tuple(None if keeps_all(layer) else copy_of(layer) for layer in self.layers)
        if any(copies):
            older = [mark for mark in self._bookmarks if mark.length < self.length]
            self._bookmarks = [*older, _Mark(self.length, copies)][-BOOKMARKS:]

    def rewind(self, length: int) -> None:
        """Forget every token past the first `length`; `self.length` may become shorter than that.

        If a layer can neither be cut nor computed again, `self.length` becomes the length at
        the newest mark, and the tokens between must be read again.
        """
        if length >= self.length:
            return
        self._forget_marks_after(length)
        mark = self._mark_for(length)
        _restore(self.layers, mark)
        self.length = mark.length
        self._forget_marks_after(self.length)

    def layers_at(self, length: int) -> Sequence[Any] | None:
        """Return the layers as they are after the first `length` tokens; None if neither the
        timeline nor a bookmark is there. A bookmark has None where all positions are held."""
        marks = [mark.copies for mark in self._bookmarks if mark.length == length]
        return marks[-1] if marks else self.layers if self.length == length else None

    def move(self, positions: Sequence[int], to: int) -> None:
        """Move the tokens at `positions` (ascending) to the positions from `to` on."""
        for layer in self.layers:
            _move(layer, mx.array(list(positions)), to)

    def _forget_marks_after(self, length: int) -> None:
        self._bookmarks = [mark for mark in self._bookmarks if mark.length <= length]
        if self._round and self._round.mark.length > length:
            self._round = None
        elif self._round:
            self._round.forget_after(length)

    def _mark_for(self, length: int) -> _Mark:
        """The newest mark with at most `length` tokens that every layer can return to."""
        if all(_can_be_cut(layer) and length >= _floor(layer) for layer in self.layers):
            return _Mark(length, (None,) * len(self.layers))
        marks = [self._start, *self._bookmarks]
        if self._round:
            marks.append(self._round.mark_for(length))
        usable = [mark for mark in marks if mark.serves(self.layers)]
        return max(usable, key=lambda mark: mark.length)

    @contextmanager
    def borrow(self, count: int) -> Iterator[list[Any]]:
        """Lend the first `count` caches for passes that leave no trace, at most `room()` rows."""
        layers = self.open()[:count]
        windows = [layer for layer in layers if is_window(layer) and not layer.holds]
        for layer in windows:
            layer.hold()
        copies = tuple(None if _can_be_cut(layer) else copy_of(layer) for layer in layers)
        try:
            yield layers
        finally:
            _restore(layers, _Mark(self.length, copies))
            for layer in windows:
                layer.forget()


def _restore(layers: list[Any], mark: _Mark) -> None:
    for i, saved in enumerate(mark.copies):
        if saved is None:
            layers[i].trim(layers[i].offset - mark.length)
            _shrink(layers[i])
        elif type(saved) is type(layers[i]):
            vars(layers[i]).update(vars(copy_of(saved)))  # in place: others may hold the layer
        else:
            layers[i] = copy_of(saved)


def _move(layer: Any, positions: mx.array, to: int) -> None:
    """Move an attention cache's keys and values at `positions` to the positions from `to` on."""
    base = layer.base if isinstance(layer, AlignedCache) else 0

    def moved(held: mx.array) -> mx.array:
        held[..., to - base : to - base + positions.size, :] = held[..., positions - base, :]
        return held

    layer.keys, layer.values = tree_map(moved, (layer.keys, layer.values))


def _ours(layer: Any, block: int, exact_rows: bool) -> Any:
    """The cache to use in place of mlx-lm's `layer`.

    On a GPU full attention keeps mlx-lm's cache: rows are not exact there, and its kernels suit it.
    """
    if type(layer) is RotatingKVCache:
        return AlignedCache(layer.max_size, block=block)
    if type(layer) is KVCache and exact_rows:
        return AlignedCache(None, block=block)
    return layer


def keeps_all(layer: Any) -> bool:
    """Whether a layer can be cut at any length, ever."""
    if isinstance(layer, AlignedCache):
        return layer.window is None
    return type(layer) in (KVCache, QuantizedKVCache)


def is_window(layer: Any) -> bool:
    """Whether a layer holds the latest positions only, and can be cut at recent lengths."""
    return isinstance(layer, AlignedCache) and layer.window is not None


def _can_be_cut(layer: Any) -> bool:
    """Whether a layer can be cut at any recent length."""
    return isinstance(layer, AlignedCache) or keeps_all(layer)


def _floor(layer: Any) -> int:
    """The shortest length that the layer can be cut to."""
    return getattr(layer, "floor", 0)


def _quantize(layer: Any, to: QuantizedCaches) -> Any:
    if not keeps_all(layer) or isinstance(layer, QuantizedKVCache):
        return layer
    quantized = layer.to_quantized(group_size=to.group_size, bits=to.bits)
    quantized.floor = layer.offset  # the positions before were read at full precision
    return quantized


def _shrink(layer: Any) -> None:
    """Free memory of a layer of mlx-lm's that was cut to less than half: a copy would fill as much
    again with its next token. Our own layers do so as they grow."""
    if isinstance(layer, AlignedCache) or layer.keys is None:
        return
    size = -(-max(layer.offset, 1) // layer.step) * layer.step
    keys, *_ = layer.keys if isinstance(layer, QuantizedKVCache) else (layer.keys,)
    if keys.shape[2] > 2 * size:
        layer.keys, layer.values = tree_map(
            lambda held: held[..., :size, :], (layer.keys, layer.values)
        )


def copy_of(layer: Any) -> Any:
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
        if is_window(copied):
            copied.forget()
        return copied
    return copy.deepcopy(layer)


def keys_and_values(layer: Any) -> tuple[mx.array, mx.array]:
    """An attention cache's keys and values, oldest first, (batch, heads, positions, dim) each.

    Of a sliding window: only the positions that the next token sees.
    """
    if isinstance(layer, QuantizedKVCache):
        parts = tree_map(lambda part: part[..., : layer.offset, :], (layer.keys, layer.values))
        size, bits = layer.group_size, layer.bits
        keys, values = (mx.dequantize(w, s, b, group_size=size, bits=bits) for w, s, b in parts)
        return keys, values
    first, base = 0, 0
    if isinstance(layer, AlignedCache):
        base = layer.base
        first = 0 if layer.window is None else max(0, layer.offset + 1 - layer.window)
    held = slice(first - base, layer.offset - base)
    return layer.keys[..., held, :], layer.values[..., held, :]
