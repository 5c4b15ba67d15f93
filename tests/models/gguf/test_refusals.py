"""Hostile, broken and unsupported GGUF files end in a Problem and leave nothing behind."""

import shutil
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType as Kind
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import Problem
from models.gguf import importing as importer
from models.gguf.importing import import_gguf
from tests.support.models.tiny_gguf import TinyGguf
from tests.support.mostly_slow import examples


@pytest.mark.parametrize(
    ("tiny", "named"),
    [
        (TinyGguf(architecture="gemma3"), "gemma3"),
        (TinyGguf(kind=Kind.F64), "F64"),
        (TinyGguf(rows=100), "embedding rows"),
        (TinyGguf(extra={"llama.expert_count": 8}), "mixture"),
        (TinyGguf(extra={"split.count": 3}), "split"),
        (TinyGguf(extra={"llama.attention.sliding_window": 64}), "sliding-window"),
        (TinyGguf(extra={"llama.rope.dimension_count": 8}), "rotated"),
        (TinyGguf(extra={"llama.rope.scaling.type": "longrope"}), "longrope"),
        (TinyGguf(extra={"llama.embedding_length": 128}), "token_embd"),
        (TinyGguf(extra={"llama.block_count": 4_000_000_000}), "block_count"),
        (TinyGguf(extra={"llama.attention.head_count": 0}), "0 heads"),
        (TinyGguf(extra={"llama.attention.layer_norm_rms_epsilon": float("nan")}), "nan"),
        (TinyGguf(extra={"llama.context_length": "long"}), "long"),
        (TinyGguf(extra={"llama.context_length": None}), "context_length"),
        (TinyGguf(extra={"tokenizer.ggml.eos_token_id": 1_000_000}), "eos_token_id"),
        (TinyGguf(rope_factors=[1.0, 2.0, 1.0, 5.0, 1.0, 1.0, 9.0, 1.0]), "positions"),
        (TinyGguf(leave_out=("blk.1.ffn_up.weight",)), "blk.1.ffn_up.weight"),
        (TinyGguf(leave_out=("token_embd.weight",)), "embedding"),
        (TinyGguf(more_tensors={"blk.0.attn_q.bias": (64,)}), "blk.0.attn_q.bias"),
        (TinyGguf(extra={"tokenizer.ggml.pre": "unheard-of"}), "unheard-of"),
        (TinyGguf(extra={"tokenizer.ggml.model": "t5"}), "t5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_imported_is_named_and_leaves_nothing(
    tmp_path: Path, tiny: TinyGguf, named: str
):
    tiny.write(tmp_path / "a.gguf")
    with pytest.raises(Problem, match=named) as problem:
        import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    assert problem.value.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def header(counts: bytes = bytes(16), version: int = 3) -> bytes:
    return b"GGUF" + version.to_bytes(4, "little") + counts


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GGUF",
        b"no" * 25,
        header(version=1),
        header(version=0x03000000),
        header(),
        header(b"\xff" * 16),
        header((1 << 40).to_bytes(8, "little") + bytes(8)),
        header(bytes(8) + (1 << 60).to_bytes(8, "little")),
        header(bytes(8) + (1).to_bytes(8, "little")) + b"\xff" * 20,
        # an array of 2**60 numbers
        header(bytes(8) + (1).to_bytes(8, "little"))
        + (1).to_bytes(8, "little") + b"k" + (9).to_bytes(4, "little")
        + (4).to_bytes(4, "little") + (1 << 60).to_bytes(8, "little"),
        # arrays of arrays
        header(bytes(8) + (1).to_bytes(8, "little"))
        + (1).to_bytes(8, "little") + b"k"
        + ((9).to_bytes(4, "little") + (1).to_bytes(8, "little")) * 400,
    ],
)  # fmt: skip
def test_no_gguf_at_all(tmp_path: Path, data: bytes):
    (tmp_path / "a.gguf").write_bytes(data)
    with pytest.raises(Problem):
        import_gguf(tmp_path / "a.gguf", tmp_path / "out")


def test_every_truncation_is_refused(tmp_path: Path):
    TinyGguf().write(tmp_path / "a.gguf")
    data = (tmp_path / "a.gguf").read_bytes()
    for length in [*range(0, 2000, 97), *range(2000, len(data), len(data) // 40), len(data) - 33]:
        (tmp_path / "b.gguf").write_bytes(data[:length])
        with pytest.raises(Problem):
            import_gguf(tmp_path / "b.gguf", tmp_path / "out")


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(changes=st.lists(st.tuples(st.integers(0, 8_000), st.integers(0, 255)), max_size=4))
def test_a_mutated_header_is_a_problem_or_a_success(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
):
    folder = tmp_path_factory.mktemp("mutated")
    tiny = TinyGguf(layers=1, width=32, heads=2, key_heads=1, inner=32, kind=Kind.Q8_0)
    tiny.write(folder / "a.gguf")
    data = bytearray((folder / "a.gguf").read_bytes())
    for position, value in changes:
        data[position] = value
    (folder / "a.gguf").write_bytes(data)
    try:
        import_gguf(folder / "a.gguf", folder / "out")
    except Problem:
        assert [path.name for path in folder.iterdir()] == ["a.gguf"]


def test_metadata_of_any_type_is_a_problem_or_a_success(tmp_path: Path):
    odd: list[object] = ["x", "", 5, 0.5, True, [1], ["x"], 2**31, "\x1b[31m" * 100]
    extra = ["llama.rope.scaling.type", "split.count", "general.alignment"]
    problems: list[Problem] = []
    for key in [*TinyGguf().metadata(), *extra]:
        for value in odd:
            TinyGguf(extra={key: value}, layers=1).write(tmp_path / "a.gguf")
            try:
                shutil.rmtree(import_gguf(tmp_path / "a.gguf", tmp_path / "out"))
            except Problem as problem:
                problems.append(problem)
            assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]
    assert problems
    for problem in problems:
        assert problem.message.isprintable()
        assert len(problem.message) < 400


def test_a_place_that_cannot_be_written(tmp_path: Path):
    TinyGguf().write(tmp_path / "a.gguf")
    with pytest.raises(Problem, match="cannot be written"):
        import_gguf(tmp_path / "a.gguf", tmp_path / "a.gguf" / "out")


def test_infinite_scales_are_refused(tmp_path: Path):
    TinyGguf(kind=Kind.Q8_0).write(tmp_path / "a.gguf")
    data = bytearray((tmp_path / "a.gguf").read_bytes())
    data[-64 * 96 // 32 * 34 :] = b"\x00\x7c" * (64 * 96 // 32 * 17)
    (tmp_path / "a.gguf").write_bytes(data)
    with pytest.raises(Problem, match="infinite"):
        import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_a_full_disk_is_seen_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    TinyGguf().write(tmp_path / "a.gguf")
    monkeypatch.setattr(importer, "SPARE_BYTES", 1 << 60)
    with pytest.raises(Problem, match="free"):
        import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_an_existing_folder_is_left_alone(tmp_path: Path):
    TinyGguf().write(tmp_path / "a.gguf")
    (tmp_path / "out").mkdir()
    with pytest.raises(Problem, match="exists"):
        import_gguf(tmp_path / "a.gguf", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_stopping_half_way_leaves_nothing(tmp_path: Path):
    TinyGguf().write(tmp_path / "a.gguf")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_gguf(tmp_path / "a.gguf", tmp_path / "out", progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]
