"""Published numbers of weights come out of configs, and no config makes counting fail."""

import pytest

from models.catalog import load_catalog
from models.memory.parameters import count_parameters

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
    "tie_word_embeddings": True,
}  # fmt: skip


# Weights and active weights in billions, as their makers state them.
def test_published_numbers(subtests):
    for name, total, active in [
        ("Llama-3.2-1B-Instruct-4bit", 1.24, 1.24),
        ("Llama-3.3-70B-Instruct-4bit", 70.6, 69.5),  # of the embedding, one row
        ("Qwen3-30B-A3B-Instruct-2507-4bit", 30.5, 3.3 - 0.31),
        ("gpt-oss-20b-MXFP4-Q8", 20.9, 3.6),
        ("gpt-oss-120b-MXFP4-Q8", 116.8, 5.1),
        ("Qwen3.5-35B-A3B-4bit", 34.7, 3.0),
        ("LFM2-350M-4bit", 0.354, 0.354),
        ("gemma-3-270m-it-4bit", 0.268, 0.268),
        ("Mistral-Large-Instruct-2407-4bit", 122.6, 122.2),
    ]:
        with subtests.test(name=name):
            counted = count_parameters(load_catalog().models[f"mlx-community/{name}"].config)
            assert counted.total / 1e9 == pytest.approx(total, rel=0.01)
            assert counted.active / 1e9 == pytest.approx(active, rel=0.03)


def test_a_small_model_by_hand():
    counted = count_parameters(LLAMA)
    assert counted is not None
    attention, mlp = 64 * 64 * 2 + 64 * 32 * 2, 3 * 64 * 128
    assert counted.layers == counted.active_layers == 4 * (attention + mlp)
    assert counted.total == counted.layers + 6400
    assert counted.active_share == 1.0
    untied = count_parameters({**LLAMA, "tie_word_embeddings": False})
    assert untied.total == counted.total + 6400
    assert untied.active == counted.active
    assert counted.exit_share(0.5) == (counted.layers / 2 + 6400) / counted.total


def test_what_is_not_told_is_not_guessed(subtests):
    for changed in [
        {"hidden_size": None},
        {"vocab_size": 10**12},
        {"num_hidden_layers": 10**8},
        {"num_attention_heads": None},
        {"intermediate_size": -1},
        {"layer_types": ["mystery"] * 4},
        {"layer_types": ["linear_attention"] * 4},  # of no size
        {"kv_lora_rank": 512},
        {"num_experts": 8},  # and how many are asked is not said
    ]:
        with subtests.test(changed=changed):
            assert count_parameters({**LLAMA, **changed}) is None


def test_experts_that_all_tokens_share_and_layers_without_experts():
    mixture = LLAMA | {
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "n_shared_experts": 1, "first_k_dense_replace": 1,
    }  # fmt: skip
    counted, dense = count_parameters(mixture), count_parameters(LLAMA)
    assert counted is not None
    assert dense is not None
    expert, router, mlp = 3 * 64 * 32, 64 * 8, 3 * 64 * 128
    attention = dense.layers - 4 * mlp
    assert counted.layers == attention + mlp + 3 * (8 * expert + expert + router)
    assert counted.active_layers == attention + mlp + 3 * (2 * expert + expert + router)
    more = count_parameters(mixture | {"num_experts_per_tok": 20})  # than there are
    assert more.active_layers == more.layers
