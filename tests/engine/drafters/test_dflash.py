"""DFlash and DFlash2: folders that load, and folders that are refused."""

from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding_scale
from engine.device import CPU, GPU
from engine.draft_length.policy import Fixed
from engine.drafters.block import block_network, load_block
from models.drafters.blocks import rotation_of
from models.drafters.folders import describe_drafter
from models.errors import Problem
from tests.support.engine.backends import computing_as
from tests.support.engine.blocks import logits_of
from tests.support.engine.helpers import plainly, task, write
from tests.support.engine.parity.drafters import DRAFTERS
from tests.support.engine.parity.subjects import seeded

PLAIN = DRAFTERS["dflash"]
PROMPT = [3, 1, 41, 59, 26, 5, 35]


def load(subject, folder, *, change=None):
    """The subject's network, once its tensors were changed."""
    subject.write(folder)
    if change:
        path = str(folder / "model.safetensors")
        loaded = mx.load(path)
        tensors = {name: mx.array(array) for name, array in loaded.items()}
        mx.eval(tensors)
        change(tensors)
        mx.save_safetensors(path, tensors)
    return block_network(describe_drafter(folder), Decoder(subject.target_model()))


# --- Folders


def test_where_its_attention_is_split_is_measured_while_it_is_loaded(tmp_path, monkeypatch):
    found = dict[Any, bool]()
    monkeypatch.setattr("engine.core.split_attention._PAYS", found)
    for backend, keys in ((CPU, set[int]()), (GPU, {4096})):
        with computing_as(backend):
            load(PLAIN, tmp_path)
        assert {places for _, places, _ in found} == keys, backend.name


def test_an_embedding_of_its_own_is_used_unless_it_is_the_targets(tmp_path):
    model = PLAIN.target_model()
    near = model.model.embed_tokens.weight + 0.05 * mx.random.normal((64, 32))
    far = mx.random.normal((64, 32), key=mx.random.key(3))
    for name, weight in (("near", near), ("far", far)):
        for module in ("embed_tokens", "lm_head"):
            if module == "lm_head":
                weight = model.lm_head.weight + 0.01 if name == "near" else far
            network = load(
                PLAIN,
                tmp_path / name / module,
                change=lambda tensors: tensors.update({f"{module}.weight": weight}),  # noqa: B023
            )
            assert (module in network.weights) == (name == "far")


MUSE = {
    "model_type": "muse_glimmer",
    "hidden_size": 32,
    "num_hidden_layers": 8,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 64,
    "sliding_window": 16,
}


def test_a_norm_of_embeddings_is_left_out(tmp_path):
    """Muse's drafters were trained with embeddings as they are stored."""
    subject, model = DRAFTERS["dflash-transformers"], seeded(MUSE)
    with pytest.raises(Problem):
        embedding_scale(model)
    target = Decoder(model)
    drafter = load_block(describe_drafter(subject.write(tmp_path)), target)
    run = write(target, drafter, Fixed(4), list(PROMPT), task(8))
    assert run.tokens == plainly(model, count=8, prompt=PROMPT, block=128)
    network = block_network(describe_drafter(tmp_path), target)
    assert mx.array_equal(network.embed(mx.array([[5]]))[0], model.model.embed_tokens.weight[5:6])


GEMMA = MUSE | {"model_type": "gemma3_text", "query_pre_attn_scalar": 8}


@pytest.mark.parametrize(
    ("subject", "said", "scale"),
    [
        (PLAIN, {}, 32**0.5),
        (PLAIN, {"input_embedding_scale": 3.0}, 3.0),
        (DRAFTERS["dflash-speculators"], {}, 1.0),
    ],
)
def test_embeddings_of_a_target_that_scales_them(subject, said, scale, tmp_path):
    model = seeded(GEMMA)
    changed = replace(subject, config={**subject.config, **said})
    network = block_network(describe_drafter(changed.write(tmp_path)), Decoder(model))
    raw = model.model.embed_tokens.weight[5:6]
    assert mx.allclose(network.embed(mx.array([[5]]))[0], raw * scale, rtol=2e-3)


def test_rows_of_the_targets_output_layer(tmp_path):
    """Where a drafter proposes some tokens only, and has no output layer of its own."""
    some = mx.array([3, 17, 40, 63])
    network = load(
        PLAIN,
        tmp_path / "some",
        change=lambda tensors: tensors.update(d2t=some - mx.arange(4)),
    )
    logits, whole = logits_of(network), logits_of(load(PLAIN, tmp_path / "all"))
    assert mx.allclose(logits, whole[:, some], atol=1e-5)
    assert network.rows.tokens(mx.arange(4)).tolist() == some.tolist()


# --- What configs say


def test_rotations():
    cases = [
        ({}, 1e4, None),
        ({"rope_theta": 5e5}, 5e5, None),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 1e6, None),
        ({"rope_theta": 1e7, "rope_scaling": {"type": "linear", "factor": 2.0}}, 1e7, "linear"),
        ({"rope_parameters": {"mrope_section": [1, 1], "rope_type": "default"}}, 1e4, None),
    ]
    for config, base, kind in cases:
        rotation = rotation_of(config, 8)
        assert (rotation.dims, rotation.base, rotation.interleaved) == (8, base, False)
        assert (rotation.scaling or {}).get("rope_type") == kind
