"""Tiny targets of every architecture that several Macs can hold together: six layers, and heads
that two and three ranks can divide."""

import mlx.nn as nn

from tests.support.engine.tiny import Config, build

_DENSE: Config = {
    "hidden_size": 96,
    "num_hidden_layers": 6,
    "intermediate_size": 192,
    "num_attention_heads": 12,
    "num_key_value_heads": 6,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e4,
    "tie_word_embeddings": False,
}
_EXPERTS: Config = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 96,
    "shared_expert_intermediate_size": 96,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}
_SLIDING: Config = {
    "layer_types": ["full_attention", "sliding_attention"] * 3,
    "sliding_window": 16,
}
_LINEAR: Config = {  # layers 0, 2 and 4 are gated delta nets
    "full_attention_interval": 2,
    "linear_num_value_heads": 12,
    "linear_num_key_heads": 6,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "rope_parameters": {
        "type": "default",
        "mrope_section": [1, 1, 0],
        "rope_theta": 1e5,
        "partial_rotary_factor": 0.5,
    },
}
_LATENT: Config = _DENSE | {
    "num_key_value_heads": 12,
    "moe_intermediate_size": 96,
    "n_shared_experts": 1,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "n_group": 1,
    "topk_group": 1,
}
SHARED_TARGETS: dict[str, Config] = {
    "llama": _DENSE,
    "llama that slides": _DENSE | _SLIDING,
    "mistral": _DENSE,
    "ministral3": _DENSE
    | _SLIDING
    | {
        "rope_parameters": {
            "rope_theta": 1e4,
            "llama_4_scaling_beta": 0.1,
            "original_max_position_embeddings": 4,
        }
    },
    "qwen2": _DENSE,
    "qwen3": _DENSE,
    "qwen3 that ties its embedding": _DENSE | {"tie_word_embeddings": True},
    "qwen3_moe": _DENSE | _EXPERTS,
    "qwen3_next": _DENSE | _EXPERTS | _LINEAR | {"rope_theta": 1e5, "partial_rotary_factor": 0.5},
    "qwen3_5": _DENSE | _LINEAR,
    "qwen3_5_moe": _DENSE | _LINEAR | _EXPERTS,
    "gpt_oss": _DENSE
    | {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 16,
        "rope_theta": 10000,
    },
    "deepseek_v2": _LATENT
    | {
        "rope_scaling": {
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 64,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        }
    },
    "deepseek_v3": _LATENT,
    "kimi_k2": _LATENT,
    "glm4_moe": _DENSE
    | {
        "moe_intermediate_size": 96,
        "norm_topk_prob": True,
        "n_group": 1,
        "topk_group": 1,
        "n_shared_experts": 1,
        "n_routed_experts": 4,
        "routed_scaling_factor": 1.0,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "rope_scaling": None,
        "use_qk_norm": True,
        "attention_bias": False,
        "partial_rotary_factor": 0.5,
    },
}


def config_of(name: str) -> Config:
    """The config.json of one of them, but for its vocabulary."""
    return SHARED_TARGETS[name] | {"model_type": name.split()[0], "vocab_size": 64}


def shared_target(name: str) -> nn.Module:
    """Build the target `name` of `SHARED_TARGETS`, alike in every process."""
    return build(name.split()[0], sizes=SHARED_TARGETS[name])
