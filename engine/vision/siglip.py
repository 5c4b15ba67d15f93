"""SigLIP's encoder (arXiv 2303.15343), which several families have."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

_FUSED = (64, 80, 128)  # the widths of heads for which Metal has one kernel, without a square


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of an encoder."""

    width: int
    hidden: int
    heads: int
    layers: int
    epsilon: float

    def working_bytes(self, rows: int, *, number_bytes: int = 2) -> int:
        """Return about how much memory a pass over `rows` needs, where attention is one kernel."""
        return rows * number_bytes * (6 * self.width + 2 * self.hidden)


def size_of(config: dict[str, Any]) -> Size:
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


class _Attention(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self._heads = size.heads
        self.q_proj = nn.Linear(size.width, size.width)
        self.k_proj = nn.Linear(size.width, size.width)
        self.v_proj = nn.Linear(size.width, size.width)
        self.out_proj = nn.Linear(size.width, size.width)

    def __call__(self, x: mx.array) -> mx.array:
        pictures, rows, width = x.shape
        queries, keys, values = (
            project(x).reshape(pictures, rows, self._heads, -1).transpose(0, 2, 1, 3)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        seen = attend(queries, keys, values, scale=queries.shape[-1] ** -0.5)
        return self.out_proj(seen.transpose(0, 2, 1, 3).reshape(pictures, rows, width))


class _Mlp(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.fc1 = nn.Linear(size.width, size.hidden)
        self.fc2 = nn.Linear(size.hidden, size.width)

    def __call__(self, x: mx.array) -> mx.array:
        return self.fc2(nn.gelu_approx(self.fc1(x)))


class _Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.self_attn = _Attention(size)
        self.layer_norm1 = nn.LayerNorm(size.width, eps=size.epsilon)
        self.mlp = _Mlp(size)
        self.layer_norm2 = nn.LayerNorm(size.width, eps=size.epsilon)

    def __call__(self, x: mx.array) -> mx.array:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class Encoder(nn.Module):
    """All layers, with the norm behind them: (pictures, rows, width) to the same."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.layers = [_Layer(size) for _ in range(size.layers)]
        self.post_layernorm = nn.LayerNorm(size.width, eps=size.epsilon)

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers:
            x = layer(x)
        return self.post_layernorm(x)


def renamed(name: str) -> str | None:
    """Return the name in our networks of a tensor of the tower or the projector behind it: as the
    makers' files call it, or as MLX's do. None if it is of neither, or not used."""
    name = name.removeprefix("model.")
    if name.startswith("multi_modal_projector."):
        return name.removeprefix("multi_modal_projector.")
    ours = name.removeprefix("vision_tower.").removeprefix("vision_model.")
    if ours == name or ours.startswith("head.") or ours.endswith("position_ids"):
        return None
    if ours.startswith("post_layernorm."):
        return f"encoder.{ours}"
    return ours.removeprefix("embeddings.")
