"""Pictures in a text that a model reads: rows of numbers in place of token embeddings.

A model of mlx-lm takes them as its `input_embeddings`. Where the family asks for it, the rows also
see each other, turn by positions of three dimensions, and get further rows after the first
layers: for the time of the pass that reads them. Rows side by side are read by one pass,
which has no others. So they are the same however the text around them is read, and text is read by
the model's own code: after a picture that takes fewer positions than rows, at lower positions.

Knows rows and positions; nothing of pixels, of a tower's weights, or of prompts.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.core.cache import AlignedCache
from engine.core.model_parts import calling, embedding, standing_in
from engine.virtual_ids import is_virtual
from engine.vision import Seen
from engine.vision.positions import axes
from models.errors import Problem

_MASK = "create_attention_mask"


@dataclass(frozen=True, slots=True)
class Turning:
    """The positions of a picture's rows in three dimensions, from where it begins: (3, rows).
    `sections`: as for `engine.vision.Tower`; `lower`: how much lower than their places the
    positions of the tokens after it are."""

    positions: mx.array
    sections: tuple[int, ...]
    lower: int


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """Rows of a picture, side by side in a text, by their virtual ids.

    `look` computes them. `token`: the id that a model's tables of tokens are asked for in the place
    of each. `turning`: None if each row takes a position, as a token does. `mutual`: whether rows
    see later ones, too; with `windows_only` in layers with windows alone.
    """

    ids: tuple[int, ...]
    look: Callable[[], Seen]
    token: int = 0
    turning: Turning | None = None
    mutual: bool = False
    windows_only: bool = False

    @property
    def lower(self) -> int:
        """How much lower the positions after it are than their places."""
        return 0 if self.turning is None else self.turning.lower


Sights = dict[int, Sight]
"""By the first of their ids."""


def sights_in(tokens: Sequence[int], sights: Mapping[int, Sight]) -> list[tuple[int, Sight]]:
    """The whole pictures in `tokens`, each with the place where it begins."""
    found, place = list[tuple[int, Sight]](), 0
    while sights and place < len(tokens):
        sight = sights.get(tokens[place]) if is_virtual(tokens[place]) else None
        end = place + (1 if sight is None else len(sight.ids))
        if sight is not None and tuple(tokens[place:end]) == sight.ids:
            found.append((place, sight))
            place = end
        else:
            place += 1
    return found


def read_sight(
    model: nn.Module, sight: Sight, seen: Seen, caches: list[Any], *, position: int
) -> mx.array:
    """Read a picture in one pass; returns logits, (rows, vocabulary). `position`: of a token in the
    place of its first row."""
    ids = mx.full((1, len(sight.ids)), sight.token, dtype=mx.int32)
    kind = embedding(model)(ids[:, :1]).dtype
    with ExitStack() as changed:
        if sight.mutual:
            mask = partial(_mutual, windows_only=sight.windows_only)
            changed.enter_context(standing_in(model, {_MASK: mask}))
        if sight.turning is not None:
            around = _by_dimensions(sight.turning, position)
            changed.enter_context(_as_called(_rotary(model), around))
        for layer, more in zip(model.layers, seen.deeper, strict=False):
            changed.enter_context(_as_called([layer], _adding(more.astype(kind)[None])))
        rows = seen.rows.astype(kind)[None]
        logits: mx.array = model(ids, cache=caches, input_embeddings=rows)[0]
    return logits


@contextmanager
def lowered(model: nn.Module, by: int) -> Iterator[None]:
    """Inside the block, let tokens have positions that are lower than their places."""

    def around(turn: Callable[..., Any], module: nn.Module, x: mx.array, offset: Any = 0) -> Any:
        return turn(module, x, offset=offset - by)

    with _as_called(_rotary(model) if by else [], around):
        yield


Around = Callable[..., Any]
"""Gets the function that a module runs, the module, and its arguments."""


@contextmanager
def _as_called(modules: Sequence[nn.Module], around: Around) -> Iterator[None]:
    """Inside the block, let modules run `around` when they are called."""
    kinds = [type(module) for module in modules]

    def call_of(kind: type[nn.Module]) -> Callable[..., Any]:
        return lambda module, *a, **o: around(kind.__call__, module, *a, **o)

    try:
        for module, kind in zip(modules, kinds, strict=True):
            module.__class__ = calling(kind, call_of(kind))
        yield
    finally:
        for module, kind in zip(modules, kinds, strict=True):
            module.__class__ = kind


def _rotary(model: nn.Module) -> list[nn.Module]:
    """The modules that turn by positions, each once. Raises `Problem`."""
    parts = [part for layer in model.layers for part in layer.values()]
    found = [part["rope"] for part in parts if isinstance(part, nn.Module) and "rope" in part]
    if not all(isinstance(each, nn.RoPE) and not each.traditional for each in found):
        raise Problem(
            "This model does not support pictures: its position encoding is of another kind.",
            "Choose another model, or send the message without its pictures.",
        )
    return list({id(each): each for each in found}.values())


def _adding(deeper: mx.array) -> Around:
    """A layer whose output has `deeper` added."""

    def around(layer: Callable[..., Any], module: nn.Module, *a: Any, **o: Any) -> Any:
        return layer(module, *a, **o) + deeper

    return around


def _by_dimensions(turning: Turning, position: int) -> Around:
    """Rotary positions of three dimensions (Qwen2-VL, arXiv 2409.12191)."""

    def around(turn: Callable[..., Any], module: nn.Module, x: mx.array, offset: Any = 0) -> Any:
        pairs = module.dims // 2
        dimensions = mx.array(axes(turning.sections, pairs))
        places = (turning.positions + position)[dimensions].T.astype(mx.float32)  # (rows, pairs)
        angles = places * module.scale * mx.exp(mx.arange(pairs) * (-math.log(module.base) / pairs))
        cosines, sines = mx.cos(angles), mx.sin(angles)
        one, other, rest = mx.split(x.astype(mx.float32), [pairs, 2 * pairs], axis=-1)
        turned = [one * cosines - other * sines, other * cosines + one * sines, rest]
        return mx.concatenate(turned, axis=-1).astype(x.dtype)

    return around


def _mutual(stock: Callable[..., Any], *, windows_only: bool) -> Callable[..., Any]:
    """Make a stand-in for mlx-lm's `create_attention_mask`: a pass's rows see later ones, too."""

    def mask(h: mx.array, cache: Any, window_size: int | None = None) -> mx.array:
        seen: mx.array = stock(h, cache, window_size=window_size, return_array=True)
        if windows_only and window_size is None:
            return seen
        rows = h.shape[1]
        base = cache.span(rows)[0] if isinstance(cache, AlignedCache) else 0
        places = mx.arange(base, base + seen.shape[-1])
        queries = mx.arange(cache.offset, cache.offset + rows)[:, None]
        return seen | ((places > queries) & (places < cache.offset + rows))

    return mask
