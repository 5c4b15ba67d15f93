"""Drafters' folders that cannot be used are refused, with the obstacle: each fault in each kind."""

import json
import re
from collections import namedtuple
from shutil import copytree

import mlx.core as mx
import pytest

from engine.core.decoder import Decoder
from engine.drafters.block import load_block
from engine.drafters.eagle import load_eagle
from engine.drafters.gemma_assistant import load_gemma_assistant
from engine.drafters.head_network import load_head, save_head
from engine.drafters.medusa import load_medusa
from engine.drafters.mtp import load_mtp
from models.drafters.folders import describe_drafter
from models.errors import Problem
from tests.engine.drafters.test_heads import medusa_network, write_medusa
from tests.support.engine.gemma4 import build_target
from tests.support.engine.heads import untrained
from tests.support.engine.parity.drafters import DRAFTERS
from tests.support.engine.tiny import _CONFIGS, build, shallow

FINGERPRINT = "0123456789abcdef"
OPTIONAL = re.compile(r"embed_tokens|lm_head|[dt]2[dt]|bias$")


def load_distilled(folder, target):
    return load_head(folder, fingerprint=FINGERPRINT, vocabulary=target.vocabulary, like=mx.float32)


def write_head(folder):
    save_head(untrained(shallow("llama")), folder, target="tiny", fingerprint=FINGERPRINT)


Kind = namedtuple("Kind", "load write target")  # writes a sound folder, and loads it for its target


def published(name, load):
    return Kind(load, DRAFTERS[name].write, DRAFTERS[name].target_model)


KINDS = {
    "EAGLE-3": published("eagle3-official", load_eagle),
    "EAGLE": published("eagle", load_eagle),
    "DFlash": published("dflash", load_block),
    "DFlash2": published("dflash2", load_block),
    "DSpark": published("dspark-deepspec", load_block),
    "MTP": published("mtp-qwen3.5", load_mtp),
    "assistant": published("gemma-4-assistant", load_gemma_assistant),
    "Medusa": Kind(
        load_medusa,
        lambda folder: write_medusa(folder, medusa_network(64)),
        lambda: shallow("llama"),
    ),
    "head": Kind(load_distilled, write_head, lambda: shallow("llama")),
}


def obstacle(kind, folder, target):
    """Why the folder is refused; empty if it loads."""
    try:
        kind.load(describe_drafter(folder), Decoder(target))
    except Problem as problem:
        return getattr(problem, "obstacle", "a problem") if problem.remedy else "no remedy"
    return ""


def weights_of(folder):
    (file,) = folder.glob("*.safetensors")
    return file


def changed(folder, change):
    loaded = mx.load(str(weights_of(folder)))
    tensors = {name: mx.array(array) for name, array in loaded.items()}
    mx.eval(tensors)
    change(tensors)
    mx.save_safetensors(str(weights_of(folder)), tensors)


def without(which):
    def change(tensors):
        own = [name for name in sorted(tensors) if not OPTIONAL.search(name)]
        del tensors[own[which]]

    return lambda folder: changed(folder, change)


def narrower(tensors):
    name = max((name for name in tensors if tensors[name].ndim == 2), key=len)
    tensors[name] = tensors[name][:, :-1]


FAULTS = {
    "its first tensor is gone": without(0),
    "its last tensor is gone": without(-1),
    "a matrix is narrower": lambda folder: changed(folder, narrower),
    "the file is cut off": lambda folder: weights_of(folder).write_bytes(
        weights_of(folder).read_bytes()[:-100]
    ),
    "the file is empty": lambda folder: weights_of(folder).write_bytes(b""),
    "PyTorch's file": lambda folder: weights_of(folder).rename(folder / "pytorch_model.bin"),
}


def says(**fields):
    """Change entries of config.json; None takes one away, and an object is changed itself."""

    def change(folder):
        config = json.loads((folder / "config.json").read_text())
        for name, value in fields.items():
            if isinstance(value, dict) and isinstance(config.get(name), dict):
                config[name] |= value
            elif value is None:
                config.pop(name, None)
            else:
                config[name] = value
        (folder / "config.json").write_text(json.dumps(config))

    return change


def has(**arrays):
    """Add or replace tensors; `__` in a name stands for a point."""
    named = {name.replace("__", "."): mx.array(array) for name, array in arrays.items()}
    return lambda folder: changed(folder, lambda tensors: tensors.update(named))


