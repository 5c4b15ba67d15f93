"""Configs as the families publish them, and as no one should."""

import json
from collections import Counter

import pytest

from models.catalog import load_catalog
from models.drafters.folders import describe_drafter
from models.errors import Problem
from models.memory.model_size import ModelSize, count_values, float_bytes, weigh
from models.memory.parameters import count_parameters
from models.memory.shape import Layer, read_shape
from models.model_folder import ModelFolder
from models.safetensors_file import SafetensorsWriter, TensorLayout
from tests.support.models.model_folders import CONFIGS

LLAMA = CONFIGS["llama"]
DEEPSEEK = LLAMA | {
    "model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128,
}  # fmt: skip


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
        (DEEPSEEK, {"full": 32}, {0: Layer("full", 512, 64)}),
        (
            DEEPSEEK | {"model_type": "deepseek_v2"},
            {"full": 32},
            {0: Layer("full", 32 * 192, 32 * 128)},
        ),
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
    for outer, inner in (
        ("mistral3", "mistral4"), ("kimi_k25", "kimi_k2"), ("glm_moe_dsa", "glm_moe_dsa")
    ):  # fmt: skip
        text = LLAMA | {"model_type": inner, "kv_lora_rank": 256, "qk_rope_head_dim": 64}
        shape = read_shape({"model_type": outer, "text_config": text})
        assert set(shape.layers) == {Layer("full", 256, 64)}


def test_what_is_missing_or_absurd_is_a_problem(subtests):
    for key in ["hidden_size", "num_hidden_layers", "vocab_size"]:
        for value in [None, True, -1, 0, 1.5, "8", [], {}, [[]]]:
            missing = pytest.raises(Problem, match=f"does not say its {key}")
            with subtests.test(key=key, value=value), missing:
                read_shape(LLAMA | {key: value})
    for key in [*LLAMA.keys() - {"model_type"}, "head_dim", "num_experts", "sliding_window"]:
        with subtests.test(key=key), pytest.raises(Problem, match=key):
            read_shape(LLAMA | {key: 10**12})
    heads = {"linear_num_value_heads": 1 << 26, "linear_value_head_dim": 1 << 26}
    wide = {"intermediate_size": 1 << 26, "state_size": 1 << 26}
    for absurd in (CONFIGS["qwen3_next"] | heads, CONFIGS["mamba"] | wide):
        with pytest.raises(Problem, match="numbers of state"):
            read_shape(absurd)


# Published numbers of weights come out of configs, and no config makes counting fail.


SMALL = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
    "tie_word_embeddings": True,
}  # fmt: skip


# Weights and active weights in billions, as their makers state them.
def test_published_numbers(subtests):
    for name, total, active in [
        ("Llama-3.3-70B-Instruct-4bit", 70.6, 69.5),  # of the embedding, one row
        ("Qwen3-30B-A3B-Instruct-2507-4bit", 30.5, 3.3 - 0.31),
        ("gpt-oss-120b-MXFP4-Q8", 116.8, 5.1),
        ("Mistral-Large-Instruct-2407-4bit", 122.6, 122.2),
    ]:
        with subtests.test(name=name):
            counted = count_parameters(load_catalog().models[f"mlx-community/{name}"].config)
            assert counted.total / 1e9 == pytest.approx(total, rel=0.01)
            assert counted.active / 1e9 == pytest.approx(active, rel=0.03)


def test_small_models_by_hand():
    counted = count_parameters(SMALL)
    attention, mlp = 64 * 64 * 2 + 64 * 32 * 2, 3 * 64 * 128
    assert counted.layers == counted.active_layers == 4 * (attention + mlp)
    assert counted.total == counted.layers + 6400
    assert counted.active_share == 1.0
    untied = count_parameters({**SMALL, "tie_word_embeddings": False})
    assert untied.total == counted.total + 6400
    assert untied.active == counted.active
    assert counted.exit_share(0.5) == (counted.layers / 2 + 6400) / counted.total
    # Experts that all tokens share, and a layer without experts.
    mixture = SMALL | {
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "n_shared_experts": 1, "first_k_dense_replace": 1,
    }  # fmt: skip
    counted, expert, router = count_parameters(mixture), 3 * 64 * 32, 64 * 8
    rest = 4 * attention + mlp
    assert counted.layers == rest + 3 * (8 * expert + expert + router)
    assert counted.active_layers == rest + 3 * (2 * expert + expert + router)
    more = count_parameters(mixture | {"num_experts_per_tok": 20})  # than there are
    assert more.active_layers == more.layers


