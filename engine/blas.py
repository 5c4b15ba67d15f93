"""Which matrix library MLX's CPU backend calls. Linux only; a Mac has its own."""

import ctypes
import os
import platform
import sys

_ANY_KERNELS = "SLIPSTREAM_ANY_KERNELS"


def prefer_openblas() -> bool:
    """Load OpenBLAS in front of the reference BLAS that MLX's Linux wheel links. True if it was.

    The reference BLAS does 6 GFLOP/s, OpenBLAS ten times that: without it a pass over five
    rows costs five times one row, and speculation cannot pay. Must run before `import mlx`.

    The default x86 kernels round a product differently with the number of rows, so a block of
    tokens would not equal its tokens one by one. The Sandybridge kernels do not: a block is
    bit-identical to single steps, and up to eight rows they are no slower.
    """
    if not sys.platform.startswith("linux") or "mlx" in sys.modules:
        return False
    if platform.machine() == "x86_64" and _ANY_KERNELS not in os.environ:
        os.environ["OPENBLAS_CORETYPE"] = "Sandybridge"  # whatever the shell says
    try:
        ctypes.CDLL("libopenblas.so.0", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def start_again_with_any_kernels() -> None:
    """Begin this command anew with the kernels that OpenBLAS itself would choose.

    They are two to four times as fast with hundreds of rows, which learning has, and learning
    does not need to be bit-identical to anything. The choice is made when the library is loaded,
    hence the new start. Returns where there is nothing to choose, or after the new start.
    """
    chosen = os.environ.pop("OPENBLAS_CORETYPE", None)
    if chosen and sys.platform.startswith("linux") and _ANY_KERNELS not in os.environ:
        os.environ[_ANY_KERNELS] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
