"""A block of rows is bit-identical to single rows: what greedy equality on the CPU rests on."""

import json
import os
import platform
import subprocess
import sys
from ctypes.util import find_library
from dataclasses import asdict
from typing import Any

import mlx.core as mx
import pytest

from engine.blas import MatrixLibrary, choose_blas
from engine.decoder import Decoder
from tests.support.engine.tiny import build

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "aarch64"),
    reason="OpenBLAS comes along for Linux only, on x86-64 and aarch64",
)
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="these kernels are of x86-64")
debian = pytest.mark.skipif(find_library("openblas") is None, reason="the system has no OpenBLAS")

KERNELS = {"x86_64": "Sandybridge", "aarch64": "armv8"}
NO_PACKAGE = "import sys; sys.modules['scipy_openblas32'] = None"
NO_SYSTEM = """
import ctypes
real = ctypes.CDLL
def load(name, *rest, **options):
    if name == "libopenblas.so.0":
        raise OSError(name)
    return real(name, *rest, **options)
ctypes.CDLL = load
"""
FOREIGN = """
import os
os.environ["OPENBLAS_CORETYPE"] = "Haswell"
import scipy_openblas32
"""
# Of a program of ours: what is in front, whether MLX calls it, and how many blocks of rows are not
# their rows one by one.
REPORT = """
import ctypes, json
from dataclasses import asdict
from engine.blas import choose_blas
import mlx.core as mx
calls = 0
def tell(chosen):
    def product(*arguments):
        global calls
        calls += 1
        return real(*arguments)
    differing = 0
    for inner, outer in ((64, 260), (576, 576), (576, 1536), (1536, 576)):
        keys = mx.random.split(mx.random.key(inner))
        rows = mx.random.normal((17, inner), key=keys[0])
        weight = mx.random.normal((outer, inner), key=keys[1])
        alone = mx.concatenate([rows[i : i + 1] @ weight.T for i in range(17)])
        for count in (2, 3, 5, 9, 17):
            differing += not mx.array_equal(rows[:count] @ weight.T, alone[:count]).item()
    process = ctypes.CDLL(None)
    if hasattr(process, "slipstream_sgemm"):
        i, f, p = ctypes.c_int, ctypes.c_float, ctypes.c_void_p
        kind = ctypes.CFUNCTYPE(None, i, i, i, i, i, i, f, p, i, p, i, f, p, i)
        place = p.in_dll(process, "slipstream_sgemm")
        real, counting = kind(place.value), kind(product)
        place.value = ctypes.cast(counting, p).value
        mx.eval(mx.ones((3, 64)) @ mx.ones((64, 64)))
        place.value = ctypes.cast(real, p).value
    print(json.dumps({"chosen": asdict(chosen), "calls": calls, "differing": differing}))
tell(choose_blas())
"""

# How often OpenBLAS's function for vectors is called: by a target's layer and products, by a
# drafter's with one row, with two, and with few results.
COUNTED = """
import ctypes, engine
import mlx.core as mx, mlx.nn as nn
from engine.drafters.weights import SingleRows
i, f, p = ctypes.c_int, ctypes.c_float, ctypes.c_void_p
kind = ctypes.CFUNCTYPE(None, i, i, i, i, f, p, i, p, i, f, p, i)
place = p.in_dll(ctypes.CDLL(None), "slipstream_sgemv")
real, calls = kind(place.value), 0
def product(*arguments):
    global calls
    calls += 1
    real(*arguments)
counting = kind(product)
place.value = ctypes.cast(counting, p).value
def count(value):
    global calls
    calls = 0
    mx.eval(value)
    return calls
x, plain, small = mx.ones((1, 1, 128)), nn.Linear(128, 96), nn.Linear(128, 8)
rows, column = mx.ones((96, 128)), mx.ones((128, 1))
told = [count(plain(x)), count(plain(rows)), count(rows @ column)]
single = SingleRows(plain)
told += [count(single(x)), count(single(mx.ones((1, 2, 128)))), count(SingleRows(small)(x))]
place.value = ctypes.cast(real, p).value
print(told)
"""


