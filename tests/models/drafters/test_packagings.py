"""Every published packaging is told apart, with its taps in our numbers, or refused with a reason.

Broken configs and tensors end in a description or a Problem.
"""

import dataclasses
import json
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from models.drafters import folders as drafter_folders
from models.drafters.folders import (
    DrafterFolder,
    describe_drafter,
    find_head,
    is_drafter,
    own_module,
    read_drafter,
)
from models.drafters.kinds import HEAD_MODEL_TYPE, HEAD_WEIGHTS_NAME, Demands, check, verifier_note
from models.drafters.reading import classify, classify_inside, kind_of, published_as
from models.drafters.refusal import refused_as_damaged
from models.errors import Problem
from models.files import HOME_VARIABLE
from models.model_folder import ModelFolder
from models.safetensors_file import TensorLayout
from tests.support.models.drafter_configs import drafter_layout, layout_names, write_drafter
from tests.support.models.mutations import ODD
from tests.support.models.tiny_store import refuse
from tests.support.mostly_slow import examples

# Of all others a repository on the hub is judged before anything but its config is fetched.
TOLD_BY_TENSORS = {"eagle-3-angelslim", "mtp-huggingface-moe", "eagle-1"}
KNOWN, REFUSED = layout_names(refused=False), layout_names(refused=True)
layout_of = cache(drafter_layout)


def as_told(found, layers):
    """A description as the files of layouts have it: nothing that is empty."""
    told = dataclasses.asdict(found) | dataclasses.asdict(found.demands)
    told = {key: value for key, value in told.items() if value and key != "demands"}
    taps = found.taps_for(layers)
    told |= {"taps": list(taps)} if taps else {}
    told |= {"prefixes": list(found.prefixes)} if found.prefixes else {}
    return {key: value for key, value in told.items() if key != "fingerprint"}


def depth_of(target):
    depth = (target.get("text_config") or target)["num_hidden_layers"]
    assert isinstance(depth, int)
    return depth


def test_a_packaging_is_told_and_built(tmp_path, subtests):
    """Of each tensor that its network needs there is a name of ours."""
    for name in KNOWN:
        with subtests.test(name=name):
            layout = layout_of(name)
            expected = dict(layout.expected)
            inside = expected.pop("inside", None)
            found = classify(layout.config, layout.tensors)
            assert as_told(found, depth_of(layout.target)) == expected
            assert check(found, layout.target) == ""
            if name not in TOLD_BY_TENSORS:
                assert kind_of(layout.config) == classify(layout.config, {}).kind == found.kind
            if inside is not None:
                module = classify_inside(layout.config, layout.tensors)
                assert as_told(module, depth_of(layout.target)) == inside
                assert check(module, layout.target) == ""
            files = ModelFolder(write_drafter(tmp_path / name, layout))
            folder = read_drafter(files) or DrafterFolder.of_model(files)
            assert (folder.description, folder.layouts) == (found, layout.tensors)
            assert [path.name for path in folder.weights] == ["model.safetensors"]
            if layout.expected["kind"] not in ("head", "model"):
                assert folder.network is not None
                assert folder.published.packaging.name == layout.expected["packaging"]
                assert set(folder.published.names.values()) <= set(layout.tensors)


def test_what_is_refused(tmp_path, subtests):
    for name in REFUSED:
        with subtests.test(name=name):
            layout = drafter_layout(name)
            folder = write_drafter(tmp_path / name, layout)
            if "problem" in layout.expected:
                with pytest.raises(Problem, match=layout.expected["problem"]) as refusal:
                    describe_drafter(folder)
                assert refusal.value.message.isprintable()
            else:
                reason = check(describe_drafter(folder).description, layout.target)
                assert layout.expected["reason"] in reason
                assert reason.endswith(".")


