"""Converting: what becomes of weights and files, and what is refused."""

import errno
import json
import shutil
import sys
from codecs import BOM_UTF8
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm import fuse
from mlx_lm.utils import _get_classes, load_model

from engine.cli.models import convert as subject
from engine.cli.models.convert import Quantization, convert, needed_bytes
from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.request import ChatMessage, Request
from models.errors import Problem
from models.model_folder import ModelFolder, inspect
from tests.support.engine import tiny
from tests.support.engine.ended import change_json
from tests.support.engine.repositories import adapter_for
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


@pytest.mark.slow
@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_every_architecture_loads_and_answers(architecture, tmp_path):
    tiny.write_folder(architecture, tmp_path / "source", dtype=mx.bfloat16)
    made = convert(tmp_path / "source", tmp_path / "made", Quantization(bits=4, group_size=32))
    assert inspect(made).quantization_bits == 4
    assert inspect(made).size_bytes < 0.5 * inspect(tmp_path / "source").size_bytes
    assert answer(made, "a b c", tokens=8)


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
        *(
            pytest.param(more, cast_to, bits, marks=pytest.mark.slow)
            for more in (_DENSE, _EXPERTS)
            for cast_to in ("", "float16", "bfloat16")
            for bits in (2, 8)
        ),
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