def run(*program: str, **environment: str) -> list[str]:
    """The lines that a process prints, with nothing of ours in its environment but this."""
    ours = ("OPENBLAS_", "SLIPSTREAM_ANY_KERNELS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [sys.executable, "-c", "\n".join(program), "argument"],
        env=kept | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()


def report(*before: str, **environment: str) -> dict[str, Any]:
    """What a process says that ran `before` first."""
    (line,) = run(*before, "import engine", REPORT, **environment)
    found: dict[str, Any] = json.loads(line)
    return found


@linux
@pytest.mark.parametrize("preset", [{}, {"OPENBLAS_CORETYPE": "Haswell"}], ids=["", "preset"])
def test_mlx_calls_the_openblas_that_comes_along(preset: dict[str, str]) -> None:
    told = report(NO_SYSTEM, **preset)
    chosen = MatrixLibrary(**told["chosen"])
    assert chosen.name.startswith("OpenBLAS 0.3.34")
    assert chosen.kernels == KERNELS[platform.machine()]  # whatever the environment says
    assert chosen.threads >= 1
    assert told["calls"] == 1
    assert told["differing"] == 0
    assert not chosen.slow


@linux
@debian
def test_without_it_the_system_s_is_called() -> None:
    told = report(NO_PACKAGE)
    assert told["chosen"]["name"].startswith("OpenBLAS")
    assert told["chosen"]["kernels"].lower() == KERNELS[platform.machine()].lower()
    assert (told["calls"], told["differing"]) == (1, 0)


@linux
def test_without_any_it_is_the_reference_blas() -> None:
    told = report(NO_PACKAGE, NO_SYSTEM)
    assert told == {"chosen": asdict(MatrixLibrary("reference BLAS")), "calls": 0, "differing": 0}
    assert MatrixLibrary(**told["chosen"]).slow


@linux
@x86
def test_one_that_runs_with_other_kernels_is_left_alone() -> None:
    """Another part of a program may have loaded it first."""
    told = report(FOREIGN, NO_SYSTEM)
    assert told == {"chosen": asdict(MatrixLibrary("reference BLAS")), "calls": 0, "differing": 0}


@linux
@x86
def test_kernels_that_round_by_the_number_of_rows_are_told() -> None:
    """A mutant: the tests below would tell of it, and so does the doctor."""
    mutant = {"SLIPSTREAM_ANY_KERNELS": "1", "OPENBLAS_CORETYPE": "Haswell"}
    told = report(**mutant)
    assert (told["chosen"]["kernels"], told["calls"]) == ("Haswell", 1)
    assert told["differing"] > 5
    doctor = "import engine.cli.doctor\nprint(engine.cli.doctor._rows_are_alike())"
    assert run(doctor, **mutant) == ["False"]
    assert run(doctor) == ["True"]


@linux
def test_learning_starts_again_once_with_any_kernels() -> None:
    again = (
        "import sys",
        "print('started', len(sys.argv), flush=True)",
        "import engine.blas",
        "engine.blas.restart_with_any_kernels()",
    )
    own = "import ctypes, scipy_openblas32 as s; f = s.dll.scipy_openblas_get_corename; "
    own += "f.restype = ctypes.c_char_p; print(f().decode())"
    *started, told = run(*again, REPORT)
    assert started == ["started 2"] * 2
    assert [json.loads(told)["chosen"]["kernels"]] == run(own)


@linux
def test_a_single_row_can_be_multiplied_as_two_are() -> None:
    """What the ARMV8 kernels need, on whatever machine this is: no value is another for it."""
    program = """
import ctypes
import engine, mlx.core as mx
place = ctypes.c_int.in_dll(ctypes.CDLL(None), "slipstream_row_differs")
for inner, outer in ((1, 7), (64, 1), (64, 260), (576, 576)):
    keys = mx.random.split(mx.random.key(inner), 3)
    rows = mx.random.normal((2, inner), key=keys[0])
    weight = mx.random.normal((inner, outer), key=keys[1])
    more = mx.random.normal((2, outer), key=keys[2])
    turned = mx.contiguous(weight.T).T
    for factor in (weight, turned):
        for left in (rows, mx.contiguous(rows.T).T):
            both = left @ factor
            added = mx.addmm(more, left, factor)
            mx.eval(both, added)
            for differs in (0, 1):
                place.value = differs
                assert mx.array_equal(left[:1] @ factor, both[:1]).item()
                assert mx.array_equal(mx.addmm(more[:1], left[:1], factor), added[:1]).item()
            place.value = 0
print("alike")
"""
    if platform.machine() == "aarch64":
        program = program.replace("(0, 1)", "(1,)").replace("value = 0", "value = 1")
    assert run(program) == ["alike"]


@linux
def test_only_a_drafter_s_single_rows_go_to_the_function_for_vectors() -> None:
    """Not a target's, of one row or many, nor its product with a single column."""
    assert run(COUNTED) == ["[0, 0, 0, 1, 0, 0]"]


def test_comes_too_late_after_mlx() -> None:
    assert "mlx" in sys.modules
    if sys.platform.startswith("linux"):
        assert choose_blas.__wrapped__().slow


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


@linux
@pytest.mark.parametrize(
    ("preset", "ticks"), [({}, "14"), ({"OPENBLAS_THREAD_TIMEOUT": "20"}, "20")]
)
def test_idle_threads_sleep_soon_unless_the_environment_says_otherwise(
    preset: dict[str, str], ticks: str
) -> None:
    (found,) = run("import engine, os; print(os.environ['OPENBLAS_THREAD_TIMEOUT'])", **preset)
    assert found == ticks
