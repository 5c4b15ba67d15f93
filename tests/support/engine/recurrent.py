"""Tiny models of the other recurrent architectures of mlx-lm, beside those of `tiny`."""

from typing import Any
from unittest import mock

import mlx.nn as nn

from tests.support.engine import tiny

_COMMON: tiny.Config = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
}
_EXPERTS: tiny.Config = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_shared_experts": 1,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
    "norm_topk_prob": True,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
_DELTA_NET: tiny.Config = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 2,
}
_LATENT_ATTENTION: tiny.Config = {
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}

# Every one that keeps what a tape needs.
TAPED: dict[str, tiny.Config] = {
    "qwen3_next": _COMMON
    | _EXPERTS
    | _DELTA_NET
    | {"decoder_sparse_step": 2, "mlp_only_layers": [], "partial_rotary_factor": 0.25},
    "nemotron_h": _COMMON
    | {
        "hybrid_override_pattern": list("M*M-"),
        "mamba_num_heads": 4,
        "mamba_head_dim": 32,
        "mamba_proj_bias": False,
        "ssm_state_size": 16,
        "conv_kernel": 4,
        "n_groups": 2,
        "mlp_bias": False,
        "layer_norm_epsilon": 1e-5,
        "use_bias": False,
        "use_conv_bias": True,
    },
    "mamba2": {
        "num_heads": 4,
        "head_dim": 32,
        "hidden_size": 64,
        "intermediate_size": 128,
        "state_size": 16,
        "num_hidden_layers": 3,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 2,
        "use_bias": False,
        "use_conv_bias": True,
        "tie_word_embeddings": False,
        "time_step_limit": (0.0, float("inf")),
        "time_step_rank": "auto",
    },
    "granitemoehybrid": _COMMON
    | {
        "embedding_multiplier": 1.0,
        "attention_multiplier": 0.25,
        "logits_scaling": 1.0,
        "residual_multiplier": 1.0,
        "layer_types": ["mamba", "attention", "mamba", "attention"],
        "mamba_n_heads": 4,
        "mamba_d_head": 32,
        "mamba_proj_bias": False,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_n_groups": 2,
        "mamba_conv_bias": True,
    },
    "plamo2": _COMMON
    | {"hidden_size_per_head": 16, "mamba_d_state": 16, "mamba_num_heads": 4, "mamba_step": 2},
    "jamba": _COMMON
    | _EXPERTS
    | {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 8,
        "mamba_expand": 2,
    },
    "lfm2_moe": _COMMON
    | _EXPERTS
    | {
        "use_expert_bias": True,
        "num_dense_layers": 2,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "full_attn_idxs": [1, 3],
    },
    "kimi_linear": _COMMON
    | _EXPERTS
    | _LATENT_ATTENTION
    | {
        "linear_attn_config": {
            "num_heads": 2,
            "head_dim": 32,
            "short_conv_kernel_size": 4,
            "kda_layers": [1, 3],
            "full_attn_layers": [2, 4],
        },
        "model_max_length": 4096,
    },
    "olmo_hybrid": _COMMON
    | _DELTA_NET
    | {
        "linear_allow_neg_eigval": True,
        "layer_types": ["linear_attention", "full_attention"] * 2,
    },
    "bailing_moe_v3": _COMMON | _EXPERTS | _LATENT_ATTENTION | {"layer_group_size": 2},
    "bailing_moe_linear": _COMMON | _EXPERTS | {"layer_group_size": 2, "group_norm_size": 1},
    "bailing_hybrid": _COMMON
    | _EXPERTS
    | _LATENT_ATTENTION
    | {"layer_group_size": 2, "group_norm_size": 1, "routed_scaling_factor": 1.0},
    "gear": _COMMON | {"layer_types": ["conv_mixer", "full_attention"] * 2},
}

# Their whole rounds are taken back: states made in ways of their own, or caches within caches.
NOT_TAPED: dict[str, tiny.Config] = {
    "rwkv7": _COMMON
    | {
        "norm_eps": 1e-5,
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "decay_low_rank_dim": 8,
    },
    "recurrent_gemma": _COMMON
    | {
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "attention_window_size": 16,
        "block_types": ["recurrent", "attention"],
    },
    "falcon_h1": _COMMON
    | {
        "mamba_d_conv": 4,
        "mamba_d_head": 32,
        "mamba_d_ssm": 128,
        "mamba_d_state": 16,
        "mamba_n_groups": 2,
        "mamba_n_heads": 4,
        "projectors_bias": False,
    },
}


def build(architecture: str, **options: Any) -> nn.Module:
    """Build as `tiny.build`."""
    with mock.patch.dict(tiny._CONFIGS, TAPED | NOT_TAPED):
        return tiny.build(architecture, **options)
