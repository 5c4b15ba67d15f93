"""Layers of a network that are quantized as the tensors which it is to hold."""

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import mlx.nn as nn


def quantize_as(network: nn.Module, tensors: Mapping[str, mx.array]) -> None:
    """Quantize the layers of `network` whose matrices come with scales, with the bits and groups
    that the shapes of `tensors` show."""

    def quantized(name: str, module: nn.Module) -> bool | dict[str, Any]:
        scales, packed = tensors.get(f"{name}.scales"), tensors.get(f"{name}.weight")
        if scales is None or packed is None or not hasattr(module, "to_quantized"):
            return False
        width = module.weight.shape[-1]
        group_size, bits = width // scales.shape[-1], packed.shape[-1] * 32 // width
        mode = "nvfp4" if group_size == 16 else f"mxfp{bits}"
        if f"{name}.biases" in tensors:
            mode = "affine"
        return {"group_size": group_size, "bits": bits, "mode": mode}

    nn.quantize(network, class_predicate=quantized)
