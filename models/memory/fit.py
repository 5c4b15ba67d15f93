"""Whether a pair fits in memory, computed from config.json and the sizes of files.

Follows what `engine` does: how it loads (`engine.conversation.loading`), what its caches hold
(`engine.core.cache`), how many rows its passes have (`engine.core.decoder`). Tests compare it with
measured memory on the CPU; on Metal it was not measured yet. Loads nothing.
"""

from dataclasses import dataclass, replace

from models.drafters.kinds import KINDS
from models.drafters.reading import published_as
from models.errors import Problem
from models.in_words import size
from models.limits import (
    BLOCK_CONTEXT,
    BOOKMARKS,
    CACHE_BLOCK,
    PREFILL_ROWS,
    RECORDED,
    ROUND_ROWS,
    SPARE_CONTEXT,
)
from models.memory.machine import Machine
from models.memory.model_size import ModelSize as ModelSize
from models.memory.model_size import count_values, float_bytes
from models.memory.shape import Layer, Shape, read_shape
from models.records import Fit

DEFAULT_CONTEXT = 4096
MOST_CONTEXT = 1 << 24

_METAL_STEP = 256
_FUSED_HEAD_DIMS = (64, 80, 128)  # for which Metal never holds a table of scores
# The values of several layers are alive at once, as MLX hands Metal ten buffers of work before it
# waits: so much, and more for each row that a gated delta layer reads. Fitted to peaks that others
# measured with prompts of 117 to 2,048 rows (mlx-swift-lm on an M1 Max, Rapid-MLX, mlx-lm 1569).
_AHEAD, _AHEAD_DELTA_ROW = 750_000_000, 850_000
_FLOAT32 = 4
# Arrays of a round's rows over the vocabulary that are alive at once; measured with copies.
_ROUND_COPIES = 10


_KEPT_BY_BLOCKS = BLOCK_CONTEXT + 2 * SPARE_CONTEXT


@dataclass(frozen=True, slots=True)
class _Model:
    """The sizes of a model in memory; `held_bytes`: of a single number of its states."""

    shape: Shape
    weights_bytes: int
    held_bytes: int
    unpacking_bytes: int


def fit(
    target: ModelSize,
    drafter: ModelSize | None = None,
    *,
    context: int,
    machine: Machine,
    cache_bits: int | None = None,
    expand: bool | None = None,
) -> Fit:
    """Return the memory that a pair needs with `context` tokens read, and whether it is available.

    `cache_bits`: of quantized caches. `expand`: whether the target's weights become float32, if
    that was decided already. Raises Problem if a config is malformed.
    """
    pair = _Pair(target, drafter, machine, cache_bits, expand)
    needed = pair.needs(min(max(context, 1), MOST_CONTEXT))
    largest = pair.largest_context()
    fits = needed.needed_bytes <= machine.available_bytes
    needed = replace(needed, largest_context=largest, fits=fits)
    return replace(needed, reason=_reason(needed))


def peak(target: ModelSize, drafter: ModelSize | None, *, context: int, machine: Machine) -> Fit:
    """Return what a pair needs, as `fit` does, without its verdict and its longest context, which
    take most of the time."""
    return _Pair(target, drafter, machine, None, None).needs(context)


def require_fit(
    target: ModelSize,
    drafter: ModelSize | None = None,
    *,
    machine: Machine,
    context: int = DEFAULT_CONTEXT,
    cache_bits: int | None = None,
) -> Fit:
    """Return `fit` for at most the model's own context. Raises Problem if the pair does not fit."""
    own = target.whole.context_length
    asked = min(context, own or context)
    found = fit(target, drafter, context=asked, machine=machine, cache_bits=cache_bits)
    if found.fits:
        return found
    smaller = "choose a smaller model or one with fewer bits, or close other programs"
    if found.largest_context:
        remedy = f"{found.largest_context:,} tokens would fit; for more, {smaller}."
    elif drafter is not None and fit(target, context=asked, machine=machine).fits:
        remedy = f"Without {drafter.name} it would fit: draft with lookup, or {smaller}."
    else:
        remedy = f"No context would fit: {smaller}."
    needs = found.reason[0].lower() + found.reason[1:]
    raise Problem(f"The memory is too small for {found.pair}: {needs}", remedy)


