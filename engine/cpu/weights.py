"""Weights for a CPU: expanded to float32, since quantized products cost the same for every row."""

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import dequantize_model

from engine.cpu.blas import keep_narrow


def expand(network: nn.Module) -> None:
    """All weights to float32."""
    network.set_dtype(mx.float32)  # scales first, so that weights are expanded exactly
    dequantize_model(network)
    network.set_dtype(mx.float32)  # microscaled weights are expanded to bfloat16


def narrow(network: nn.Module) -> None:
    """Of an expanded network round the matrices to bfloat16, and keep them so: a drafted token
    costs what it takes to read them."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            module.weight = module.weight.astype(mx.bfloat16).astype(mx.float32)
            mx.eval(module.weight)
            keep_narrow(module.weight)
