"""The parts of a model that mlx-lm loaded: where they are, and what its layers make of tokens.

Architectures name their parts differently; drafters need the embedding, the output layer and the
hidden states of some layers. Knows layers and positions; nothing of what the states are used for.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from models.errors import Problem

_TRUNKS = ("model", "language_model", "backbone", "transformer")
_EMBEDDINGS = ("embed_tokens", "embeddings", "wte", "word_embeddings", "tok_embeddings")
_NORMS = ("norm", "ln_f", "norm_f", "final_layernorm", "embedding_norm")

_KEPT = 2048  # positions, so that a long conversation costs a bounded amount of memory


def trunk(model: nn.Module) -> nn.Module:
    """The module that holds the list of layers."""
    *_, inner = _downwards(model)
    return inner


def embedding(model: nn.Module) -> nn.Module:
    """What turns token ids into vectors."""
    inner = trunk(model)
    name = next((name for name in _EMBEDDINGS if name in inner), None)
    if name is None:
        raise Problem("This target's embedding was not found.", "Choose another drafter.")
    return inner[name]


def output_rows(model: nn.Module, rows: mx.array) -> mx.array:
    """The output layer's vectors for the token ids `rows`: (rows, width), floats."""
    head = next((inner["lm_head"] for inner in _downwards(model) if "lm_head" in inner), None)
    if head is None:
        return embedding(model)(rows)
    if not isinstance(head, nn.QuantizedLinear):
        return head.weight[rows]
    biases = None if head.biases is None else head.biases[rows]
    return mx.dequantize(
        head.weight[rows], head.scales[rows], biases, head.group_size, head.bits, head.mode
    )


def final_norm(model: nn.Module) -> mx.array | None:
    """The weight of the norm before the output layer, where it is a plain one."""
    inner = trunk(model)
    norm = next((inner[name] for name in _NORMS if name in inner), None)
    return norm.weight if isinstance(norm, nn.RMSNorm) else None


def _downwards(model: nn.Module) -> Iterator[nn.Module]:
    """The model, what is in it, ... down to the module that holds the list of layers."""
    inner = model
    yield inner
    while "layers" not in inner and "h" not in inner:
        name = next((name for name in _TRUNKS if name in inner), None)
        if name is None:
            raise Problem("This target's layers are not in one list.", "Choose another drafter.")
        inner = inner[name]
        yield inner


class HiddenStates:
    """The states behind `layers` (1 is the first) of the newest positions, some 2,000 of them.

    Attributes: `layers`; `first` and `end`, the positions that are held.
    """

    def __init__(self, model: nn.Module, layers: Sequence[int]) -> None:
        self.layers = tuple(layers)
        self.first = self.end = 0
        self._chunks: deque[mx.array] = deque()
        self._tap = LayerHook([model.layers[number - 1] for number in layers])

    @contextmanager
    def recording(self, position: int) -> Iterator[None]:
        """Record what the model reads meanwhile, from `position` on."""
        with self._tap.open():
            yield
        rows = mx.concatenate(self._tap.outputs, axis=-1)[0]
        if position != self.end:
            self._chunks.clear()
            self.first = self.end = position
        self._chunks.append(rows)
        self.end += rows.shape[0]
        while self.end - self.first - self._chunks[0].shape[0] >= _KEPT:
            self.first += self._chunks.popleft().shape[0]

    def cut(self, length: int) -> None:
        """Forget the positions from `length` on."""
        while self.end > max(length, self.first):
            rows = self._chunks.pop()
            self.end -= rows.shape[0]
            if self.end < length:
                self._chunks.append(rows[: length - self.end])
                self.end = length
        if not self._chunks:
            self.first = self.end = length

    def between(self, start: int, end: int) -> mx.array:
        """(end - start, layers, width): `first` <= `start` < `end` <= `self.end`."""
        parts, position = deque[mx.array](), self.end
        for rows in reversed(self._chunks):  # mostly the newest are asked for
            position -= rows.shape[0]
            if position < end:
                parts.appendleft(rows[max(start - position, 0) : end - position])
            if position <= start:
                break
        return mx.concatenate(list(parts)).reshape(end - start, len(self.layers), -1)


class LayerHook:
    """Collects the outputs of `layers` while it is open, and changes nothing else in the model.

    Attributes: `outputs`, one (batch, rows, width) per layer, of the newest pass.
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self.outputs: list[mx.array] = []
        self._layers = layers
        self._kinds = [type(layer) for layer in layers]
        self._watched = [_hooked(kind, self.outputs.append) for kind in self._kinds]

    @contextmanager
    def open(self) -> Iterator[None]:
        """Watch the passes made meanwhile."""
        self.outputs.clear()
        try:
            for layer, kind in zip(self._layers, self._watched, strict=True):
                layer.__class__ = kind
            yield
        finally:
            for layer, kind in zip(self._layers, self._kinds, strict=True):
                layer.__class__ = kind


def _hooked(kind: type[nn.Module], see: Callable[[mx.array], None]) -> type[nn.Module]:
    """A subclass of `kind` that passes its output to `see`. A layer takes this class for a while:
    models read their layers' attributes, so a wrapper around the layer would not do."""

    def call(self: nn.Module, *arguments: Any, **options: Any) -> Any:
        output = kind.__call__(self, *arguments, **options)
        see(output[0] if isinstance(output, tuple) else output)
        return output

    return type(kind.__name__, (kind,), {"__call__": call})
