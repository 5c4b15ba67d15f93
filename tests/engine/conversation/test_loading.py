"""What a folder's weights become, and that every bad folder is a `Problem`."""

import json
import shutil
from codecs import BOM_UTF8
from pathlib import Path
from threading import Event

import mlx.core as mx
import mlx.nn as nn
import mlx_lm
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import save_model

from engine.conversation import loading
from engine.conversation.loading import load
from engine.request import Sampling
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.mostly_slow import mostly_slow

PLENTY = 1 << 40
TOKENS = mx.array([[72, 101, 108, 108, 111, 258, 7, 0]])


pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """Sets how much memory is free: plenty, unless called."""

    def set_free(size_bytes):
        monkeypatch.setattr(loading, "free_memory_bytes", lambda: size_bytes)

    set_free(PLENTY)
    return set_free


def parameters(model):
    return dict(tree_flatten(model.parameters()))


def expanded(folder, to, *, mode="affine"):
    """The model in `folder` with its weights as float32, expanded here and loaded by mlx-lm."""
    packed = mx.load(str(folder / "model.safetensors"))
    config = json.loads((folder / "config.json").read_text())
    settings = config.pop("quantization", {})
    weights = {}
    for name, weight in packed.items():
        layer = name.removesuffix(".weight")
        if f"{layer}.scales" in packed and name != layer:
            own = settings.get(layer, settings)
            scales, biases = packed[f"{layer}.scales"], packed.get(f"{layer}.biases")
            if biases is not None:
                scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
            weight = mx.dequantize(
                weight, scales, biases, group_size=own["group_size"], bits=own["bits"], mode=mode
            )
        elif name.endswith((".scales", ".biases")):
            continue
        weights[name] = weight.astype(mx.float32)
    tiny.byte_tokenizer(to)
    mx.save_safetensors(str(to / "model.safetensors"), weights)
    (to / "config.json").write_text(json.dumps(config))
    return mlx_lm.load(str(to))[0]


STORED = [  # an architecture, its number type, bits, how layers differ, and what is said of it
    ("llama", mx.float32, None, {}, "float32"),
    ("llama", mx.bfloat16, None, {}, "float32 from bfloat16"),
    ("llama", mx.float16, None, {}, "float32 from float16"),
    ("llama", mx.float32, 4, {}, "float32 from 4-bit"),
    ("llama", mx.bfloat16, 4, {}, "float32 from 4-bit"),
    ("llama", mx.float16, 8, {}, "float32 from 8-bit"),
    ("gemma3_text", mx.bfloat16, 4, {}, "float32 from 4-bit"),  # its head is its embedding
    ("qwen3_5", mx.bfloat16, 4, {}, "float32 from 4-bit"),
    ("qwen3_5", mx.bfloat16, None, {}, "float32 from bfloat16/float32"),
    ("llama", mx.float32, 4, {"lm_head": {"group_size": 32, "bits": 8}}, "float32 from 4/8-bit"),
    ("llama", mx.float32, 4, {"mode": "mxfp4"}, "float32 from 4-bit"),
]


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("architecture", "dtype", "bits", "stated", "precision"),
    mostly_slow(STORED, quick=[STORED[0], STORED[3], STORED[6], *STORED[-3:]]),
)
def test_on_the_cpu_weights_become_float32(architecture, dtype, bits, stated, precision, tmp_path):
    folder, mode = tmp_path / "model", stated.get("mode", "affine")
    tiny.write_folder(architecture, folder, layers=2, dtype=dtype, bits=None if stated else bits)
    if stated:
        model = tiny.build(architecture, vocabulary=260, layers=2)
        packed = {"group_size": 32, "bits": bits}
        nn.quantize(
            model,
            **packed,
            mode=mode,
            class_predicate=lambda path, layer: stated.get(path, hasattr(layer, "to_quantized")),
        )
        save_model(folder, model)
        change_json(folder / "config.json", quantization=packed | stated)
    loaded = load(ModelFolder(folder))
    assert loaded.precision == precision
    assert {array.dtype for array in parameters(loaded.model).values()} == {mx.float32}
    reference = expanded(folder, tmp_path / "expanded", mode=mode)
    assert mx.array_equal(loaded.model(TOKENS), reference(TOKENS))
    if dtype == mx.float32 and not stated:
        packed, _ = mlx_lm.load(str(folder))
        assert mx.allclose(loaded.model(TOKENS), packed(TOKENS), atol=1e-3)


