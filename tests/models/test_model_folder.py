"""What counts as a model folder, and what is refused before anything in it is loaded."""

import json
import shutil
import struct
from codecs import BOM_UTF8
from pathlib import Path

import mlx_lm.utils
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer

from models.architectures import BUILT_AS_ANOTHER, known_to_mlx
from models.errors import Problem
from models.for_libraries import TOKENIZER, for_libraries
from models.gguf.importing import import_gguf
from models.gguf.tokenizer import SPLIT_BY
from models.model_folder import ModelFolder, inspect, open_model
from models.safetensors_file import SafetensorsWriter, TensorLayout, check_safetensors
from tests.support.models.tiny_gguf import TOKENS, TinyGguf


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pristine")
    TinyGguf().write(folder / "a.gguf")
    return import_gguf(folder / "a.gguf", folder / "model")


@pytest.fixture
def folder(pristine, tmp_path):
    return afresh(pristine, tmp_path / "model")


def afresh(pristine, place):
    shutil.rmtree(place, ignore_errors=True)
    return Path(shutil.copytree(pristine, place))


def change_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


def test_a_model_folder(folder):
    model = inspect(folder)
    assert model.path == folder
    assert model.model_type == "llama"
    assert model.vocabulary_size == len(TOKENS)
    assert model.context_length == 512
    assert model.quantization_bits is None
    assert model.size_bytes == (folder / "model.safetensors").stat().st_size
    assert model.tokenizer_path == folder / "tokenizer.json"
    config = json.loads((folder / "config.json").read_text())
    text = {"vocab_size": 7, "max_position_embeddings": 99}
    nested = {key: value for key, value in config.items() if key not in text}
    nested |= {"text_config": text, "auto_map": {"AutoModel": "modeling_llama.Llama"}}
    nested["quantization"] = {"group_size": 64, "bits": 4, "lm_head": {"bits": 8}}
    (folder / "config.json").write_bytes(BOM_UTF8 + json.dumps(nested).encode())
    model = inspect(folder)
    assert (model.vocabulary_size, model.context_length, model.quantization_bits) == (7, 99, 4)
    (folder / "tokenizer.json").write_bytes(BOM_UTF8 + (folder / "tokenizer.json").read_bytes())
    assert len(inspect(folder).tokens.tokens) == len(TOKENS)


CODE = {"auto_map": {"AutoModel": "evil.Evil"}}
LAYERS = r"config\.json says that its"


