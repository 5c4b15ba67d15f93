"""Configs as the families publish them, and as nobody should."""

from collections import Counter

import pytest

from models.errors import Problem
from models.memory.shape import Layer, read_shape
from tests.support.models.model_folders import CONFIGS

LLAMA = CONFIGS["llama"]
DEEPSEEK = LLAMA | {
    "model_type": "deepseek_v3",
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}


STATED = {"sliding_window": 4096, "layer_types": ["sliding_attention"] * 32}
FULL_IN_FOUR = ["full_attention", *["sliding_attention"] * 3] * 8
PLAMO3 = LLAMA | {"model_type": "plamo3", "num_key_value_heads": 4, "head_dim": 128}


@pytest.mark.parametrize(
    ("config", "kinds", "layers"),
    [
        (LLAMA, {"full": 32}, {0: Layer("full", 1024, 1024)}),
        (
            CONFIGS["gemma3"],
            {"window": 29, "full": 5},
            {0: Layer("window", 1024, 1024, window=1024), 5: Layer("full", 1024, 1024)},
        ),
        (
            CONFIGS["gpt_oss"],
            {"window": 12, "full": 12},
            {0: Layer("window", 512, 512, window=128), 1: Layer("full", 512, 512)},
        ),
        (
            CONFIGS["gpt_oss"] | {"layer_types": ["full_attention", "sliding_attention"] * 12},
            {"window": 12, "full": 12},
            {0: Layer("full", 512, 512), 1: Layer("window", 512, 512, window=128)},
        ),
        (LLAMA | STATED, {"window": 32}, {}),
        (LLAMA | STATED | {"model_type": "qwen2"}, {"full": 32}, {}),  # MLX does not use it
        (LLAMA | {"sliding_window": 4096}, {"full": 32}, {}),  # Mistral 0.1 states one
        (
            LLAMA | {"model_type": "laguna", "layer_types": FULL_IN_FOUR, "sliding_window": 512},
            {"full": 8, "window": 24},
            {},
        ),
        (
            PLAMO3,
            {"window": 28, "full": 4},
            {0: Layer("window", 512, 512, window=2048), 7: Layer("full", 512, 512)},
        ),
        (
            PLAMO3 | {"window_size": 512},
            {"window": 28, "full": 4},
            {0: Layer("window", 512, 512, window=512)},
        ),
        (LLAMA | {"num_kv_shared_layers": 20}, {"full": 12, "none": 20}, {}),
        (
            CONFIGS["qwen3_next"],
            {"recurrent": 36, "full": 12},
            {
                0: Layer("recurrent", state=3 * 8192, exact_state=32 * 128 * 128),
                3: Layer("full", 512, 512),
            },
        ),
        (CONFIGS["lfm2"], {"recurrent": 10, "full": 6}, {}),
        (
            CONFIGS["lfm2"]
            | {"full_attn_idxs": None, "layer_types": ["conv", "full_attention"] * 8},
            {"recurrent": 8, "full": 8},
            {},
        ),
        (CONFIGS["nemotron"], {"recurrent": 1, "none": 2, "full": 1}, {}),
        (
            LLAMA | {"attn_layer_period": 8, "attn_layer_offset": 4},
            {"recurrent": 28, "full": 4},
            {},
        ),
        (CONFIGS["mamba"], {"recurrent": 24}, {0: Layer("recurrent", state=(3 + 16) * 1536)}),
    ],
)
def test_kinds_of_layers(config, kinds, layers):
    shape = read_shape(config)
    assert Counter(layer.kind for layer in shape.layers) == kinds
    assert {place: shape.layers[place] for place in layers} == layers


def test_all_else_of_a_shape():
    shape = read_shape(LLAMA)
    assert (shape.attention_heads, shape.head_dim, shape.vocabulary) == (32, 128, 128256)
    assert (shape.active_width, shape.context_length) == (14336, 131072)
    assert read_shape(CONFIGS["gemma3"]).vocabulary == 262208  # which its config leaves out
    assert read_shape(CONFIGS["gpt_oss"]).active_width == 4 * 2880
    mixed = read_shape(CONFIGS["qwen3_next"])
    assert (mixed.active_width, mixed.largest_matrix) == (11 * 512, 512 * 512 * 2048)


def test_latent_attention():
    assert read_shape(DEEPSEEK).layers[0] == Layer("full", 512, 64)
    expanded = read_shape(DEEPSEEK | {"model_type": "deepseek_v2"}).layers[0]
    assert expanded == Layer("full", 32 * 192, 32 * 128)
    for outer, inner in (
        ("mistral3", "mistral4"), ("kimi_k25", "kimi_k2"), ("glm_moe_dsa", "glm_moe_dsa")
    ):  # fmt: skip
        text = LLAMA | {"model_type": inner, "kv_lora_rank": 256, "qk_rope_head_dim": 64}
        shape = read_shape({"model_type": outer, "text_config": text})
        assert set(shape.layers) == {Layer("full", 256, 64)}


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
        read_shape(CONFIGS["qwen3_next"] | absurd)
    with pytest.raises(Problem, match="numbers of state"):
        read_shape(CONFIGS["mamba"] | {"intermediate_size": 1 << 26, "state_size": 1 << 26})
