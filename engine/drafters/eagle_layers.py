"""The layers that EAGLE's networks are made of, and their sizes.

The first one, and with some trainers every one, attends over the embedding of the token that came
next and the state before it, side by side. Otherwise they are Llama's, Qwen3's or Gemma-4's.

Sizes are told by the tensors' shapes, as config.json often leaves them out, and only what shapes do
not tell is read from it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import gemma4_text, llama, qwen3
from mlx_lm.models.cache import KVCache
from mlx_lm.models.rope_utils import initialize_rope

from engine.drafters.weights import Tensors

Fields = Mapping[str, Any]

_IN_A_LAYER = frozenset(
    {f"self_attn.{name}_proj" for name in "qkvo"}
    | {f"mlp.{name}_proj" for name in ("gate", "up", "down")}
    | {"self_attn.q_norm", "self_attn.k_norm", "input_layernorm", "hidden_norm"}
    | {f"{name}_layernorm" for name in ("post_attention", "pre_feedforward", "post_feedforward")}
    | {"layer_scalar"}
)


@dataclass(frozen=True, slots=True)
class EagleShape:
    """Sizes and options of a network's layers.

    `width` of its states; `windows`: how many positions each layer sees, None for all; `fused`:
    which layers read the embedding beside the state. `rotary` are the dimensions of a head that
    turn with the position.
    """

    width: int
    heads: int
    key_value_heads: int
    head_dim: int
    intermediate: int
    epsilon: float
    rope_theta: float
    rope_scaling: Mapping[str, Any] | None
    rotary: int
    longest: int
    windows: tuple[int | None, ...]
    fused: tuple[bool, ...]
    normed_queries: bool
    normed_residual: bool = False

    def layer(self, index: int) -> nn.Module:
        """The layer of this index, untrained."""
        arguments = llama.ModelArgs(
            model_type="llama",
            hidden_size=self.width,
            num_hidden_layers=1,
            intermediate_size=self.intermediate,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_value_heads,
            head_dim=self.head_dim,
            rms_norm_eps=self.epsilon,
            vocab_size=1,
        )
        block = llama.TransformerBlock(arguments)
        if self.normed_queries:
            block.self_attn = qwen3.Attention(arguments)
        block.self_attn.rope = initialize_rope(
            self.rotary,
            self.rope_theta,
            False,
            dict(self.rope_scaling) if self.rope_scaling else None,
            self.longest,
        )
        if not self.fused[index]:
            return block
        fused = FusedLayer(self.width, self.epsilon, normed_residual=self.normed_residual)
        fused.mlp, fused.self_attn = block.mlp, reading_both(block.self_attn, self.width)
        return fused


class FusedLayer(nn.Module):
    """A transformer layer that attends over an embedding and a state, side by side."""

    def __init__(self, width: int, epsilon: float, *, normed_residual: bool) -> None:
        """`normed_residual`: what the layer adds to is the state behind the norm."""
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


@dataclass(frozen=True, slots=True)
class GemmaShape:
    """As `EagleShape`, of layers like Gemma-4's, all of which read the embedding. `config` is of a
    Gemma-4 with so many layers."""

    width: int
    epsilon: float
    config: Fields
    windows: tuple[int | None, ...]
    fused: tuple[bool, ...]

    def layer(self, index: int) -> nn.Module:
        """The layer of this index, untrained."""
        return GemmaFusedLayer(gemma4_text.ModelArgs.from_dict(self.config), index)


class GemmaFusedLayer(FusedLayer):
    """A `FusedLayer` with Gemma-4's attention, and its norms behind attention and MLP."""

    def __init__(self, sizes: gemma4_text.ModelArgs, index: int) -> None:
        super().__init__(sizes.hidden_size, sizes.rms_norm_eps, normed_residual=False)
        self.pre_feedforward_layernorm = nn.RMSNorm(sizes.hidden_size, eps=sizes.rms_norm_eps)
        self.post_feedforward_layernorm = nn.RMSNorm(sizes.hidden_size, eps=sizes.rms_norm_eps)
        self.layer_scalar = mx.ones((1,))
        self.mlp = gemma4_text.MLP(sizes, index)
        self.self_attn = reading_both(gemma4_text.Attention(sizes, index), sizes.hidden_size)

    def __call__(
        self, embeddings: mx.array, state: mx.array, mask: Any, cache: KVCache
    ) -> mx.array:
        both = mx.concatenate([self.input_layernorm(embeddings), self.hidden_norm(state)], axis=-1)
        attended, *_ = self.self_attn(both, mask, cache)
        state = state + self.post_attention_layernorm(attended)
        made = self.mlp(self.pre_feedforward_layernorm(state))
        return (state + self.post_feedforward_layernorm(made)) * self.layer_scalar