@pytest.mark.parametrize(
    ("dtype", "bits", "precision"),
    [(mx.bfloat16, None, "bfloat16"), (mx.float16, 4, "4-bit")],
)
def test_without_memory_weights_stay_packed(dtype, bits, precision, tmp_path, memory):
    tiny.write_folder("llama", tmp_path, layers=2, dtype=dtype, bits=bits)
    memory(0)
    loaded = load(ModelFolder(tmp_path))
    assert loaded.precision == precision
    theirs, _ = mlx_lm.load(str(tmp_path))
    ours, theirs = parameters(loaded.model), parameters(theirs)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype
        assert mx.array_equal(array, theirs[name])


@pytest.mark.cpu
@pytest.mark.parametrize("bits", [None, 4])
def test_half_of_the_free_memory_is_enough(bits, tmp_path, memory):
    tiny.write_folder("llama", tmp_path, layers=2, dtype=mx.bfloat16, bits=bits)
    whole = parameters(tiny.build("llama", vocabulary=260, layers=2))
    values = sum(array.size for array in whole.values())
    memory(2 * 4 * values - 2)
    assert "float32" not in load(ModelFolder(tmp_path)).precision
    memory(2 * 4 * values)
    assert "float32" in load(ModelFolder(tmp_path)).precision


# Beside the weights


def change_json(path, **changes):
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | changes))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "model"
    tiny.write_folder("llama", folder, layers=1)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return Path(shutil.copytree(written, tmp_path / "model"))


def test_the_tokenizer_is_read_while_the_weights_are(folder, monkeypatch):
    begun, read = Event(), loading.load_tokenizer

    def waiting(*arguments, **options):
        assert begun.wait(60), "the weights wait for it"
        return read(*arguments, **options)

    monkeypatch.setattr(loading, "load_tokenizer", waiting)
    loaded = load(ModelFolder(folder), cut=lambda model: begun.set())
    assert loaded.ends == {256}


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_every_end_that_the_model_states(name, folder):
    # Families whose turns end with a token of their own state it there, and nowhere else.
    for value, ends in ((258, {256, 258}), ([256, 258, 259], {256, 258, 259})):
        change_json(folder / name, eos_token_id=value)
        assert load(ModelFolder(folder)).ends == ends


TURNS = "{% for m in messages %}<user>{{ m.content }}"
TEMPLATES = {
    TURNS + " <system>\n{% endfor %}": {256, 257},
    TURNS + "done{% endfor %}": {256},
    TURNS + "{% endfor %}": {256},
    # as gpt-oss's: the token after the reasoning is not the one after the answer
    "{% for m in messages %}<user>{% if m.thinking %}{{ m.thinking }}<system>{% endif %}"
    "{{ m.content }}{% if loop.last %}<assistant>{% else %}<system>{% endif %}{% endfor %}": {
        256,
        259,
    },
    "{% for m in messages %}<user>{{ m.thinking or '' }}<system>{{ m.content }}<system>"
    "{% endfor %}": {256},
    "{{ raise_exception('no') }}": {256},
    "{% for m in messages": {256},
}


def test_an_answer_ends_at_the_token_that_the_template_puts_after_it(folder):
    for template, ends in TEMPLATES.items():
        change_json(folder / "tokenizer_config.json", chat_template=template)
        assert load(ModelFolder(folder)).ends == ends, template


