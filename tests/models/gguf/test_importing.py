"""A GGUF file becomes a model folder that mlx-lm loads, with the weights the file has."""

import json
import math
from dataclasses import replace
from importlib import import_module
from itertools import product

import mlx.core as mx
import mlx_lm
import numpy
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize
from mlx.utils import tree_map
from mlx_lm.utils import load_model

from models.errors import Problem
from models.gguf import importing as importer
from models.gguf.file import read_gguf
from models.gguf.importing import import_gguf
from models.gguf.ollama import as_llama_cpp_writes
from models.gguf.weights import bits_for, pack_rows
from tests.support.models.tiny_gguf import KINDS, TOKENS, TinyGguf
from tests.support.mostly_slow import mostly_slow

UNTIED = {name: [False, True] if kind.ties else [True] for name, kind in KINDS.items()} | {
    "lfm2": [False]
}
EXACT = [Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q8_0]


@pytest.fixture(autouse=True)
def on_the_processor():
    """Metal rounds differently; what is imported does not depend on the device."""
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


def dequantized(folder):
    """Every weight of an imported folder as float32, the quantized ones dequantized."""
    stored = mx.load(str(folder / "model.safetensors"))
    settings = json.loads((folder / "config.json").read_text()).get("quantization", {})
    weights = {}
    for name, array in stored.items():
        module, _, part = name.rpartition(".")
        if part in ("scales", "biases"):
            continue
        if part == "weight" and f"{module}.scales" in stored:
            own = settings.get(module, settings)
            chosen = {key: own[key] for key in ("group_size", "bits", "mode")}
            scales, biases = (stored.get(f"{module}.{part}") for part in ("scales", "biases"))
            if biases is not None:
                scales, biases = (part.astype(mx.float32) for part in (scales, biases))
            array = mx.dequantize(array, scales, biases, **chosen)
        weights[name] = numpy.array(array.astype(mx.float32))
    return weights


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [("qwen2", Kind.Q4_0), *(("llama", kind) for kind in EXACT)],
    ids=lambda value: getattr(value, "name", value),
)
def test_quantized_weights_are_bit_exact(tmp_path, monkeypatch, architecture, kind):
    monkeypatch.setattr(importer, "CHUNK_WEIGHTS", 64 * 7)  # a part of the rows at a time
    expected = TinyGguf(architecture, kind).write(tmp_path / "a.gguf")
    found = dequantized(import_gguf(tmp_path / "a.gguf", tmp_path / "out"))
    assert found.keys() == expected.keys()
    for name, weights in expected.items():
        if weights.ndim == 2:
            numpy.testing.assert_array_equal(found[name], weights, err_msg=name)
        else:  # norms and biases become float16 beside float16 scales
            numpy.testing.assert_array_equal(found[name], weights.astype(numpy.float16))


@pytest.mark.parametrize(
    ("kind", "head", "stored"),
    [(Kind.F16, None, mx.float16), (Kind.BF16, None, mx.bfloat16), (Kind.BF16, Kind.Q8_0, None)],
    ids=["F16", "BF16", "mixed: float32"],
)
def test_float_weights_are_kept(tmp_path, kind, head, stored):
    expected = TinyGguf(kind=kind, head_kind=head).write(tmp_path / "a.gguf")
    folder = import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    found = dequantized(folder)
    for name, weights in expected.items():
        if weights.ndim == 2 or stored is None:
            numpy.testing.assert_array_equal(found[name], weights, err_msg=name)
    if stored is not None:
        types = {array.dtype for array in mx.load(str(folder / "model.safetensors")).values()}
        assert types == {stored}
        assert "quantization" not in json.loads((folder / "config.json").read_text())


def loaded(folder):
    """The model in the folder as mlx-lm loads it, computing in float32."""
    model, _ = load_model(folder)
    model.update(
        tree_map(
            lambda x: x.astype(mx.float32) if mx.issubdtype(x.dtype, mx.floating) else x,
            model.parameters(),
        )
    )
    return model


def of_weights(tiny, weights):
    """mlx-lm's model of the configuration that was written down by hand."""
    model = tiny.mlx_model()
    model.load_weights([(name, mx.array(array)) for name, array in weights.items()])
    return model


IDS = mx.array([[5, 9, 200, 31, 31, 7, 100]])


@pytest.mark.parametrize("architecture", KINDS)
def test_logits_of_float_weights_are_exactly_those_of_mlx_lm(tmp_path, architecture):
    for untied in UNTIED[architecture]:
        path = tmp_path / f"{untied}.gguf"
        tiny = TinyGguf(architecture, head_kind=Kind.F32 if untied else None)
        weights = tiny.write(path)
        folder = import_gguf(path, tmp_path / f"{untied}")
        config = json.loads((folder / "config.json").read_text())
        assert config["tie_word_embeddings"] is not untied
        numpy.testing.assert_array_equal(loaded(folder)(IDS), of_weights(tiny, weights)(IDS))


