"""Finds the source of `slipstream convert`, and makes a model, a drafter or an MTP module of it.

Knows where the result goes; convert.py and convert_drafter.py write it.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.cli.models.convert import Quantization, convert
from engine.cli.models.convert_drafter import convert_drafter, for_drafters, keep_module
from models.drafters.folders import DrafterFolder, own_module, read_drafter
from models.errors import Problem
from models.files import data_folder, file_stem, models_folder, written_path
from models.gguf.file import is_gguf
from models.gguf.importing import import_gguf
from models.hub.cache_layout import storage_of
from models.installed.inventory import ModelEntry, describe
from models.installed.names import find
from models.installed.other_programs import ollama_name
from models.installed.store import installed
from models.memory.machine import this_machine
from models.model_folder import ModelFolder, adapted_model, inspect
from models.records import Installed


def convert_source(
    source: str,
    folder: Path | None,
    quantization: Quantization,
    *,
    progress: Callable[[int, int], None],
    module_only: bool = False,
    adapter: Path | None = None,
) -> Path:
    """Convert a model or a drafter, and return its new folder. Raises `Problem`.

    `source`: a folder, a GGUF file, or the name of an installed model; by default the model that
    `adapter` names. `folder`: by default one of Slipstream's own, named after the model and its
    bits. `module_only`: convert only the MTP module. `adapter`: the folder of a LoRA adapter, fused
    into the model. An exception from `progress` ends the work; then nothing is left of it.
    """
    quantization.check()
    as_it_is = quantization == Quantization()  # nothing was asked for
    if adapter is not None and not source:
        source = adapted_model(adapter)
    if not source:
        raise Problem("The model's name is missing.", "Name the model to convert.")
    found = _find(source)
    if is_gguf(found) and not as_it_is:
        raise Problem(
            "A GGUF file is quantized already; it is imported as it is.",
            "Leave out --bits, --group-size and --recipe.",
        )
    if adapter is not None and (is_gguf(found) or module_only):
        raise Problem(
            "An adapter can only be fused into a whole MLX model.", "Name one, without --mtp."
        )
    if is_gguf(found):
        stem = file_stem(ollama_name(found)) or found.stem
        return import_gguf(found, folder or models_folder() / stem, progress=progress)
    files = ModelFolder(found)
    if adapter is not None:
        part = f"-{adapter.resolve().name}"
        name = f"{_published(found)}{part}" if as_it_is else _name(found, quantization, part=part)
        return convert(
            found,
            folder or models_folder() / name,
            None if as_it_is else quantization,
            adapter=adapter,
            available_bytes=this_machine().available_bytes,
            progress=progress,
        )
    drafter = _module(files) if module_only else read_drafter(files)
    if drafter is not None and not drafter.description.is_whole_model:
        name = _name(found, for_drafters(quantization), part="-MTP" if module_only else "")
        place = folder or data_folder() / "drafters" / name
        return convert_drafter(drafter, place, quantization, progress=progress)
    return convert(
        found,
        folder or models_folder() / _name(found, quantization),
        quantization,
        available_bytes=this_machine().available_bytes,
        progress=progress,
        write_more=partial(_write_module, files, quantization, progress),
    )


def _write_module(
    files: ModelFolder,
    quantization: Quantization,
    progress: Callable[[int, int], None],
    made: Path,
) -> None:
    """Write a model's MTP module next to it, but for an unreadable one; mlx-lm leaves out all."""
    module = None
    with suppress(Problem):
        module = own_module(files)
    if module is not None:
        keep_module(module, made, quantization, progress=progress)


def _module(files: ModelFolder) -> DrafterFolder:
    module = own_module(inspect(files.path))
    if module is None:
        raise Problem(
            f"{files.name} has no MTP module.",
            "Leave out --mtp, or choose the model as it was published.",
        )
    return module


def _find(source: str) -> Path:
    path = written_path(source)
    return path if os.path.exists(path) else Path(find(source, models=installed()).path)


def _published(source: Path) -> str:
    """Return the model's name without its organization; a snapshot's folder name is a hash."""
    folder = source.resolve()
    found = storage_of(folder)
    return found[0].name.rpartition("/")[2] if found else folder.name


def _name(source: Path, quantization: Quantization, *, part: str = "") -> str:
    """Return a name as repositories of converted models have it: "model-4bit"."""
    recipe = quantization.recipe.replace("_", "-")
    return f"{_published(source)}{part}-{recipe or f'{quantization.low_bits}bit'}"


def installed_at(folder: Path) -> Installed:
    """Return the record of the model in a new folder, wherever that is. Raises `Problem`."""
    found = [model for model in installed() if Path(model.path).resolve() == folder.resolve()]
    return found[0] if found else _elsewhere(folder)


def _elsewhere(folder: Path) -> Installed:
    """Return the record of a model in a folder that `installed` does not list."""
    found = describe(ModelEntry.at(folder.name, ModelFolder(folder.absolute()), "folder")).record
    if found.problem:
        raise Problem(found.problem, found.remedy)
    return found