def weights_bytes(
    size: ModelSize,
    *,
    machine: Machine,
    free_bytes: int | None = None,
    expand: bool | None = None,
) -> int:
    """Return the size of loaded weights: as on the disk, or as float32 on a CPU with twice the
    room.

    `free_bytes`: as the loader will find it, by default the machine's. `expand`: whether they
    become float32, if that was decided already.
    """
    expanded = _FLOAT32 * count_values(size)
    free = machine.available_bytes if free_bytes is None else free_bytes
    if expand is None:
        expand = not machine.unified and (expanded <= free // 2 or size.network is not None)
    return expanded if expand else size.size_bytes


def cache_bytes(
    shape: Shape,
    context: int,
    *,
    machine: Machine,
    value_bytes: int,
    cache_bits: int | None = None,
) -> int:
    """Return the bytes that the caches of all layers hold once `context` tokens are read.

    Includes the marks of earlier turns to which windows and recurrent states can return.
    """
    held = 0
    for layer, count in shape.kinds:
        if layer.kind == "recurrent":
            rows = _chunk_rows(shape, machine)
            one = (layer.state + rows * layer.row_state) * value_bytes
            held += count * (2 + BOOKMARKS) * (one + _FLOAT32 * layer.exact_state)
        elif layer.kind != "none":
            width = layer.key_width + layer.value_width
            number: float = value_bytes
            if cache_bits is not None and layer.kind == "full":  # 64 share a scale and a bias
                number = cache_bits / 8 + 2 * value_bytes / 64
            copies = count * (1 + (BOOKMARKS if layer.kind == "window" else 0))
            held += copies * round(_positions(layer, context, machine) * width * number)
    return held


class _Pair:
    """A target and its drafter on a machine."""

    def __init__(
        self,
        target: ModelSize,
        drafter: ModelSize | None,
        machine: Machine,
        cache_bits: int | None,
        expand: bool | None,
    ) -> None:
        self._machine, self._cache_bits = machine, cache_bits
        self._names = target.name, drafter.name if drafter else ""
        whole = target.whole
        self._target = self._model(target, target.shape, machine.available_bytes, expand)
        left = max(machine.available_bytes - self._target.weights_bytes, 0)
        self._drafter = (
            self._model(drafter, _drafter_shape(drafter, whole), left) if drafter else None
        )
        network = drafter.network if drafter else None
        newest = network is not None and KINDS[network.kind].keeps == "newest"
        self._drafter_keeps = _KEPT_BY_BLOCKS if newest else MOST_CONTEXT
        self._recorded_layers = len(network.taps_for(len(whole.layers))) if network else 0

    def needs(self, context: int) -> Fit:
        """Return the needed memory, not yet compared with the available memory."""
        drafter = self._drafter
        cache = self._caches(self._target, context, self._cache_bits)
        drafter_weights = drafter.weights_bytes if drafter else 0
        drafter_cache = self._caches(drafter, self._seen(context)) if drafter else 0
        later = cache + drafter_cache  # which are not there yet while weights are unpacked
        unpacking = self._target.unpacking_bytes - drafter_weights - later
        if drafter is not None:
            unpacking = max(unpacking, drafter.unpacking_bytes - later)
        return Fit(
            target=self._names[0],
            drafter=self._names[1],
            context=context,
            weights_bytes=self._target.weights_bytes,
            cache_bytes=cache,
            drafter_weights_bytes=drafter_weights,
            drafter_cache_bytes=drafter_cache,
            working_bytes=max(self._working(context), unpacking),
            available_bytes=self._machine.available_bytes,
            largest_context=0,
            fits=False,
            reason="",
        )

    def largest_context(self) -> int:
        """Return the longest context that fits, in whole blocks; at most the model's own."""
        most = min(self._target.shape.context_length or MOST_CONTEXT, MOST_CONTEXT)
        if self._fits(most):
            return most
        low, high = 0, most // CACHE_BLOCK + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(middle * CACHE_BLOCK) else (low, middle)
        return low * CACHE_BLOCK

    def _seen(self, context: int) -> int:
        return min(context, self._drafter_keeps)

    def _fits(self, context: int) -> bool:
        return self.needs(context).needed_bytes <= self._machine.available_bytes

    def _model(
        self, size: ModelSize, shape: Shape, free_bytes: int, expand: bool | None = None
    ) -> _Model:
        held = weights_bytes(size, machine=self._machine, free_bytes=free_bytes, expand=expand)
        expanded = held != size.size_bytes
        # The largest matrix is expanded first, in two steps; the others have less than its room.
        first = 9 * shape.largest_matrix if expanded else 0
        return _Model(
            shape,
            held,
            _FLOAT32 if expanded else float_bytes(size),
            max(first - held, 0),
        )

    def _caches(self, model: _Model, context: int, bits: int | None = None) -> int:
        return cache_bytes(
            model.shape,
            context,
            machine=self._machine,
            value_bytes=model.held_bytes,
            cache_bits=bits,
        )

    def _working(self, context: int) -> int:
        """Return the peak of temporary memory: target or drafter reads the prompt, or they take
        turns."""
        states, waiting = self._recorded(context)
        reading = self._pass(self._target, context, self._rows(self._target)) + waiting
        row = ROUND_ROWS * _FLOAT32 * self._target.shape.vocabulary
        judging = _ROUND_COPIES * row + self._pass(self._target, context, ROUND_ROWS)
        phases = [reading, judging]
        if self._drafter is not None:
            phases = [
                reading,
                judging + row,
                row + self._pass(self._drafter, self._seen(context), ROUND_ROWS),
            ]
            if not self._recorded_layers:
                phases.append(self._pass(self._drafter, context, self._rows(self._drafter)))
            else:  # a head reads in steps, and fewer states wait for it with each
                at_once, rows = min(context, PREFILL_ROWS), PREFILL_ROWS
                phases.append(waiting + self._pass(self._drafter, at_once, rows))
                phases.append(waiting * rows // RECORDED + self._pass(self._drafter, context, rows))
        return states + max(phases)

    def _rows(self, model: _Model) -> int:
        return _chunk_rows(model.shape, self._machine)

    def _pass(self, model: _Model, context: int, rows: int) -> int:
        """Return the temporary memory of a pass over `rows` rows: scores, or the states of a
        recurrence, which a CPU computes row by row; and values between layers, on Metal of
        several layers."""
        shape, rows, layers = model.shape, min(rows, context), dict(model.shape.kinds)
        seen = max((_positions(layer, context, self._machine) for layer in layers), default=0)
        table = shape.attention_heads * rows * seen
        exact = max((layer.exact_state for layer in layers), default=0)
        between = rows * (8 * shape.hidden_size + 3 * shape.active_width) * model.held_bytes
        if not self._machine.unified:
            return _FLOAT32 * max(table, rows * exact) + between
        scores = 0 if shape.head_dim in _FUSED_HEAD_DIMS else table * model.held_bytes
        ahead = _AHEAD + (_AHEAD_DELTA_ROW * rows if exact else 0)
        return scores + max(between, min(between * len(shape.layers), ahead))

    def _recorded(self, context: int) -> tuple[int, int]:
        """Return the bytes of hidden states that wait for a head, without and with a copy of the
        last layer's cache and the states of every pass since."""
        if not self._recorded_layers:
            return 0, 0
        shape, number = self._target.shape, self._target.held_bytes
        rows = _chunk_rows(shape, self._machine)
        positions = min(context, RECORDED + rows)
        states = positions * self._recorded_layers * shape.hidden_size * number
        last = next((layer for layer in reversed(shape.layers) if layer.kind != "none"), None)
        if last is None or last.kind == "recurrent":
            return states, 0
        width = (last.key_width + last.value_width) * number
        ends = range(context, max(context - positions, 0), -rows)
        return states, sum(_positions(last, end, self._machine) * width for end in ends)


def _drafter_shape(drafter: ModelSize, target: Shape) -> Shape:
    """Return the shape of a drafter. Sizes that a network's config does not state are the
    target's."""
    network = drafter.network
    if network is None:
        return drafter.shape
    traits, config = KINDS[network.kind], published_as(network, drafter.config, {}).fields
    rows = config.get("rows") or config.get("draft_vocab_size") or target.vocabulary
    layer = {"hidden_size": target.hidden_size, "num_hidden_layers": 1, **config}
    layer |= {"model_type": "llama", "vocab_size": rows}
    shape = read_shape(layer if traits.own_depth else layer | {"num_hidden_layers": 1})
    if network.kind == "mtp":  # one more layer of the target's kind
        last = next((layer for layer in reversed(target.layers) if layer.kind == "full"), None)
        return replace(shape, layers=(last or shape.layers[0],))
    return replace(shape, layers=()) if traits.keeps == "none" else shape


def _chunk_rows(shape: Shape, machine: Machine) -> int:
    """Return how many rows of a prompt a pass reads."""
    blocks = any(layer.kind in ("full", "window") for layer, _ in shape.kinds)
    return CACHE_BLOCK if blocks and not machine.unified else PREFILL_ROWS


def _positions(layer: Layer, context: int, machine: Machine) -> int:
    """Return how many positions a layer has allocated once `context` are read."""
    if layer.kind not in ("full", "window"):
        return 0
    aligned = -(-(context + 1) // CACHE_BLOCK) * CACHE_BLOCK - 1
    if layer.kind == "full":
        return -(-context // _METAL_STEP) * _METAL_STEP if machine.unified else aligned
    rows = PREFILL_ROWS if machine.unified else 0
    return min(aligned, layer.window + rows + 2 * CACHE_BLOCK - 1)


def _reason(fit: Fit) -> str:
    parts = [("weights", fit.weights_bytes), ("cache", fit.cache_bytes)]
    parts.append(("drafter", fit.drafter_weights_bytes + fit.drafter_cache_bytes))
    parts.append(("working memory", fit.working_bytes))
    named = ", ".join(f"{name} {size(taken)}" for name, taken in parts if taken)
    return (
        f"It needs {size(fit.needed_bytes)} at {fit.context:,} tokens ({named}), "
        f"and {size(fit.available_bytes)} are available."
    )
