"""Converting: what becomes of weights and files, and what is refused."""

import errno
import json
import shutil
import sys
from codecs import BOM_UTF8
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm import fuse
from mlx_lm.utils import _get_classes, load_model

from engine.cli.models import convert as subject
from engine.cli.models.convert import Quantization, convert, needed_bytes
from engine.cli.models.convert_drafter import convert_drafter
from engine.cli.models.convert_source import convert_source, installed_at
from engine.conversation.loading import load
from engine.conversation.pair import make_drafter
from engine.conversation.session import Session
from engine.core.decoder import Decoder
from engine.draft_length.policy import Fixed
from engine.drafters import NoDrafter
from engine.drafters.mtp import load_mtp
from engine.request import ChatMessage, Request
from models.drafters.folders import describe_drafter, own_module
from models.drafters.kinds import KIND_NAMES, check
from models.errors import Problem
from models.files import HOME_VARIABLE
from models.installed.resolve import Drafters, NamedDrafter
from models.model_folder import ModelFolder, inspect
from models.safetensors_file import TensorLayout
from tests.support.engine import tiny
from tests.support.engine.ended import change_json
from tests.support.engine.helpers import task, write
from tests.support.engine.mtp import TARGETS, build_target, untrained
from tests.support.engine.parity.drafters import DRAFTERS
from tests.support.engine.parity.subjects import PROMPT
from tests.support.engine.repositories import adapter_for
from tests.support.models.drafter_configs import drafter_layout, write_drafter
from tests.support.mostly_slow import mostly_slow

LAYERS = 4


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original") / "source"
    tiny.write_folder("llama", folder)
    return folder


@pytest.fixture
def source(original, tmp_path):
    """A copy, to be changed."""
    return Path(shutil.copytree(original, tmp_path / "source"))


def answer(folder, prompt, tokens=32):
    """Greedily."""
    session = Session(load(ModelFolder(folder)))
    request = Request(max_tokens=tokens)
    events = session.answer([ChatMessage("user", prompt)], request, generation="test")
    return "".join(getattr(event, "delta", "") for event in events)


def weights_of(folder):
    return dict(tree_flatten(load_model(folder)[0].parameters()))


def same(one, other):
    """Whether two folders hold the same weights."""
    one, other = weights_of(one), weights_of(other)
    return one.keys() == other.keys() and all(mx.array_equal(one[key], other[key]) for key in one)


def refused(source, target, quantization, *words, **more):
    with pytest.raises(Problem) as caught:
        convert(source, target, quantization, **more)
    assert not target.exists()
    assert not list(target.parent.glob(".*"))
    for word in words:
        assert word in str(caught.value)


# What it makes


@pytest.mark.parametrize("recipe", mostly_slow(subject.RECIPES, quick=[*subject.RECIPES][:1]))
def test_recipes_are_those_of_mlx_lm(recipe, source, tmp_path):
    made = convert(source, tmp_path / "made", Quantization(recipe=recipe, group_size=32))
    low, high = map(int, recipe.removeprefix("mixed_").split("_"))
    model, config = load_model(made)
    bits = {name: module.bits for name, module in model.named_modules() if hasattr(module, "bits")}
    assert set(bits.values()) == {low, high}
    assert (bits["lm_head"], bits["model.layers.0.self_attn.q_proj"]) == (high, low)
    assert config["quantization"]["bits"] == low == inspect(made).quantization_bits
    assert config["quantization"]["group_size"] == 32
    before, after = weights_of(source), weights_of(made)
    assert all(mx.array_equal(after[name], before[name]) for name in before if "norm" in name)
    assert answer(made, "a b c", tokens=4)


@pytest.mark.quick(1)
@pytest.mark.parametrize("bits", [4, None])
def test_an_adapter_is_fused_as_mlx_lm_does(bits, tmp_path, monkeypatch):
    source, theirs = tmp_path / "source", tmp_path / "theirs"
    tiny.write_folder("llama", source, bits=bits)
    adapter = adapter_for(source, tmp_path / "adapter")
    made = convert(source, tmp_path / "made", None, adapter=adapter)
    words = ["--model", str(source), "--adapter-path", str(adapter), "--save-path", str(theirs)]
    monkeypatch.setattr(sys, "argv", ["fuse", *words])
    fuse.main()
    assert same(made, theirs)
    assert not same(made, source)
    assert weights_of(made).keys() == weights_of(source).keys()
    assert inspect(made).quantization_bits == bits
    assert answer(made, "a b c", tokens=4)


