"""EAGLE-3 and EAGLE: networks that others have trained to continue hidden states.

EAGLE-3 (arXiv 2503.01840) mixes the states of some layers. Its first layer, in some files every
layer, attends over this mixture and the embedding of the token that came next, side by side; other
layers are Llama's, Qwen3's or Gemma-4's. It has an output layer of its own, mostly for a part of
the vocabulary. EAGLE (2401.15077; EAGLE-2, 2406.16858, has the same weights) mixes the embedding
with the state after the target's final norm, and borrows the target's output layer.

How they are published is for `models.drafters.eagles`. The target's embedding is borrowed where it
was not trained along.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import gemma4_text, llama, qwen3
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import KVCache
from mlx_lm.models.rope_utils import initialize_rope

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding, output_layer
from engine.drafters import Drafter
from engine.drafters.rows import Rows
from engine.drafters.states import Mask, StateDrafter
from engine.drafters.weights import (
    Tensors,
    fill,
    other_target,
    read_tensors,
    state_width,
    take_kept,
)
from models.drafters.eagles import EagleLayers, EagleShape, GemmaLayers
from models.drafters.folders import DrafterFolder
from models.drafters.kinds import Tap
from models.drafters.refusal import refused_as_damaged

Borrowed = Callable[[mx.array], mx.array]  # a part of the target's
Layers = EagleLayers | GemmaLayers


def _new_layer(layers: Layers, index: int) -> nn.Module:
    """The layer of this index, untrained."""
    if isinstance(layers, GemmaLayers):
        return GemmaFusedLayer(gemma4_text.ModelArgs.from_dict(layers.config), index)
    arguments = llama.ModelArgs(
        model_type="llama",
        hidden_size=layers.width,
        num_hidden_layers=1,
        intermediate_size=layers.intermediate,
        num_attention_heads=layers.heads,
        num_key_value_heads=layers.key_value_heads,
        head_dim=layers.head_dim,
        rms_norm_eps=layers.epsilon,
        vocab_size=1,
    )
    block = llama.TransformerBlock(arguments)
    if layers.normed_queries:
        block.self_attn = qwen3.Attention(arguments)
    block.self_attn.rope = initialize_rope(
        layers.rotary,
        layers.rope_theta,
        False,
        dict(layers.rope_scaling) if layers.rope_scaling else None,
        layers.longest,
    )
    if not layers.fused[index]:
        return block
    fused = FusedLayer(layers.width, layers.epsilon, normed_residual=layers.normed_residual)
    fused.mlp, fused.self_attn = block.mlp, _reading_both(block.self_attn, layers.width)
    return fused


class FusedLayer(nn.Module):
    """A transformer layer that attends over an embedding and a state, side by side."""

    def __init__(self, width: int, epsilon: float, *, normed_residual: bool) -> None:
        """`normed_residual`: what the layer adds to is the state after the norm."""
        super().__init__()
        self.input_layernorm = nn.RMSNorm(width, eps=epsilon)
        self.hidden_norm = nn.RMSNorm(width, eps=epsilon)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=epsilon)
        self._normed_residual = normed_residual

    def __call__(
        self, embeddings: mx.array, state: mx.array, mask: Any, cache: KVCache
    ) -> mx.array:
        normed = self.hidden_norm(state)
        both = mx.concatenate([self.input_layernorm(embeddings), normed], axis=-1)
        before = normed if self._normed_residual else state
        attended = before + self.self_attn(both, mask, cache)
        return attended + self.mlp(self.post_attention_layernorm(attended))


class GemmaFusedLayer(FusedLayer):
    """A `FusedLayer` with Gemma-4's attention, and its norms after attention and MLP."""

    def __init__(self, sizes: gemma4_text.ModelArgs, index: int) -> None:
        super().__init__(sizes.hidden_size, sizes.rms_norm_eps, normed_residual=False)
        self.pre_feedforward_layernorm = nn.RMSNorm(sizes.hidden_size, eps=sizes.rms_norm_eps)
        self.post_feedforward_layernorm = nn.RMSNorm(sizes.hidden_size, eps=sizes.rms_norm_eps)
        self.layer_scalar = mx.ones((1,))
        self.mlp = gemma4_text.MLP(sizes, index)
        self.self_attn = _reading_both(gemma4_text.Attention(sizes, index), sizes.hidden_size)

    def __call__(
        self, embeddings: mx.array, state: mx.array, mask: Any, cache: KVCache
    ) -> mx.array:
        both = mx.concatenate([self.input_layernorm(embeddings), self.hidden_norm(state)], axis=-1)
        attended, *_ = self.self_attn(both, mask, cache)
        state = state + self.post_attention_layernorm(attended)
        made = self.mlp(self.pre_feedforward_layernorm(state))
        return (state + self.post_feedforward_layernorm(made)) * self.layer_scalar


