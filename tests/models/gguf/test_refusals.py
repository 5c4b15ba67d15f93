"""Hostile, broken and unsupported GGUF files end in a Problem and leave nothing behind."""

import re
import shutil
from dataclasses import replace

import pytest
from gguf import GGMLQuantizationType as Kind
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import Problem
from models.gguf import importing as importer
from models.gguf.file import read_gguf
from models.gguf.importing import import_gguf
from tests.support.models.tiny_gguf import KINDS, TinyGguf
from tests.support.mostly_slow import examples, mostly_slow

UNSTATED = ["{}.rope.scaling.type", "split.count", "general.alignment", "{}.attn_logit_softcapping"]
KEYS = [
    (name, key.format(name))
    for name in KINDS
    for key in (*TinyGguf(name).metadata(), *UNSTATED)
    if name == "llama" or key.startswith((name, "{}"))
]
ODD = ["x", "", 0, 5, 0.5, True, [1], ["x"], 2**31, "\x1b[31m" * 100]


def test_what_cannot_be_imported_is_named_and_leaves_nothing(tmp_path, subtests):
    for tiny, named in [
        (TinyGguf(architecture="gemma2"), "'gemma2'"),
        (TinyGguf(kind=Kind.F64), "F64"),
        (TinyGguf(rows=100), "embedding rows"),
        (TinyGguf(extra={"llama.expert_count": 8}), "mixture"),
        (TinyGguf(extra={"split.count": 3}), "split"),
        (TinyGguf("gemma3", extra={"gemma3.final_logit_softcapping": 30.0}), "softcapping"),
        (TinyGguf("gemma3", extra={"gemma3.attention.sliding_window": 0}), "sliding_window"),
        (TinyGguf("gemma3", extra={"gemma3.rope.scaling.type": "yarn"}), "yarn"),
        (TinyGguf("qwen3", extra={"qwen3.pooling_type": 3}), "pooling_type"),
        (TinyGguf("qwen3moe", extra={"qwen3moe.expert_used_count": 5}), "uses 5 of them"),
        (TinyGguf("qwen3moe", extra={"qwen3moe.expert_weights_scale": 2.0}), "weights_scale"),
        (TinyGguf("phi3", extra={"phi3.rope.dimension_count": 20}), "rotated"),
        (TinyGguf("phi3", more_tensors={"rope_factors_short.weight": (8,)}), "Phi's"),
        (TinyGguf("qwen3", more_tensors={"rope_freqs.weight": (16,)}), "llama3"),
        (TinyGguf("qwen3", extra={"qwen3.rope.scaling.attn_factor": 1.5}), "scaling"),
        (TinyGguf("lfm2", extra={"lfm2.attention.head_count_kv": [0, 2, 2]}), "head_count_kv"),
        (TinyGguf("lfm2", more_tensors={"output.weight": (260, 64)}), "output layer"),
        (TinyGguf(extra={"llama.attention.sliding_window": 64}), "sliding-window"),
        (TinyGguf(extra={"llama.rope.dimension_count": 8}), "rotated"),
        (TinyGguf(extra={"llama.rope.scaling.type": "longrope"}), "longrope"),
        (TinyGguf(extra={"llama.embedding_length": 128}), "token_embd"),
        (TinyGguf(extra={"llama.block_count": 4_000_000_000}), "block_count"),
        (TinyGguf(extra={"llama.attention.layer_norm_rms_epsilon": float("nan")}), "nan"),
        (TinyGguf(extra={"tokenizer.ggml.eos_token_id": 1_000_000}), "eos_token_id"),
        (TinyGguf(rope_factors=[1.0, 2.0, 1.0, 5.0, 1.0, 1.0, 9.0, 1.0]), "positions"),
        (TinyGguf(more_tensors={"blk.0.attn_q.bias": (64,)}), "blk.0.attn_q.bias"),
        (TinyGguf(extra={"tokenizer.ggml.pre": "unheard-of"}), "unheard-of"),
    ]:
        with subtests.test(named=named):
            tiny.write(tmp_path / "a.gguf")
            with pytest.raises(Problem, match=named) as problem:
                import_gguf(tmp_path / "a.gguf", tmp_path / "out")
            assert problem.value.remedy
            assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def header(counts=bytes(16), version=3):
    return b"GGUF" + version.to_bytes(4, "little") + counts


def changed(data, name, offset, number):
    """A file with this number so many bytes after that name."""
    start = data.index(name) + len(name) + offset
    return data[:start] + number.to_bytes(8, "little") + data[start + 8 :]


