"""A rank's share of a target: which layers it has, or which part of each, and how states travel.

In a pipeline every rank has some layers, rank 0 the last ones. States go from one rank to the next,
and everything is computed as by one process. With tensor parallelism every rank has a part of every
layer, and all ranks add up their results, which rounds differently.

A pipeline's layers are cut here, for all architectures alike, with one message at each border.
mlx-lm divides layers (`shard`); the output layer stays whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from engine.cluster.group import Group
from engine.conversation.loading import LoadedModel, load
from engine.core.model_parts import TapHook, calling, downwards, trunk
from models.drafters.kinds import Tap
from models.errors import Problem
from models.model_folder import ModelFolder
from models.sharing import Mode as Mode
from models.sharing import check

_LISTS = ("layers", "layer_types")  # of a model's inner module, one entry for each layer
_MASKS = ("fa_idx", "ga_idx", "swa_idx", "ssm_idx")  # places of layers whose caches give masks


@dataclass(frozen=True, slots=True)
class RankShare:
    """The share of `rank` in a model.

    Attributes: `size`, the number of ranks; `split`, the number of layers of each rank in a
    pipeline, rank 0's first, which are the model's last; empty with tensor parallelism.
    """

    mode: Mode
    rank: int
    size: int
    split: tuple[int, ...] = ()

    @property
    def first(self) -> int:
        """The number of its first layer, in a pipeline."""
        return sum(self.split[self.rank + 1 :])


class ModelPart:
    """A rank's part of a model, which reads together with the other ranks' parts.

    Attributes: `model`, which is called as the whole one, with caches of its own layers; `share`;
    `depth`, the number of layers of all ranks. Rank 0's output has the logits; the others' is
    ignored.
    """

    def __init__(self, model: nn.Module, share: RankShare, group: Group) -> None:
        """`model` as `keep` and `divide` left it. Raises `Problem`."""
        self.model, self.share, self.group = model, share, group
        self.depth = sum(share.split) or len(model.layers)
        self._begun = False
        self._made: list[mx.array] = []  # by the newest pass, for `settle`
        self._taps: tuple[int, ...] = ()
        self._hook = TapHook(model, ())  # sees the taps at its own layers
        self._states: dict[Tap, mx.array] = {}  # at `_taps`, from the newest pass
        if share.mode == "pipeline":
            self._type = _type_of_states(model)
            _connect(model, share, group)
        inner = trunk(model)
        kind = type(inner)

        def call(module: nn.Module, *arguments: Any, **options: Any) -> mx.array:
            if not self._begun:
                probed: mx.array = kind.__call__(module, *arguments, **options)
                return probed
            self._begun = False
            with self._hook.open():
                output: mx.array = kind.__call__(module, *arguments, **options)
            self._made = [output, *self._exchange(output)]
            return output

        inner.__class__ = calling(kind, call)

    @property
    def size_bytes(self) -> int:
        """The size of its weights."""
        arrays: Any = tree_flatten(self.model.parameters())
        return sum(array.nbytes for _, array in arrays)

    def elsewhere(self, taps: Iterable[Tap]) -> tuple[int, ...]:
        """Return the taps whose states are computed by other ranks alone, sorted. For rank
        0."""
        return tuple(sorted(tap for tap in taps if tap != "norm" and 0 < tap <= self.share.first))

    def begin(self, taps: tuple[int, ...] = ()) -> None:
        """Make the next call of the model a pass of all ranks. Other calls only ask for shapes.

        `taps`: where all ranks record the states; the same on every rank.
        """
        self._begun = True
        if taps != self._taps:
            own = range(1, len(self.model.layers) + 1)
            places = [tap - self.share.first for tap in taps]
            self._taps = taps
            self._hook = TapHook(self.model, [place for place in places if place in own])

    def watch(self, taps: frozenset[Tap]) -> TapHook:
        """A hook for the states at `taps` on rank 0. `begin` has the others' states exchanged."""
        return _Watch(self.model, taps, first=self.share.first, elsewhere=self._states)

    def settle(self) -> None:
        """Wait until this rank has sent and received all messages of its newest pass."""
        mx.eval(self._made)
        self._made = []

    def _exchange(self, output: mx.array) -> list[mx.array]:
        """Have the states at `_taps` seen on all ranks: a sum in which one of them gives them."""
        self._states.clear()
        if not self._taps:
            return []
        nothing = mx.zeros(output.shape, self._type)
        places = [tap - self.share.first for tap in self._taps]
        given = mx.stack([self._hook.seen.get(place, nothing) for place in places])
        self._hook.seen.clear()
        (given,) = mx.depends([given], [output])  # after the pass's own messages, on all ranks
        states = mx.distributed.all_sum(given, group=self.group)
        self._states |= zip(self._taps, states, strict=True)
        return [states]


