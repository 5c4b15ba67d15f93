"""A Mac's GPU on the CPU, which computes quantized models by the text of Metal kernels."""

from contextlib import contextmanager
from functools import cache, partial
from unittest import mock

import mlx.core as mx
import mlx.nn as nn

from engine.core.model_parts import downwards, embedding
from engine.device import GPU
from engine.metal import alone, few_rows
from tests.support.engine import tiny
from tests.support.engine.backends import computing_as, rounded
from tests.support.metal.shim import Shim
from tests.support.metal.stock import quantized_matmul

SHIM = Shim()
# Matrices with 64 and 128 inputs have another kernel. 512 inputs are whole steps, 96 a tail alone.
_SIZES = {
    "hidden_size": 96,
    "num_hidden_layers": 2,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
MODELS = {
    "llama": _SIZES,
    "qwen3_moe": _SIZES
    | {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 32,
        "norm_topk_prob": True,
    },
    "qwen3_5": _SIZES  # a gated delta net, and attention
    | {
        "full_attention_interval": 2,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 24,
        "linear_value_head_dim": 24,
        "rope_parameters": {"type": "default", "mrope_section": [1, 1, 0], "rope_theta": 1e5},
    },
    "gemma3_text": _SIZES  # a sliding window, and the embedding as the head
    | {
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 24,
        "rope_local_base_freq": 1e4,
    },
    "nemotron_h": _SIZES  # Mamba 2, which computes rows in blocks
    | {
        "hybrid_override_pattern": list("M*"),
        "attention_bias": False,
        "mamba_num_heads": 4,
        "mamba_head_dim": 24,
        "mamba_proj_bias": False,
        "ssm_state_size": 16,
        "conv_kernel": 4,
        "n_groups": 2,
        "mlp_bias": False,
        "layer_norm_epsilon": 1e-5,
        "use_bias": False,
        "use_conv_bias": True,
    },
}


@cache
def model_of(architecture, seed=0):
    """Return one of `MODELS` in float32, with matrices of 4 bits, but for routers. Each rounding
    shows in its text: every token has a twin, whose logit is the same number up to rounding."""
    model = tiny.build(architecture, sizes=MODELS[architecture], seed=seed)
    with_matrices = (name for name, _ in model.named_modules() if not name.endswith(".gate"))
    chosen = set(with_matrices)
    nn.quantize(
        model,
        group_size=tiny.GROUP_SIZE,
        bits=4,
        class_predicate=lambda name, layer: name in chosen and hasattr(layer, "to_quantized"),
    )
    heads = [part["lm_head"] for part in downwards(model) if "lm_head" in part]
    _make_twins(heads[0] if heads else embedding(model))
    mx.eval(model.parameters())
    return model


def _make_twins(layer):
    """Let each second output be the one before it, with all numbers of a group from the other end:
    scale * q + bias = -scale * (15 - q) + (bias + 15 * scale)."""
    weight, scales, biases = layer.weight[::2], layer.scales[::2], layer.biases[::2]
    pairs = (weight, ~weight), (scales, -scales), (biases, biases + 15 * scales)
    layer.weight, layer.scales, layer.biases = (mx.stack(pair, 1).flatten(0, 1) for pair in pairs)


@contextmanager
def on_metal(*, shim=SHIM):
    """Compute as on a Mac's GPU: quantized products by MLX's own Metal kernels, for several rows
    otherwise than for one, and other products rounded by the number of rows."""
    with (
        computing_as(GPU),
        mock.patch.object(mx, "quantized_matmul", partial(quantized_matmul, shim=shim)),
        mock.patch.object(nn.Linear, "__call__", rounded(nn.Linear.__call__)),
        mock.patch.object(nn.Embedding, "as_linear", rounded(nn.Embedding.as_linear)),
    ):
        yield


@contextmanager
def exactly(model, *, shim=SHIM):
    """Meanwhile let each of a few rows that the model reads have the bits of a row alone."""
    few_rows.install(model, few_rows.shapes_of(model), run=shim.metal_kernel)
    alone.install(model)
    try:
        yield
    finally:
        alone.remove(model)
