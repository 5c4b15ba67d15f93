"""Configs as the families publish them, and as nobody should."""

from collections import Counter

import pytest

from models.errors import Problem
from models.memory.shape import Layer, read_shape

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
}
GEMMA3 = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "num_hidden_layers": 34,
        "intermediate_size": 10240,
        "sliding_window": 1024,
    },
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_hidden_layers": 24,
    "intermediate_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "vocab_size": 201088,
}
QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "intermediate_size": 5120,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "vocab_size": 151936,
}
LFM2 = {
    "model_type": "lfm2",
    "hidden_size": 1024,
    "num_hidden_layers": 16,
    "block_ff_dim": 6656,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "conv_L_cache": 3,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    "vocab_size": 65536,
}
MAMBA = {
    "model_type": "mamba",
    "hidden_size": 768,
    "intermediate_size": 1536,
    "state_size": 16,
    "num_hidden_layers": 24,
    "conv_kernel": 4,
    "vocab_size": 50280,
}
DEEPSEEK = LLAMA | {
    "model_type": "deepseek_v3",
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
NEMOTRON = LLAMA | {
    "model_type": "nemotron_h",
    "num_hidden_layers": 4,
    "hybrid_override_pattern": "M-*E",
    "ssm_state_size": 128,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
}


def kinds(config):
    return Counter(layer.kind for layer in read_shape(config).layers)


def test_a_plain_model():
    shape = read_shape(LLAMA)
    assert shape.layers == (Layer("full", 1024, 1024),) * 32
    assert (shape.attention_heads, shape.head_dim, shape.vocabulary) == (32, 128, 128256)
    assert shape.active_width == 14336
    assert shape.context_length == 131072


def test_windows_of_gemma_and_what_its_configs_leave_out():
    shape = read_shape(GEMMA3)
    assert kinds(GEMMA3) == {"window": 29, "full": 5}
    assert [i for i, layer in enumerate(shape.layers) if layer.kind == "full"] == [
        5,
        11,
        17,
        23,
        29,
    ]
    assert shape.layers[0] == Layer("window", 1024, 1024, window=1024)
    assert shape.vocabulary == 262208


def test_windows_of_gpt_oss_alternate():
    shape = read_shape(GPT_OSS)
    assert [layer.kind for layer in shape.layers[:4]] == ["window", "full", "window", "full"]
    named = GPT_OSS | {"layer_types": ["full_attention", "sliding_attention"] * 12}
    assert [layer.kind for layer in read_shape(named).layers[:2]] == ["full", "window"]
    assert shape.active_width == 4 * 2880


def test_a_window_that_mlx_does_not_use():
    stated = {"sliding_window": 4096, "layer_types": ["sliding_attention"] * 32}
    assert kinds(LLAMA | stated | {"model_type": "qwen2"}) == {"full": 32}
    assert kinds(LLAMA | stated) == {"window": 32}
    assert kinds(LLAMA | {"sliding_window": 4096}) == {"full": 32}, "Mistral 0.1 states one"


def test_hybrids():
    shape = read_shape(QWEN3_NEXT)
    assert kinds(QWEN3_NEXT) == {"recurrent": 36, "full": 12}
    mixed = 2 * 16 * 128 + 32 * 128
    exact = 32 * 128 * 128
    assert shape.layers[0] == Layer("recurrent", state=3 * mixed, exact_state=exact)
    assert shape.layers[3] == Layer("full", 512, 512)
    assert shape.active_width == 11 * 512
    assert shape.largest_matrix == 512 * 512 * 2048
    assert kinds(LFM2) == {"recurrent": 10, "full": 6}
    named = {key: value for key, value in LFM2.items() if key != "full_attn_idxs"}
    assert kinds(named | {"layer_types": ["conv", "full_attention"] * 8}) == {
        "recurrent": 8,
        "full": 8,
    }
    assert kinds(NEMOTRON) == {"recurrent": 1, "none": 2, "full": 1}
    assert kinds(LLAMA | {"attn_layer_period": 8, "attn_layer_offset": 4}) == {
        "recurrent": 28,
        "full": 4,
    }


def test_recurrent_models_keep_no_positions():
    shape = read_shape(MAMBA)
    assert kinds(MAMBA) == {"recurrent": 24}
    assert shape.layers[0] == Layer("recurrent", state=(3 + 16) * 1536)


def test_latent_attention():
    assert read_shape(DEEPSEEK).layers[0] == Layer("full", 512, 64)
    expanded = read_shape(DEEPSEEK | {"model_type": "deepseek_v2"}).layers[0]
    assert expanded == Layer("full", 32 * 192, 32 * 128)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("mistral3", "mistral4"), ("kimi_k25", "kimi_k2"), ("glm_moe_dsa", "glm_moe_dsa")],
)
def test_latent_attention_of_a_text_model_within(outer, inner):
    text = LLAMA | {"model_type": inner, "kv_lora_rank": 256, "qk_rope_head_dim": 64}
    shape = read_shape({"model_type": outer, "text_config": text})
    assert set(shape.layers) == {Layer("full", 256, 64)}
    for absurd in ([], {}, 3):
        read_shape({"model_type": outer, "text_config": text | {"model_type": absurd}})


def test_windows_of_laguna():
    kinds = ["full_attention", *["sliding_attention"] * 3] * 8
    shape = read_shape(
        LLAMA | {"model_type": "laguna", "layer_types": kinds, "sliding_window": 512}
    )
    assert Counter(layer.kind for layer in shape.layers) == {"full": 8, "window": 24}


@pytest.mark.parametrize(("stated", "window"), [({}, 2048), ({"window_size": 512}, 512)])
def test_windows_of_plamo3(stated, window):
    config = LLAMA | {"model_type": "plamo3", "num_key_value_heads": 4, "head_dim": 128} | stated
    assert kinds(config) == {"window": 28, "full": 4}
    assert read_shape(config).layers[0] == Layer("window", 512, 512, window=window)
    assert read_shape(config).layers[7] == Layer("full", 512, 512)


def test_layers_that_share_what_others_keep():
    assert kinds(LLAMA | {"num_kv_shared_layers": 20}) == {"full": 12, "none": 20}


def test_what_is_missing_is_a_problem(subtests):
    for key in ["hidden_size", "num_hidden_layers", "vocab_size"]:
        for value in [None, True, -1, 0, 1.5, "8", [], {}, [[]]]:
            missing = pytest.raises(Problem, match=f"does not say its {key}")
            with subtests.test(key=key, value=value), missing:
                read_shape(LLAMA | {key: value})


def test_absurd_values_are_refused(subtests):
    for key in [*LLAMA.keys() - {"model_type"}, "head_dim", "num_experts", "sliding_window"]:
        with subtests.test(key=key), pytest.raises(Problem, match=key):
            read_shape(LLAMA | {key: 10**12})


def test_absurd_states_are_refused():
    absurd = {"linear_num_value_heads": 1 << 26, "linear_value_head_dim": 1 << 26}
    with pytest.raises(Problem, match="numbers of state"):
        read_shape(QWEN3_NEXT | absurd)
    with pytest.raises(Problem, match="numbers of state"):
        read_shape(MAMBA | {"intermediate_size": 1 << 26, "state_size": 1 << 26})


def test_a_number_too_large_for_a_float_is_refused_like_any_other():
    with pytest.raises(Problem, match=r"1e\+300"):
        read_shape({"model_type": "llama", "hidden_size": 10**400})
