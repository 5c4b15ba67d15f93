"""SigLIP's encoder (arXiv 2303.15343), which several families have."""

import mlx.core as mx
import mlx.nn as nn

from engine.vision.layers import Mlp, Size, attend


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


class _Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.self_attn = _Attention(size)
        self.layer_norm1 = nn.LayerNorm(size.width, eps=size.epsilon)
        self.mlp = Mlp(size)
        self.layer_norm2 = nn.LayerNorm(size.width, eps=size.epsilon)

    def __call__(self, x: mx.array) -> mx.array:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class Encoder(nn.Module):
    """All layers, with the norm after them: (pictures, rows, width) to the same."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.layers = [_Layer(size) for _ in range(size.layers)]
        self.post_layernorm = nn.LayerNorm(size.width, eps=size.epsilon)

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers:
            x = layer(x)
        return self.post_layernorm(x)


def renamed(name: str) -> str | None:
    """Return the name in our networks of a tensor of the tower or the projector after it: as the
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
