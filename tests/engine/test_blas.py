"""A block of rows is bit-identical to single rows: what greedy equality on the CPU rests on."""

import os
import subprocess
import sys
from ctypes.util import find_library

import mlx.core as mx
import pytest

from engine.blas import prefer_openblas
from engine.decoder import Decoder
from tests.engine.tiny import build

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a Mac has its own BLAS")
REPORT = """
import ctypes, os, engine, mlx.core
library = ctypes.CDLL("libopenblas.so.0")
library.openblas_get_corename.restype = ctypes.c_char_p
print(library.openblas_get_corename().decode())
maps = open("/proc/self/maps").read()
print(maps.index("libopenblas") > 0)
"""


@linux
@pytest.mark.skipif(find_library("openblas") is None, reason="OpenBLAS is not installed")
@pytest.mark.parametrize("preset", [None, "Haswell"])
def test_kernels_are_chosen_whatever_the_environment_says(preset: str | None) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
    if preset is not None:
        environment["OPENBLAS_CORETYPE"] = preset

    told = subprocess.run(
        [sys.executable, "-c", REPORT], env=environment, check=True, capture_output=True, text=True
    )

    assert told.stdout.split() == ["Sandybridge", "True"]


@linux
@pytest.mark.skipif(find_library("openblas") is None, reason="OpenBLAS is not installed")
def test_learning_starts_again_once_with_any_kernels() -> None:
    program = f"""
import sys
print("started", len(sys.argv), flush=True)
import engine.blas
engine.blas.start_again_with_any_kernels()
{REPORT}"""
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
    told = subprocess.run(
        [sys.executable, "-c", program, "distil"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert told[:4] == ["started", "2", "started", "2"]
    plain = 'import ctypes; blas = ctypes.CDLL("libopenblas.so.0"); '
    plain += "blas.openblas_get_corename.restype = ctypes.c_char_p; "
    plain += "print(blas.openblas_get_corename().decode())"
    own = subprocess.run(
        [sys.executable, "-c", plain], env=environment, check=True, capture_output=True, text=True
    )
    assert told[4:] == [own.stdout.strip(), "True"]


def test_comes_too_late_after_mlx() -> None:
    assert "mlx" in sys.modules
    assert not prefer_openblas()


# Inner x outer sizes: of the tiny models, of SmolLM2-135M, of Qwen2.5-0.5B. Half precision has
# no BLAS, and is slow.
SMALL = [(64, 64), (64, 128), (128, 64), (64, 260)]
LARGE = [(576, 1536), (1536, 576), (896, 4864), (4864, 896)]


@pytest.mark.parametrize(
    ("inner", "outer", "dtype"),
    [(*size, mx.float32) for size in SMALL + LARGE]
    + [(*size, half) for size in SMALL for half in (mx.bfloat16, mx.float16)],
)
def test_block_of_rows_is_its_rows(inner: int, outer: int, dtype: mx.Dtype) -> None:
    keys = mx.random.split(mx.random.key(inner + outer))
    rows = mx.random.normal((41, inner), key=keys[0]).astype(dtype)
    weight = mx.random.normal((outer, inner), key=keys[1]).astype(dtype)
    alone = mx.concatenate([rows[i : i + 1] @ weight.T for i in range(41)])

    for count in (2, 3, 4, 6, 9, 17, 41):
        assert mx.array_equal(rows[:count] @ weight.T, alone[:count]), count


@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_block_of_rows_is_its_rows(bits: int) -> None:
    keys = mx.random.split(mx.random.key(0))
    rows = mx.random.normal((17, 128), key=keys[0])
    weight = mx.quantize(mx.random.normal((64, 128), key=keys[1]), group_size=32, bits=bits)
    alone = [
        mx.quantized_matmul(rows[i : i + 1], *weight, group_size=32, bits=bits) for i in range(17)
    ]

    block = mx.quantized_matmul(rows, *weight, group_size=32, bits=bits)

    assert mx.array_equal(block, mx.concatenate(alone))


def differing(context: int, *, rows: int, dtype: mx.Dtype) -> int:
    """How many of up to `rows` positions after `context` have other logits in a block."""
    model = build("llama", dtype=dtype)
    prompt = mx.random.randint(0, 64, (context,), key=mx.random.key(1)).tolist()
    together, alone = Decoder(model), Decoder(model)
    for reader in (together, alone):
        for _ in reader.prefill([*prompt, 0]):
            pass
    rows = min(rows, together.timeline.room())
    assert rows > 1
    tokens = mx.random.randint(0, 64, (rows,), key=mx.random.key(2))
    block = together.read(tokens)
    singles = [alone.read(tokens[i : i + 1])[0] for i in range(rows)]
    return sum(not mx.array_equal(a, b) for a, b in zip(block, singles, strict=True))


@pytest.mark.parametrize("context", [1, 30, 360])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float16])
def test_block_of_tokens_is_its_tokens(context: int, dtype: mx.Dtype) -> None:
    assert differing(context, rows=17, dtype=dtype) == 0


@pytest.mark.parametrize("context", [370, 480, 700, 1000])
def test_block_of_tokens_is_its_tokens_in_a_long_context(context: int) -> None:
    """OpenBLAS sums more than 384 products in panels, whose bounds move with their number.

    So the keys of a block must be as many as those of each of its rows.
    """
    assert differing(context, rows=17, dtype=mx.float32) == 0


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
def test_block_of_halves_is_its_tokens_in_a_long_context(dtype: mx.Dtype) -> None:
    assert differing(600, rows=9, dtype=dtype) == 0
