"""Writes drafters that were distilled here: 8-bit weights and a config.json, in a folder.

Knows files and quantization; nothing of what a network computes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from models.files import replacing, write_text

BITS, GROUP_SIZE = 8, 64


def packed(network: nn.Module) -> dict[str, mx.array]:
    """The weights of `network`: of linear layers whose rows are whole groups the matrices 8-bit,
    everything else 16-bit."""
    parameters: dict[str, mx.array] = dict(tree_flatten(network.parameters()))
    tensors = {name: array.astype(mx.float16) for name, array in parameters.items()}
    for path, module in network.named_modules():
        if isinstance(module, nn.Linear) and module.weight.shape[1] % GROUP_SIZE == 0:
            parts = mx.quantize(tensors[f"{path}.weight"], group_size=GROUP_SIZE, bits=BITS)
            for part, array in zip(("weight", "scales", "biases"), parts, strict=True):
                tensors[f"{path}.{part}"] = array
    return tensors


def write_drafter(
    folder: Path, weights_name: str, tensors: Mapping[str, mx.array], config: Mapping[str, Any]
) -> None:
    """Write a drafter, or leave the one that was there.

    Raises OSError or RuntimeError where there is no room.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / weights_name) as partial:
        mx.save_safetensors(str(partial), dict(tensors))
    write_text(folder / "config.json", json.dumps(config, indent=2) + "\n")
