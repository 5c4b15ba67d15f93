"""A config.json gives the same model, whether transformers 4 or 5 wrote it."""

import copy
import json
from dataclasses import fields
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_map
from mlx_lm.utils import _get_classes

from engine.conversation.configuration import as_mlx_lm_reads, build_model
from tests.engine.test_architectures import LEFT_OUT
from tests.support.engine import tiny
from tests.support.mostly_slow import mostly_slow

_DATA = Path(__file__).parents[2] / "data" / "architectures.json"
CONFIGURATIONS = json.loads(_DATA.read_text())["configurations"]
BASE, SLIDING_BASE, PART = 777.0, 55.0, 0.25  # unlike every default
OTHER_NAMES = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}  # gpt_neox
_TOKENS = [[5, 9, 3, 77, 21, 64, 8, 120, 33, 2, 54, 90]]


def older(name):
    """The configuration with positions of its own, as transformers 4 writes it; None without."""
    config = copy.deepcopy(CONFIGURATIONS[name]) | {"vocab_size": 128}
    inner = config.get("text_config", config)
    known = {field.name for field in fields(_get_classes(config)[1])} | set(inner)
    if config["model_type"].startswith("qwen3_5"):  # mlx-lm reads the newer spelling alone
        return None
    if "rope_parameters" in inner or isinstance(inner.get("rope_theta"), list):
        return None
    stated = {
        "rope_theta": BASE,
        "partial_rotary_factor": PART,
        "rope_local_base_freq": SLIDING_BASE,
        "swa_rope_theta": SLIDING_BASE,
    }
    for key, value in stated.items():
        for spelling in (key, OTHER_NAMES.get(key, key)):
            if spelling in known:
                inner[spelling] = value
    return config if inner.keys() & {"rope_theta", "rotary_emb_base"} else None


def newer(config):
    """The same as transformers 5 writes it."""
    config = copy.deepcopy(config)
    inner = config.get("text_config", config)
    scaling = inner.pop("rope_scaling", None)
    kind = (scaling or {"type": "default"}).get("type", "longrope")  # minicpm3 names none
    base = inner.pop("rope_theta", inner.pop("rotary_emb_base", None))
    rope = {"rope_theta": base, "rope_type": kind, **(scaling or {})}
    part = inner.pop("partial_rotary_factor", inner.pop("rotary_pct", None))
    if part is not None:
        rope["partial_rotary_factor"] = part
    sliding = inner.pop("rope_local_base_freq", inner.pop("swa_rope_theta", None))
    if sliding is not None:
        other = {"rope_type": "default", "rope_theta": sliding}
        if part is not None:
            other["partial_rotary_factor"] = part
        rope = {"full_attention": rope, "sliding_attention": other}
    inner["rope_parameters"] = rope
    return config


def logits(config):
    model, args = _get_classes(config)
    built = model(args.from_dict(copy.deepcopy(config)))
    keys = iter(range(10_000))

    def drawn(array):
        return 0.3 * mx.random.normal(array.shape, key=mx.random.key(next(keys))).astype(
            array.dtype
        )

    built.update(tree_map(drawn, built.parameters()))
    return built(mx.array(_TOKENS))


POSITIONED = [name for name in CONFIGURATIONS if name not in LEFT_OUT and older(name)]


@pytest.mark.parametrize(
    "name",
    mostly_slow(POSITIONED, quick=("llama", "gemma3_text", "qwen3_moe", "gpt_neox", "phi")),
)
def test_both_spellings_give_the_same_logits(name):
    old = older(name)
    new = newer(old)
    told = as_mlx_lm_reads(new)
    assert mx.array_equal(logits(old), logits(new | told), equal_nan=True).item()


TURNS = ["sliding_attention", "full_attention"]
RENAMED = (
    ({"model_type": "qwen3_moe", "num_local_experts": 4}, {"num_experts": 4}),
    ({"model_type": "cohere2", "layer_types": TURNS * 2}, {"sliding_window_pattern": 2}),
    (
        {"model_type": "qwen3_next", "layer_types": ["linear_attention", "full_attention"]},
        {"full_attention_interval": 2},
    ),
    (
        {"model_type": "granitemoehybrid", "layer_types": ["linear_attention", "full_attention"]},
        {"layer_types": ["mamba", "attention"]},
    ),
    (
        {
            "model_type": "gemma4_text",
            "layer_types": TURNS,
            "per_layer_config": {"1": {"head_dim": 64, "num_key_value_heads": 1}},
        },
        {"global_head_dim": 64, "num_global_key_value_heads": 1},
    ),
    ({"model_type": "llama", "rope_theta": 5.0}, {}),
)


def test_keys_are_found_under_their_older_names():
    for newer, older in RENAMED:
        for told in (
            as_mlx_lm_reads(newer),
            as_mlx_lm_reads({"model_type": "llava", "text_config": newer})["text_config"],
        ):
            read = newer | told
            assert (newer, {key: read.get(key) for key in older}) == (newer, older)
            assert read.get("rope_theta") == newer.get("rope_theta")


def test_a_folder_of_transformers_5_gives_the_same_model(tmp_path):
    tiny.write_folder("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"rope_theta": BASE}
    found = []
    for written in (config, newer(config)):
        (tmp_path / "config.json").write_text(json.dumps(written))
        found.append(build_model(tmp_path, written)(mx.array(_TOKENS)))
    assert mx.array_equal(*found).item()
