"""A block of rows is bit-identical to single rows: what greedy equality on the CPU rests on."""

import ctypes
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import product

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.decoder import Decoder
from engine.cpu.blas import MatrixLibrary, keep_narrow
from tests.support.engine.tiny import build
from tests.support.mostly_slow import examples, mostly_slow

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "aarch64"),
    reason="OpenBLAS comes along for Linux only, on x86-64 and aarch64",
)
x86 = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="these kernels are of x86-64, where OpenBLAS comes along",
)

MUTANT = {"SLIPSTREAM_ANY_KERNELS": "1", "OPENBLAS_CORETYPE": "Haswell"}
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
# Of a program of ours: what is in front, and how many blocks of rows are not their rows one by one.
REPORT = """
import json
from dataclasses import asdict
from engine.cpu.blas import choose_blas
import mlx.core as mx
def tell(chosen):
    differing = 0
    for inner, outer in ((64, 260), (576, 576), (576, 1536), (1536, 576)):
        keys = mx.random.split(mx.random.key(inner))
        rows = mx.random.normal((17, inner), key=keys[0])
        weight = mx.random.normal((outer, inner), key=keys[1])
        alone = mx.concatenate([rows[i : i + 1] @ weight.T for i in range(17)])
        for count in (2, 3, 5, 9, 17):
            differing += not mx.array_equal(rows[:count] @ weight.T, alone[:count]).item()
    print(json.dumps({"chosen": asdict(chosen), "differing": differing}))
tell(choose_blas())
"""
FEW_ROWS = """
import ctypes, engine, mlx.core as mx
from engine.cpu.blas import keep_narrow
process = ctypes.CDLL(None)
agree = process.slipstream_few_rows_agree()
weight = mx.ones((64, 64))
mx.eval(weight)
kept = keep_narrow(weight)
print(ctypes.c_int.in_dll(process, "slipstream_few_rows_threads").value, agree, kept)
"""

# After a product of each number type: the state that MLX's thread is in when the next one begins.
UPPER_HALVES = """
import ctypes, json, engine
import mlx.core as mx
process = ctypes.CDLL(None)
place = ctypes.c_void_p.in_dll(process, "slipstream_sgemm")
real, note = place.value, ctypes.cast(process.slipstream_note_upper_halves, ctypes.c_void_p).value
noted = ctypes.c_int.in_dll(process, "slipstream_upper_halves")
found = {}
for rows, kind in ((1, mx.float32), (32, mx.float32), (32, mx.float64), (32, mx.complex64)):
    matrix = mx.full((64, 64), 0.5).astype(kind, stream=mx.cpu)
    mx.eval(mx.matmul(matrix[:rows], matrix, stream=mx.cpu))
    place.value = note
    mx.eval(mx.matmul(mx.ones((32, 64)), mx.ones((64, 64)), stream=mx.cpu))
    place.value = real
    found[f"{rows} {kind}"] = noted.value
print(json.dumps(found))
"""


def run(*program, **environment):
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


def report(*before, **environment):
    """What a process says that ran `before` first."""
    (line,) = run(*before, "import engine", REPORT, **environment)
    return json.loads(line)


@linux
def test_the_openblas_that_comes_along_is_in_front():
    told = report(NO_SYSTEM, OPENBLAS_CORETYPE="Haswell")
    chosen = MatrixLibrary(**told["chosen"])
    assert chosen.name.startswith("OpenBLAS 0.3.34")
    assert chosen.kernels == KERNELS[platform.machine()]  # whatever the environment says
    assert chosen.threads >= 1
    assert told["differing"] == 0
    assert not chosen.slow


@linux
@pytest.mark.slow
def test_without_any_it_is_the_reference_blas_and_learning_starts_again_once_with_any_kernels():
    told = report(NO_PACKAGE, NO_SYSTEM)
    assert told == {"chosen": asdict(MatrixLibrary("reference BLAS")), "differing": 0}
    assert MatrixLibrary(**told["chosen"]).slow
    again = (
        "import sys",
        "print('started', len(sys.argv), flush=True)",
        "import engine.cpu.blas",
        "engine.cpu.blas.restart_with_any_kernels()",
    )
    own = "import ctypes, scipy_openblas32 as s; f = s.dll.scipy_openblas_get_corename; "
    own += "f.restype = ctypes.c_char_p; print(f().decode())"
    *started, told = run(*again, REPORT)
    assert started == ["started 2"] * 2
    assert [json.loads(told)["chosen"]["kernels"]] == run(own)


