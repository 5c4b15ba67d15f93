"""A GGUF file becomes a model folder that mlx-lm loads, with the weights the file has."""

import json
from itertools import product
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy
import pytest
from gguf import GGMLQuantizationType as Kind
from mlx.utils import tree_map
from mlx_lm.utils import load_model

from models.gguf import importing as importer
from models.gguf.importing import import_gguf
from tests.support.models.tiny_gguf import TOKENS, TinyGguf
from tests.support.mostly_slow import mostly_slow

EXACT = [Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q8_0]


@pytest.fixture(autouse=True)
def on_the_processor():
    """Metal rounds differently; what is imported does not depend on the device."""
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


def dequantized(folder: Path) -> dict[str, numpy.ndarray]:
    """Every weight of an imported folder as float32, the quantized ones dequantized."""
    stored = mx.load(str(folder / "model.safetensors"))
    settings = json.loads((folder / "config.json").read_text()).get("quantization", {})
    weights = {}
    for name, array in stored.items():
        module, _, part = name.rpartition(".")
        if part in ("scales", "biases"):
            continue
        if part == "weight" and f"{module}.scales" in stored:
            bits = settings.get(module, settings)["bits"]
            scales, biases = (
                stored[f"{module}.{part}"].astype(mx.float32) for part in ("scales", "biases")
            )
            array = mx.dequantize(array, scales, biases, group_size=32, bits=bits)
        weights[name] = numpy.array(array.astype(mx.float32))
    return weights


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [("qwen2", Kind.Q4_0), *(("llama", kind) for kind in EXACT)],
    ids=lambda value: getattr(value, "name", value),
)
def test_quantized_weights_are_bit_exact(tmp_path: Path, architecture: str, kind: Kind):
    expected = TinyGguf(architecture, kind).write(tmp_path / "a.gguf")
    found = dequantized(import_gguf(tmp_path / "a.gguf", tmp_path / "out"))
    assert found.keys() == expected.keys()
    for name, weights in expected.items():
        if weights.ndim == 2:
            numpy.testing.assert_array_equal(found[name], weights, err_msg=name)
        else:  # norms and biases become float16 beside float16 scales
            numpy.testing.assert_array_equal(found[name], weights.astype(numpy.float16))


@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16, Kind.BF16], ids=lambda kind: kind.name)
def test_float_weights_are_kept(tmp_path: Path, kind: Kind):
    expected = TinyGguf(kind=kind).write(tmp_path / "a.gguf")
    folder = import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    found = dequantized(folder)
    for name, weights in expected.items():
        if weights.ndim == 2:
            numpy.testing.assert_array_equal(found[name], weights, err_msg=name)
    types = {array.dtype for array in mx.load(str(folder / "model.safetensors")).values()}
    assert types == {{"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}[kind.name]}
    assert "quantization" not in json.loads((folder / "config.json").read_text())


def test_mixed_float_types_become_float32(tmp_path: Path):
    expected = TinyGguf(kind=Kind.BF16, head_kind=Kind.Q8_0).write(tmp_path / "a.gguf")
    found = dequantized(import_gguf(tmp_path / "a.gguf", tmp_path / "out"))
    for name, weights in expected.items():
        numpy.testing.assert_array_equal(found[name], weights, err_msg=name)


@pytest.mark.parametrize(
    ("architecture", "kind", "untied"),
    mostly_slow(
        product(
            ["llama", "qwen2"],
            [Kind.F32, Kind.F16, Kind.BF16, Kind.Q4_1, Kind.Q5_0, Kind.Q8_0],
            [False, True],
        ),
        quick=[("llama", Kind.Q4_1, True), ("qwen2", Kind.BF16, False), ("qwen2", Kind.Q8_0, True)],
    ),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_logits_equal_those_of_a_model_built_directly(
    tmp_path: Path, architecture: str, kind: Kind, untied: bool
):
    tiny = TinyGguf(architecture, kind, head_kind=kind if untied else None)
    expected = tiny.write(tmp_path / "a.gguf")
    model, config = load_model(import_gguf(tmp_path / "a.gguf", tmp_path / "out"))
    assert config["tie_word_embeddings"] is not untied
    model.update(
        tree_map(
            lambda x: x.astype(mx.float32) if mx.issubdtype(x.dtype, mx.floating) else x,
            model.parameters(),
        )
    )
    modules = __import__(f"mlx_lm.models.{architecture}", fromlist=["Model"])
    direct = modules.Model(modules.ModelArgs.from_dict(config))
    direct.load_weights([(name, mx.array(weights)) for name, weights in expected.items()])
    ids = mx.array([[5, 9, 200, 31, 31, 7, 100]])
    numpy.testing.assert_allclose(model(ids), direct(ids), atol=5e-3, rtol=5e-3)


def test_one_matrix_stored_twice_is_kept_once_with_more_bits(tmp_path: Path):
    tiny = TinyGguf("qwen2", Kind.Q4_0, head_kind=Kind.Q8_0, head_is_embedding=True)
    expected = tiny.write(tmp_path / "a.gguf")
    folder = import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    config = json.loads((folder / "config.json").read_text())
    assert config["tie_word_embeddings"] is True
    assert config["quantization"]["bits"] == 4
    assert config["quantization"]["model.embed_tokens"]["bits"] == 8
    found = dequantized(folder)
    assert "lm_head.weight" not in found
    numpy.testing.assert_array_equal(found["model.embed_tokens.weight"], expected["lm_head.weight"])


def test_mlx_lm_loads_and_generates(tmp_path: Path):
    TinyGguf("qwen2", Kind.Q4_0, head_kind=Kind.Q8_0).write(tmp_path / "a.gguf")
    model, tokenizer = mlx_lm.load(str(import_gguf(tmp_path / "a.gguf", tmp_path / "out")))
    assert tokenizer.eos_token_ids == {TOKENS.index(t) for t in ("<|im_end|>", "<|endoftext|>")}
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "ab"}], add_generation_prompt=True
    )
    assert tokenizer.decode(prompt) == "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n"
    assert isinstance(mlx_lm.generate(model, tokenizer, prompt, max_tokens=3), str)


