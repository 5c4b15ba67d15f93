"""A drafter's weights: from safetensors files into a network.

Knows files and arrays, which may be damaged; nothing of what the networks do. Of the formats that
weights come in, no other one is read: pickled files can run code.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import dequantize_model

from engine.drafters import DrafterRefused


def read_tensors(folder: Path) -> dict[str, mx.array]:
    """All tensors in the safetensors files of `folder`; their numbers are read when first used.

    Raises `DrafterRefused`.
    """
    tensors: dict[str, mx.array] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            loaded: Any = mx.load(str(path))
        except (RuntimeError, ValueError, OSError) as error:
            raise damaged(folder, str(error)) from error
        tensors |= loaded
    return tensors


def fill(network: nn.Module, weights: Mapping[str, mx.array], folder: Path) -> None:
    """Give `network` its `weights`, all of them, and no others. Raises `DrafterRefused`.

    Matrices that come with scales are quantized: shapes tell how. On the CPU all become float32,
    as those of a target do (see `engine.loading`).
    """

    def quantization(path: str, module: nn.Module) -> bool | dict[str, Any]:
        scales, packed = weights.get(f"{path}.scales"), weights.get(f"{path}.weight")
        if scales is None or packed is None or not hasattr(module, "to_quantized"):
            return False
        width = module.weight.shape[-1]
        group_size, bits = width // scales.shape[-1], packed.shape[-1] * 32 // width
        mode = "nvfp4" if group_size == 16 else f"mxfp{bits}"
        if f"{path}.biases" in weights:
            mode = "affine"
        return {"group_size": group_size, "bits": bits, "mode": mode}

    try:
        nn.quantize(network, class_predicate=quantization)
        network.load_weights(list(weights.items()))
        if mx.default_device() == mx.cpu:
            network.set_dtype(mx.float32)  # scales first, so that weights are expanded exactly
            dequantize_model(network)
            network.set_dtype(mx.float32)
        network.eval()
        mx.eval(network.parameters())
    except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise damaged(folder, str(error)) from error


def damaged(folder: Path, why: str) -> DrafterRefused:
    """The refusal of a drafter whose files cannot be read, or contradict each other."""
    why = " ".join(why.split())[:200].rstrip(".")
    message = f"The drafter in {folder} is damaged: {why}."
    return DrafterRefused("damaged", message, "Fetch or make it again.")
