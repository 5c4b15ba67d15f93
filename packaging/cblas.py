"""Makes resources/blas: a few kilobytes that lead MLX's Linux wheel to a fast OpenBLAS.

`python packaging/cblas.py` makes them again from cblas.c and few_rows.c; they are kept in the
repository, so that no one needs a compiler to install Slipstream. The same sources and the same
ziglang give the same bytes.
"""

from pathlib import Path

from compiler import compile_c
from configuration import REPOSITORY

MACHINES = ("x86_64", "aarch64")  # that MLX has Linux wheels for
SOURCES = [Path(__file__).with_name(name) for name in ("cblas.c", "few_rows.c")]
SHIMS = REPOSITORY / "resources" / "blas"

_OPTIONS = (
    *("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libslipstream_blas.so"),
    *("-O2", "-ffp-contract=off", "-pthread"),  # round products and sums one by one
    *("-fno-vectorize", "-fno-slp-vectorize"),  # the source itself uses wide instructions
)


def make_shims(folder: Path) -> None:
    """Make a library for each machine in `folder`. Raises `Problem` if the compiler fails."""
    folder.mkdir(parents=True, exist_ok=True)
    for machine in MACHINES:
        result = folder / f"{machine}.so"
        compile_c(SOURCES, result, target=f"{machine}-linux-gnu.2.17", options=_OPTIONS)
        result.chmod(0o644)


if __name__ == "__main__":
    make_shims(SHIMS)
