"""Quantizes layers of a network: as the tensors which it is to hold, or into fewer bits."""

import re
from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import mlx.nn as nn

KEPT = re.compile(
    r"(^|\.)(markov_head|confidence_head|candidate_selector|masked_embedding|attention_conv"
    r"|mlp_conv|gate|shared_expert_gate|kv_b_proj|d2t|t2d)(\.|$)"
)
"""The parts of drafters that stay as they are: they are small, or decide a lot."""
_GROUPS = 64, 32  # numbers that share a scale; the first that fits


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


def hold_in(bits: int, network: nn.Module) -> None:
    """Quantize the matrices of a drafter's `network` to 8 or 4 bits each; 16 leaves all as it is.

    Packed matrices stay as they are, and so does a part that is `KEPT`.
    """
    names = {name for name, _ in network.named_modules()}
    picked = any(name.endswith("masked_embedding") for name in names)

    def quantized(name: str, module: nn.Module) -> bool | dict[str, Any]:
        if not hasattr(module, "to_quantized") or KEPT.search(name):
            return False
        if picked and name.endswith("embed_tokens"):
            return False  # its rows are picked one by one, and are not unpacked each time
        groups = (size for size in _GROUPS if module.weight.shape[-1] % size == 0)
        group_size = next(groups, None)
        return group_size is not None and {"group_size": group_size, "bits": bits}

    if bits < 16:
        nn.quantize(network, class_predicate=quantized)
