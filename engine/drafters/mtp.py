"""An MTP module: the layer with which a target was trained to predict one more token.

It joins the target's state of a token, after the final norm, with the embedding of the token that
came next, and reads both with one layer of the target's kind (DeepSeek-V3, arXiv 2412.19437). Of
the state that this gives, the target's own output layer makes logits; the module takes it in place
of the target's to continue. It was trained to do so once or twice; more steps work, less well.

How it is published is for `models.drafters.mtp`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import KVCache

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding, embedding_scale, new_layer, output_layer
from engine.drafters.rows import Rows
from engine.drafters.states import StateDrafter
from engine.drafters.weights import (
    are_centred,
    fill,
    other_target,
    read_tensors,
    state_width,
    with_ones,
)
from models.drafters.folders import DrafterFolder
from models.drafters.kinds import Tap
from models.drafters.mtp import MtpShape
from models.drafters.refusal import refused_as_damaged

_ZERO_CENTRED = ("qwen3_next", "qwen3_5", "qwen3_5_moe")
"""Families whose norms multiply by 1 + weight; mlx-lm's models of them by the weight."""
_STATE_FIRST = ("mimo",)
"""Families that put the state before the embedding; others put the embedding first."""


class MtpModule(nn.Module):
    """The trained layers. States and embeddings are (1, n, width), of the target's width."""

    def __init__(self, layer: nn.Module, *, state_first: bool = False) -> None:
        """`layer`: a decoder layer of mlx-lm's, which has norms of the right size."""
        super().__init__()
        width, epsilon = layer.input_layernorm.weight.size, layer.input_layernorm.eps
        self.token_norm = nn.RMSNorm(width, eps=epsilon)
        self.state_norm = nn.RMSNorm(width, eps=epsilon)
        self.fuse = nn.Linear(2 * width, width, bias=False)
        self.layer = layer
        self.norm = nn.RMSNorm(width, eps=epsilon)
        self._state_first = state_first

    def __call__(self, states: mx.array, embeddings: mx.array, cache: Any) -> mx.array:
        """The next states: `states` of each token, `embeddings` of the token after it."""
        parts = [self.token_norm(embeddings), self.state_norm(states)]
        if self._state_first:
            parts.reverse()
        x = self.fuse(mx.concatenate(parts, axis=-1))
        # As an array: layers with latent attention (DeepSeek's) take no other mask.
        mask = create_attention_mask(x, cache, return_array=True)
        return self.norm(self.layer(x, mask, cache))


class MtpNetwork:
    """An MTP module as a `engine.drafters.states.StateNetwork`, for its target."""

    taps: tuple[Tap, ...] = ("norm",)

    def __init__(self, module: MtpModule, target: Decoder, *, kept: Sequence[int] | None) -> None:
        """`kept`: the token ids that it can propose; None for all. Fewer cost less."""
        self._module = module
        self._embed, self._scale = embedding(target.model), embedding_scale(target.model)
        some = None if kept is None else mx.array(list(kept))
        self._output = output_layer(target.model, some)
        self.rows = None if kept is None else Rows(target.vocabulary, kept)

    def begin(self, states: mx.array) -> mx.array:
        return states[:, :, 0]

    def go_on(self, state: mx.array) -> mx.array:
        return state

    def __call__(self, begun: mx.array, tokens: mx.array, mask: Any, cache: list[Any]) -> mx.array:
        return self._module(begun, self._embed(tokens) * self._scale, cache[0])

    def logits(self, state: mx.array) -> mx.array:
        return self._output(state)

    def make_cache(self) -> list[KVCache]:
        return [KVCache()]


def load_mtp(folder: DrafterFolder, target: Decoder) -> StateDrafter:
    """Return the drafter in `folder`, which may be the target's own.

    Raises `DrafterRefused`, or `Problem` if the target does not lend a part that it needs.
    """
    return StateDrafter(target, load_network(folder, target), name=folder.description.name)


def load_network(
    folder: DrafterFolder, target: Decoder, *, kept: Sequence[int] | None = None
) -> MtpNetwork:
    """Return the network in `folder`, for `target`. `kept`: the token ids that it can propose; None
    for all. Raises as `load_mtp`."""
    shape: MtpShape = folder.network
    if shape.width != state_width(target):
        raise other_target(
            f"The MTP module in {folder.path} reads states of {shape.width} numbers, and this "
            f"target's have {state_width(target)}."
        )
    family = getattr(target.model, "model_type", "")
    layer = new_layer(target.model, before=target.depth - len(target.model.layers))
    module = MtpModule(layer, state_first=family in _STATE_FIRST)
    tensors = read_tensors(folder)
    with refused_as_damaged(folder.path):
        tensors = _as_mlx(tensors, target.model)
        if family in _ZERO_CENTRED and are_centred(tensors):
            tensors = with_ones(tensors)
        fill(module, tensors, target.model, bits=folder.held_bits)
    return MtpNetwork(module, target, kept=kept)


def _as_mlx(weights: dict[str, mx.array], model: nn.Module) -> dict[str, mx.array]:
    """Return the weights as mlx-lm's layers name them: experts stacked, and the matrix of latent
    attention taken apart by the code of mlx-lm's `model`."""
    weights = with_stacked_experts(weights)
    latent = "layer.self_attn.kv_b_proj.weight"
    if latent not in weights:
        return weights
    place = "model.layers.0."
    attention = {n: weights.pop(n) for n in list(weights) if n.startswith("layer.self_attn.")}
    theirs = model.sanitize({n.replace("layer.", place, 1): a for n, a in attention.items()})
    return weights | {n.replace(place, "layer.", 1): a for n, a in theirs.items()}


def with_stacked_experts(weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Return the weights with one tensor for all experts, if there are experts. Published are one
    tensor for each, or one in which `gate_proj` and `up_proj` lie after each other."""
    stacked: dict[str, mx.array] = {}
    experts: dict[str, dict[int, mx.array]] = {}
    for name, array in weights.items():
        before, found, after = name.partition(".experts.")
        number, _, matrix = after.partition(".")
        if not found:
            stacked[name] = array
        elif number.isdecimal():
            experts.setdefault(f"{before}.switch_mlp.{matrix}", {})[int(number)] = array
        elif after == "gate_up_proj":
            gate, up = mx.split(array, 2, axis=-2)
            stacked[f"{before}.switch_mlp.gate_proj.weight"] = gate
            stacked[f"{before}.switch_mlp.up_proj.weight"] = up
        else:
            stacked[f"{before}.switch_mlp.{after.removesuffix('.weight')}.weight"] = array
    for name, arrays in experts.items():
        stacked[name] = mx.stack([arrays[number] for number in sorted(arrays)])
    return stacked