def _reading_both(attention: nn.Module, width: int) -> nn.Module:
    """The attention, with matrices that take an embedding and a state side by side."""
    for name in ("q_proj", "k_proj", "v_proj"):
        if name in attention:
            attention[name] = nn.Linear(2 * width, attention[name].weight.shape[0], bias=False)
    return attention


class _Layers(nn.Module):
    """The layers of EAGLE-3 and EAGLE, and the embedding if the drafter has its own."""

    def __init__(self, shape: Layers, embed: Borrowed | int) -> None:
        """`embed`: the target's embedding, or the number of rows of the drafter's own."""
        super().__init__()
        self.layers = [_new_layer(shape, index) for index in range(len(shape.fused))]
        self._windows = shape.windows
        self._embed = embed
        if isinstance(embed, int):
            self.embed_tokens = nn.Embedding(embed, shape.width)

    def embed(self, tokens: mx.array) -> mx.array:
        """Return the embeddings of `tokens`. An id beyond the drafter's own embedding is read as
        its last."""
        if isinstance(self._embed, int):
            return self.embed_tokens(mx.minimum(tokens, self._embed - 1))
        return self._embed(tokens)

    def through(
        self, embeddings: mx.array, state: mx.array, mask: Mask, cache: list[Any]
    ) -> mx.array:
        """Return the state after the last layer."""
        for layer, window, kept in zip(self.layers, self._windows, cache, strict=True):
            seen = create_attention_mask(state, kept, window_size=window) if window else mask
            if isinstance(layer, FusedLayer):
                state = layer(embeddings, state, seen, kept)
            else:
                state = layer(state, seen, kept)
        return state

    def make_cache(self) -> list[KVCache]:
        return [KVCache() for _ in self.layers]


class Eagle3(_Layers):
    """EAGLE-3's network, with the options of all who trained it: a `StateNetwork`.

    `taps` of the target, with states of `target_width`; `rows` of the output layer.
    """

    def __init__(
        self,
        shape: EagleShape,
        *,
        taps: tuple[Tap, ...],
        target_width: int,
        rows: Rows,
        embed: Borrowed | int,
    ) -> None:
        super().__init__(shape.layers, embed)
        self.taps = taps
        width, epsilon = shape.layers.width, shape.layers.epsilon
        together = len(taps) * target_width
        if shape.mixed:
            self.fc = nn.Linear(together, width, bias=False)
        if shape.norm_mixed:
            self.input_norm = nn.RMSNorm(together, eps=epsilon)
        if shape.norm_each:
            self.fc_norm = [nn.RMSNorm(target_width, eps=epsilon) for _ in taps]
        self.norm = nn.RMSNorm(width, eps=epsilon)
        self.lm_head = nn.Linear(width, shape.rows, bias=False)
        self.rows: Rows | None = rows
        self._normed_output = shape.normed_output
        self._logit_scale, self._soft_cap = shape.logit_scale, shape.soft_cap

    def begin(self, states: mx.array) -> mx.array:
        if "input_norm" in self:
            states = self.input_norm(states.flatten(-2)).reshape(states.shape)
        if "fc_norm" in self:
            normed = [norm(states[..., tap, :]) for tap, norm in enumerate(self.fc_norm)]
            states = mx.stack(normed, axis=-2)
        together = states.flatten(-2)
        return self.fc(together) if "fc" in self else together

    def go_on(self, state: mx.array) -> mx.array:
        return state

    def __call__(self, begun: mx.array, tokens: mx.array, mask: Mask, cache: list[Any]) -> mx.array:
        state = self.through(self.embed(tokens), begun, mask, cache)
        return self.norm(state) if self._normed_output else state

    def logits(self, state: mx.array) -> mx.array:
        logits = self.lm_head(state if self._normed_output else self.norm(state))
        if self._logit_scale != 1.0:
            logits = self._logit_scale * logits
        if self._soft_cap is not None:
            logits = self._soft_cap * mx.tanh(logits / self._soft_cap)
        return logits


