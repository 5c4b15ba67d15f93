"""What a folder's weights become, and that every bad folder is a `Problem`."""

import copy
import json
import shutil
import subprocess
import sys
from codecs import BOM_UTF8
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import mlx.core as mx
import mlx.nn as nn
import mlx_lm
import pytest
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import _get_classes, save_model
from transformers.utils import import_utils

from engine.conversation import loading
from engine.conversation.configuration import as_mlx_lm_reads, build_model
from engine.conversation.default_sampling import BALANCED_SMALL, default_sampling
from engine.conversation.loading import load
from engine.conversation.quick_transformers import hasten
from engine.request import BALANCED, Sampling
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.engine.test_architectures import LEFT_OUT
from tests.support.engine import tiny
from tests.support.models.model_folders import CONFIGS
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


# What holds where nothing was chosen: the folder's word, else a balanced sampling


LARGE = CONFIGS["llama"]


def stating(path, stated, config=LARGE):
    (path / "config.json").write_text(json.dumps(config))
    text = stated if isinstance(stated, str) else json.dumps(stated)
    (path / "generation_config.json").write_text(text)
    return ModelFolder(path)


TEMPERED = Sampling(temperature=0.7)
PENALIZED = replace(BALANCED, repetition_penalty=1.1)
STATED = (  # what is stated, the sampling, and what of it cannot be used
    (
        {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20},
        Sampling(temperature=0.6, top_p=0.95, top_k=20),
        "",
    ),
    (
        {"temperature": 0.7, "repetition_penalty": 1.1, "min_p": 0.05},
        replace(TEMPERED, repetition_penalty=1.1, min_p=0.05),
        "",
    ),
    # transformers reads a temperature that is missing as 1
    ({"do_sample": True, "top_k": 64}, Sampling(top_k=64, temperature=1.0), ""),
    # what is said of one who decodes greedily
    (
        {"temperature": 1e-06, "top_k": 1, "top_p": 0.001, "repetition_penalty": 1.05},
        Sampling(top_k=1, top_p=0.001, repetition_penalty=1.05),
        "",
    ),
    ({"temperature": 0, "repetition_penalty": 1.05}, Sampling(repetition_penalty=1.05), ""),
    ({"do_sample": False, "temperature": 0.6}, BALANCED, ""),
    ({"do_sample": False, "repetition_penalty": 1.1}, PENALIZED, ""),
    ({"do_sample": True}, BALANCED, ""),
    ({"do_sample": True, "repetition_penalty": 1.1}, PENALIZED, ""),
    ({"top_p": 0.9}, BALANCED, ""),
    ({"temperature": None, "top_k": -1}, BALANCED, ""),
    ({"temperature": 0.7, "top_k": 20.0}, replace(TEMPERED, top_k=20), ""),
    ("[1, 2]", BALANCED, ""),
    ("{", BALANCED, ""),
    ({"eos_token_id": 2}, BALANCED, ""),
    ({"temperature": 0.7, "top_p": 7}, TEMPERED, "top_p 7"),
    ({"temperature": 0.7, "top_k": 2.5}, TEMPERED, "top_k 2.5"),
    ({"temperature": True}, BALANCED, "temperature True"),
    ({"temperature": "hot", "top_p": 0.8}, replace(BALANCED, top_p=0.8), "temperature 'hot'"),
    (
        {"do_sample": True, "temperature": -1.0, "top_k": 64},
        Sampling(temperature=1.0, top_k=64),
        "temperature -1.0",
    ),
)


def test_the_folder_says_how_it_is_sampled_and_only_what_cannot_be_used_is_left_out(tmp_path):
    for stated, sampling, unused in STATED:
        found, remark = default_sampling(stating(tmp_path, stated))
        assert (stated, found, bool(remark)) == (stated, sampling, bool(unused))
        assert unused in remark
    assert default_sampling(ModelFolder(tmp_path / "empty")) == (BALANCED, "")


def test_small_models_are_penalized_for_repeating_themselves(tmp_path):
    small = CONFIGS["smollm2-135m"]
    assert default_sampling(stating(tmp_path, {}, small))[0] == BALANCED_SMALL
    stated = Sampling(temperature=0.5)
    assert default_sampling(stating(tmp_path, {"temperature": 0.5}, small))[0] == stated


# A command imports what it needs, and transformers lists its models once


ROOT = Path(__file__).parents[3]
MODELS = Path(import_utils.__file__).parents[1] / "models"
WRITTEN = (
    "",
    "# no __all__ here\n",
    '__all__ = ["A", "B"]\n',
    'x = 1\n__all__ = [\n    "A",\n    "B",\n]\ny = 2\n',
    '__all__ = ["A"]\nx = 1\n__all__ = [\n    "B",\n]\n',
    '    __all__ = ["A"]\n',
    "x = __all__\n",
)


def test_a_command_begins_without_what_it_does_not_need():
    program = "import engine.cli.main, sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.splitlines())
    assert "typer" in loaded
    assert loaded & {"gguf", "mlx", "numpy", "psutil"} == set()


def test_the_names_of_a_file_are_those_that_transformers_finds_and_each_folder_is_read_once():
    """In this process, too, where transformers was imported after the engine."""
    own = import_utils.fetch__all__.__wrapped__
    quick = SimpleNamespace(fetch__all__=own, create_import_structure_from_path=lru_cache(len))
    hasten(quick)
    assert quick.fetch__all__ is not own
    for text in [*WRITTEN, *(path.read_text("utf-8") for path in MODELS.glob("llama/*.py"))]:
        assert quick.fetch__all__(text) == own(text), text[:80]
    known = import_utils.create_import_structure_from_path.cache_info()
    assert known.maxsize is None
    import_utils.create_import_structure_from_path(str(MODELS / "llama"))
    assert import_utils.create_import_structure_from_path.cache_info().misses == known.misses > 400


# A config.json gives the same model, whether transformers 4 or 5 wrote it


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


LAYERS = ["sliding_attention", "full_attention"]
RENAMED = (
    ({"model_type": "qwen3_moe", "num_local_experts": 4}, {"num_experts": 4}),
    ({"model_type": "cohere2", "layer_types": LAYERS * 2}, {"sliding_window_pattern": 2}),
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
            "layer_types": LAYERS,
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