def test_adapters_that_cannot_be_fused(source, tmp_path):
    adapter = adapter_for(source, tmp_path / "adapter", num_layers=1, model="org/Base")
    refused(source, tmp_path / "made", None, "does not fit", "org/Base", adapter=adapter)
    (adapter / "adapters.safetensors").rename(adapter / "adapter_model.safetensors")
    refused(source, tmp_path / "made", None, "mlx-lm", adapter=adapter)


def test_what_must_stay_float32_does(tmp_path):
    tiny.write_folder("qwen3_5", tmp_path / "source")
    path = tmp_path / "source" / "config.json"
    config = json.loads(path.read_text()) | {"torch_dtype": "bfloat16"}
    path.write_bytes(BOM_UTF8 + json.dumps(config).encode())
    model, _ = load_model(convert(tmp_path / "source", tmp_path / "made", Quantization()))
    kinds = {array.dtype for _, array in tree_flatten(model.parameters())}
    assert kinds == {mx.bfloat16, mx.uint32, mx.float32}
    kept = [name for name, array in tree_flatten(model.parameters()) if array.dtype == mx.float32]
    assert kept
    assert all(name.endswith("A_log") for name in kept)


def test_weights_in_several_files(source, tmp_path, monkeypatch):
    whole = convert(source, tmp_path / "whole", Quantization())
    ordered = sorted(mx.load(str(source / "model.safetensors")).items())
    (source / "model.safetensors").unlink()
    for number, part in enumerate((ordered[::2], ordered[1::2]), 1):
        mx.save_safetensors(str(source / f"model-{number:05d}-of-00002.safetensors"), dict(part))
    (source / "model.safetensors.index.json").unlink()
    monkeypatch.setattr(subject, "make_shards", lambda weights: [
        dict(list(weights.items())[start::3]) for start in range(3)
    ])  # fmt: skip
    parts = convert(source, tmp_path / "parts", Quantization())
    names = sorted(path.name for path in parts.glob("model*"))
    assert names == [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    assert same(whole, parts)


def test_files_of_the_tokenizer_come_along_and_code_does_not(source, tmp_path):
    for name in ("generation_config.json", "chat_template.jinja", "LICENSE"):
        (source / name).write_text('{"eos_token_id": [256, 257]}')
    for name in ("tokenizer.py", "modeling.py", "pytorch_model.bin"):
        (source / name).write_text("raise SystemExit('run')")
    made = convert(source, tmp_path / "made", Quantization())
    assert {path.name for path in made.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        "generation_config.json", "chat_template.jinja", "LICENSE",
    }  # fmt: skip
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "LICENSE"):
        assert (made / name).read_bytes() == (source / name).read_bytes()
    assert load(ModelFolder(made)).ends == {256, 257}


# What is refused


def test_what_cannot_be_asked_or_done(source, tmp_path, monkeypatch):
    for name in ("lfm2", "mamba"):
        tiny.write_folder(name, tmp_path / name)
    for of, quantization, words in (
        (source, Quantization(bits=7), ("bits cannot be 7", "2, 3, 4, 5, 6, 8")),
        (source, Quantization(group_size=48), ("group size cannot be 48", "32, 64, 128")),
        (source, Quantization(recipe="mixed_9_9"), ("mixed_9_9", "mixed_4_6")),
        (source, Quantization(bits=4, recipe="mixed_4_6"), ("mixed_4_6", "--bits")),
        (tmp_path / "lfm2", Quantization(group_size=128), ("groups of 128", "--group-size")),
        (tmp_path / "mamba", Quantization(recipe="mixed_4_6"), ("--bits",)),
    ):
        refused(of, tmp_path / "made", quantization, *words)
    needed = needed_bytes(load_model(source, lazy=True)[0])
    made, usual = tmp_path / "made", Quantization()
    refused(source, made, usual, "memory", available_bytes=needed - 1)
    convert(source, tmp_path / "fits", usual, available_bytes=needed)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10_000))
    refused(source, made, usual, "64.1 MB")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"quantization": {"group_size": 32, "bits": 8}}, "already to 8 bits"),
        ({"quantization_config": {"quant_method": "gptq"}}, "already (gptq)"),
        ({"text_config": {"quantization_config": {"quant_method": "fp8"}}}, "already (fp8)"),
        ({"quantization": True}, "already"),
        ({"model_file": "evil.py"}, "program code"),
        ({"auto_map": {"AutoModel": "evil"}, "model_type": "no_such"}, "program code"),
        ({"model_type": "no_such"}, "no_such not supported"),
        ({"hidden_size": "wide"}, "cannot be loaded"),
        ({"num_hidden_layers": LAYERS + 1}, "cannot be loaded"),
        ("hf_quant_config.json", "already"),
        ("tokenizer.json", "tokenizer.json"),
    ],
)
def test_sources_that_cannot_be_converted(changes, word, source, tmp_path):
    if changes == "tokenizer.json":
        (source / changes).unlink()
    elif isinstance(changes, str):
        (source / changes).write_text("{}")
    else:
        change_json(source / "config.json", **changes)
    refused(source, tmp_path / "made", Quantization(), word)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")])
