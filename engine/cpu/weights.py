"""Expands weights to float32 for a CPU, where each row of a quantized product costs the same."""

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import dequantize_model

from engine.cpu.blas import keep_narrow


def expand(network: nn.Module) -> None:
    """Convert all weights of `network` to float32, in place."""
    network.set_dtype(mx.float32)  # scales first, so that weights are expanded exactly
    dequantize_model(network)
    network.set_dtype(mx.float32)  # microscaled weights are expanded to bfloat16


def narrow(network: nn.Module) -> None:
    """Round the matrices of an expanded network to bfloat16, and keep narrow copies of them: the
    cost of a drafted token is the time to read them."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            module.weight = module.weight.astype(mx.bfloat16).astype(mx.float32)
            mx.eval(module.weight)
            keep_narrow(module.weight)
