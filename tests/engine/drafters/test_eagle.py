"""EAGLE-3 and EAGLE: their folders."""

import json

import mlx.core as mx
import numpy as np
import pytest

from engine.core.decoder import Decoder
from engine.drafters.eagle import load_network
from models.drafters.folders import describe_drafter
from tests.support.engine.eagles import eagle_subject
from tests.support.engine.tiny import shallow

KEY = mx.random.key(0)


# --- Folders


def changed(kind, folder, model, **changes):
    """A drafter with other entries in config.json, or other tensors; None takes them away."""
    subject = eagle_subject(kind, model)
    tensors = subject.weights()
    config = dict(subject.config)
    for name, value in changes.items():
        place = tensors if name in tensors or isinstance(value, np.ndarray) else config
        if value is None:
            del place[name]
        else:
            place[name] = value
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {name: mx.array(tensor) for name, tensor in tensors.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), arrays)
    return folder


def loaded(folder, target):
    return load_network(describe_drafter(folder), target)


@pytest.fixture
def target():
    return Decoder(shallow("llama", vocabulary=24))


def test_one_state_as_wide_as_its_own_needs_no_matrix(target, tmp_path):
    """NVIDIA's heads that read the target's last state."""
    own = {"eagle_config": {"use_aux_hidden_state": False}}
    folder = changed("EAGLE-3", tmp_path / "drafter", target.model, **{"fc.weight": None} | own)
    network = loaded(folder, target)
    assert network.taps == ("norm",)
    states = mx.random.normal((1, 3, 1, 64), key=KEY)
    assert mx.array_equal(network.begin(states), states[:, :, 0])


def test_names_that_vllm_and_older_files_use(target, tmp_path):
    subject = eagle_subject("EAGLE-3", target.model)
    renamed = {
        "model." + name.replace("layers.0.", "midlayer."): mx.array(tensor)
        for name, tensor in subject.weights().items()
    }
    renamed["model.midlayer.self_attn.rotary_emb.inv_freq"] = mx.zeros((4,))
    folder = changed("EAGLE-3", tmp_path / "drafter", target.model)
    plain = loaded(folder, target)
    mx.eval(plain.parameters())
    mx.save_safetensors(str(folder / "model.safetensors"), renamed)
    states, after = mx.random.normal((1, 3, 2, 64), key=KEY), mx.array([[1, 2, 3]])
    by_ours, by_theirs = (
        each.logits(each(each.begin(states), after, "causal", each.make_cache()))
        for each in (plain, loaded(folder, target))
    )
    assert mx.array_equal(by_ours, by_theirs)


def test_a_map_of_known_tokens_will_do(target, tmp_path):
    subject = eagle_subject("EAGLE-3", target.model)
    known = np.array([token % 3 != 2 for token in range(24)])
    by_list = loaded(changed("EAGLE-3", tmp_path / "one", target.model), target)
    by_map = loaded(changed("EAGLE-3", tmp_path / "two", target.model, d2t=None, t2d=known), target)
    state = mx.random.normal((1, 3, 64), key=KEY)
    assert subject.given["d2t"].size == 16
    assert mx.array_equal(by_list.logits(state), by_map.logits(state))
