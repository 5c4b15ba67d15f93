"""Headers are believed only where they add up; what the writer writes, everybody reads."""

import json
import struct

import mlx.core as mx
import numpy
import pytest
from safetensors.numpy import load_file

from models.errors import Problem
from models.safetensors_file import SafetensorsWriter, TensorLayout, check_safetensors

GOOD = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "U8", "shape": [], "data_offsets": [24, 25]},
}


def written(path, header, data=bytes(25)):
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
        (b"", b""),
        (b"{", b""),
        (b"[" * 100_000, b""),
        ([], b""),
        ({"a": 1}, b""),
        ({"a": {**GOOD["a"], "dtype": "F3"}}, bytes(24)),
        ({"a": {**GOOD["a"], "shape": [2, -3]}}, bytes(24)),
        ({"a": {**GOOD["a"], "shape": [True, 6]}}, bytes(24)),
        ({"a": {**GOOD["a"], "data_offsets": [24, 0]}}, bytes(24)),
        ({"a": {**GOOD["a"], "data_offsets": [0]}}, bytes(24)),
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
                check_safetensors(written(tmp_path / "w", header, data))
            assert problem.value.message.isprintable()
            assert len(problem.value.message) < 300 + len(str(tmp_path))
    (tmp_path / "few").write_bytes(b"123")
    for name, said in (("few", "few bytes"), ("missing", "cannot be read")):
        with pytest.raises(Problem, match=said):
            check_safetensors(tmp_path / name)
    assert check_safetensors(written(tmp_path / "w", GOOD | {"__metadata__": {"x": "y"}})) == {
        "a": TensorLayout("F32", (2, 3)),
        "b": TensorLayout("U8", ()),
    }


def test_the_writer_writes_what_mlx_and_the_library_read(tmp_path):
    values = {
        "x": numpy.arange(6, dtype=numpy.uint32).reshape(2, 3),
        "y": numpy.linspace(0, 1, 5, dtype=numpy.float16),
    }
    layouts = {"x": TensorLayout("U32", (2, 3)), "y": TensorLayout("F16", (5,))}
    with SafetensorsWriter(tmp_path / "w.safetensors", layouts) as writer:
        for name, array in values.items():
            writer.write(name, array.data)
    assert check_safetensors(tmp_path / "w.safetensors") == layouts
    read = mx.load(str(tmp_path / "w.safetensors"))
    for name, array in load_file(tmp_path / "w.safetensors").items():
        numpy.testing.assert_array_equal(array, values[name])
        numpy.testing.assert_array_equal(numpy.array(read[name]), values[name])


def test_the_writer_refuses_what_was_not_announced(tmp_path):
    layouts = {"x": TensorLayout("U8", (2,)), "y": TensorLayout("U8", (1,))}
    for name, data, said in (
        ("y", b"1", "expected x"), ("x", b"123", "3 bytes"), ("x", b"12", "not written")
    ):  # fmt: skip
        written = SafetensorsWriter(tmp_path / f"{name}{len(data)}", layouts)
        with pytest.raises(ValueError, match=said), written as writer:
            writer.write(name, data)
