"""Cuts what a kernel needs out of MLX's own Metal source, as the installed MLX has it.

So rows are computed by the very functions that MLX's kernel for a single row calls, in any of
its versions. Knows where the file is and how a function looks; not how its text is used.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

NAMES = ("get_pack_factor", "load_vector", "load_vector_safe", "qdot", "qdot_safe")
"""Read rows and packed weights, and multiply them: all that rounds, but for the sums over lanes."""

KERNELS = "include/mlx/backend/metal/kernels"


class HeaderChanged(Exception):
    """MLX's source is not there, or not as it was: rows cannot be computed by its functions."""


@dataclass(frozen=True, slots=True)
class Header:
    """The functions that were cut out, as a kernel's header, and a digest that tells them apart."""

    text: str
    digest: str


def read(path: Path | None = None) -> Header:
    """Return the functions in the installed MLX's quantized.h, or in `path`. Raises HeaderChanged.

    A missing file, a missing function and a function that is there twice are all changes.
    """
    try:
        source = (path or installed()).read_text(encoding="utf-8")
    except OSError as error:
        raise HeaderChanged(f"MLX's quantized.h cannot be read: {error}") from error
    text = "\n".join(["using namespace metal;", *(cut(source, name) for name in NAMES)])
    return Header(text, sha256(text.encode()).hexdigest()[:16])


def cut(source: str, name: str) -> str:
    """Return the template function `name` of a Metal source, from its `template` to its last brace.
    Raises HeaderChanged."""
    found = re.findall(
        rf"^template <[^{{}};]*>\n[^{{}};]*\b{name}\([^{{}};]*\{{\n.*?^\}}$", source, re.M | re.S
    )
    if len(found) != 1:
        raise HeaderChanged(f"MLX's quantized.h has {len(found)} functions named {name}.")
    return str(found[0])


def installed() -> Path:
    """Return where the installed MLX has its quantized.h, or would have it."""
    package = find_spec("mlx")
    folders = package.submodule_search_locations or [] if package else []
    places = [Path(folder) / KERNELS / "quantized.h" for folder in folders]
    return next((place for place in places if place.exists()), Path(KERNELS) / "quantized.h")
