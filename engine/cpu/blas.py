"""Chooses the matrix library, and its kernels, for MLX's CPU backend on Linux.

Macs have Accelerate.
"""

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
    """The library that multiplies matrices on the CPU; only OpenBLAS has `kernels`, `threads`."""

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
        not even the rounding. OpenBLAS's Sandybridge kernels do so in blocks; the last block has
        192 numbers or more, which is more than a draft adds after the committed tokens."""
        return self.slow or self.kernels == "Sandybridge"

    def __str__(self) -> str:
        return f"{self.name}, {self.kernels} kernels" if self.kernels else self.name


_REFERENCE = MatrixLibrary("reference BLAS")


@cache
def choose_blas() -> MatrixLibrary:
    """Put OpenBLAS in front of the reference BLAS of MLX's Linux wheel; return MLX's library.

    The reference BLAS does 6 GFLOP/s, OpenBLAS ten times that: without it a pass over five
    rows costs five times one row, and speculation cannot pay. Call it before `import mlx`, which
    binds its functions. The package scipy-openblas32 has OpenBLAS with a prefix before the names
    of its functions; so MLX gets a library of a few kilobytes (packaging/cblas.c) that has the
    plain names and passes calls on. The system's OpenBLAS is the second choice.

    OpenBLAS's default kernels round a product by the number of rows, so a block of tokens would
    not equal its tokens one by one. With the Sandybridge kernels a block is bit-identical to
    single steps, and up to eight rows they are as fast. So it is with the ARMV8 kernels, except
    for a single row. An OpenBLAS with any other kernels is not used.

    On x86-64 the small library in front (packaging/few_rows.c) computes products with up to
    sixteen rows itself: in half of the time up to eight rows, and bit for bit like the Sandybridge
    kernels, which is checked here first.
    """
    if not sys.platform.startswith("linux"):
        return MatrixLibrary("Accelerate")
    machine = platform.machine()
    if "mlx" in sys.modules or machine not in _KERNELS:
        return _REFERENCE
    wanted = "" if _ANY_KERNELS in os.environ else _KERNELS[machine]
    if wanted:
        os.environ["OPENBLAS_CORETYPE"] = wanted  # overrides the shell's
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
    """Keep a bfloat16 copy of a float32 matrix of MLX, (rows, columns), while the matrix lives.

    Its products then take less than half the time, but are summed in another order, the same for
    any number of rows: use it for a drafter's matrices, never for a target's. The numbers must not
    change afterwards. Returns False, and keeps nothing, if bfloat16 does not hold each number
    exactly, or if the small library is not in use.
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
    need not be bit-identical to anything. The kernels are chosen when the library is loaded, hence
    the restart. Returns after the restart, or if there is nothing to choose.
    """
    chosen = os.environ.pop("OPENBLAS_CORETYPE", None)
    if chosen and sys.platform.startswith("linux") and _ANY_KERNELS not in os.environ:
        os.environ[_ANY_KERNELS] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _candidates() -> Iterator[tuple[str, str]]:
    """Yield (path, prefix of the functions' names) of each OpenBLAS that may exist, best first."""
    package = find_spec("scipy_openblas32")  # to import it would show its functions to everyone
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
    """Let MLX find our functions, and let our functions find OpenBLAS's."""
    shim = ctypes.CDLL(str(_SHIMS / f"{machine}.so"), mode=ctypes.RTLD_GLOBAL)
    for name in _CALLED:
        function = ctypes.cast(getattr(openblas, f"{prefix}cblas_{name}"), ctypes.c_void_p)
        ctypes.c_void_p.in_dll(shim, f"slipstream_{name}").value = function.value
    # There OpenBLAS multiplies a matrix by a single row with kernels for vectors.
    ctypes.c_int.in_dll(shim, "slipstream_row_differs").value = machine == "aarch64"
    # It needs AVX, as these kernels do.
    if found.kernels == _KERNELS["x86_64"] and shim.slipstream_few_rows_agree():
        ctypes.c_int.in_dll(shim, "slipstream_few_rows_threads").value = found.threads
