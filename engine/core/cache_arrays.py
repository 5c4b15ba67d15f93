"""The caches of a timeline as arrays, in files, and back.

Layers that hold every position give their keys and values of any positions. The others, sliding
windows and recurrent layers, give what they hold after one length: their states. Knows caches and
one file; not which files there are.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import ArraysCache, QuantizedKVCache

from engine.core.cache import Timeline, is_window, keeps_all


def has_states(timeline: Timeline) -> bool:
    """Return whether a layer does not hold every position."""
    return not all(map(keeps_all, timeline.layers))


def held(timeline: Timeline, start: int, end: int) -> list[mx.array]:
    """Return the keys and values at positions `[start, end)`, layer by layer, of the layers that
    hold every position.

    (batch, heads, positions, dim) each; a quantized layer has three arrays in place of each.
    """
    pairs: Any = [(layer.keys, layer.values) for layer in timeline.layers if keeps_all(layer)]
    parts: Any = tree_flatten(pairs)
    return [part[..., start:end, :] for _, part in parts]


def states(timeline: Timeline, length: int) -> list[mx.array] | None:
    """Return what the other layers hold after the first `length` tokens, layer by layer: the keys
    and values that a window still sees there, or recurrent states.

    None if neither the timeline nor a bookmark is at that length, or for caches of a kind that is
    not known. Without such layers the list is empty.
    """
    at = timeline.layers_at(length) if has_states(timeline) else []
    if at is None:
        return None
    found: list[Any] = []
    for layer in at:
        if type(layer) is ArraysCache:
            found += layer.cache
        elif is_window(layer) and layer.keys is not None:
            seen = slice(layer.base_for(length) - layer.base, length - layer.base)
            found += [part[..., seen, :] for part in (layer.keys, layer.values)]
        elif layer is not None and not keeps_all(layer):
            return None
    return None if any(state is None for state in found) else found


def seen(timeline: Timeline, length: int) -> list[int | None]:
    """Return for each array of `states` how many positions it has after the first `length` tokens;
    None for a recurrent state."""
    positions = list[int | None]()
    for layer in timeline.layers:
        if is_window(layer):
            positions += [length - layer.base_for(length)] * 2
        elif isinstance(layer, ArraysCache):
            positions += [None] * len(layer.cache)
    return positions


def fill(
    timeline: Timeline,
    length: int,
    held: Sequence[mx.array],
    states: Sequence[mx.array],
    *,
    quantized: bool,
) -> None:
    """Fill an empty timeline with the first `length` positions, as `held` and `states` returned
    them. They are `quantized` as the timeline's are once it has read enough."""
    parts, others = iter(held), iter(states)
    for i, layer in enumerate(timeline.layers):
        if isinstance(layer, ArraysCache):
            layer.cache = [next(others) for _ in layer.cache]
            continue
        if quantized and timeline.quantized and keeps_all(layer):
            layer = QuantizedKVCache(timeline.quantized.group_size, timeline.quantized.bits)
            layer.floor = timeline.quantized.start
            layer.keys, layer.values = [tuple(islice(parts, 3)) for _ in range(2)]
            timeline.layers[i] = layer
        elif is_window(layer):
            layer.keys, layer.values = next(others), next(others)
            layer.base = layer.base_for(length)
        else:
            layer.keys, layer.values = next(parts), next(parts)
        layer.offset = length
    timeline.advance(length)
    timeline.bookmark()


def save(arrays: Sequence[mx.array], path: Path) -> None:
    """Write arrays to a file, in their order. Raises OSError."""
    mx.eval(arrays)
    try:
        mx.save_safetensors(str(path), {f"{i:05}": array for i, array in enumerate(arrays)})
    except RuntimeError as error:  # MLX's file writer found no room
        raise OSError(str(error)) from error


def load(path: Path) -> list[mx.array]:
    """Return the arrays in a file of `save`. Raises OSError or RuntimeError if it is gone."""
    named: Any = mx.load(str(path))
    arrays = [named[name] for name in sorted(named)]
    mx.eval(arrays)
    return arrays