def test_nothing_is_left_of_one_that_ends_early(error, source, tmp_path):
    def end(done, total):
        if done > total / 2:
            raise error

    kind = Problem if isinstance(error, OSError) else KeyboardInterrupt
    before = mx.set_cache_limit(123_456)
    with pytest.raises(kind):
        convert(source, tmp_path / "made", Quantization(), progress=end)
    assert mx.set_cache_limit(before) == 123_456
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    convert(source, tmp_path / "made", Quantization())


_WIDE = {"hidden_size": 128, "vocab_size": 8192, "head_dim": 32}
_EXPERTS = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 2,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 512,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
    "vocab_size": 260,
}


_DENSE = {"intermediate_size": 2048}


@pytest.mark.parametrize(
    ("more", "cast_to", "bits"),
    [
        (_EXPERTS, "bfloat16", 8),
        pytest.param(_DENSE, "float16", 2, marks=pytest.mark.slow),
    ],
)
def test_the_estimate_holds(more, cast_to, bits, tmp_path):
    """Nothing is held that is written already; experts are stored one by one, as on the hub."""
    source = tmp_path / "source"
    tiny.write_folder("llama", source)
    config = json.loads((source / "config.json").read_text()) | _WIDE | more
    (source / "config.json").write_text(json.dumps(config | {"torch_dtype": cast_to}))
    model_class, arguments = _get_classes(config)
    weights = dict(tree_flatten(model_class(arguments.from_dict(config)).parameters()))
    for name in [name for name in weights if ".switch_mlp." in name]:
        for number, expert in enumerate(weights.pop(name)):
            weights[name.replace("switch_mlp", f"experts.{number}")] = expert
    mx.save_safetensors(str(source / "model.safetensors"), weights)
    del weights
    mx.clear_cache()

    lazy, _ = load_model(source, lazy=True)
    largest = max(array.nbytes for _, array in tree_flatten(lazy.parameters()))
    del lazy
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    convert(source, tmp_path / "made", Quantization(bits))
    peak = mx.get_peak_memory() - before
    assert largest < peak <= subject._COPIES * largest
    assert peak < 0.75 * inspect(source).size_bytes
    load(ModelFolder(tmp_path / "made"))


SUBJECTS = list(DRAFTERS.values())
MIMO = {
    "token_norm": "token_layernorm.",
    "state_norm": "hidden_layernorm.",
    "fuse": "input_proj.",
    "norm": "final_layernorm.",
    "layer": "",
}


@pytest.fixture
def any_target(tmp_path):
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
def test_every_packaging_still_drafts(subject, bits, any_target, tmp_path):
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
    drafter = make_drafter(named, target=any_target, decoder=decoder)
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
def test_drafters_that_cannot_be_converted(tmp_path, name, settings, word):
    source, model = tmp_path / "source", name == "a model without a module"
    if model:
        tiny.write_folder("llama", source)
    else:
        weights = "head.safetensors" if name == "slipstream-head" else "model.safetensors"
        write_drafter(source, drafter_layout(name), weights=weights)
    with pytest.raises(Problem, match=word):
        converted(source, tmp_path / "made", settings, module_only=model)
    assert not (tmp_path / "made").exists()
