"""The memory that each of several machines needs to hold a target together, by its shares.

In a pipeline a machine has some layers and what their caches hold; with tensor parallelism it has a
part of every layer, and the rest whole. The first machine also makes logits, judges and drafts.
Computed from headers or sizes by the figures of `models.memory.fit`; loads nothing.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from models.errors import Problem
from models.memory.fit import fit, weights_bytes
from models.memory.machine import Machine
from models.memory.model_size import ModelSize, count, count_values, loaded_tensors, weigh
from models.memory.shape import Layer, Shape, read_shape
from models.model_folder import ModelFolder
from models.records import Fit
from models.safetensors_file import TensorLayout
from models.sharing import MODES, Mode, cache_parts, check

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Plan:
    """A division of a target.

    `split`: the number of layers of each rank of a pipeline, rank 0's first, which are the model's
    last; empty with tensor parallelism. `shares`: the size of each rank's share; `fits`: the memory
    that it needs there. `expand`: whether weights become float32, as on a CPU with room for that on
    every rank.
    """

    mode: Mode
    split: tuple[int, ...]
    shares: tuple[ModelSize, ...]
    fits: tuple[Fit, ...]
    expand: bool

    @property
    def fits_all(self) -> bool:
        return all(each.fits for each in self.fits)

    @property
    def in_words(self) -> str:
        count = len(self.fits)
        if self.mode == "tensor":
            return f"{count} Macs with a part of every layer each (tensor parallel)"
        return f"a pipeline of {count} Macs with some layers each"

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """The first layer and the end of each rank of a pipeline."""
        ends = (sum(self.split[rank:]) for rank in range(len(self.split)))
        return tuple((end - own, end) for own, end in zip(self.split, ends, strict=True))


@dataclass(frozen=True, slots=True)
class _Part:
    """The bytes of some tensors on the disk, and their number of weights."""

    size_bytes: int = 0
    values: int = 0

    def __add__(self, other: "_Part") -> "_Part":
        return _Part(self.size_bytes + other.size_bytes, self.values + other.values)


def plan(
    target: ModelFolder | ModelSize,
    machines: Sequence[Machine],
    *,
    drafter: ModelSize | None = None,
    context: int,
    cache_bits: int | None = None,
    mode: Mode | None = None,
) -> Plan:
    """Return how `machines`, rank 0's first, hold a target. By default that is a pipeline if it
    fits, as it computes what one machine would, and tensor parallelism if only that fits.

    A folder is counted, a size alone estimated. No more than the model's own context is planned
    for. Raises `Problem` if the target cannot be divided in any way, or in the `mode` that was
    asked for. Missing memory is not an error: the plan shows it.
    """
    made: list[Plan] = []
    for each in (mode,) if mode else MODES:
        try:
            made.append(_plan(target, machines, drafter, context, cache_bits, each))
        except Problem:
            if each == (mode or MODES[-1]) and not made:
                raise
    return next((plan for plan in made if plan.fits_all), made[0])


def drafted_by(
    made: Plan, drafter: ModelSize | None, machine: Machine, *, cache_bits: int | None = None
) -> Plan:
    """Return the same shares with another drafter, which is on the first machine."""
    first = fit(
        made.shares[0],
        drafter,
        context=made.fits[0].context,
        machine=machine,
        cache_bits=cache_bits,
        expand=made.expand,
    )
    return replace(made, fits=(first, *made.fits[1:]))


def require_plan(made: Plan, hosts: Sequence[str]) -> None:
    """Raise `Problem` if a machine has no room for its share; `hosts` are their names."""
    for host, each in zip(hosts, made.fits, strict=True):
        if not each.fits:
            needs = each.reason[0].lower() + each.reason[1:]
            raise Problem(
                f"{host} has too little memory for its share of {each.target}: {needs}",
                "Choose a smaller model or a shorter context, add a Mac, or close programs there.",
            )


def _plan(
    target: ModelFolder | ModelSize,
    machines: Sequence[Machine],
    drafter: ModelSize | None,
    context: int,
    cache_bits: int | None,
    mode: Mode,
) -> Plan:
    config, ranks = target.config, len(machines)
    check(config, mode=mode, ranks=ranks)
    model = _Model(target, ranks)
    asked = min(context, read_shape(config).context_length or context)

    def needs(sizes: Sequence[ModelSize], expand: bool) -> tuple[Fit, ...]:
        return tuple(
            fit(
                each,
                None if rank else drafter,
                context=asked,
                machine=machine,
                cache_bits=cache_bits,
                expand=expand,
            )
            for rank, (each, machine) in enumerate(zip(sizes, machines, strict=True))
        )

    split: tuple[int, ...] = ()
    if mode == "tensor":
        sizes = model.divided()
    else:
        split = _split(model, machines, needs)
        check(config, mode=mode, ranks=ranks, split=split)
        sizes = model.pipeline(split)
    expand = _all_expand(sizes, machines)
    return Plan(mode, split, tuple(sizes), needs(sizes, expand), expand)


def _split(
    model: "_Model",
    machines: Sequence[Machine],
    needs: Callable[[Sequence[ModelSize], bool], tuple[Fit, ...]],
) -> tuple[int, ...]:
    """Return the number of layers of each rank. Each rank first gets `model.period` layers; then
    layer by layer goes to the machine with the most memory left."""
    ranks, depth = len(machines), model.depth
    even = tuple(depth // ranks + (rank < depth % ranks) for rank in range(ranks))
    left = depth - ranks * model.period
    if left <= 0:
        return even
    expand = _all_expand(model.pipeline(even), machines)
    whole = needs(model.pipeline(even), expand)
    least = needs(model.pipeline((model.period,) * ranks), expand)
    each = (_growing(whole) - _growing(least)) / left
    free: list[float] = [fit.available_bytes - fit.needed_bytes for fit in least]
    split = [model.period] * ranks
    for _ in range(left):
        rank = max(range(ranks), key=lambda rank: free[rank])
        split[rank] += 1
        free[rank] -= each
    return tuple(split)


def _growing(fits: Sequence[Fit]) -> int:
    return sum(fit.weights_bytes + fit.cache_bytes for fit in fits)


def _all_expand(sizes: Sequence[ModelSize], machines: Sequence[Machine]) -> bool:
    """Whether each machine computes on a CPU, and has room for its share as float32."""
    return all(
        weights_bytes(size, machine=machine) != size.size_bytes
        for size, machine in zip(sizes, machines, strict=True)
    )


class _Model:
    """A target, taken apart for `ranks` machines.

    Attribute: `period`, the smallest number of neighbouring layers that always has every kind of
    layer among them.
    """

    def __init__(self, target: ModelFolder | ModelSize, ranks: int) -> None:
        if isinstance(target, ModelSize):
            self._whole = target
            self._layers, self._outside = _estimated(target)
        else:
            self._whole = weigh(target)
            self._layers, self._outside = _counted(target)
        self._shape, self._ranks = read_shape(self._whole.config), ranks
        self.depth = len(self._shape.layers)
        kinds = [layer.kind for layer in self._shape.layers]
        self.period = next(
            size
            for size in range(1, self.depth + 1)
            if all(set(kinds[i : i + size]) == set(kinds) for i in range(self.depth - size + 1))
        )

    def pipeline(self, split: Sequence[int]) -> list[ModelSize]:
        """Return each rank's share in a pipeline; `split` has the number of layers of each."""
        end, sizes = self.depth, []
        for rank, own in enumerate(split):
            layers = slice(end - own, end)
            shape = replace(self._shape, layers=self._shape.layers[layers])
            sizes.append(self._of(rank, sum(self._layers[layers], self._outside), shape))
            end -= own
        return sizes

    def divided(self) -> list[ModelSize]:
        """Return each rank's share with tensor parallelism."""
        inside = sum(self._layers, _Part())
        part = self._outside + _Part(inside.size_bytes // self._ranks, inside.values // self._ranks)
        shape = replace(
            self._shape,
            layers=tuple(map(self._narrow, self._shape.layers)),
            attention_heads=-(-self._shape.attention_heads // self._ranks),
            active_width=-(-self._shape.active_width // self._ranks),
        )
        return [self._of(rank, part, shape) for rank in range(self._ranks)]

    def _of(self, rank: int, part: _Part, shape: Shape) -> ModelSize:
        """Return the size of a rank's share. Only rank 0 makes logits."""
        own = shape if rank == 0 else replace(shape, vocabulary=0)
        return replace(self._whole, size_bytes=part.size_bytes, values=part.values, part=own)

    def _narrow(self, layer: Layer) -> Layer:
        """Return the part of a layer that a rank caches with tensor parallelism."""
        by = cache_parts(self._whole.config, ranks=self._ranks)
        return replace(
            layer,
            key_width=-(-layer.key_width // by),
            value_width=-(-layer.value_width // by),
            state=-(-layer.state // self._ranks),
            exact_state=-(-layer.exact_state // self._ranks),
            row_state=-(-layer.row_state // self._ranks),
        )


def _counted(folder: ModelFolder) -> tuple[list[_Part], _Part]:
    """Return each layer, and the tensors that every rank of a pipeline has, from the headers."""
    config = folder.config
    layers: list[dict[str, TensorLayout]] = [{} for _ in read_shape(config).layers]
    outside = {}
    for name, layout in loaded_tensors(folder).items():
        found = _LAYER.search(name)
        if found is None:
            outside[name] = layout
        elif int(found[1]) < len(layers):  # those after them predict more tokens: never loaded
            layers[int(found[1])][name] = layout
    parts = [count(folder.name, config, tensors) for tensors in (*layers, outside)]
    *inside, last = (_Part(each.size_bytes, each.values) for each in parts)
    return inside, last


def _estimated(size: ModelSize) -> tuple[list[_Part], _Part]:
    """Return the same for a model that is not here: all layers are taken to be equal."""
    shape, values = read_shape(size.config), count_values(size)
    matrices = 1 if size.config.get("tie_word_embeddings") else 2  # embedding and output layer
    outside = min(matrices * shape.vocabulary * shape.hidden_size, values)
    share, depth = outside / values if values else 0.0, len(shape.layers)
    kept = _Part(round(size.size_bytes * share), outside)
    layer = _Part((size.size_bytes - kept.size_bytes) // depth, (values - outside) // depth)
    return [layer] * depth, kept