def reading_both(attention: nn.Module, width: int) -> nn.Module:
    """The attention, with matrices that take an embedding and a state side by side."""
    for name in ("q_proj", "k_proj", "v_proj"):
        if name in attention:
            attention[name] = nn.Linear(2 * width, attention[name].weight.shape[0], bias=False)
    return attention


Shape = EagleShape | GemmaShape


def unlike_ours(names: Iterable[str]) -> str:
    """The first of the tensors' `names` that no layer here has; empty where they have all."""
    for name in names:
        _, layer, part = name.partition("layers.")
        inside = part.partition(".")[2]
        if layer and (inside.rpartition(".")[0] or inside) not in _IN_A_LAYER:
            return name
    return ""


def read_shape(fields: Fields, tensors: Tensors) -> Shape:
    """The sizes of the layers whose `tensors` these are, with config.json's options."""
    width = tensors["layers.0.post_attention_layernorm.weight"].shape[0]
    count = 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("layers."))
    if "layers.0.pre_feedforward_layernorm.weight" in tensors:
        plain = {"num_hidden_layers": count, "layer_types": ["full_attention"] * count}
        plain |= {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0}
        return GemmaShape(
            width=width,
            epsilon=float(fields.get("rms_norm_eps", 1e-6)),
            config={**fields, **plain, "use_double_wide_mlp": False},
            windows=(None,) * count,
            fused=(True,) * count,
        )
    rows = {
        name: tensors[f"layers.0.{name}_proj.weight"].shape[0]
        for name in ("self_attn.q", "self_attn.k", "mlp.gate")
    }
    normed = "layers.0.self_attn.q_norm.weight" in tensors
    if "head_dim" in fields:
        head_dim = int(fields["head_dim"])
    elif normed:
        head_dim = tensors["layers.0.self_attn.q_norm.weight"].shape[0]
    else:
        head_dim = width // int(fields["num_attention_heads"])
    rope = _rope(fields)
    return EagleShape(
        width=width,
        heads=rows["self_attn.q"] // head_dim,
        key_value_heads=rows["self_attn.k"] // head_dim,
        head_dim=head_dim,
        intermediate=rows["mlp.gate"],
        epsilon=float(fields.get("rms_norm_eps", 1e-6)),
        rope_theta=float(fields.get("rope_theta", rope.get("rope_theta", 10_000.0))),
        rope_scaling=rope if rope.get("rope_type", rope.get("type")) else None,
        rotary=int(head_dim * float(rope.get("partial_rotary_factor", 1.0))),
        longest=int(fields.get("max_position_embeddings", 2048)),
        windows=tuple(_window(fields, layer) for layer in range(count)),
        fused=tuple(f"layers.{layer}.hidden_norm.weight" in tensors for layer in range(count)),
        normed_queries=normed,
        normed_residual=bool(fields.get("norm_before_residual", False)),
    )


def _rope(fields: Fields) -> Mapping[str, Any]:
    """How positions are scaled; where each kind of layer has its own way, that of sliding ones."""
    rope: Mapping[str, Any] = fields.get("rope_scaling") or fields.get("rope_parameters") or {}
    return rope.get("sliding_attention") or rope.get("full_attention") or rope


def _window(fields: Fields, layer: int) -> int | None:
    kinds = fields.get("layer_types") or []
    slides = layer < len(kinds) and kinds[layer] == "sliding_attention"
    if not slides or fields.get("use_sliding_window") is False:
        return None
    return int(fields["sliding_window"])