def test_what_is_not_told_is_not_guessed(subtests):
    for changed in [
        {"num_hidden_layers": 10**8},
        {"layer_types": ["mystery"] * 4},
        {"layer_types": ["linear_attention"] * 4},  # of no size
        {"kv_lora_rank": 512},
        {"num_experts": 8},  # and how many are asked is not said
    ]:
        with subtests.test(changed=changed):
            assert count_parameters({**SMALL, **changed}) is None


# How large models are, by the headers of files that are made here.


CONFIG = {"model_type": "llama", "hidden_size": 64, "vocab_size": 128, "num_hidden_layers": 1}


def write(folder, layouts, *, name="model"):
    folder.mkdir(exist_ok=True)
    with SafetensorsWriter(folder / f"{name}.safetensors", layouts) as writer:
        for tensor, layout in layouts.items():
            writer.write(tensor, bytes(layout.size_bytes))


def model(folder, layouts, **config):
    write(folder, layouts)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def packed(name, *, bits, rows=128, group=64):
    """A matrix of `rows` times 64 in groups."""
    return {
        f"{name}.weight": TensorLayout("U32", (rows, 64 * bits // 32)),
        f"{name}.scales": TensorLayout("F16", (rows, 64 // group)),
        f"{name}.biases": TensorLayout("F16", (rows, 64 // group)),
    }


def test_weights_of_mixed_widths_and_of_a_head_are_counted(tmp_path):
    layouts = packed("embed", bits=8) | packed("up", bits=4) | {"norm": TensorLayout("F16", (64,))}
    settings = {"bits": 4, "group_size": 64, "embed": {"bits": 8, "group_size": 64}}
    size = weigh(ModelFolder(model(tmp_path / "mixed", layouts, quantization=settings)))
    assert size.name == "mixed"
    assert size.size_bytes == 128 * 64 * 12 // 8 + 4 * 128 * 2 + 128
    assert (count_values(size), float_bytes(size)) == (2 * 128 * 64 + 64, 2)
    head = tmp_path / "head"
    write(head, packed("fuse", bits=8) | {"kept": TensorLayout("I32", (8,))}, name="head")
    config = {"model_type": "slipstream-head", "target_fingerprint": "0" * 16, "target": "t"}
    (head / "config.json").write_text(json.dumps(config))
    size = weigh(describe_drafter(head))
    assert size.network.kind == "head"
    assert count_values(size) == 128 * 64 + 8


def test_what_is_loaded_counts_whatever_the_file(tmp_path, subtests):
    for dtype, wide in [("F32", 4), ("F16", 2), ("BF16", 2)]:
        with subtests.test(dtype=dtype):
            layouts = {
                "model.embed.weight": TensorLayout(dtype, (128, 64)),
                "vision_tower.layers.0.weight": TensorLayout(dtype, (512, 64)),
                "model.mtp.0.weight": TensorLayout(dtype, (512, 64)),
            }
            folder = model(tmp_path / dtype, layouts)
            write(folder, {"b": TensorLayout(dtype, (64,))}, name="model-more")
            write(folder, {"c": TensorLayout(dtype, (64,))}, name="consolidated")
            size = weigh(ModelFolder(folder))
            assert (count_values(size), float_bytes(size)) == (128 * 64 + 64, wide)
            assert size.size_bytes == (128 * 64 + 64) * wide


def test_without_a_folder_size_and_bits_tell(subtests):
    for config, values in [
        ({"quantization": {"bits": 4, "group_size": 64}}, 2000),
        ({"quantization": {"bits": 8}}, 9000 // 8.5),
        ({"quantization": {"bits": "x", "group_size": None}}, 9000 // 8.5),
        ({"quantization": {"bits": 4, "group_size": -1}}, 2000),
        ({"torch_dtype": "bfloat16"}, 1125 // 2),
        ({"quantization": "none"}, 1125 // 2),
    ]:
        with subtests.test(config=config):
            assert count_values(ModelSize("far", 1125, CONFIG | config)) == pytest.approx(
                values, abs=1
            )