def test_quantization_that_cannot_be_read(subtests):
    """It shows in config.json, or only in the names of the tensors."""
    layout = drafter_layout("dflash-z-lab")
    assert classify(layout.config, layout.tensors).kind == "dflash"
    for stated, names in [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, ()),
        ({"quant_method": "fp8", "fmt": "e4m3"}, ()),
        ({"bits": 4, "group_size": 32, "mode": "brand-new"}, ()),
        ({}, ("layers.0.mlp.up_proj.weight_packed",)),
        ({}, ("layers.0.mlp.up_proj.weight_scale_inv",)),
    ]:
        with subtests.test(stated=stated, names=names):
            tensors = layout.tensors | dict.fromkeys(names, TensorLayout("U8", (4, 4)))
            with pytest.raises(Problem, match="quantized"):
                classify(layout.config | {"quantization_config": stated}, tensors)


AUX = "eagle_aux_hidden_state_layer_ids"


@pytest.mark.parametrize(
    ("name", "packaging", "config", "taps"),
    [
        ("official-whole-vocabulary", "official", {AUX: [2, 18, 36]}, (2, 18, 36)),
        ("official-whole-vocabulary", "DeepSpec", {"target_layer_ids": [-1, 17, 35]}, (0, 18, 36)),
        ("nvidia", "NVIDIA", {"eagle_config": {AUX: [1, 11, 20]}}, (2, 12, 21)),
        ("nvidia", "NVIDIA", {"eagle_config": {AUX: [14, 19, 24]}}, (14, 19, 24)),
        ("nvidia", "NVIDIA", {AUX: [1, 11, 20]}, (1, 11, 20)),
    ],
)
def test_layers_and_states_are_told_apart_by_where_they_stand_and_the_first(
    name, packaging, config, taps
):
    """One more than the last is a layer that the target does not have."""
    layout = drafter_layout(f"eagle-3-{name}")
    found = classify(layout.config | config, layout.tensors)
    assert (found.packaging, found.taps) == (packaging, taps)
    assert check(found, layout.target) == ""
    deep = {"num_hidden_layers": max(taps) - 1}
    assert f"after layer {max(taps)}" in check(found, layout.target | deep)


