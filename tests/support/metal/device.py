"""A Mac's GPU on the CPU, which computes quantized models by the text of Metal kernels."""

from contextlib import contextmanager
from functools import cache, partial
from unittest import mock

import mlx.core as mx
import mlx.nn as nn

from engine.core.model_parts import downwards, embedding
from engine.device import GPU
from engine.metal import alone, few_rows
from tests.support.engine import tiny
from tests.support.engine.backends import computing_as, rounded
from tests.support.metal.shim import Shim
from tests.support.metal.stock import quantized_matmul

SHIM = Shim()
# Matrices with 64 and 128 inputs have another kernel. 512 inputs are whole steps, 96 a tail alone.
# Dense; with experts; a gated delta net, and attention; a sliding window, and the embedding as the
# head; Mamba 2, which computes rows in blocks.
MODELS = tiny.configs("metal")


@cache
def model_of(architecture, seed=0):
    """Return one of `MODELS` in float32, with matrices of 4 bits, but for routers. Each rounding
    shows in its text: every token has a twin, whose logit is the same number up to rounding."""
    model = tiny.build(architecture, sizes=MODELS[architecture], seed=seed)
    with_matrices = (name for name, _ in model.named_modules() if not name.endswith(".gate"))
    chosen = set(with_matrices)
    nn.quantize(
        model,
        group_size=tiny.GROUP_SIZE,
        bits=4,
        class_predicate=lambda name, layer: name in chosen and hasattr(layer, "to_quantized"),
    )
    heads = [part["lm_head"] for part in downwards(model) if "lm_head" in part]
    _make_twins(heads[0] if heads else embedding(model))
    mx.eval(model.parameters())
    return model


def _make_twins(layer):
    """Let each second output be the one before it, with all numbers of a group from the other end:
    scale * q + bias = -scale * (15 - q) + (bias + 15 * scale)."""
    weight, scales, biases = layer.weight[::2], layer.scales[::2], layer.biases[::2]
    pairs = (weight, ~weight), (scales, -scales), (biases, biases + 15 * scales)
    layer.weight, layer.scales, layer.biases = (mx.stack(pair, 1).flatten(0, 1) for pair in pairs)


@contextmanager
def on_metal(*, shim=SHIM):
    """Compute as on a Mac's GPU: quantized products by MLX's own Metal kernels, for several rows
    otherwise than for one, and other products rounded by the number of rows."""
    with (
        computing_as(GPU),
        mock.patch.object(mx, "quantized_matmul", partial(quantized_matmul, shim=shim)),
        mock.patch.object(nn.Linear, "__call__", rounded(nn.Linear.__call__)),
        mock.patch.object(nn.Embedding, "as_linear", rounded(nn.Embedding.as_linear)),
    ):
        yield


@contextmanager
def exactly(model, *, shim=SHIM):
    """Meanwhile let each of a few rows that the model reads have the bits of a row alone."""
    few_rows.install(model, few_rows.shapes_of(model), run=shim.metal_kernel)
    alone.install(model)
    try:
        yield
    finally:
        alone.remove(model)