@linux
@pytest.mark.slow
def test_a_single_row_can_be_multiplied_as_two_are():
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


@x86
def test_a_product_leaves_the_upper_halves_of_registers_clear():
    """With them in use MLX's exponentials take fifty times as long on Intel's processors."""
    (line,) = run(UPPER_HALVES)
    found = json.loads(line)
    assert len(found) == 4
    assert set(found.values()) in ({0}, {-1}), found  # -1: this processor does not say


@x86
@pytest.mark.slow
def test_products_are_left_to_kernels_that_round_otherwise():
    """The small library's own round as Sandybridge's; where OpenBLAS runs others it does all, and
    no matrix is kept narrowly."""
    ours = MatrixLibrary(**report()["chosen"])
    assert run(FEW_ROWS) == [f"{ours.threads} 1 True"]
    assert run(FEW_ROWS, OPENBLAS_NUM_THREADS="1") == ["1 1 True"]
    assert run(FEW_ROWS, **MUTANT) == ["0 0 False"]


class FewRows:
    """The products of this process, with a few rows on so many threads, 0 for OpenBLAS's."""

    def __init__(self):
        process = ctypes.CDLL(None)
        self.threads = ctypes.c_int.in_dll(process, "slipstream_few_rows_threads")
        self.product = process.cblas_sgemm

    def of(self, left, right, added, threads):
        """`left` (rows, inner) times `right` (outer, inner) turned, plus `added` (rows, outer)."""
        self.threads.value = threads
        return self.added_to(added.copy(), left, right)

    def added_to(self, sums, left, right):
        (rows, inner), outer = left.shape, len(right)
        places = [ctypes.c_void_p(each.ctypes.data) for each in (left, right, sums)]
        steps = [each.strides[0] // each.itemsize for each in (left, right, sums)]
        one = ctypes.c_float(1)
        self.product(
            *(101, 111, 112, rows, outer, inner, one, places[0], steps[0], places[1], steps[1]),
            *(one, places[2], steps[2]),
        )
        return sums


@pytest.fixture
def few_rows():
    products = FewRows()
    before = products.threads.value
    yield products
    products.threads.value = before


def matrix(chance, rows, columns, beside=0):
    """Random numbers, with some beside each row that do not belong to it."""
    return chance.standard_normal((rows, columns + beside)).astype(np.float32)[:, :columns]


@x86
@given(
    rows=st.integers(1, 17),
    outer=st.integers(1, 400),
    inner=st.integers(1, 2400) | st.sampled_from([64, 384, 385, 576, 768, 896, 1536]),
    beside=st.integers(0, 5),
    seed=st.integers(0, 99),
)
@settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_few_rows_are_multiplied_as_openblas_does_it(few_rows, rows, outer, inner, beside, seed):
    """Bit for bit, as other rows of the same text are multiplied by OpenBLAS itself."""
    chance = np.random.default_rng(seed)
    left, right = matrix(chance, rows, inner, beside), matrix(chance, outer, inner, beside)
    added = matrix(chance, rows, outer, beside)
    expected = few_rows.of(left, right, added, 0)
    for threads in (1, 2, 5):
        assert np.array_equal(few_rows.of(left, right, added, threads), expected), threads


@x86
def test_products_of_many_threads_at_once_are_right(few_rows):
    """Helpers serve one at a time; the others compute alone."""
    chance = np.random.default_rng(0)
    right, added = matrix(chance, 3000, 384), matrix(chance, 5, 3000)
    lefts = [matrix(chance, 5, 384) for _ in range(40)]
    expected = [few_rows.of(left, right, added, 0) for left in lefts]
    few_rows.threads.value = 3
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda left: few_rows.added_to(added.copy(), left, right), lefts * 5))
    assert all(map(np.array_equal, found, expected * 5))


def differing(context, *, rows, dtype):
    """How many of up to `rows` positions after `context` have other logits in a block."""
    model = build("llama", dtype=dtype)
    prompt = mx.random.randint(0, 64, (context,), key=mx.random.key(1)).tolist()
    together, alone = Decoder(model), Decoder(model)
    for reader in (together, alone):
        list(reader.prefill([*prompt, 0]))
    rows = min(rows, together.timeline.room())
    assert rows > 1
    tokens = mx.random.randint(0, 64, (rows,), key=mx.random.key(2))
    block = together.read(tokens)
    singles = [alone.read(tokens[i : i + 1])[0] for i in range(rows)]
    return sum(not mx.array_equal(a, b) for a, b in zip(block, singles, strict=True))


