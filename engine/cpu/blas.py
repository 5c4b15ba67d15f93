"""Which matrix library MLX's CPU backend calls, and with which kernels. Macs have Accelerate."""

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import finalize

_ANY_KERNELS = "SLIPSTREAM_ANY_KERNELS"
_KERNELS = {"x86_64": "Sandybridge", "aarch64": "ARMV8"}
_SHIMS = Path(__file__).parents[2] / "resources" / "blas"
_CALLED = ("sgemm", "dgemm", "cgemm")  # of CBLAS, by MLX


@dataclass(frozen=True, slots=True)
class MatrixLibrary:
    """The library that multiplies matrices on the CPU; OpenBLAS has `kernels` and `threads`."""

    name: str
    kernels: str = ""
    threads: int = 0

    @property
    def slow(self) -> bool:
        """Whether a pass over several rows costs as much as that many passes."""
        return self == _REFERENCE

    @property
    def sums_in_turn(self) -> bool:
        """Whether a product sums its numbers one after another, so that zeros among them change
        nothing, not even the rounding. OpenBLAS's Sandybridge kernels do so in blocks, of which the
        last has 192 numbers or more: all that a draft adds behind what is committed."""
        return self.slow or self.kernels == "Sandybridge"

    def __str__(self) -> str:
        return f"{self.name}, {self.kernels} kernels" if self.kernels else self.name


_REFERENCE = MatrixLibrary("reference BLAS")


@cache
def choose_blas() -> MatrixLibrary:
    """Put OpenBLAS in front of the reference BLAS of MLX's Linux wheel; returns what MLX calls.

    The reference BLAS does 6 GFLOP/s, OpenBLAS ten times that: without it a pass over five
    rows costs five times one row, and speculation cannot pay. Must run before `import mlx`, which
    binds what it calls. The package scipy-openblas32 has OpenBLAS with a prefix before the names
    of its functions; so MLX is given a library of a few kilobytes (packaging/cblas.c) that has the
    plain names and hands calls on. The system's OpenBLAS is the second choice.

    OpenBLAS's default kernels round a product differently with the number of rows, so a block of
    tokens would not equal its tokens one by one. The Sandybridge kernels do not: a block is
    bit-identical to single steps, and up to eight rows they are no slower. Nor do the ARMV8 ones,
    but for a single row. A library that comes with any others is left alone.

    Products with up to sixteen rows, as targets and drafters read them, are computed on x86-64 by
    the small library that stands in front (packaging/few_rows.c): in half of the time up to eight
    rows, and bit for bit as the Sandybridge kernels do it, which is tried here first.
    """
    if not sys.platform.startswith("linux"):
        return MatrixLibrary("Accelerate")
    machine = platform.machine()
    if "mlx" in sys.modules or machine not in _KERNELS:
        return _REFERENCE
    wanted = "" if _ANY_KERNELS in os.environ else _KERNELS[machine]
    if wanted:
        os.environ["OPENBLAS_CORETYPE"] = wanted  # whatever the shell says
    # By default a thread without work spins for 2**26 clock ticks before it sleeps, and keeps MLX's
    # own threads waiting: on two cores a plain pass took 1.1 times as long (measured in turns).
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")
    for path, prefix in _candidates():
        with suppress(OSError, AttributeError):  # it is not there, or is something else
            openblas = ctypes.CDLL(path)
            found = _described(openblas, prefix)
            if wanted.casefold() in ("", found.kernels.casefold()):
                _put_in_front(openblas, prefix, machine, found)
                return found
    return _REFERENCE


def keep_narrow(matrix: Any) -> bool:
    """Keep a float32 matrix of MLX, (rows, columns), in half as many bytes too, while it lives.

    Its products take less than half the time then, but are rounded in another order, the same for
    any number of rows: for a drafter's matrices, never a target's. Its numbers must stay what they
    are. Returns False, and keeps nothing, where bfloat16 does not hold each of them exactly, or
    the small library multiplies nothing here.
    """
    process = ctypes.PyDLL(None)  # by one thread at a time
    if not hasattr(process, "slipstream_keep_narrow"):
        return False
    place = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memoryview(matrix))))
    kept = bool(process.slipstream_keep_narrow(place, *matrix.shape))
    if kept:
        finalize(matrix, process.slipstream_forget_narrow, place).atexit = False
    return kept


def restart_with_any_kernels() -> None:
    """Restart this command with the kernels that OpenBLAS itself would choose.

    They are two to four times as fast with hundreds of rows, which training has, and training
    need not be bit-identical to anything. The choice is made when the library is loaded, hence
    the restart. Returns where there is nothing to choose, or after the restart.
    """
    chosen = os.environ.pop("OPENBLAS_CORETYPE", None)
    if chosen and sys.platform.startswith("linux") and _ANY_KERNELS not in os.environ:
        os.environ[_ANY_KERNELS] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _candidates() -> Iterator[tuple[str, str]]:
    """Where OpenBLAS may be, best first, and the prefix of its functions' names."""
    package = find_spec("scipy_openblas32")  # to import it would show its functions to everybody
    if package is not None and package.origin is not None:
        yield str(Path(package.origin).with_name("lib") / "libscipy_openblas.so"), "scipy_"
    yield "libopenblas.so.0", ""


def _described(openblas: ctypes.CDLL, prefix: str) -> MatrixLibrary:
    """The library's own description of itself."""

    def text(name: str) -> str:
        function = getattr(openblas, f"{prefix}openblas_{name}")
        function.restype = ctypes.c_char_p
        return str(function().decode())

    name, version, *_ = text("get_config").split()
    threads = int(getattr(openblas, f"{prefix}openblas_get_num_threads")())
    return MatrixLibrary(f"{name} {version}", text("get_corename"), threads)


def _put_in_front(openblas: ctypes.CDLL, prefix: str, machine: str, found: MatrixLibrary) -> None:
    """Let MLX find our functions, and let these find OpenBLAS's."""
    shim = ctypes.CDLL(str(_SHIMS / f"{machine}.so"), mode=ctypes.RTLD_GLOBAL)
    for name in _CALLED:
        function = ctypes.cast(getattr(openblas, f"{prefix}cblas_{name}"), ctypes.c_void_p)
        ctypes.c_void_p.in_dll(shim, f"slipstream_{name}").value = function.value
    # There OpenBLAS multiplies a matrix by a single row with kernels for vectors.
    ctypes.c_int.in_dll(shim, "slipstream_row_differs").value = machine == "aarch64"
    # It needs AVX, as these kernels do.
    if found.kernels == _KERNELS["x86_64"] and shim.slipstream_few_rows_agree():
        ctypes.c_int.in_dll(shim, "slipstream_few_rows_threads").value = found.threads
