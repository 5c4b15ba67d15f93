"""Quantized drafters draft as before, and a target keeps the module that mlx-lm leaves out."""

from dataclasses import replace

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from engine.cli.models.convert import Quantization
from engine.cli.models.convert_drafter import convert_drafter
from engine.cli.models.convert_source import convert_source, installed_at
from engine.conversation.loading import load
from engine.conversation.pair import make_drafter
from engine.core.decoder import Decoder
from engine.draft_length.policy import Fixed
from engine.drafters import NoDrafter
from engine.drafters.mtp import load_mtp
from models.drafters.folders import describe_drafter, own_module
from models.drafters.kinds import KIND_NAMES, check
from models.errors import Problem
from models.files import HOME_VARIABLE
from models.installed.resolve import Drafters, NamedDrafter
from models.model_folder import ModelFolder
from models.safetensors_file import TensorLayout
from tests.support.engine import tiny
from tests.support.engine.helpers import task, write
from tests.support.engine.mtp import TARGETS, build_target, untrained
from tests.support.engine.parity.drafters import DRAFTERS
from tests.support.engine.parity.subjects import PROMPT
from tests.support.models.drafter_configs import drafter_layout, write_drafter
from tests.support.mostly_slow import mostly_slow

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SUBJECTS = list(DRAFTERS.values())
MIMO = {
    "token_norm": "token_layernorm.",
    "state_norm": "hidden_layernorm.",
    "fuse": "input_proj.",
    "norm": "final_layernorm.",
    "layer": "",
}


@pytest.fixture
def loaded(tmp_path):
    """Any, where only the decoder counts."""
    tiny.write_folder("llama", tmp_path / "any")
    return load(ModelFolder(tmp_path / "any"))


@pytest.mark.parametrize(
    ("subject", "bits"),
    mostly_slow(
        [*((each, 8) for each in SUBJECTS), *((each, 4) for each in SUBJECTS[::5])],
        quick=[(SUBJECTS[0], 4)],
    ),
    ids=lambda value: getattr(value, "name", value),
)
def test_every_packaging_still_drafts(subject, bits, loaded, tmp_path):
    source = describe_drafter(subject.write(tmp_path / "source"))
    made = convert_drafter(source, tmp_path / "made", Quantization(bits, group_size=32))
    folder = describe_drafter(made)
    assert (folder.kind, folder.description.taps) == (source.kind, source.description.taps)
    assert folder.description.demands == source.description.demands
    assert check(folder.description, subject.target) == ""
    assert folder.files.quantization_bits == bits
    assert folder.files.size_bytes < source.files.size_bytes
    decoder = Decoder(subject.target_model())
    named = Drafters("made", (NamedDrafter("made", folder),))
    drafter = make_drafter(named, target=loaded, decoder=decoder)
    assert drafter.name == KIND_NAMES[folder.kind]
    run = write(decoder, drafter, Fixed(3), list(PROMPT), task(16))
    plain = Decoder(subject.target_model())
    assert run.tokens == write(plain, NoDrafter(), Fixed(0), list(PROMPT), task(16)).tokens
    assert run.proposed >= 8


def target_with_module(folder, *, beside):
    """A tiny MiMo, published with its module among its own tensors, or in a file beside them."""
    vocabulary = tiny.byte_tokenizer(folder)
    model = build_target("mimo", vocabulary=vocabulary)
    sizes = {"model_type": "mimo", "vocab_size": vocabulary, "num_nextn_predict_layers": 1}
    tiny.save(model, TARGETS["mimo"] | sizes, folder)
    tensors = {
        f"model.mtp_layers.0.{MIMO[name.split('.')[0]]}{name.partition('.')[2]}": array
        for name, array in tree_flatten(untrained(model).parameters())
    }
    place = folder / ("mtp" if beside else "model")
    own = {} if beside else mx.load(f"{place}.safetensors")
    mx.save_safetensors(f"{place}.safetensors", own | tensors)
    return folder


def close(one, other, within):
    """Whether two matrices differ by less than that part of their size."""
    return bool(mx.linalg.norm(one - other) < within * mx.linalg.norm(other))


def unpacked(folder):
    """The matrices of a folder's module, in groups of 32."""
    module = own_module(ModelFolder(folder)) or describe_drafter(folder)
    found = {}
    for path in module.weights:
        arrays = mx.load(str(path)).items()
        found |= {name: array for name, array in arrays if name in module.layouts}
    matrices = {}
    for name, array in found.items():
        base = name.removesuffix(".weight")
        if f"{base}.scales" in found and name != base:
            scales, biases = found[f"{base}.scales"], found[f"{base}.biases"]
            bits = 32 * array.shape[-1] // (scales.shape[-1] * 32)
            matrices[name] = mx.dequantize(array, scales, biases, group_size=32, bits=bits)
        elif array.ndim > 1 and name == f"{base}.weight":
            matrices[name] = array
    return matrices


def converted(source, made, settings, **more):
    return convert_source(str(source), made, settings, progress=lambda *_: None, **more)