class _Watch(TapHook):
    """Sees the states at some taps of a pipeline's last layers, and those from other ranks.

    `first`: the number of layers before them. `elsewhere`: the states of those layers.
    """

    def __init__(
        self,
        model: nn.Module,
        taps: Iterable[Tap],
        *,
        first: int,
        elsewhere: Mapping[Tap, mx.array],
    ) -> None:
        self._elsewhere = elsewhere
        self._taps: dict[Tap, Tap] = {}  # by their numbers in `model`
        for tap in taps:
            if tap == "norm" or tap == 0:  # the embedding is the same on all ranks
                self._taps[tap] = tap
            elif tap > first:
                self._taps[tap - first] = tap
        super().__init__(model, self._taps)

    @contextmanager
    def open(self) -> Iterator[None]:
        with super().open():
            yield
        here = {self._taps[place]: states for place, states in self.seen.items()}
        self.seen = {**here, **self._elsewhere}


def load_part(
    folder: ModelFolder, share: RankShare, group: Group, *, expand: bool
) -> tuple[LoadedModel, ModelPart]:
    """Load this rank's part of a target, and keep no other weights. Called on every rank.

    `expand`: whether weights become float32 on a CPU. Rank 0 decides for all of them, as parts of
    different types would not be one model. Raises `Problem`, as `models.sharing.check` does before
    anything is opened.
    """
    check(folder.config, mode=share.mode, ranks=share.size, split=share.split)

    def cut(model: nn.Module) -> None:
        keep(model, share)
        divide(model, share, group)

    loaded = load(folder, expand=expand, cut=cut)
    return loaded, ModelPart(loaded.model, share, group)


def keep(model: nn.Module, share: RankShare) -> None:
    """Remove the layers of a pipeline's other ranks from a model, before its weights are read."""
    if share.mode != "pipeline":
        return
    inner, whole = trunk(model), make_prompt_cache(model)
    own = slice(share.first, share.first + share.split[share.rank])
    kinds = [_kind(layer) for layer in whole]
    for name in _LISTS:
        if name in inner:
            inner[name] = inner[name][own]
    for name in _MASKS:
        place = getattr(inner, name, None)
        if place is not None:  # the first layer of that kind gives the mask for all of them
            setattr(inner, name, kinds[own].index(kinds[place]))


def _kind(layer: Any) -> tuple[type, Any]:
    """The kind of a layer's cache. Layers with caches of one kind get the same mask."""
    return type(layer), getattr(layer, "max_size", None)


def divide(model: nn.Module, share: RankShare, group: Group) -> None:
    """Reduce every layer to a rank's part, with tensor parallelism."""
    if share.mode != "tensor":
        return
    parts = [part.args for part in downwards(model) if hasattr(part, "args")]
    arguments = [each for each in parts if hasattr(each, "tie_word_embeddings")]
    tied = [each.tie_word_embeddings for each in arguments]
    try:
        for each in arguments:  # so that no output layer is divided: rank 0 makes all logits
            each.tie_word_embeddings = True
        model.shard(group)
    finally:
        for each, before in zip(arguments, tied, strict=True):
            each.tie_word_embeddings = before


def _type_of_states(model: nn.Module) -> mx.Dtype:
    """The number type of the states between layers, which a rank must know to receive them.

    Raises `Problem` if it changes on the way.
    """
    hook = TapHook(model, (0, len(model.layers)))
    with hook.open():
        model(mx.zeros((1, 1), dtype=mx.int32))  # never computed
    first, last = (hook.seen[tap].dtype for tap in (0, len(model.layers)))
    if first != last:
        raise Problem(
            "Several Macs cannot hold this model in a pipeline: its layers change the type of "
            f"numbers, from {_named(first)} to {_named(last)}.",
            "Choose another version of the model.",
        )
    return first


def _named(kind: mx.Dtype) -> str:
    return str(kind).removeprefix("mlx.core.")


def _connect(model: nn.Module, share: RankShare, group: Group) -> None:
    """Have the first of its layers receive states from the rank before, and the last send them."""
    layers: Sequence[nn.Module] = model.layers
    if share.rank < share.size - 1:
        layers[0].__class__ = _receiving(type(layers[0]), share.rank + 1, group)
    if share.rank > 0:
        layers[-1].__class__ = _sending(type(layers[-1]), share.rank - 1, group)


def _receiving(kind: type[nn.Module], source: int, group: Group) -> type[nn.Module]:
    def call(layer: nn.Module, states: mx.array, *arguments: Any, **options: Any) -> Any:
        received = mx.distributed.recv_like(states, source, group=group)
        return kind.__call__(layer, received, *arguments, **options)

    return calling(kind, call)


def _sending(kind: type[nn.Module], to: int, group: Group) -> type[nn.Module]:
    def send(states: mx.array) -> mx.array:
        return mx.distributed.send(states, to, group=group)

    def call(layer: nn.Module, *arguments: Any, **options: Any) -> Any:
        output = kind.__call__(layer, *arguments, **options)
        return (send(output[0]), *output[1:]) if isinstance(output, tuple) else send(output)

    return calling(kind, call)