@pytest.mark.parametrize(
    ("architecture", "kind"),
    mostly_slow(
        [
            *product(KINDS, [Kind.F16, Kind.BF16, Kind.Q4_0, Kind.Q8_0, Kind.Q4_1, Kind.Q5_0]),
            ("gpt-oss", Kind.MXFP4),
        ],
        quick=[
            *(("gemma3", Kind.Q4_0), ("lfm2", Kind.Q4_0), ("qwen3moe", Kind.Q8_0)),
            ("gpt-oss", Kind.MXFP4),
            ("llama", Kind.BF16),
        ],
    ),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_logits_of_quantized_weights_are_those_of_mlx_lm(tmp_path, architecture, kind):
    tiny = TinyGguf(architecture, kind, head_kind=kind if True in UNTIED[architecture] else None)
    weights = tiny.write(tmp_path / "a.gguf")
    folder = import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    found = dequantized(folder)
    assert found.keys() == weights.keys()
    stored = {array.dtype for array in mx.load(str(folder / "model.safetensors")).values()}
    precision = 2**-8 if mx.bfloat16 in stored else 2**-11
    for name, array in weights.items():
        # The smallest weight of a group rounds, and how far the largest is from it.
        most = 3 * precision * numpy.abs(array).max()
        numpy.testing.assert_allclose(found[name], array, rtol=0, atol=most, err_msg=name)
    expected = of_weights(tiny, found)(IDS)
    numpy.testing.assert_allclose(loaded(folder)(IDS), expected, atol=1e-5, rtol=1e-4)


def test_a_model_that_is_split_over_files(tmp_path):
    tiny = TinyGguf("qwen3", Kind.Q8_0)
    expected = tiny.write(tmp_path / "a.gguf", split_max_tensors=7)
    first, *later = sorted(tmp_path.iterdir())
    assert len(later) == 3
    found = dequantized(import_gguf(first, tmp_path / "out"))
    assert found.keys() == expected.keys()
    with pytest.raises(Problem, match="split"):
        import_gguf(later[0], tmp_path / "other")
    later[0].rename(tmp_path / "kept")
    with pytest.raises(Problem, match=later[0].name):
        import_gguf(first, tmp_path / "other")
    later[1].rename(later[0])
    with pytest.raises(Problem, match="not part 2"):
        import_gguf(first, tmp_path / "other")


def test_the_factors_of_phi_become_longrope(tmp_path):
    long, short = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0] * 6
    stated = {
        "phi3.rope.dimension_count": 12,
        "phi3.rope.scaling.original_context_length": 128,
        "phi3.rope.scaling.attn_factor": math.sqrt(1 + math.log(4) / math.log(128)),
    }
    for factor, right in [(stated["phi3.rope.scaling.attn_factor"], True), (1.5, False)]:
        tiny = TinyGguf("phi3", extra=stated | {"phi3.rope.scaling.attn_factor": factor})
        factors = {"long": long, "short": short}
        tensors = {f"rope_factors_{name}.weight": numpy.float32(factors[name]) for name in factors}
        weights = tiny.write(tmp_path / "a.gguf", tensors)
        if not right:
            with pytest.raises(Problem, match="Phi"):
                import_gguf(tmp_path / "a.gguf", tmp_path / "other")
            continue
        folder = import_gguf(tmp_path / "a.gguf", tmp_path / "out")
        module = import_module("mlx_lm.models.phi3")
        by_hand = tiny.config() | {
            "partial_rotary_factor": 0.75,
            "original_max_position_embeddings": 128,
            "rope_scaling": {"type": "longrope", "long_factor": long, "short_factor": short},
        }
        model = module.Model(module.ModelArgs.from_dict(by_hand))
        model.load_weights([(name, mx.array(array)) for name, array in weights.items()])
        numpy.testing.assert_array_equal(loaded(folder)(IDS), model(IDS))


def test_one_matrix_stored_twice_is_kept_once_with_more_bits(tmp_path):
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


def test_mlx_lm_loads_and_generates(tmp_path):
    TinyGguf("qwen2", Kind.Q4_0, head_kind=Kind.Q8_0).write(tmp_path / "a.gguf")
    model, tokenizer = mlx_lm.load(str(import_gguf(tmp_path / "a.gguf", tmp_path / "out")))
    assert tokenizer.eos_token_ids == {TOKENS.index(t) for t in ("<|im_end|>", "<|endoftext|>")}
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "ab"}], add_generation_prompt=True
    )
    assert tokenizer.decode(prompt) == "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n"
    assert isinstance(mlx_lm.generate(model, tokenizer, prompt, max_tokens=3), str)