@pytest.mark.parametrize(
    "beside", mostly_slow([True, False], quick=[False]), ids=["beside", "inside"]
)
def test_a_target_keeps_its_module(tmp_path, beside):
    source = target_with_module(tmp_path / "source", beside=beside)
    made = converted(source, tmp_path / "made", Quantization(4, group_size=32))
    files = {path.name for path in made.glob("*.safetensors")}
    assert files == {"model.safetensors", "mtp.safetensors"}
    assert installed_at(made).role == "chat"
    assert not any("mtp" in name for name in ModelFolder(made).layouts)
    module = own_module(ModelFolder(made))
    assert module.kind == "mtp"
    before, after = unpacked(source), unpacked(made)
    assert before.keys() == after.keys() != set()
    assert all(close(after[name], before[name], 0.01) for name in before)  # 8 bits, not 4
    assert load_mtp(module, Decoder(load(ModelFolder(made)).model)).name == "MTP"


@pytest.mark.parametrize("bits", mostly_slow([None, 8, 4], quick=[4]))
def test_the_module_alone(tmp_path, bits):
    source = target_with_module(tmp_path / "source", beside=False)
    settings = Quantization(bits, group_size=32)
    made = converted(source, tmp_path / "made", settings, module_only=True)
    folder = describe_drafter(made)
    assert (folder.kind, folder.files.quantization_bits) == ("mtp", bits or 8)
    assert installed_at(made).drafter_kind == "mtp"
    before, after = unpacked(source), unpacked(made)
    assert before.keys() == after.keys()
    assert all(close(after[name], before[name], 0.15) for name in before)
    target = load(ModelFolder(source))
    assert check(folder.description, target.folder.config) == ""
    assert load_mtp(folder, Decoder(target.model)).name == "MTP"


@pytest.mark.parametrize(
    "name", ["dspark-deepspec", "dflash2-z-lab", "gemma-4-assistant-centroids", "mtp-deepseek"]
)
def test_what_decides_a_lot_and_is_small_stays_as_it_is(name, tmp_path):
    """And what is not a matrix of whole groups, or not one that the network reads as one."""
    layout = drafter_layout(name)
    wide = {
        key: TensorLayout(each.dtype, (each.shape[0], 64))  # so that whole groups would fit
        for key, each in layout.tensors.items()
        if "markov_head" in key or "confidence_head.proj.weight" in key
    }
    layout = replace(layout, tensors=layout.tensors | wide)
    source = describe_drafter(write_drafter(tmp_path / "source", layout))
    settings = Quantization(8, group_size=32)
    made = describe_drafter(convert_drafter(source, tmp_path / "made", settings))
    packed = {key.removesuffix(".scales") for key in made.layouts if key.endswith(".scales")}
    assert any(key.endswith("mlp.up_proj") for key in packed)
    kept = ("markov_head", "confidence_head", "candidate_selector", "_conv.", "norm", "mask")
    assert not any(part in key for key in packed for part in kept)
    assert "model.embed_tokens" not in packed  # whose rows are picked one by one
    same = [key for key in made.layouts if key.removesuffix(".weight") not in packed]
    assert all(
        made.layouts[key] == source.layouts[key]
        for key in same
        if not key.endswith((".scales", ".biases"))
    )


def test_experts_that_lie_together_are_taken_apart(tmp_path):
    """The gates first, as they are published; packed as mlx-lm's layers have them."""
    layout = drafter_layout("mtp-huggingface-moe")
    folder = write_drafter(tmp_path / "source", layout)
    numbers = {
        name: mx.random.normal(each.shape, key=mx.random.key(len(name)))
        for name, each in layout.tensors.items()
    }
    mx.save_safetensors(str(folder / "model.safetensors"), numbers)
    settings = Quantization(8, group_size=32)
    made = convert_drafter(describe_drafter(folder), tmp_path / "made", settings)
    found = unpacked(made)
    before = "mtp.layers.0.mlp"
    gate, up = mx.split(numbers[f"{before}.experts.gate_up_proj"], 2, axis=-2)
    assert close(found[f"{before}.switch_mlp.gate_proj.weight"], gate, 0.01)
    assert close(found[f"{before}.switch_mlp.up_proj.weight"], up, 0.01)
    down = numbers[f"{before}.experts.down_proj"]
    assert close(found[f"{before}.switch_mlp.down_proj.weight"], down, 0.01)


def test_drafters_are_found_by_name_and_kept_among_them(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    write_drafter(tmp_path / "home" / "drafters" / "spark", drafter_layout("dspark-deepspec"))
    made = converted("spark", None, Quantization(group_size=32))
    assert made == tmp_path / "home" / "drafters" / "spark-8bit"
    record = installed_at(made)
    assert (record.name, record.drafter_kind) == ("spark-8bit", "dspark")
    assert (record.quantization_bits, record.problem) == (8, "")


@pytest.mark.parametrize(
    ("name", "settings", "word"),
    [
        ("dspark-deepspec", Quantization(3), "3 bits"),
        ("dspark-deepspec", Quantization(recipe="mixed_4_6"), "recipe"),
        ("mtp-mlx-4bit", Quantization(), "quantized already"),
        ("slipstream-head", Quantization(8), "head"),
        ("a model without a module", Quantization(), "MTP"),
    ],
)
def test_what_is_refused(tmp_path, name, settings, word):
    source, model = tmp_path / "source", name == "a model without a module"
    if model:
        tiny.write_folder("llama", source)
    else:
        weights = "head.safetensors" if name == "slipstream-head" else "model.safetensors"
        write_drafter(source, drafter_layout(name), weights=weights)
    with pytest.raises(Problem, match=word):
        converted(source, tmp_path / "made", settings, module_only=model)
    assert not (tmp_path / "made").exists()
