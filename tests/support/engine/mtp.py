"""Tiny targets with MTP modules, and modules for them, untrained: as published and in memory."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from engine.core.decoder import Decoder
from engine.core.model_parts import new_layer
from engine.drafters.mtp import MtpModule, MtpNetwork
from engine.drafters.states import StateDrafter
from tests.support.engine import tiny
from tests.support.engine.tiny import GAIN, Config, build

_QWEN: Config = tiny._CONFIGS["qwen3_5"] | {
    "num_hidden_layers": 2,
    "rms_norm_eps": 1e-6,
    "linear_conv_kernel_dim": 4,
}
_EXPERTS: Config = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "norm_topk_prob": True,
}
_LATENT: Config = {  # DeepSeek's attention, whose keys and values are one vector
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_shared_experts": 1,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "max_position_embeddings": 4096,
    "rope_theta": 1e4,
}
TARGETS: dict[str, Config] = {
    "qwen3_5": _QWEN,
    "qwen3_5_moe": _QWEN | _EXPERTS,
    "qwen3_next": _QWEN
    | _EXPERTS
    | {
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "rope_theta": 1e5,
        "partial_rotary_factor": 0.25,
    },
    "deepseek_v3": _LATENT,
    "glm4_moe_lite": _LATENT,
    "mimo": {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
    },
}

# How the names of Qwen's tensors begin, by our parts.
PUBLISHED = {
    "fuse": "fc.",
    "token_norm": "pre_fc_norm_embedding.",
    "state_norm": "pre_fc_norm_hidden.",
    "norm": "norm.",
    "layer": "layers.0.",
}


@cache
def build_target(architecture: str, *, seed: int = 0, vocabulary: int = 64) -> nn.Module:
    """Build the target `architecture` of `TARGETS`."""
    return build(architecture, seed=seed, vocabulary=vocabulary, sizes=TARGETS[architecture])


def untrained(model: nn.Module, *, seed: int = 0) -> MtpModule:
    """A module for a target, whose states vary."""
    mx.random.seed(seed)
    module = MtpModule(new_layer(model), state_first=model.model_type == "mimo")
    matrices = {n: GAIN * a for n, a in tree_flatten(module.parameters()) if a.ndim > 1}
    module.load_weights(list(matrices.items()), strict=False)
    module.eval()
    mx.eval(module.parameters())
    return module


def drafter_by(
    module: MtpModule, target: Decoder, *, kept: list[int] | None = None
) -> StateDrafter:
    return StateDrafter(target, MtpNetwork(module, target, kept=kept), name="MTP")


def mtp_drafter(target: Decoder, *, seed: int = 0) -> StateDrafter:
    """Return a drafter with an untrained module."""
    return drafter_by(untrained(target.model, seed=seed), target)


def write_sidecar(module: nn.Module, folder: Path, **config: Any) -> Path:
    """`module` as MLX's converters write it, with these entries in its config.json."""
    tensors = {
        PUBLISHED[name.split(".")[0]] + name.partition(".")[2]: array
        for name, array in tree_flatten(module.parameters())
    }
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3_5_mtp"} | config))
    return folder
