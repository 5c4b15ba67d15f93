"""What `slipstream convert` was asked for becomes a model folder: quantized, or imported from GGUF.

Knows where the source is found and where the result belongs; how it is made is convert.py's and
`models.gguf.importing`'s.
"""

import os
from collections.abc import Callable
from pathlib import Path

from engine.cli.models.convert import Quantization, convert
from models.errors import Problem
from models.files import models_folder
from models.gguf.importing import import_gguf
from models.hub.cache_layout import storage_of
from models.installed.resolve import find
from models.installed.store import installed
from models.memory.machine import this_machine


def convert_source(
    source: str,
    folder: Path | None,
    quantization: Quantization,
    *,
    progress: Callable[[int, int], None],
) -> Path:
    """The new model folder. Raises `Problem`.

    `source` is a folder, a GGUF file, or the name of a model here; `folder`, by default one of
    Slipstream's own, is named after both. What `progress` raises ends the work, and nothing is
    left of it.
    """
    quantization.check()
    found = _find(source)
    is_gguf = found.suffix.lower() == ".gguf" and found.is_file()
    if is_gguf and quantization != Quantization():
        raise Problem(
            "A GGUF file is quantized as it is, and is imported so.",
            "Leave out --bits, --group-size and --recipe.",
        )
    if is_gguf:
        return import_gguf(found, folder or models_folder() / found.stem, progress=progress)
    return convert(
        found,
        folder or models_folder() / _name(found, quantization),
        quantization,
        available_bytes=this_machine().available_bytes,
        progress=progress,
    )


def _find(source: str) -> Path:
    path = Path(os.path.expanduser(source))
    return path if path.exists() else Path(find(source, models=installed()).path)


def _name(source: Path, quantization: Quantization) -> str:
    """As repositories of converted models are called; a snapshot's own name is a number."""
    folder = source.resolve()
    found = storage_of(folder)
    name = found[0].name.rpartition("/")[2] if found else folder.name
    recipe = quantization.recipe.replace("_", "-")
    return f"{name}-{recipe or f'{quantization.low_bits}bit'}"
