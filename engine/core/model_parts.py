"""The parts of a model that mlx-lm loaded: where they are, and what its layers make of tokens.

Architectures name their parts differently; drafters borrow the embedding and the output layer, and
read hidden states. Knows layers and positions; nothing of what the states are used for.
"""

import copy
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from itertools import takewhile
from typing import Any
from weakref import WeakValueDictionary

import mlx.core as mx
import mlx.nn as nn

from models.drafters.kinds import Tap
from models.errors import Problem
from models.limits import RECORDED

_TRUNKS = ("model", "language_model", "backbone", "transformer")
_EMBEDDINGS = ("embed_tokens", "embeddings", "wte", "word_embeddings", "tok_embeddings")
_NORMS = ("norm", "ln_f", "norm_f", "final_layernorm", "embedding_norm")

_JOINED = 64  # chunks
_PER_ROW = ("weight", "scales", "biases", "bias")  # of an output layer


def trunk(model: nn.Module) -> nn.Module:
    """The module that holds the list of layers."""
    *_, inner = downwards(model)
    return inner


def embedding(model: nn.Module) -> nn.Module:
    """The layer that turns token ids into vectors."""
    inner = trunk(model)
    name = next((name for name in _EMBEDDINGS if name in inner), None)
    if name is None:
        raise Problem("This target's embedding was not found.", "Choose another drafter.")
    return inner[name]


def output_rows(model: nn.Module, rows: mx.array) -> mx.array:
    """Return the output layer's vectors for the token ids `rows`: (rows, width), floats."""
    head = next((inner["lm_head"] for inner in downwards(model) if "lm_head" in inner), None)
    if head is None:
        return embedding(model)(rows)
    if not isinstance(head, nn.QuantizedLinear):
        return head.weight[rows]
    biases = None if head.biases is None else head.biases[rows]
    return mx.dequantize(
        head.weight[rows], head.scales[rows], biases, head.group_size, head.bits, head.mode
    )


def final_norm(model: nn.Module) -> nn.Module:
    """The norm before the output layer. Raises `Problem`."""
    inner = trunk(model)
    name = next((name for name in _NORMS if name in inner), None)
    if name is None:
        raise Problem("This target's final norm was not found.", "Choose another drafter.")
    return inner[name]


def embedding_scale(model: nn.Module) -> float:
    """The factor by which the target multiplies embeddings before its first layer, as Gemma does.

    Raises `Problem` if it changes them in any other way.
    """
    tokens = mx.arange(4, dtype=mx.int32)[None]  # several: padding may be embedded as zeros
    hook = TapHook(model, (0,))
    with hook.open():
        model(tokens)
    raw, given = embedding(model)(tokens), hook.seen[0]
    raw, given = raw.astype(mx.float32), given.astype(mx.float32)
    scale = mx.sum(raw * given) / mx.sum(raw * raw)
    if given.shape != raw.shape or not mx.allclose(given, scale * raw, rtol=0.02, atol=1e-4):
        raise Problem("This target transforms its embeddings.", "Choose another drafter.")
    return float(scale)


def output_layer(model: nn.Module, rows: mx.array | None = None) -> Callable[[mx.array], mx.array]:
    """Return a function from states after the final norm to the target's logits: (batch, n, width)
    to (batch, n, rows).

    It runs the target's own code, so with its soft caps and multipliers. `rows` are the token ids
    whose logits are wanted; None for all.
    """
    inner = trunk(model)
    holder = next((part for part in downwards(model) if "lm_head" in part), None)
    if holder is None:
        embedding(model)  # raises Problem
        name, holder = next(name for name in _EMBEDDINGS if name in inner), inner
    else:
        name = "lm_head"
    whole = part = holder[name]
    if rows is not None:
        part = copy.copy(whole)
        for key in _PER_ROW:
            if part.get(key) is not None:
                part[key] = part[key][rows]

    handed: list[mx.array] = []
    kind = type(inner)
    handing = calling(kind, lambda module, *arguments, **options: handed.pop())

    def logits(states: mx.array) -> mx.array:
        handed[:] = [states]
        try:
            inner.__class__, holder[name] = handing, part
            made: mx.array = model(mx.zeros(states.shape[:2], dtype=mx.int32))
        finally:
            inner.__class__, holder[name] = kind, whole
        return made

    return logits


