"""The architectures that are read from GGUF files: a row of data each.

A row says under which names llama.cpp writes settings and tensors, and which names mlx-lm has for
them. The names come from llama.cpp's `gguf-py` (constants.py, tensor_mapping.py) and of its
converters. `config.py` reads settings by a row, `tensors.py` tensors.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from models.gguf.file import GgufFile

# Name in the file -> name in mlx-lm, and the shape there by the names of `tensors.sizes`. The file
# has no axis for a length of 1.
Names = Mapping[str, tuple[str, str]]

EMBEDDING, HEAD = "token_embd.weight", "output.weight"


@dataclass(frozen=True)
class Architecture:
    """How llama.cpp and mlx-lm write the models of an architecture.

    integers, floats: key of config.json -> key of the metadata, or that and its default.
    constants: settings of config.json that the file does not state.
    complete: makes the settings that depend on others, from the file and the config so far.
    outside, layer: the tensors outside the layers, and in each layer. kinds: tensors of special
        layers, by their name in `layer_types`; the file gives layers without attention 0 key heads.
    interleaved: whether the file interleaves the two halves of each query and key head.
    norm_offset: the number that llama.cpp added to the weights of all norms.
    scalings: the position scalings that mlx-lm's module computes.
    head: whether the output layer has weights of its own.
    any_head_width: whether mlx-lm takes a width of heads besides width / heads.
    partly_rotated: whether only a part of each head may be rotated.
    window: what mlx-lm does with the window of attention.
    float_type: the float type of 16 bits that holds the activations.
    """

    model_type: str
    class_name: str
    layer: Names
    integers: Mapping[str, str | tuple[str, int]] = field(default_factory=dict)
    floats: Mapping[str, str | tuple[str, float]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    complete: Callable[[GgufFile, Mapping[str, Any]], dict[str, Any]] = lambda file, config: {}
    outside: Names = field(default_factory=lambda: _OUTSIDE)
    kinds: Mapping[str, Names] = field(default_factory=dict)
    interleaved: bool = False
    norm_offset: float = 0.0
    scalings: frozenset[str] = frozenset({"linear", "yarn"})
    head: Literal["maybe", "always", "never"] = "maybe"
    any_head_width: bool = True
    partly_rotated: bool = False
    window: Literal["none", "ignored", "used"] = "none"
    float_type: Literal["F16", "BF16"] = "F16"


_OUTSIDE: Names = {
    EMBEDDING: ("model.embed_tokens.weight", "vocabulary width"),
    "output_norm.weight": ("model.norm.weight", "width"),
    HEAD: ("lm_head.weight", "vocabulary width"),
}
_ATTENTION: Names = {
    "attn_norm.weight": ("input_layernorm.weight", "width"),
    "attn_q.weight": ("self_attn.q_proj.weight", "queries width"),
    "attn_k.weight": ("self_attn.k_proj.weight", "keys width"),
    "attn_v.weight": ("self_attn.v_proj.weight", "keys width"),
    "attn_output.weight": ("self_attn.o_proj.weight", "width queries"),
}
_ATTENTION_BIASES: Names = {
    "attn_q.bias": ("self_attn.q_proj.bias", "queries"),
    "attn_k.bias": ("self_attn.k_proj.bias", "keys"),
    "attn_v.bias": ("self_attn.v_proj.bias", "keys"),
}
_ATTENTION_NORMS: Names = {
    "attn_q_norm.weight": ("self_attn.q_norm.weight", "head_width"),
    "attn_k_norm.weight": ("self_attn.k_norm.weight", "head_width"),
}
_FEED_FORWARD: Names = {
    "ffn_norm.weight": ("post_attention_layernorm.weight", "width"),
    "ffn_gate.weight": ("mlp.gate_proj.weight", "inner width"),
    "ffn_up.weight": ("mlp.up_proj.weight", "inner width"),
    "ffn_down.weight": ("mlp.down_proj.weight", "width inner"),
}
_LLAMA: Names = {**_ATTENTION, **_FEED_FORWARD}


def _experts(place: str) -> Names:
    return {
        "ffn_gate_exps.weight": (f"mlp.{place}.gate_proj.weight", "experts expert_inner width"),
        "ffn_up_exps.weight": (f"mlp.{place}.up_proj.weight", "experts expert_inner width"),
        "ffn_down_exps.weight": (f"mlp.{place}.down_proj.weight", "experts width expert_inner"),
    }


def _gemma3(file: GgufFile, config: Mapping[str, Any]) -> dict[str, Any]:
    """Only the largest model, of 62 layers, scales its attention in another way."""
    usual = config["hidden_size"] // config["num_attention_heads"]
    return {
        "query_pre_attn_scalar": usual if config["num_hidden_layers"] == 62 else config["head_dim"]
    }


def _ministral3(file: GgufFile, config: Mapping[str, Any]) -> dict[str, Any]:
    """Without a temperature of attention, as before Ministral 3, its factor is always 1."""
    return {
        "rope_parameters": {
            "rope_type": "default",
            "original_max_position_embeddings": config["max_position_embeddings"],
            **config.get("rope_scaling", {}),
            "rope_theta": config["rope_theta"],
            "llama_4_scaling_beta": file.number("mistral3.attention.temperature_scale", 0.0),
        }
    }


def _phi3(file: GgufFile, config: Mapping[str, Any]) -> dict[str, Any]:
    rotated = file.integer("phi3.rope.dimension_count", config["head_dim"])
    return {
        "partial_rotary_factor": rotated / max(1, config["head_dim"]),
        "original_max_position_embeddings": file.integer(
            "phi3.rope.scaling.original_context_length", config["max_position_embeddings"]
        ),
    }


def _gpt_oss(file: GgufFile, config: Mapping[str, Any]) -> dict[str, Any]:
    turns = ("sliding_attention", "full_attention")
    return {"layer_types": [turns[layer % 2] for layer in range(config["num_hidden_layers"])]}


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "llama": Architecture(
            "llama",
            "LlamaForCausalLM",
            _LLAMA,
            interleaved=True,
            scalings=frozenset({"linear", "yarn", "llama3"}),
        ),
        "qwen2": Architecture(
            "qwen2", "Qwen2ForCausalLM", {**_LLAMA, **_ATTENTION_BIASES}, any_head_width=False
        ),
        "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", {**_LLAMA, **_ATTENTION_NORMS}),
        "qwen3moe": Architecture(
            "qwen3_moe",
            "Qwen3MoeForCausalLM",
            {
                **_ATTENTION,
                **_ATTENTION_NORMS,
                "ffn_norm.weight": _FEED_FORWARD["ffn_norm.weight"],
                "ffn_gate_inp.weight": ("mlp.gate.weight", "experts width"),
                **_experts("switch_mlp"),
            },
            integers={
                "intermediate_size": ("feed_forward_length", 0),
                "num_experts": "expert_count",
                "num_experts_per_tok": "expert_used_count",
                "moe_intermediate_size": "expert_feed_forward_length",
            },
            constants={"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True},
        ),
        "gemma3": Architecture(
            "gemma3_text",
            "Gemma3ForCausalLM",
            {
                **_LLAMA,
                **_ATTENTION_NORMS,
                "post_attention_norm.weight": ("post_attention_layernorm.weight", "width"),
                "ffn_norm.weight": ("pre_feedforward_layernorm.weight", "width"),
                "post_ffw_norm.weight": ("post_feedforward_layernorm.weight", "width"),
            },
            integers={
                "sliding_window": "attention.sliding_window",
                "sliding_window_pattern": ("attention.sliding_window_pattern", 6),
            },
            floats={
                "rope_theta": ("rope.freq_base", 1_000_000.0),
                "rope_local_base_freq": ("rope.freq_base_swa", 10_000.0),
            },
            constants={"hidden_act": "gelu_pytorch_tanh"},
            complete=_gemma3,
            norm_offset=1.0,
            scalings=frozenset({"linear"}),
            window="used",
            float_type="BF16",
        ),
        "mistral3": Architecture(
            "ministral3",
            "Ministral3ForCausalLM",
            _LLAMA,
            complete=_ministral3,
            interleaved=True,
        ),
        "phi3": Architecture(
            "phi3",
            "Phi3ForCausalLM",
            {
                "attn_norm.weight": _ATTENTION["attn_norm.weight"],
                "attn_qkv.weight": ("self_attn.qkv_proj.weight", "queries_keys_values width"),
                "attn_output.weight": _ATTENTION["attn_output.weight"],
                "ffn_norm.weight": _FEED_FORWARD["ffn_norm.weight"],
                "ffn_up.weight": ("mlp.gate_up_proj.weight", "gate_and_up width"),
                "ffn_down.weight": _FEED_FORWARD["ffn_down.weight"],
            },
            complete=_phi3,
            scalings=frozenset({"linear", "longrope"}),
            any_head_width=False,
            partly_rotated=True,
            window="ignored",  # by llama.cpp, too
        ),
        "smollm3": Architecture(
            "smollm3",
            "SmolLM3ForCausalLM",
            _LLAMA,
            constants={"no_rope_layer_interval": 4},
            interleaved=True,
            scalings=frozenset({"linear", "yarn", "llama3"}),
        ),
        "lfm2": Architecture(
            "lfm2",
            "Lfm2ForCausalLM",
            {
                "attn_norm.weight": ("operator_norm.weight", "width"),
                "ffn_norm.weight": ("ffn_norm.weight", "width"),
                "ffn_gate.weight": ("feed_forward.w1.weight", "inner width"),
                "ffn_up.weight": ("feed_forward.w3.weight", "inner width"),
                "ffn_down.weight": ("feed_forward.w2.weight", "width inner"),
            },
            integers={"conv_L_cache": "shortconv.l_cache", "block_dim": "embedding_length"},
            floats={"norm_eps": "attention.layer_norm_rms_epsilon"},
            constants={
                "conv_bias": False,
                "block_multiple_of": 256,
                "block_ffn_dim_multiplier": 1.0,
                "block_auto_adjust_ff_dim": False,  # the file states the width that came of it
            },
            outside={
                EMBEDDING: _OUTSIDE[EMBEDDING],
                "token_embd_norm.weight": ("model.embedding_norm.weight", "width"),
            },
            kinds={
                "full_attention": {
                    "attn_q.weight": _ATTENTION["attn_q.weight"],
                    "attn_k.weight": _ATTENTION["attn_k.weight"],
                    "attn_v.weight": _ATTENTION["attn_v.weight"],
                    "attn_output.weight": ("self_attn.out_proj.weight", "width queries"),
                    "attn_q_norm.weight": ("self_attn.q_layernorm.weight", "head_width"),
                    "attn_k_norm.weight": ("self_attn.k_layernorm.weight", "head_width"),
                },
                "conv": {
                    "shortconv.conv.weight": ("conv.conv.weight", "width kernel 1"),
                    "shortconv.in_proj.weight": ("conv.in_proj.weight", "three_widths width"),
                    "shortconv.out_proj.weight": ("conv.out_proj.weight", "width width"),
                },
            },
            scalings=frozenset(),
            head="never",
            any_head_width=False,
        ),
        "gpt-oss": Architecture(
            "gpt_oss",
            "GptOssForCausalLM",
            {
                **_ATTENTION,
                **_ATTENTION_BIASES,
                "attn_output.bias": ("self_attn.o_proj.bias", "width"),
                "attn_sinks.weight": ("self_attn.sinks", "heads"),
                "post_attention_norm.weight": ("post_attention_layernorm.weight", "width"),
                "ffn_gate_inp.weight": ("mlp.router.weight", "experts width"),
                "ffn_gate_inp.bias": ("mlp.router.bias", "experts"),
                **_experts("experts"),
                "ffn_gate_exps.bias": ("mlp.experts.gate_proj.bias", "experts expert_inner"),
                "ffn_up_exps.bias": ("mlp.experts.up_proj.bias", "experts expert_inner"),
                "ffn_down_exps.bias": ("mlp.experts.down_proj.bias", "experts width"),
            },
            integers={
                "intermediate_size": "expert_feed_forward_length",
                "num_local_experts": "expert_count",
                "num_experts_per_tok": "expert_used_count",
                "sliding_window": "attention.sliding_window",
            },
            complete=_gpt_oss,
            head="always",
            window="used",
            float_type="BF16",
        ),
    }
)
OTHER_MODEL = (
    "Read are Llama, Qwen2, Qwen3, Qwen3-MoE, Gemma 3, Mistral 3, Phi-3 and Phi-4, SmolLM3, LFM2 "
    "and gpt-oss: use a file of these, or an MLX version of this model."
)
