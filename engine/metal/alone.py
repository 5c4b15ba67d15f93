"""Lets layers compute the rows of a short pass one at a time, so that each is computed as if alone.

For all that rounds by the number of rows and has no kernel of its own: matrices in bfloat16, such
as routers and gates, MLX's microscaled modes, and attention over many keys. Recurrences that round
so are read row by row anyway: see `engine.core.recurrent`. A layer takes a subclass of its class
for as long, which `few_rows` uses, too; other numbers of rows are computed as ever.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.mla import MultiLinear, QuantizedMultiLinear
from mlx_lm.models.switch_layers import SwitchGLU, SwitchMLP

from models.limits import FEW_ROWS

Few = Callable[..., Any]
"""(module, the stock computation, arrays with a row per token) -> what the module returns."""

_QUANTIZED = (nn.QuantizedLinear, nn.QuantizedEmbedding, nn.QQLinear)
_MATRICES = (nn.Linear, nn.Embedding, *_QUANTIZED)
_GATES = ("Gate", "Router")  # end the names of mlx-lm's classes that pick experts by a matrix
_SORTED, _FOR_EACH = 64, 4  # pairs from which mlx-lm sorts, and MLX has tiles


def install(model: nn.Module) -> None:
    """Let each layer that rounds by the number of rows compute few of them one at a time, and
    attention, too. Layers with a stand-in keep it."""
    model.attends_alone = True  # see engine.core.split_attention
    for module in model.modules():
        if _stock(module) is not type(module):
            continue
        if isinstance(module, SwitchGLU | SwitchMLP):
            stand_in(module, _experts)
        elif isinstance(module, _MATRICES) or (
            "weight" in module and type(module).__name__.endswith(_GATES)
        ):
            stand_in(module, _one_by_one)


def remove(model: nn.Module) -> None:
    """Let all layers compute as ever, those with a kernel among them."""
    model.attends_alone = False
    for module in model.modules():
        module.__class__ = _stock(module)


def cannot_be_exact(model: nn.Module) -> str | None:
    """Return why rows of a pass cannot have the bits of rows alone on a GPU; None if they may.
    Quantized caches never have them."""
    if any(isinstance(module, MultiLinear | QuantizedMultiLinear) for module in model.modules()):
        return "its attention computes a single token in another way than several"
    sizes = [0, 0]  # bytes of matrices: in floats, quantized
    for module in model.modules():
        if isinstance(module, (nn.Linear, *_QUANTIZED)):
            sizes[isinstance(module, _QUANTIZED)] += module.weight.nbytes
    if sizes[0] > sizes[1]:
        return "most of its matrices are not quantized, and cost as much row by row as undrafted"
    return None


def stand_in(module: nn.Module, few: Few) -> None:
    """Let `module` compute 2 to `FEW_ROWS` rows by `few`, as a linear layer if it is an embedding.
    A stand-in that it has already is replaced."""
    module.__class__ = _standing_in(_stock(module), few)


@cache
def _standing_in(stock: type[nn.Module], few: Few) -> type[nn.Module]:
    name = "as_linear" if hasattr(stock, "as_linear") else "__call__"

    def call(module: nn.Module, x: mx.array, *more: Any) -> Any:
        computation = partial(getattr(stock, name), module)
        if 1 < x.size // x.shape[-1] <= FEW_ROWS:
            return few(module, computation, x, *more)
        return computation(x, *more)

    return type(stock.__name__, (stock,), {name: call, "stands_in_for": stock})


def _stock(module: nn.Module) -> type[nn.Module]:
    """Return the class of a module without stand-in."""
    stock: type[nn.Module] = vars(type(module)).get("stands_in_for", type(module))
    return stock


def _one_by_one(module: nn.Module, computation: Callable[..., Any], *arrays: mx.array) -> Any:
    """Compute the rows of the arrays, (..., width) each, one after another; of results that are
    tuples all parts have a row per token."""
    sizes = arrays[0].shape[:-1]
    axis = next((axis for axis, size in enumerate(sizes) if size > 1), None)
    if axis is None:
        return computation(*arrays)
    rows = zip(*(mx.split(each, sizes[axis], axis=axis) for each in arrays), strict=True)
    return _joined([_one_by_one(module, computation, *row) for row in rows], axis)


def _joined(parts: list[Any], axis: int) -> Any:
    if isinstance(parts[0], tuple):
        return tuple(_joined(list(each), axis) for each in zip(*parts, strict=True))
    return mx.concatenate(parts, axis=axis)


def _experts(
    module: nn.Module, computation: Callable[..., Any], x: mx.array, indices: mx.array
) -> Any:
    """Experts are exact, as MLX multiplies each pair of a row and an expert alone, but where it
    makes tiles of many sorted pairs."""
    count = max(getattr(part, "num_experts", 0) for part in module.values())
    tiles = indices.size >= max(_SORTED, _FOR_EACH * count)
    return _one_by_one(module, computation, x, indices) if tiles else computation(x, indices)