def new_layer(model: nn.Module, *, before: int = 0) -> nn.Module:
    """Return an untrained layer with attention of the kind and size of the target's last such
    layer.

    `before`: the number of the target's layers that come before `model`, if it is the last part of
    a target. Raises `Problem`.
    """
    index = max((i for i, layer in enumerate(model.layers) if "self_attn" in layer), default=None)
    arguments = [part.args for part in downwards(model) if hasattr(part, "args")]
    if index is None or not arguments:
        raise Problem("A layer like this target's cannot be built.", "Choose another drafter.")
    kinds = type(model.layers[index]).__mro__
    kind = next(each for each in kinds if each.__module__ != __name__)  # see `calling`
    places = (before + index,) if "layer_idx" in signature(kind).parameters else ()
    layer: nn.Module = kind(arguments[-1], *places)
    return layer


def downwards(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the model, the module in it, and so on down to the module that holds the list of
    layers. Raises `Problem` without such a list."""
    inner = model
    yield inner
    while "layers" not in inner and "h" not in inner:
        name = next((name for name in _TRUNKS if name in inner), None)
        if name is None:
            raise Problem("This target's layers are not in one list.", "Choose another drafter.")
        inner = inner[name]
        yield inner


@contextmanager
def standing_in(
    model: nn.Module, stand_ins: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]]
) -> Iterator[None]:
    """Inside the block, replace functions that the model's layers call by name.

    `stand_ins`: for each name a function that gets the original and returns its replacement.
    """
    kinds = {type(part) for layer in model.layers for part in layer.values()}
    modules = {sys.modules.get(kind.__module__) for kind in kinds}  # None: not imported
    originals = [
        (vars(module), name, vars(module)[name])
        for module in modules
        for name in stand_ins
        if module is not None and name in vars(module)
    ]
    try:
        for names, name, original in originals:
            names[name] = stand_ins[name](original)
        yield
    finally:
        for names, name, original in originals:
            names[name] = original


class HiddenStates:
    """The states at `taps` of the newest positions, some `RECORDED` of them.

    Attributes: `taps`; `first` and `end`, the positions that are held.
    """

    def __init__(self, taps: Sequence[Tap], *, length: int = 0) -> None:
        """`length`: the number of earlier positions, which are not held."""
        self.taps = tuple(taps)
        self.first = self.end = length
        self._chunks: deque[mx.array] = deque()

    def copy(self) -> "HiddenStates":
        """Return a copy, which can be continued in another way."""
        other = copy.copy(self)
        other._chunks = deque(self._chunks)
        return other

    def append(self, position: int, states: Sequence[mx.array]) -> None:
        """Hold the states of the positions from `position` on: for each tap (1, rows, width). If
        they do not continue the held ones, they replace them."""
        rows = mx.concatenate(list(states), axis=-1)[0]
        if position != self.end:
            self._chunks.clear()
            self.first = self.end = position
        self._chunks.append(rows)
        self.end += rows.shape[0]
        if len(self._chunks) % _JOINED == 0:
            self._join()
        while self.end - self.first - self._chunks[0].shape[0] >= RECORDED:
            self.first += self._chunks.popleft().shape[0]

    def _join(self) -> None:
        """Join the newest small chunks. While a drafter is parked, states arrive row by row, and
        `between` would later copy every row on its own."""
        small = list(takewhile(lambda rows: rows.shape[0] < _JOINED, reversed(self._chunks)))
        for _ in small:
            self._chunks.pop()
        if small:
            self._chunks.append(mx.concatenate(small[::-1]))

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

    def move(self, positions: Sequence[int], to: int) -> None:
        """Move the states of `positions`, which ascend, to the positions from `to` on, and drop all
        after them.

        Nothing is held afterwards if `to` is before the first held position.
        """
        if to < self.first:
            self.cut(to)
            return
        states = self.between(to, self.end)[mx.array(list(positions)) - to]
        self.cut(to)
        self.append(to, [states.flatten(1)[None]])

    def between(self, start: int, end: int) -> mx.array:
        """Return the states of positions [start, end), (end - start, taps, width). All must be
        held: `first` <= `start` < `end` <= `self.end`."""
        parts, position = deque[mx.array](), self.end
        for rows in reversed(self._chunks):  # mostly the newest are asked for
            position -= rows.shape[0]
            if position < end:
                parts.appendleft(rows[max(start - position, 0) : end - position])
            if position <= start:
                break
        return mx.concatenate(list(parts)).reshape(end - start, len(self.taps), -1)


class StateRecorder:
    """Records the hidden states of the tokens that `model` reads, while drafters hold a recording.

    Drafters that read the same taps share a recording. See `recording`. `depth`: the layers of the
    whole target, by default of `model`. `watch` makes the hook for some taps, by default a
    `TapHook`.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        depth: int | None = None,
        watch: "Callable[[frozenset[Tap]], TapHook] | None" = None,
    ) -> None:
        self._depth = len(model.layers) if depth is None else depth
        self._watch = watch or partial(TapHook, model)
        self._held: WeakValueDictionary[tuple[Tap, ...], HiddenStates] = WeakValueDictionary()
        self._hook: TapHook | None = None
        self._hooked: frozenset[Tap] = frozenset()

    def record(self, taps: Sequence[Tap], *, length: int) -> HiddenStates:
        """Return a recording of the states at `taps` of all tokens that are read after the first
        `length`.

        Raises `Problem` if the model has no such layers.
        """
        if not taps or not all(tap == "norm" or 0 <= tap <= self._depth for tap in taps):
            raise Problem(
                f"The drafter reads layers {list(taps)} of a target that has {self._depth}.",
                "Choose a drafter that was trained for this target.",
            )
        states = self._held.get(tuple(taps))
        if states is None:
            states = self._held[tuple(taps)] = HiddenStates(taps, length=length)
        return states

    def copy_to(self, other: "StateRecorder") -> list[HiddenStates]:
        """Copy all recordings; they last as long as someone holds them."""
        copies = {taps: states.copy() for taps, states in self._held.items()}
        other._held.update(copies)
        return list(copies.values())

    @property
    def taps(self) -> frozenset[Tap]:
        """The taps of all recordings that someone holds."""
        return frozenset(tap for states in list(self._held.values()) for tap in states.taps)

    def hook(self, taps: frozenset[Tap]) -> "TapHook":
        """Return a hook that sees the states at `taps`."""
        if self._hook is None or self._hooked != taps:
            self._hook, self._hooked = self._watch(taps), taps
        return self._hook

    def append(self, position: int, seen: Mapping[Tap, mx.array]) -> None:
        """Record the states of the positions from `position` on: by tap (1, rows, width)."""
        for states in list(self._held.values()):
            states.append(position, [seen[tap] for tap in states.taps])

    def move(self, positions: Sequence[int], to: int) -> None:
        """Move the states of `positions` in all recordings, as `HiddenStates.move` does."""
        for states in self._held.values():
            states.move(positions, to)

    def cut(self, length: int) -> None:
        """Forget the positions from `length` on."""
        for states in self._held.values():
            states.cut(length)


