"""Quantizes a published drafter, and a target's MTP module.

mlx-lm drops such modules when it converts; here they are written next to the model, or into their
own folder. Knows tensors by our networks' names and by their shapes; `engine.drafters` computes
with them. Small or decisive tensors stay as they are: norms, and the heads that correct and judge a
block.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx

from engine.cli.models.convert import (
    Quantization,
    copy_files,
    no_cache,
    require_room,
    write_weights,
)
from engine.drafters.mtp import with_stacked_experts
from engine.quantized import KEPT
from models.drafters.folders import DrafterFolder
from models.drafters.mtp import module_config
from models.errors import Problem
from models.files import new_folder, write_json
from models.records import MODULE_NAME

BITS = (4, 8)
_DEFAULT_BITS = 8  # with which published drafters lose no acceptance


def convert_drafter(
    drafter: DrafterFolder,
    folder: Path,
    quantization: Quantization,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write `drafter` into the new `folder`, quantized to 8 or 4 bits, and return it.

    A target's MTP module becomes a drafter of its own. `folder` appears complete or not at all.
    Raises `Problem`.
    """
    chosen = for_drafters(quantization)
    if drafter.description.is_whole_model or drafter.kind == "head":
        raise Problem(
            f"{drafter.name} cannot be converted as a drafter.",
            "Convert a whole model as a model; trained heads have 8 bits already.",
        )
    config = dict(drafter.config)
    if drafter.description.prefixes or drafter.weights[0].name.startswith("mtp"):
        config = config if "source" in config else module_config(config)
    if any(name.endswith(".scales") for name in drafter.layouts):
        raise Problem(
            f"{drafter.name} is quantized already.",
            "Use it as it is, or convert the float drafter that it was made from.",
        )
    with new_folder(folder) as partial, no_cache():
        weights = _quantized(drafter, chosen)
        config.pop("quantization_config", None)
        config["quantization"] = {"group_size": chosen.group_size, "bits": chosen.low_bits}
        require_room(partial, weights)
        write_weights(weights, partial, progress)
        write_json(partial / "config.json", config)
        copy_files(drafter.path, partial)
    return folder


def keep_module(
    module: DrafterFolder,
    folder: Path,
    quantization: Quantization,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write the MTP module of a target next to the converted target, in 8 bits.

    It has the model's group size, since both share one config.json.
    """
    chosen = Quantization(_DEFAULT_BITS, quantization.group_size)
    weights = _quantized(module, chosen)
    require_room(folder, weights)
    write_weights(weights, folder, progress, stem=MODULE_NAME.removesuffix(".safetensors"))


def for_drafters(quantization: Quantization) -> Quantization:
    """Return the quantization, by default in 8 bits. Raises `Problem` for values that drafters do
    not support."""
    if quantization.recipe:
        raise Problem("A drafter cannot be converted with a recipe.", "Leave out --recipe.")
    chosen = replace(quantization, bits=quantization.bits or _DEFAULT_BITS)
    if chosen.bits not in BITS:
        raise Problem(f"A drafter cannot have {chosen.bits} bits.", "Choose --bits 8 or 4.")
    return chosen


def _tensors(drafter: DrafterFolder) -> dict[str, mx.array]:
    """Return the drafter's tensors; each is read when it is used."""
    found: dict[str, mx.array] = {}
    for path in drafter.weights:
        loaded: dict[str, mx.array] = mx.load(str(path))  # type: ignore[assignment]
        found |= {name: array for name, array in loaded.items() if name in drafter.layouts}
    return found


def _quantized(drafter: DrafterFolder, quantization: Quantization) -> dict[str, mx.array]:
    """Return the tensors, with the large matrices packed; each is computed when it is written."""
    ours = {theirs: ours for ours, theirs in drafter.published.names.items()}
    group_size, bits = quantization.group_size, quantization.low_bits
    # An embedding whose rows are picked one by one stays as it is.
    picked = any(".masked_embedding." in f".{name}" for name in ours.values())
    made: dict[str, mx.array] = {}
    for name, array in with_stacked_experts(_tensors(drafter)).items():
        base = name.removesuffix(".weight")
        whole = array.ndim > 1 and array.shape[-1] % group_size == 0
        floats = mx.issubdtype(array.dtype, mx.floating)
        kept = KEPT.search(ours.get(name, name)) or (picked and base.endswith("embed_tokens"))
        if name == base or kept or not whole or not floats:
            made[name] = array
            continue
        cast = array.astype(mx.bfloat16) if array.dtype == mx.float32 else array
        parts = mx.quantize(cast, group_size=group_size, bits=bits)
        for part, packed in zip(("weight", "scales", "biases"), parts, strict=True):
            made[f"{base}.{part}"] = packed
    return made