def llama3_factors(base, half):
    wavelengths = 2 * numpy.pi * base ** (numpy.arange(half) / half)
    smooth = numpy.clip((8192 / wavelengths - 1) / 3, 0, 1)
    return (1 / ((1 - smooth) / 32 + smooth)).tolist()


BASE = 500_000.0
FACTORS = llama3_factors(BASE, 8)
ROPE = "llama.rope.scaling."


@pytest.mark.parametrize(
    ("tiny", "stated"),
    [
        (TinyGguf(rope_factors=FACTORS, extra={"llama.rope.freq_base": BASE}),
         {"rope_type": "llama3", "factor": 32.0}),
        (TinyGguf(extra={f"{ROPE}type": "linear", f"{ROPE}factor": 4.0}),
         {"rope_type": "linear", "factor": 4.0}),
        (TinyGguf(extra={
            f"{ROPE}type": "yarn", f"{ROPE}factor": 4.0, f"{ROPE}original_context_length": 128,
            f"{ROPE}yarn_beta_fast": 16.0,
         }), {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0}),
    ],
    ids=["llama3", "linear", "yarn"],
)  # fmt: skip
def test_scaled_positions(tmp_path, tiny, stated):
    assert any(1 < factor < 32 for factor in FACTORS)
    tiny.write(tmp_path / "a.gguf")
    folder = import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    scaling = json.loads((folder / "config.json").read_text())["rope_scaling"]
    assert stated.items() <= scaling.items()
    load_model(folder)


def test_ollamas_own_files_are_read_as_llama_cpps(tmp_path):
    TinyGguf("gpt-oss").write(tmp_path / "a.gguf")
    file = read_gguf(tmp_path / "a.gguf")
    metadata = {name.replace("gpt-oss", "gptoss"): value for name, value in file.metadata.items()}
    metadata["general.architecture"] = "gptoss"
    del metadata["gptoss.expert_feed_forward_length"], metadata["gptoss.rope.scaling.type"]
    norm, sinks = ("post_attention_norm", "ffn_norm"), ("attn_sinks.weight", "attn_sinks")
    tensors = {n.replace(*norm).replace(*sinks): tensor for n, tensor in file.tensors.items()}
    assert as_llama_cpp_writes(replace(file, metadata=metadata, tensors=tensors)) == file
    older = {"rope.global.freq_base": 5e5, "rope.freq_base": None, "context_length": 131072}
    older |= {"attention.layer_norm_rms_epsilon": None, "rope.scaling.type": None}
    extra = {f"gemma3.{name}": value for name, value in older.items()}
    tower = {"v.blk.0.attn_q.weight": (4, 4), "mm.mm_input_projection.weight": (4, 4)}
    TinyGguf("gemma3", extra=extra, more_tensors=tower).write(tmp_path / "b.gguf")
    import_gguf(tmp_path / "b.gguf", tmp_path / "b")
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    found = config["rope_theta"], config["rms_norm_eps"], config["rope_scaling"]["factor"]
    assert found == (5e5, 1e-6, 8.0)


@pytest.mark.parametrize(
    ("kind", "block_bytes", "scale_offsets", "allowed"),
    [
        (Kind.Q4_K, 144, (0, 2), 1e-6),
        (Kind.Q5_K, 176, (0, 2), 1e-6),
        (Kind.Q6_K, 210, (208,), 0.01),
        (Kind.Q3_K, 110, (108,), 0.05),
        (Kind.Q2_K, 84, (80, 82), 0.05),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_k_quants_keep_their_codes_or_lose_little(kind, block_bytes, scale_offsets, allowed):
    random = numpy.random.default_rng(3)
    blocks = random.integers(0, 256, (12, block_bytes), dtype=numpy.uint8)
    for offset in scale_offsets:
        halves = random.uniform(0.001, 0.01, (12, 1)).astype(numpy.float16)
        blocks[:, offset : offset + 2] = halves.view(numpy.uint8)
    rows = blocks.reshape(4, 3 * block_bytes)
    packed, expected = pack_rows(rows, kind), dequantize(rows, kind)
    arrays = (mx.array(part) for part in (packed.weight, packed.scales, packed.biases))
    found = numpy.array(mx.dequantize(*arrays, group_size=32, bits=bits_for(kind)))
    lost = numpy.sqrt(numpy.mean((found - expected) ** 2))
    assert lost < allowed * numpy.std(expected)