def test_no_gguf_at_all_or_a_damaged_one(tmp_path, subtests):
    one, many, array = (n.to_bytes(8, "little") for n in (1, 1 << 60, 9))
    key = header(bytes(8) + one) + one + b"k"
    path, out = tmp_path / "a.gguf", tmp_path / "out"
    TinyGguf().write(path)
    whole = path.read_bytes()
    cuts = [*range(0, 2000, 397), *range(2000, len(whole), len(whole) // 7), len(whole) - 33]
    overlapping = changed(whole, b"blk.0.ffn_up.weight", 4 + 2 * 8 + 4, 0)
    for data, named in [
        *((data, None) for data in (b"", b"GGUF", b"no" * 25, header(version=1), header())),
        *((header(version=0x03000000), None), (header(b"\xff" * 16), None)),
        *((header(b"\1" * 8 + bytes(8)), None), (header(bytes(8) + many), None)),
        (header(bytes(8) + one) + b"\xff" * 20, None),
        (key + array[:4] + b"\4\0\0\0" + many, None),  # an array of 2**60 numbers
        (key + (array[:4] + one) * 400, None),  # arrays of arrays
        *((whole[:length], None) for length in cuts),
        (overlapping, "overlaps another"),
    ]:
        with subtests.test(data=data[:60], size=len(data)):
            path.write_bytes(data)
            with pytest.raises(Problem, match=named):
                import_gguf(path, out)
    for length in (1 << 20, (1 << 63) + 1, (1 << 64) - 9):  # of a text that is passed over
        path.write_bytes(changed(whole, b"tokenizer.ggml.tokens", 4 + 4 + 8, length))
        with subtests.test(length=length), pytest.raises(Problem, match="ends inside"):
            read_gguf(path, lists_of_strings=False)


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.sampled_from(KEYS), value=st.sampled_from(ODD))
def test_metadata_of_any_type_is_a_problem_or_a_success(tmp_path, place, value):
    architecture, key = place
    TinyGguf(architecture, extra={key: value}).write(tmp_path / "a.gguf")
    said = ""
    try:
        shutil.rmtree(import_gguf(tmp_path / "a.gguf", tmp_path / "out"))
    except Problem as problem:
        said = problem.message
    assert said == "" or (said.isprintable() and len(said) < 400)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


@pytest.mark.parametrize("architecture", mostly_slow(KINDS, quick=["lfm2"]))
def test_a_tensor_that_is_missing_or_misshapen_is_named(tmp_path, architecture, subtests):
    tiny = TinyGguf(architecture)
    names = list(tiny.tensors())
    last = max(name.split(".")[1] for name in names if name.startswith("blk."))
    names = [name for name in names if "blk" not in name or name.startswith(f"blk.{last}.")]
    for number, name in enumerate(names):
        misshapen = {name: (3, 32)} if number % 2 else {}
        with subtests.test(name=name, misshapen=bool(misshapen)):
            replace(tiny, leave_out=(name,), more_tensors=misshapen).write(tmp_path / "a.gguf")
            named = "token embedding|" + re.escape(name)
            with pytest.raises(Problem, match=named):
                import_gguf(tmp_path / "a.gguf", tmp_path / "out")


@pytest.mark.parametrize(
    ("architecture", "kind", "scale"),
    [
        ("llama", Kind.Q8_0, b"\x00\x7c"),
        ("gemma3", Kind.Q8_0, b"\x00\x7c"),
        ("gpt-oss", Kind.MXFP4, b"\xff"),
    ],
)
def test_infinite_scales_are_refused(tmp_path, architecture, kind, scale):
    tiny = TinyGguf(architecture, kind, head_kind=kind if architecture == "gpt-oss" else None)
    tiny.write(tmp_path / "a.gguf")
    part = "ffn_up_exps" if architecture == "gpt-oss" else "ffn_up"
    start = read_gguf(tmp_path / "a.gguf").tensors[f"blk.1.{part}.weight"].offset
    data = bytearray((tmp_path / "a.gguf").read_bytes())
    data[start : start + len(scale)] = scale
    (tmp_path / "a.gguf").write_bytes(data)
    with pytest.raises(Problem, match="infinite"):
        import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_what_ends_an_import_before_or_half_way_leaves_nothing(tmp_path, monkeypatch):
    file, out = tmp_path / "a.gguf", tmp_path / "out"
    TinyGguf().write(file)

    def stop(done, total):
        raise KeyboardInterrupt

    def remove(done, total):
        file.unlink(missing_ok=True)

    out.mkdir()
    with pytest.raises(Problem, match="exists"):
        import_gguf(file, out)
    assert list(out.iterdir()) == []
    out.rmdir()
    with monkeypatch.context() as full:
        full.setattr(importer, "SPARE_BYTES", 1 << 60)
        with pytest.raises(Problem, match="free"):
            import_gguf(file, out)
    with pytest.raises(KeyboardInterrupt):
        import_gguf(file, out, progress=stop)
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(Problem, match=r"a\.gguf cannot be read"):
        import_gguf(file, out, progress=remove)
    assert list(tmp_path.iterdir()) == []