def test_json_files_with_byte_order_marks(folder):
    (folder / "generation_config.json").write_text('{"eos_token_id": 258, "temperature": 0.3}')
    for path in folder.glob("*.json"):
        path.write_bytes(BOM_UTF8 + path.read_bytes())
    loaded = load(ModelFolder(folder))
    assert loaded.folder.path == folder
    assert loaded.ends == {256, 258}
    assert loaded.sampling.temperature == 0.3
    assert loaded.model(TOKENS).shape[-1] == 260
    assert loaded.tokenizer.decode(loaded.tokenizer.encode("naïve")) == "naïve"


def test_there_are_remarks_on_an_old_system_and_on_the_makers_sampling(folder, monkeypatch):
    assert load(ModelFolder(folder)).remark == ""
    monkeypatch.setattr("engine.conversation.loading.macos_to_update", lambda: "26.1")
    change_json(folder / "generation_config.json", temperature=0.3, top_p=7)
    loaded = load(ModelFolder(folder))
    assert loaded.sampling == Sampling(temperature=0.3)
    assert "top_p 7" in loaded.remark
    assert "Update to macOS 26.2" in loaded.remark


def test_a_recurrent_model_has_no_limit_of_its_own(tmp_path):
    tiny.write_folder("mamba", tmp_path, layers=2)
    assert load(ModelFolder(tmp_path)).context_length > 1_000_000


# Folders that are not models


def told(folder):
    """What is said of a folder; nothing if it can be loaded."""
    try:
        load(ModelFolder(folder))
    except Problem as problem:
        return str(problem)
    return ""


def test_architectures_that_are_not_there(folder, capfd):
    for model_type in ("nonesuch", "olmo", "cache", "base", "", "..", "a.b", "x/y"):
        change_json(folder / "config.json", model_type=model_type)
        with pytest.raises(Problem) as problem:
            pytest.fail(f"{model_type!r} is {load(ModelFolder(folder))}")
        assert repr(model_type)[1:-1] in problem.value.message
        assert "mlx-lm" in problem.value.remedy
    assert capfd.readouterr() == ("", ""), "a host's output is its protocol"


JUNK = (None, True, -1, 0, 1.5, "x", "\x1b[2J\n", [], [1], {}, {"x": 1}, 1 << 40)


KEYS = (
    "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps",
    "rope_theta", "rope_scaling", "tie_word_embeddings", "vocab_size", "eos_token_id",
    "quantization", "quantization_config", "layer_types", "architectures", "text_config",
    "torch_dtype", "dtype",
)  # fmt: skip


@pytest.mark.parametrize("key", mostly_slow(KEYS, quick=["num_attention_heads", "quantization"]))
def test_a_config_with_junk_is_a_problem_or_a_model(key, folder):
    for value in JUNK:
        if (key, value) == ("num_hidden_layers", 1 << 40):
            continue  # builds layers until the memory is full
        change_json(folder / "config.json", **{key: value})
        assert "\n" not in told(folder), value


SPOILT = (
    *(("tokenizer.json", data) for data in (b"", b"[", b"{}", b"[]", b"3", b"\xff\xfe")),
    ("tokenizer.json", b'{"model": 3}'),
    *(("tokenizer_config.json", data) for data in (b"", b"[", b"[]", b"3", b"\xff\xfe")),
    *(
        ("tokenizer_config.json", {key: "nonsense"})
        for key in ("chat_template_type", "tool_parser_type")
    ),
    ("tokenizer_config.json", {"eos_token": 7}),
)


def test_a_tokenizer_with_junk_and_weights_that_are_missing(folder):
    for name, junk in SPOILT:
        path = folder / name
        whole = path.read_bytes()
        if isinstance(junk, dict):
            change_json(path, **junk)
        else:
            path.write_bytes(junk)
        assert told(folder), (name, junk)
        path.write_bytes(whole)
    assert told(folder) == ""
    weights = mx.load(str(folder / "model.safetensors"))
    del weights["model.layers.0.mlp.up_proj.weight"]
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    assert "up_proj" in told(folder)