@pytest.mark.parametrize(
    ("context", "rows", "dtype"),
    mostly_slow(
        [
            *product([1, 30, 360], [17], [mx.float32, mx.bfloat16, mx.float16]),
            *product([370, 480, 700, 1000], [17], [mx.float32]),
            *product([600], [9], [mx.bfloat16, mx.float16]),
        ],
        quick=[(360, 17, mx.float32), (30, 17, mx.bfloat16)],
    ),
)
def test_block_of_tokens_is_its_tokens(context, rows, dtype):
    """OpenBLAS sums more than 384 products in panels, whose bounds move with their number.

    So the keys of a block must be as many as those of each of its rows.
    """
    assert differing(context, rows=rows, dtype=dtype) == 0


def narrow_matrix(chance, outer, inner):
    """Random numbers that bfloat16 holds exactly, as MLX's: a matrix that may be kept narrowly."""
    numbers = mx.array(matrix(chance, outer, inner)).astype(mx.bfloat16).astype(mx.float32)
    mx.eval(numbers)
    return numbers


def turned_product(rows, weight):
    return np.array(mx.array(rows) @ weight.T)


@x86
@given(
    rows=st.integers(1, 40),
    outer=st.integers(1, 400),
    inner=st.integers(1, 60).map(lambda steps: 16 * steps),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_of_a_narrow_matrix_every_row_is_the_same_beside_any_others(rows, outer, inner, seed):
    chance = np.random.default_rng(seed)
    left, weight = matrix(chance, rows, inner), narrow_matrix(chance, outer, inner)
    wide = turned_product(left, weight)
    assert keep_narrow(weight)
    found = turned_product(left, weight)
    exact = left.astype(np.float64) @ np.array(weight).astype(np.float64).T
    assert np.allclose(found, exact, atol=1e-5 * inner)
    for first in range(0, rows, 7):
        part = turned_product(left[first : first + 7], weight)
        assert np.array_equal(part, found[first : first + 7])
    added = mx.addmm(mx.array(wide), mx.array(left), weight.T)
    assert np.allclose(np.array(added), wide + exact, atol=1e-5 * inner)


@x86
def test_a_narrow_matrix_is_read_from_where_it_is_kept_until_its_memory_is_free(few_rows):
    """As it stays what it is this is not seen, but for the order of its sums."""
    weight = narrow_matrix(np.random.default_rng(0), 40, 160)
    left, zeros = matrix(np.random.default_rng(1), 3, 160), np.zeros((3, 40), np.float32)
    assert keep_narrow(weight)
    memory = weight.reshape(-1)  # which MLX would give to another matrix
    mx.eval(memory)
    ours = np.array(memory, copy=False).reshape(40, 160)
    assert ours.ctypes.data == np.array(weight, copy=False).ctypes.data
    before = few_rows.of(left, ours, zeros, 1)
    numbers = ours.copy()
    ours[:] = 0.0  # which no one may do
    assert np.array_equal(few_rows.of(left, ours, zeros, 1), before)
    part = left[:, :144], ours[:, :144]  # another matrix in the same place
    assert np.array_equal(few_rows.of(*part, zeros, 1), zeros)
    del weight
    ours[:] = -numbers
    assert np.allclose(few_rows.of(left, ours, zeros, 1), left @ -numbers.T, atol=1e-3)


@x86
@pytest.mark.parametrize(
    ("shape", "number"), [((32, 40), 1.0), ((32, 48), 1.0 + 2.0**-9)], ids=["odd", "not exact"]
)
def test_what_cannot_be_kept_narrowly_is_not(shape, number):
    weight = mx.full(shape, number)
    mx.eval(weight)
    assert not keep_narrow(weight)
    assert np.array_equal(
        turned_product(np.ones((2, shape[1]), np.float32), weight),
        np.full((2, shape[0]), number * shape[1], np.float32),
    )


@x86
def test_products_go_on_while_others_are_kept_and_forgotten():
    """So many are kept, and room is made again."""
    chance = np.random.default_rng(0)
    many = [narrow_matrix(chance, 2, 16) for _ in range(400)]
    assert 0 < sum(map(keep_narrow, many)) < 400
    many.clear()
    left, weight = matrix(chance, 1, 576), narrow_matrix(chance, 4000, 576)
    assert keep_narrow(weight)
    expected = turned_product(left, weight)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: [turned_product(left, weight) for _ in range(60)])
        while not found.done():
            assert keep_narrow(narrow_matrix(chance, 2000, 64))
    assert all(np.array_equal(each, expected) for each in found.result())
