"""The layers that EAGLE's networks are made of.

The first one, and with some trainers every one, attends over the embedding of the token that came
next and the state before it, side by side. Otherwise they are Llama's, Qwen3's or Gemma-4's.
"""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import gemma4_text, llama, qwen3
from mlx_lm.models.cache import KVCache
from mlx_lm.models.rope_utils import initialize_rope

from models.drafters.eagles import EagleLayers, GemmaLayers


def new_layer(layers: EagleLayers | GemmaLayers, index: int) -> nn.Module:
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
    fused.mlp, fused.self_attn = block.mlp, reading_both(block.self_attn, layers.width)
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
