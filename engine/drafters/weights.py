"""Weights of drafters that others have published: read, quantized as they were, put in place.

Knows safetensors files and mlx's modules; nothing of any drafter's network.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import dequantize_model

from engine.drafters import DrafterRefused

Tensors = dict[str, mx.array]


def read_tensors(folder: Path) -> Tensors:
    """All tensors of the safetensors files in `folder`, which are not in memory yet.

    Raises `DrafterRefused`.
    """
    tensors: Tensors = {}
    try:
        for path in sorted(folder.glob("*.safetensors")):
            loaded: Any = mx.load(str(path))
            tensors |= loaded
    except (RuntimeError, ValueError, OSError) as error:
        raise damaged(folder, str(error)) from error
    if not tensors:
        message = f"{folder} has no weights in safetensors files."
        raise DrafterRefused("damaged", message, "Choose a repository that has them.")
    return tensors


def columns(tensors: Mapping[str, mx.array], module: str, config: Mapping[str, Any]) -> int:
    """How many values a row of a module's weight has, however it is packed."""
    scales = tensors.get(f"{module}.scales")
    if scales is None:
        return int(tensors[f"{module}.weight"].shape[-1])
    return int(scales.shape[-1]) * int(config["quantization"]["group_size"])


def put(tensors: Tensors, network: nn.Module, config: Mapping[str, Any], folder: Path) -> None:
    """Give `network` its weights: exactly these. On the CPU as float32. Raises `DrafterRefused`."""
    quantization = config.get("quantization")
    try:
        if quantization:
            nn.quantize(
                network,
                group_size=quantization["group_size"],
                bits=quantization["bits"],
                mode=quantization.get("mode", "affine"),
                class_predicate=lambda path, _: f"{path}.scales" in tensors,
            )
        network.load_weights(list(tensors.items()))
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise damaged(folder, str(error)) from error
    if mx.default_device() == mx.cpu:  # as for a target, see `engine.loading`
        network.set_dtype(mx.float32)
        dequantize_model(network)
    network.eval()


def damaged(folder: Path, why: str) -> DrafterRefused:
    """A refusal of what is in `folder`."""
    why = " ".join(why.split())[:200].rstrip(".")
    message = f"The drafter in {folder} is damaged: {why}."
    return DrafterRefused("damaged", message, "Fetch it again.")