CASES = {
    "EAGLE-3": {
        "damaged": [
            lambda folder: changed(folder, lambda t: t.update(d2t=-mx.arange(t["d2t"].size))),
            lambda folder: changed(folder, lambda t: [t.pop("d2t"), t.pop("t2d", None)]),
            says(norm_before_fc=True),
            says(layer_types=["sliding_attention"]),
            says(rope_scaling={"rope_type": "unheard of"}),
            says(head_dim=7),
        ],
        "other target": [
            lambda folder: changed(folder, lambda t: t.update(d2t=t["d2t"] + 1000)),
            says(eagle_aux_hidden_state_layer_ids=[1, 2, 4, 5]),
        ],
        "unsupported": [
            has(layers__0__mlp__experts__0__weight=mx.ones((8, 64))),
            has(layers__0__self_attn__kv_a_proj__weight=mx.ones((8, 64))),
        ],
    },
    "EAGLE": {"damaged": [has(fc__weight=mx.ones((32, 48)))]},
    "DFlash": {
        "damaged": [
            says(layer_types=["sliding_attention"] * 3),
            says(rope_parameters=[1.0]),
            says(block_size=1),
            says(block_size=4096),
            says(dflash_config={"mask_token_id": None}),
            says(dflash_config={"target_layer_ids": [-2, 4, 6]}),
            says(rope_scaling={"rope_type": "of the future"}),
            has(surplus=mx.zeros((3,))),
            has(d2t=mx.full((64,), 63)),  # beyond the vocabulary
            has(lm_head__weight=mx.zeros((40, 32))),  # fewer rows, and no map
            has(lm_head__weight=mx.zeros((40, 32)), d2t=mx.zeros((39,), mx.int32)),
        ],
        "other target": [
            says(vocab_size=65),
            says(num_target_layers=9),
            says(dflash_config={"target_layer_ids": [1, 4]}),
        ],
        "a problem": [says(dflash_config={"target_layer_ids": [1, 4, 8]})],
    },
    "DSpark": {
        "damaged": [says(mask_token_id=None)],
        "other target": [says(vocab_size=100), says(num_target_layers=36)],
        "unsupported": [says(log_snr_conditioning=True)],
    },
    "MTP": {"unsupported": [says(text_config={"mtp_use_dedicated_embeddings": True})]},
    "assistant": {
        "damaged": [says(text_config={"intermediate_size": 40}), says(text_config=None)],
        "other target": [
            says(text_config={"vocab_size": 66}),
            says(text_config={"num_attention_heads": 3}),
        ],
    },
    "Medusa": {
        "damaged": [
            has(**{"0__7__weight": mx.zeros((64, 64))}),
            has(fc__weight=mx.zeros((64, 64))),
            has(d2t=mx.ones((64,), dtype=mx.int32)),
            has(d2t=-mx.arange(64)),
            has(d2t=mx.zeros((3,), dtype=mx.int32)),
        ],
        "other target": [has(**{f"{k}__1__weight": mx.zeros((63, 64)) for k in range(3)})],
    },
    "head": {
        "damaged": [
            says(rows=None),
            says(rows=7),
            says(hidden_size=128),
            says(hidden_size="wide"),
            says(layers=3),
            says(layers=[]),
            says(num_attention_heads=0),
            says(num_key_value_heads=3),
            has(kept=[0] * 32),
            has(kept=[*range(31), 99]),  # a token that the target lacks
            has(kept=list(range(31))),
            has(kept=[-1, *range(31)]),
        ],
        "other target": [says(target_fingerprint="feedbeef")],
    },
}


@pytest.mark.parametrize("name", KINDS)
def test_what_does_not_fit_is_refused_with_its_obstacle(name, tmp_path):
    """And with some obstacle, what is damaged."""
    kind, sound, target = KINDS[name], tmp_path / "sound", KINDS[name].target()
    sound.mkdir()
    kind.write(sound)
    assert obstacle(kind, sound, target) == "", "without the fault it loads"

    def refused(damage, title):
        folder = copytree(sound, tmp_path / title)
        damage(folder)
        return obstacle(kind, folder, target)

    found = {fault: refused(damage, fault) for fault, damage in FAULTS.items()}
    assert not {"", "no remedy"} & {*found.values()}, found
    for expected, faults in CASES.get(name, {}).items():
        for number, damage in enumerate(faults):
            assert refused(damage, f"{expected} {number}") == expected, (expected, number)


@pytest.mark.quick(5)
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("EAGLE-3", lambda: shallow("llama")),
        ("EAGLE", lambda: shallow("llama")),
        ("MTP", lambda: build("qwen3_5")),  # twice as wide
        ("Medusa", lambda: build("llama", sizes=_CONFIGS["llama"] | {"hidden_size": 32})),
        ("assistant", lambda: build_target("wide")),
        ("assistant", lambda: build("gemma3_text")),
        # Llama's layers have no types, so none of its caches is the right one.
        ("assistant", lambda: build("llama", sizes=_CONFIGS["llama"] | {"hidden_size": 32})),
    ],
)
def test_another_targets_drafter_is_refused(name, target, tmp_path):
    KINDS[name].write(tmp_path)
    assert obstacle(KINDS[name], tmp_path, target()) == "other target"