def test_another_name_is_a_note_and_models_are_no_drafters(subtests):
    layout = drafter_layout("eagle-3-speculators")
    found = classify(layout.config, layout.tensors)
    for target, differs in [
        ("Qwen/Qwen3-8B", False),
        ("somebody/Qwen3-8B-abliterated", False),
        ("mlx-community/Qwen3-14B-4bit", True),
        ("", False),
    ]:
        with subtests.test(target=target):
            assert bool(verifier_note(found, target)) == differs
    names = {"model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight", "lm_head.weight"}
    for config in [  # of models that are no drafters
        {"architectures": ["Eagle2_5_VLForConditionalGeneration"], "model_type": "qwen3"},
        {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next"},
        {"architectures": ["MiMoForCausalLM"], "model_type": "mimo", "num_nextn_predict_layers": 1},
    ]:
        with subtests.test(config=config):
            assert kind_of(config, names) == "model"


@st.composite
def broken(draw):
    """A published layout with odd keys, or mixed with those of another."""
    layout = layout_of(draw(st.sampled_from(KNOWN + REFUSED)))
    other = layout_of(draw(st.sampled_from(KNOWN)))
    config = json.loads(json.dumps(layout.config))
    tables = [config, *(value for value in config.values() if isinstance(value, dict))]
    for _ in range(draw(st.integers(0, 4))):
        table = draw(st.sampled_from(tables))
        key = draw(st.sampled_from(sorted({*table, *other.config})))
        table[key] = draw(st.sampled_from((*ODD, *DRAFTERS, other.config.get(key))))
    for key in draw(st.sets(st.sampled_from(sorted(config)), max_size=2)):
        config.pop(key, None)
    tensors = dict(layout.tensors)
    for name in draw(st.sets(st.sampled_from(sorted({*tensors, *other.tensors, "fc.weight"})))):
        tensors[name] = other.tensors.get(name, TensorLayout("BF16", draw(SHAPES)))
    for name in draw(st.sets(st.sampled_from(sorted({*tensors, ""})), max_size=5)):
        tensors.pop(name, None)
    target = other.target if draw(st.booleans()) else layout.target
    odd = st.dictionaries(st.sampled_from(sorted(target)), st.sampled_from(ODD), max_size=3)
    return config, tensors, target | draw(odd)


DRAFTERS = ("dspark", "eagle3", "mtp", "DFlashDraftModel", "gemma4_assistant", "llama")
SHAPES = st.lists(st.integers(0, 2**40), max_size=4).map(tuple)


@settings(max_examples=examples(400), deadline=None)
@given(broken())
def test_whatever_a_folder_holds_is_answered_or_refused(case):
    config, tensors, target = case
    found = []
    for read in (classify, classify_inside):
        with suppress(Problem):
            found.append(read(config, tensors))
    for description in filter(None, found):
        published = published_as(description, config, tensors)
        if published.packaging.network is not None:
            with suppress(Problem), refused_as_damaged(Path()):
                published.packaging.network(published, description)
        assert isinstance(description.demands, Demands)
        assert all(tap == "norm" or tap >= 0 for tap in description.taps)
        assert 0 <= description.predictions <= description.block
        with suppress(Problem):
            reason = check(description, target)
            assert reason == "" or (reason.isprintable() and reason.endswith("."))


# Heads are found by what their target's weights are, the user's own first, broken ones never


TARGET = "0123456789abcdef"
CONFIG = {"model_type": HEAD_MODEL_TYPE, "target": "A target", "target_fingerprint": TARGET}


def head(folder, **changes):
    folder.mkdir(parents=True)
    save_file({"kept": numpy.arange(4)}, folder / HEAD_WEIGHTS_NAME)
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    return folder


def place_of(found):
    return found and found.path


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """The folder of those that come along."""
    place = tmp_path / "shipped"
    monkeypatch.setattr(drafter_folders, "_SHIPPED", place)
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    return place


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.mark.parametrize("spelling", ["mtp-huggingface", "mtp-mlx-4bit"])
def test_a_module_in_a_file_beside_the_target(tmp_path, spelling):
    """As merged targets have it; mlx-lm does not load that file."""
    target = drafter_layout("mtp-huggingface-inside")
    trunk = {key: each for key, each in target.tensors.items() if not key.startswith("mtp.")}
    settings = {"quantization": {"bits": 4, "group_size": 32}}
    folder = write_drafter(
        tmp_path / "target", replace(target, config=target.config | settings, tensors=trunk)
    )
    assert own_module(ModelFolder(folder)) is None
    beside = write_drafter(tmp_path / "module", drafter_layout(spelling), weights="mtp.safetensors")
    (beside / "mtp.safetensors").rename(folder / "mtp.safetensors")
    assert not is_drafter(folder)
    module = own_module(ModelFolder(folder))
    assert module.kind == "mtp"
    assert module.weights == (folder / "mtp.safetensors",)
    assert module.layouts == drafter_layout(spelling).tensors


def test_a_target_gets_the_first_of_the_users_own_then_one_that_came_along(home, shipped):
    other = head(shipped / "another", target_fingerprint="fedcba9876543210")
    theirs = head(shipped / "theirs")
    assert place_of(find_head(TARGET, home=home)) == theirs
    for name in ("m", "b", "x"):
        head(home / "drafters" / name)
    assert place_of(find_head(TARGET, home=home)) == home / "drafters" / "b"
    assert place_of(find_head("fedcba9876543210", home=home)) == other
    assert find_head("f" * 16, home=home) is None


def test_a_broken_one_hides_no_sound_one(home, shipped, monkeypatch):
    drafters, sound = home / "drafters", head(shipped / "sound")
    for name, data in (("a", b""), ("b", b"\xa5" * 200), ("c", b"\x10\0\0\0\0\0\0\0{}")):
        (head(drafters / name) / HEAD_WEIGHTS_NAME).write_bytes(data)
    (head(drafters / "d") / "config.json").write_text("{")
    (head(drafters / "e") / "config.json").unlink()
    (head(drafters / "f") / HEAD_WEIGHTS_NAME).unlink()
    (drafters / "a file").write_text("")
    (drafters / "gone").symlink_to(home / "nowhere")
    refused = head(drafters / "refused") / "config.json"
    refuse(monkeypatch, Path, "is_file", refused)
    assert place_of(find_head(TARGET, home=home)) == sound
