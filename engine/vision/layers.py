"""What the layers of all towers have in common: sizes, and attention."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from models.model_folder import MOST_LAYERS

_FUSED = (64, 80, 128)  # the widths of heads for which Metal has one kernel, without a square


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of an encoder."""

    width: int
    hidden: int
    heads: int
    layers: int
    epsilon: float

    def __post_init__(self) -> None:
        if not 0 < self.layers <= MOST_LAYERS:  # they are made before a missing weight is noticed
            raise ValueError(f"it names {self.layers} layers")

    def working_bytes(self, rows: int, *, number_bytes: int = 2) -> int:
        """Return about how much memory a pass over `rows` needs, where attention is one kernel."""
        return rows * number_bytes * (6 * self.width + 2 * self.hidden)


def size_of(config: Mapping[str, Any]) -> Size:
    """Return the sizes in a vision_config."""
    return Size(
        width=int(config["hidden_size"]),
        hidden=int(config["intermediate_size"]),
        heads=int(config["num_attention_heads"]),
        layers=int(config["num_hidden_layers"]),
        epsilon=float(config.get("layer_norm_eps", 1e-6)),
    )


def attend(queries: mx.array, keys: mx.array, values: mx.array, *, scale: float) -> mx.array:
    """Return what all rows see of each other: (..., heads, rows, width of a head) each. Heads of a
    width that Metal has no kernel for are widened by zeros, which change nothing."""
    width = queries.shape[-1]
    missing = next((fused - width for fused in _FUSED if fused >= width), 0)
    if missing:
        edges = [(0, 0)] * (queries.ndim - 1) + [(0, missing)]
        queries, keys, values = (mx.pad(each, edges) for each in (queries, keys, values))
    seen = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale)
    return seen[..., :width] if missing else seen


class Mlp(nn.Module):
    """The feed-forward part of most towers, between attentions."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.fc1 = nn.Linear(size.width, size.hidden)
        self.fc2 = nn.Linear(size.hidden, size.width)

    def __call__(self, x: mx.array) -> mx.array:
        return self.fc2(nn.gelu_approx(self.fc1(x)))


def shrunk(features: mx.array, factor: mx.array) -> mx.array:
    """Return rows for a model that multiplies its embeddings by `factor`, so that it reads
    `features`."""
    return (features.astype(mx.float32) / factor.astype(mx.float32)).astype(features.dtype)
