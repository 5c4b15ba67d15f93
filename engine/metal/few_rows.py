"""Products of a few rows with a quantized matrix on a GPU: each row has the bits of a row alone.

MLX's own kernels for several rows add in another order than its kernel for one, so that greedy
text forks at near ties. The kernel here reads the matrix once for up to 8 rows, and adds as the
kernel for one row does. `install` lets a model's layers use it. Knows shapes and MLX's choice of a
kernel for one row; not whether this one is right or quick on a machine: that is for a trial there.
"""

from collections import defaultdict
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.metal.alone import Few, remove, stand_in
from engine.metal.header import read

__all__ = ["Shape", "install", "product", "remove", "shapes_of"]

Run = Callable[..., Any]
"""Makes a kernel of its source, as `mx.fast.metal_kernel` does."""

TEXT = Path(__file__).with_suffix(".metal")
_TILE = 8  # rows; more would keep more sums than a lane has registers for
_LAYERS = (nn.QuantizedLinear, nn.QuantizedEmbedding)


@dataclass(frozen=True, slots=True)
class Shape:
    """A quantized matrix by what decides how it is multiplied: (outputs, inputs), the bits of a
    weight, how many share a scale, the type of scales and results, and MLX's mode."""

    outputs: int
    inputs: int
    bits: int
    group: int
    dtype: str
    mode: str

    @classmethod
    def of(cls, layer: nn.Module) -> "Shape":
        """Return the shape of a quantized layer."""
        outputs, groups = layer.scales.shape
        dtype = str(layer.scales.dtype).removeprefix("mlx.core.")
        return cls(
            outputs, groups * layer.group_size, layer.bits, layer.group_size, dtype, layer.mode
        )


def shapes_of(model: nn.Module) -> dict[Shape, list[nn.Module]]:
    """Return a loaded model's layers that the kernel can compute, the head and the embedding among
    them, by shape. Not experts: MLX computes each by its kernel for one row."""
    layers = defaultdict[Shape, list[nn.Module]](list)
    for module in model.modules():
        if isinstance(module, _LAYERS) and _has_kernel(shape := Shape.of(module)):
            layers[shape].append(module)
    return dict(layers)


def _has_kernel(shape: Shape) -> bool:
    """MLX's other modes, and its kernel for 64 and 128 inputs, add in ways of their own. It passes
    fewer than 8 numbers in another memory."""
    short = shape.inputs in (64, 128) and shape.bits in (2, 4, 8)
    scales = shape.outputs * shape.inputs // shape.group
    return shape.mode == "affine" and shape.bits > 1 and not short and scales >= 8


def product(layer: nn.Module, x: mx.array, *, run: Run = mx.fast.metal_kernel) -> mx.array:
    """Return the products of `x`, (..., inputs) 2 to `FEW_ROWS` rows in all, and the layer's
    matrix: (..., outputs), without its bias. The layer must be one of `shapes_of`.

    `run` makes the kernel. Raises HeaderChanged.
    """
    inputs, outputs = x.shape[-1], layer.weight.shape[0]
    rows = x.size // inputs
    tiles = -(-rows // _TILE)
    dtype = mx.result_type(x, layer.scales)
    scales, biases = layer.scales.astype(dtype), layer.biases.astype(dtype)
    (y,) = _kernel(run)(
        inputs=[layer.weight, scales, biases, x.reshape(rows, inputs).astype(dtype)],
        template=[
            ("T", dtype),
            ("ROWS", -(-rows // tiles)),
            ("GROUP", layer.group_size),
            ("BITS", layer.bits),
            ("FAST", inputs % (256 if layer.bits in (6, 8) else 512) == 0),  # as MLX for one row
        ],
        grid=(32 * tiles, 2 * -(-outputs // 8), 1),
        threadgroup=(32, 2, 1),
        output_shapes=[(rows, outputs)],
        output_dtypes=[dtype],
    )
    return y.reshape(*x.shape[:-1], outputs)


def install(model: nn.Module, shapes: Container[Shape], *, run: Run = mx.fast.metal_kernel) -> None:
    """Let the model's quantized layers of these shapes use the kernel for 2 to `FEW_ROWS` rows, in
    place of another stand-in. `remove` takes it back. Raises HeaderChanged."""
    _kernel(run)
    for shape, layers in shapes_of(model).items():
        if shape in shapes:
            for layer in layers:
                stand_in(layer, _by_kernel(run))


@cache
def _by_kernel(run: Run) -> Few:
    def few(layer: nn.Module, _: Any, x: mx.array) -> mx.array:
        y = product(layer, x, run=run)
        return y + layer.bias if "bias" in layer else y

    return few


@cache
def _kernel(run: Run) -> Any:
    return run(
        name="few_rows",
        input_names=["w", "scales", "biases", "x"],
        output_names=["y"],
        source=TEXT.read_text(encoding="utf-8"),
        header=read().text,
    )