class Eagle(_Layers):
    """The network of EAGLE and EAGLE-2: a `StateNetwork`. `output`: the target's output layer."""

    taps: tuple[Tap, ...] = ("norm",)
    rows: Rows | None = None

    def __init__(
        self, shape: Layers, *, target_width: int, embed: Borrowed | int, output: Borrowed
    ) -> None:
        super().__init__(shape, embed)
        self.fc = nn.Linear(shape.width + target_width, shape.width, bias=False)
        self.layers[0].input_layernorm = nn.Identity()
        self._output = output

    def begin(self, states: mx.array) -> mx.array:
        return states[..., 0, :]

    def go_on(self, state: mx.array) -> mx.array:
        return state

    def __call__(self, begun: mx.array, tokens: mx.array, mask: Mask, cache: list[Any]) -> mx.array:
        embeddings = self.embed(tokens)
        mixed = self.fc(mx.concatenate([embeddings, begun], axis=-1))
        return self.through(embeddings, mixed, mask, cache)

    def logits(self, state: mx.array) -> mx.array:
        return self._output(state)


def load_eagle(folder: DrafterFolder, target: Decoder) -> Drafter:
    """Return the drafter in `folder`, for `target`. Raises `Problem`."""
    return StateDrafter(target, load_network(folder, target), name=folder.description.name)


def load_network(folder: DrafterFolder, target: Decoder) -> Eagle3 | Eagle:
    """Return the network in `folder`, for `target`. Raises `Problem`."""
    shape: EagleShape = folder.network
    tensors, width = read_tensors(folder), state_width(target)
    with refused_as_damaged(folder.path):
        network: Eagle3 | Eagle
        if folder.kind == "eagle":
            network = _eagle(shape, target)
        else:
            taps = folder.description.taps_for(target.depth)
            if shape.read != len(taps) * width:
                raise other_target(
                    f"The drafter reads {len(taps)} states of {shape.read / len(taps):g} numbers "
                    f"each, and the target's have {width}."
                )
            scale = shape.layers.width**0.5 if isinstance(shape.layers, GemmaLayers) else 1.0
            network = Eagle3(
                shape,
                taps=taps,
                target_width=width,
                rows=_rows(shape, tensors, vocabulary=target.vocabulary),
                embed=_embed(shape, target, scale=scale),
            )
        tensors = _parameters(network, tensors)
        fill(network, tensors, target.model, bits=folder.held_bits)
        _try_out(network, target)
    return network


def _eagle(shape: EagleShape, target: Decoder) -> Eagle:
    width, read = state_width(target), shape.read - shape.layers.width
    if read != width or shape.layers.width != width:
        raise other_target(
            f"The drafter reads states of {read} numbers, and the target's have {width}."
        )
    output = output_layer(target.model)
    return Eagle(shape.layers, target_width=width, embed=_embed(shape, target), output=output)


def _try_out(network: Eagle3 | Eagle, target: Decoder) -> None:
    """Build two passes and compute nothing: sizes that do not fit each other raise an error."""
    states = mx.zeros((1, 1, len(network.taps), state_width(target)))
    token = mx.zeros((1, 1), dtype=mx.int32)
    state = network(network.begin(states), token, None, network.make_cache())
    network.logits(network(network.go_on(state), token, None, network.make_cache()))


def _parameters(network: _Layers, tensors: Tensors) -> Tensors:
    """Return the tensors that belong to `network`. Files also hold the map between the
    vocabularies, and parts of the target."""
    besides = ["t2d", "d2t"]  # where the network has no use for them
    if "embed_tokens" not in network:
        besides.append("embed_tokens.")
    if "lm_head" not in network:
        besides.append("lm_head.")
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(tuple(besides))}


def _embed(shape: EagleShape, target: Decoder, *, scale: float = 1.0) -> Borrowed | int:
    """Return the target's embedding times `scale`; or the number of rows of the drafter's own, if
    it was trained with its own, or is not as wide as the target."""
    width = shape.layers.width
    if shape.embedding and (shape.trained_embedding or width != state_width(target)):
        return shape.embedding
    if width != state_width(target):
        raise other_target(
            f"The drafter borrows an embedding of {width} numbers for each token, "
            f"and the target's has {state_width(target)}."
        )
    borrowed = embedding(target.model)
    return lambda tokens: scale * borrowed(tokens)  # a module would become a part of this one


def _rows(shape: EagleShape, tensors: Tensors, *, vocabulary: int) -> Rows:
    """Return the rows of the output layer. Raises ValueError, or `DrafterRefused` for tokens that
    the target does not have."""
    kept = take_kept(tensors, rows=shape.rows)
    if kept is None and shape.vocabulary not in (None, shape.rows):
        raise ValueError(f"it has {shape.rows} tokens, and does not say which")
    if kept is not None and max(kept) >= vocabulary:
        raise other_target(
            f"The drafter proposes the token {max(kept)}, and the target has {vocabulary} tokens."
        )
    return Rows(vocabulary, kept)