@contextmanager
def recording(reads: Sequence[tuple[StateRecorder, int, int]]) -> Iterator[None]:
    """Record the states of one pass, made inside the block.

    `reads`: for each recorder the position of its first row, and its number of rows. The pass has
    these rows and no others, in this order.
    """
    taps = frozenset[Tap]().union(*(recorder.taps for recorder, _, _ in reads))
    if not taps:
        yield
        return
    hook = reads[0][0].hook(taps)
    with hook.open():
        yield
    states = {tap: state.reshape(1, -1, state.shape[-1]) for tap, state in hook.seen.items()}
    hook.seen.clear()  # the recordings keep what they hold
    first = 0
    for recorder, position, rows in reads:
        part = slice(first, first + rows)
        recorder.append(position, {tap: state[:, part] for tap, state in states.items()})
        first += rows


class TapHook:
    """Sees the states at `taps` of a model in passes made while it is open, and changes nothing.

    Attribute: `seen`, the states of the newest pass by tap, (batch, rows, width).
    """

    def __init__(self, model: nn.Module, taps: Iterable[Tap]) -> None:
        self.seen: dict[Tap, mx.array] = {}
        inner, layers = trunk(model), model.layers
        watched: dict[int, list[Tap]] = {}  # by the place of a layer; the trunk's is -1
        for tap in taps:
            watched.setdefault(-1 if tap == "norm" else max(tap - 1, 0), []).append(tap)
        modules = [(inner if place < 0 else layers[place], each) for place, each in watched.items()]
        self._watched = [
            (module, type(module), calling(type(module), self._watch(type(module), each)))
            for module, each in modules
        ]

    @contextmanager
    def open(self) -> Iterator[None]:
        """Watch the passes made inside the block."""
        self.seen.clear()
        try:
            for module, _, watching in self._watched:
                module.__class__ = watching
            yield
        finally:
            for module, kind, _ in self._watched:
                module.__class__ = kind

    def _watch(self, kind: type[nn.Module], taps: Sequence[Tap]) -> Callable[..., Any]:
        def call(module: nn.Module, *arguments: Any, **options: Any) -> Any:
            output = kind.__call__(module, *arguments, **options)
            state = output[0] if isinstance(output, tuple) else output
            for tap in taps:
                self.seen[tap] = arguments[0] if tap == 0 else state
            return output

        return call


def calling(kind: type[nn.Module], call: Callable[..., Any]) -> type[nn.Module]:
    """Return a subclass of `kind` whose modules run `call` when they are called. A module takes
    this class for a while, in place of a wrapper, as models read the attributes of their parts."""
    return type(kind.__name__, (kind,), {"__call__": call})