def test_a_config_that_is_refused_and_of_which_nothing_is_run(pristine, tmp_path, subtests):
    utf_16 = (pristine / "config.json").read_text().encode("utf-16-le")  # guessed by json
    for config, named in [
        ({"model_file": "evil.py"}, "code"),
        (CODE | {"model_type": "evil"}, "code"),
        (CODE | {"model_type": "../../evil"}, "code"),
        (CODE | {"model_type": "x" * 5000}, "code"),  # no name of a file
        ({"num_hidden_layers": 1_000_000}, LAYERS),
        ({"thinker": {"text_config": {"num_local_experts": 1 << 40}}}, LAYERS),
        ({"hybrid_override_pattern": "M" * 5000}, LAYERS),
        ({"layer_types": ["full_attention"] * 5000}, LAYERS),
        *((data, "JSON") for data in (b"", b"\xff\xfe", b"[" * 100_000, b"3", utf_16)),
        (b'"' + b"x" * 17_000_000, "JSON"),
        *((b'{"model_type": %b}' % kind, "names no") for kind in (b"null", b"3", b'["llama"]')),
    ]:
        with subtests.test(config=str(config)[:60]):
            folder = afresh(pristine, tmp_path / "model")
            canary = folder / "ran"
            (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w')")
            if isinstance(config, dict):
                change_config(folder, **config)
            else:
                (folder / "config.json").write_bytes(config)
            with pytest.raises(Problem, match=named):
                inspect(folder)
            assert not canary.exists()


@pytest.mark.parametrize(
    ("missing", "instead", "named"),
    [
        ("config.json", None, "config.json"),
        ("tokenizer.json", None, "tokenizer.json"),
        ("model.safetensors", None, "no weights"),
        ("model.safetensors", "model.safetensors.part", "downloaded whole"),
        *(("model.safetensors", name, "pickle") for name in ("pytorch_model.bin", "model.pt")),
        ("model.safetensors", "consolidated.pth", "pickle"),
    ],
)
def test_an_incomplete_folder(folder, missing, instead, named):
    (folder / missing).unlink()
    if instead:
        (folder / instead).touch()
    with pytest.raises(Problem, match=named):
        inspect(folder)


def shards(folder, *, here, index):
    """Make `here` the weight files, with tensors t0, t1, ...; the index puts those into `index`."""
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    for number, name in enumerate(here):
        save_file({f"t{number}": numpy.zeros(1)}, folder / name)
    if index:
        named = {f"t{number}": name for number, name in enumerate(index)}
        places = index if isinstance(index, dict) else named
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def numbered(numbers, total):
    return [f"model-{number:05d}-of-{total:05d}.safetensors" for number in numbers]


WHOLE, PART = "model.safetensors", "model_a.safetensors"


def test_weights_are_whole_or_what_is_missing_is_named(folder, subtests):
    for here, index, missing in [
        (numbered([1, 2], 2), numbered([1, 2, 3, 4, 5], 5), None),  # gemma-3-12b-it-4bit
        ([WHOLE], numbered([1, 2], 2), None),  # Qwen3-VL-4B-Instruct-4bit
        (numbered([0, 1, 2], 3), [], None),
        (numbered([1, 2, 3], 3), numbered([1, 2], 2), None),
        (numbered([1], 2), {"t0": numbered([1], 1)[0]}, None),  # every tensor is there
        ([PART], {"t0": "model_b.safetensors"}, None),
        (numbered([1, 3], 3), numbered([1, 2, 3], 3), numbered([2], 3)[0]),
        (numbered([3], 3), [], numbered([1], 3)[0]),
        (numbered([1], 2), numbered([1, 2, 3], 3), numbered([2], 2)[0]),
        ([WHOLE], [WHOLE, *numbered([2], 2)], numbered([2], 2)[0]),
        ([PART], [PART, "model_b.safetensors"], "model_b"),
        (["model-1-of-999999.safetensors"], [], "model-000002-of-999999"),
        *(([PART], {"a": name}, "") for name in ("\ud800\x1b[31m" * 500, ["x"], None)),
    ]:
        with subtests.test(here=here, index=str(index)[:60]):
            shards(folder, here=here, index=index)
            lacks = ModelFolder(folder).lacks
            if missing is None:
                assert lacks == ""
                assert {path.name for path in inspect(folder).headers} == set(here)
                continue
            assert lacks
            assert missing in lacks
            with pytest.raises(Problem, match=missing or "lacks") as problem:
                inspect(folder)
            assert problem.value.message.isprintable()
            assert len(problem.value.message) < 500


def test_an_adapter_says_for_which_model_it_is(folder, tmp_path, subtests):
    (folder / "model.safetensors").unlink()
    for stated, base in [
        ({"model": "org/Base-4bit", "fine_tune_type": "lora"}, "org/Base-4bit"),
        ({"base_model_name_or_path": "org/Base", "peft_type": "LORA"}, "org/Base"),
        ({"model": None}, "a model"),
    ]:
        for place in (folder, tmp_path):  # beside its model's config, or alone
            with subtests.test(base=base, place=place):
                (place / "adapter_config.json").write_text(json.dumps(stated))
                (place / "adapters.safetensors").write_bytes(b"")
                with pytest.raises(Problem, match=f"is an adapter for {base}") as problem:
                    inspect(place)
                assert "--adapter" in problem.value.remedy


def test_a_gguf_file_is_imported_once_and_again_when_it_changes(tmp_path):
    source = tmp_path / "a.gguf"
    TinyGguf().write(source)
    with pytest.raises(Problem, match="GGUF") as problem:
        inspect(source)
    assert f"slipstream convert {source}" in problem.value.remedy
    imports = tmp_path / "imports"
    first = open_model(source, imports=imports)
    calls = []
    again = open_model(source, imports=imports, progress=lambda *call: calls.append(call))
    assert (again, calls) == (first, [])
    assert open_model(first.path, imports=imports) == first
    TinyGguf(layers=1).write(source)
    assert open_model(source, imports=imports).path != first.path


# What MLX can build is known without importing it.
def test_known():
    assert mlx_lm.utils.MODEL_REMAPPING.keys() == BUILT_AS_ANOTHER
    for model_type in ["llama", "qwen3", "mistral", "gpt_oss", "lfm2-vl", "lfm2_vl", "phi-msft"]:
        assert known_to_mlx(model_type), model_type
    for model_type in ["", "own", "../llama", "llama.py", "llama\n", "/llama", "x" * 5000]:
        assert not known_to_mlx(model_type), model_type


# A folder as libraries read it: with a template, with its makers' words, without marks.
TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def written(folder, *added, split="llama-bpe", model_type="mistral", **config):
    tokenizer = Tokenizer(models.BPE())
    words = pre_tokenizers.Split(Regex(SPLIT_BY[split]), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
    tokenizer.add_tokens([AddedToken(token, special=True) for token in added])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_bytes(BOM_UTF8 + json.dumps({"model_type": model_type}).encode())
    with for_libraries(folder, model_type) as place:
        assert json.loads((place / "config.json").read_text()) == {"model_type": model_type}
        return AutoTokenizer.from_pretrained(place, **TOKENIZER)


def test_a_chat_without_a_template_has_the_form_that_the_tokens_show(tmp_path):
    for stated in ({}, {"chat_template": None}, {"chat_template": ""}):
        read = written(tmp_path, "<|im_start|>", "<|im_end|>", model_type="llama", **stated)
        assert read.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=True) == (
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
    assert written(tmp_path, "<|im_start|>", model_type="llama").chat_template is None
    assert written(tmp_path, "<|im_start|>", "<|im_end|>", chat_template="x").chat_template == "x"


@pytest.mark.parametrize(
    ("model_type", "added", "words"),
    [
        ("mistral", ("[INST]",), ["e", "Bay", "Ġ", "1", "2", "3"]),
        ("mistral", (), ["eBay", "Ġ", "123"]),  # another's tokens
        ("llama", ("[INST]",), ["eBay", "Ġ", "123"]),
    ],
)
def test_words_of_mistrals_tokenizers_are_its_makers(model_type, added, words, tmp_path, capfd):
    read = written(tmp_path, *added, model_type=model_type)
    pieces = read.backend_tokenizer.pre_tokenizer.pre_tokenize_str("eBay 123")
    assert [piece for piece, _ in pieces] == words
    assert "regex" not in capfd.readouterr().err


# A fingerprint is of the weights: not of how they are spread over files, nor of their folder.


SAMPLE_BYTES = 4096


def tensors():
    """A large one, a small one, a number, and one with nothing in it."""
    random = numpy.random.default_rng(0)
    return {
        "layers.0.weight": random.standard_normal((40, 64)).astype(numpy.float32),
        "layers.1.weight": random.standard_normal((3, 5)).astype(numpy.float16),
        "scale": numpy.array(0.5, dtype=numpy.float32),
        "empty": numpy.zeros((0, 4), dtype=numpy.float32),
    }


def folder_of(place, *files):
    place.mkdir(parents=True)
    for number, held in enumerate(files):
        save_file(held, place / f"model-{number:05}.safetensors", metadata={"file": str(number)})
    return place


def of(place, *files):
    return ModelFolder(folder_of(place, *files)).fingerprint


@given(places=st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_the_same_over_any_files_and_whatever_loaders_leave_alone(tmp_path_factory, places):
    files = [{}, {}, {}, {}]
    for place, (name, tensor) in zip(places, tensors().items(), strict=True):
        files[place][name] = tensor
    folder = tmp_path_factory.mktemp("spread")
    spread = of(folder / "a", *filter(None, files))
    whole = folder_of(folder / "b", tensors())
    save_file({"other": numpy.ones(3)}, whole / "consolidated.safetensors")
    (whole / "._model.safetensors").write_bytes(b"what another system's file manager leaves")
    (whole / "config.json").write_text("{}")
    assert spread == ModelFolder(whole).fingerprint


def test_another_byte_is_another_model(tmp_path, subtests):
    known = of(tmp_path / "known", tensors())
    for name in ("layers.0.weight", "layers.1.weight", "scale"):
        held = tensors()[name]
        for place in {0, 1, held.nbytes // 2, held.nbytes - 1}:
            data = bytearray(held.tobytes())
            data[place] ^= 1
            changed = numpy.frombuffer(bytes(data), dtype=held.dtype).reshape(held.shape)
            found = of(tmp_path / f"{name}-{place}", tensors() | {name: changed})
            with subtests.test(name=name, place=place):
                assert (found == known) == (place >= SAMPLE_BYTES)


def test_another_name_shape_or_type_is_another_model(tmp_path):
    held = tensors()
    first = held["layers.0.weight"]
    renamed = {name.replace("1", "2"): tensor for name, tensor in held.items()}
    swapped = held | {"layers.0.weight": held["layers.1.weight"], "layers.1.weight": first}
    folders = [
        held,
        renamed,
        swapped,
        held | {"layers.0.weight": first.reshape(64, 40)},
        held | {"layers.0.weight": first.view(numpy.int32)},
        held | {"empty": numpy.zeros((0, 5), dtype=numpy.float32)},
        held | {"one more": first},
        {name: tensor for name, tensor in held.items() if name != "empty"},
    ]
    prints = {of(tmp_path / f"{number}", each) for number, each in enumerate(folders)}
    assert len(prints) == len(folders)


# Headers of weights are believed only where they add up; what the writer writes, everybody reads


GOOD = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "U8", "shape": [], "data_offsets": [24, 25]},
}


def of_header(path, header, data=bytes(25)):
    if isinstance(header, int):  # the length that it says it has
        path.write_bytes(struct.pack("<Q", header) + data)
        return path
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_a_header_that_does_not_add_up(tmp_path, subtests):
    for header, data in [
        (GOOD, bytes(24)),
        (GOOD, bytes(26)),
        (b"[" * 100_000, b""),
        ({"a": {**GOOD["a"], "dtype": "F3"}}, bytes(24)),
        ({"a": {**GOOD["a"], "shape": [2, -3]}}, bytes(24)),
        ({"a": {**GOOD["a"], "shape": [True, 6]}}, bytes(24)),
        ({"a": {**GOOD["a"], "data_offsets": [24, 0]}}, bytes(24)),
        ({"a": GOOD["a"], "b": {**GOOD["a"], "data_offsets": [8, 32]}}, bytes(32)),
        ({"a": GOOD["a"], "b": {**GOOD["a"], "data_offsets": [32, 56]}}, bytes(56)),
        ({"\ud800\x1b[31m": GOOD["a"]}, bytes(25)),  # cannot be printed
        ({"a": "\ud800" * 500}, bytes(25)),
        (json.dumps(GOOD).encode("utf-16-le"), bytes(25)),  # json guesses it, no loader takes it
        ({"a": {"dtype": "U8", "shape": [25] + [1] * 64, "data_offsets": [0, 25]}}, bytes(25)),
        ({"x" * 100_000: {**GOOD["a"], "data_offsets": [1, 25]}}, bytes(25)),
        (1 << 62, b"{}"),
    ]:
        with subtests.test(header=str(header)[:50]):
            with pytest.raises(Problem, match="damaged") as problem:
                check_safetensors(of_header(tmp_path / "w", header, data))
            assert problem.value.message.isprintable()
            assert len(problem.value.message) < 300 + len(str(tmp_path))
    (tmp_path / "few").write_bytes(b"123")
    for name, said in (("few", "few bytes"), ("missing", "cannot be read")):
        with pytest.raises(Problem, match=said):
            check_safetensors(tmp_path / name)
    assert check_safetensors(of_header(tmp_path / "w", GOOD | {"__metadata__": {"x": "y"}})) == {
        "a": TensorLayout("F32", (2, 3)),
        "b": TensorLayout("U8", ()),
    }


def test_the_writer_refuses_what_was_not_announced(tmp_path):
    layouts = {"x": TensorLayout("U8", (2,)), "y": TensorLayout("U8", (1,))}
    for name, data, said in (
        ("y", b"1", "expected x"), ("x", b"123", "3 bytes"), ("x", b"12", "not written")
    ):  # fmt: skip
        begun = SafetensorsWriter(tmp_path / f"{name}{len(data)}", layouts)
        with pytest.raises(ValueError, match=said), begun as writer:
            writer.write(name, data)