def llama3_factors(base: float, half: int) -> list[float]:
    wavelengths = 2 * numpy.pi * base ** (numpy.arange(half) / half)
    smooth = numpy.clip((8192 / wavelengths - 1) / 3, 0, 1)
    return (1 / ((1 - smooth) / 32 + smooth)).tolist()


def test_llama3_position_factors_become_rope_scaling(tmp_path: Path):
    base = 500_000.0
    factors = llama3_factors(base, 8)
    assert any(1 < factor < 32 for factor in factors)
    TinyGguf(rope_factors=factors, extra={"llama.rope.freq_base": base}).write(tmp_path / "a.gguf")
    folder = import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    scaling = json.loads((folder / "config.json").read_text())["rope_scaling"]
    assert scaling["rope_type"] == "llama3"
    assert scaling["factor"] == 32.0
    load_model(folder)


@pytest.mark.parametrize(
    ("extra", "rope_type"),
    [
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}, "linear"),
        (
            {
                "llama.rope.scaling.type": "yarn",
                "llama.rope.scaling.factor": 4.0,
                "llama.rope.scaling.original_context_length": 128,
            },
            "yarn",
        ),
    ],
)
def test_scaled_positions(tmp_path: Path, extra: dict[str, object], rope_type: str):
    TinyGguf(extra=extra).write(tmp_path / "a.gguf")
    folder = import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    scaling = json.loads((folder / "config.json").read_text())["rope_scaling"]
    assert (scaling["rope_type"], scaling["factor"]) == (rope_type, 4.0)
    load_model(folder)


def test_progress_reaches_the_total(tmp_path: Path):
    TinyGguf().write(tmp_path / "a.gguf")
    calls: list[tuple[int, int]] = []
    import_gguf(tmp_path / "a.gguf", tmp_path / "out", progress=lambda *call: calls.append(call))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1] > 0


def test_rows_are_converted_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    expected = TinyGguf(kind=Kind.Q4_1).write(tmp_path / "a.gguf")
    monkeypatch.setattr(importer, "CHUNK_WEIGHTS", 64 * 7)
    found = dequantized(import_gguf(tmp_path / "a.gguf", tmp_path / "out"))
    for name, weights in expected.items():
        if weights.ndim == 2:
            numpy.testing.assert_array_equal(found[name], weights, err_msg=name)
