"""Gemma 4: a tower that turns by columns and rows at a picture's own shape, and one without layers.

Nine patches become a token. The unified models, such as the one of 12 billion parameters, have no
layers of their own for pictures: a token is a patch of nine times the area.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from PIL.Image import Resampling

from engine.vision import Grid, Pixels, Seen, Tower
from engine.vision.layers import Size, attend, shrunk, size_of
from engine.vision.pixels import Scale, filter_of, patches, resized, scale_of
from engine.vision.positions import angles, in_blocks
from engine.vision.weights import (
    loaded,
    processor_settings,
    refused_if_damaged,
    repeated,
    sizes,
    special_token,
)
from models.model_folder import ModelFolder

_AS_THEY_ARE = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
_BOUNDS = ("input_min", "input_max", "output_min", "output_max")


class _Linear(nn.Module):
    """A matrix, where `clipped` with bounds to what goes in and comes out."""

    def __init__(self, before: int, text_width: int, *, clipped: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(before, text_width, bias=False)
        if clipped:
            self.input_min = self.output_min = mx.array(-math.inf)
            self.input_max = self.output_max = mx.array(math.inf)

    def __call__(self, x: mx.array) -> mx.array:
        if "input_min" not in self:
            return self.linear(x)
        made = self.linear(mx.clip(x, self.input_min, self.input_max))
        return mx.clip(made, self.output_min, self.output_max)


class _Attention(nn.Module):
    def __init__(self, size: Size, *, keys: int, head: int, clipped: bool) -> None:
        super().__init__()
        self._head, self._epsilon = head, size.epsilon
        self.q_proj = _Linear(size.width, size.heads * head, clipped=clipped)
        self.k_proj = _Linear(size.width, keys * head, clipped=clipped)
        self.v_proj = _Linear(size.width, keys * head, clipped=clipped)
        self.o_proj = _Linear(size.heads * head, size.width, clipped=clipped)
        self.q_norm = nn.RMSNorm(head, eps=size.epsilon)
        self.k_norm = nn.RMSNorm(head, eps=size.epsilon)

    def __call__(self, x: mx.array, cosines: mx.array, sines: mx.array) -> mx.array:
        queries, keys, values = (
            project(x).reshape(len(x), -1, self._head)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        queries = _turned(self.q_norm(queries), cosines, sines)
        keys = _turned(self.k_norm(keys), cosines, sines)
        values = mx.fast.rms_norm(values, None, self._epsilon)
        heads = (each.transpose(1, 0, 2)[None] for each in (queries, keys, values))
        return self.o_proj(attend(*heads, scale=1.0)[0].transpose(1, 0, 2).reshape(len(x), -1))


def _turned(x: mx.array, cosines: mx.array, sines: mx.array) -> mx.array:
    """Turn the first half of each head's numbers by the patch's column, the other by its row:
    (patches, heads, width)."""
    parts = x.reshape(*x.shape[:-1], 2, -1)
    half = parts.shape[-1] // 2
    other = mx.concatenate([-parts[..., half:], parts[..., :half]], axis=-1)
    return (parts * cosines + other * sines).reshape(x.shape)


class _Mlp(nn.Module):
    def __init__(self, size: Size, *, clipped: bool) -> None:
        super().__init__()
        self.gate_proj = _Linear(size.width, size.hidden, clipped=clipped)
        self.up_proj = _Linear(size.width, size.hidden, clipped=clipped)
        self.down_proj = _Linear(size.hidden, size.width, clipped=clipped)

    def __call__(self, x: mx.array) -> mx.array:
        return self.down_proj(nn.gelu_approx(self.gate_proj(x)) * self.up_proj(x))


class _Layer(nn.Module):
    def __init__(self, size: Size, *, keys: int, head: int, clipped: bool) -> None:
        super().__init__()
        self.self_attn = _Attention(size, keys=keys, head=head, clipped=clipped)
        self.mlp = _Mlp(size, clipped=clipped)
        for place in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            self[f"{place}_layernorm"] = nn.RMSNorm(size.width, eps=size.epsilon)

    def __call__(self, x: mx.array, cosines: mx.array, sines: mx.array) -> mx.array:
        seen = self.self_attn(self.input_layernorm(x), cosines, sines)
        x = x + self.post_attention_layernorm(seen)
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class _Tower(nn.Module):
    """From patches to features. `merged`: the side of the blocks of patches that become tokens."""

    def __init__(self, config: Mapping[str, Any], size: Size, *, patch: int, merged: int) -> None:
        super().__init__()
        head = int(config.get("head_dim") or size.width // size.heads)
        keys = int(config.get("num_key_value_heads") or size.heads)
        rotary = config.get("rope_parameters") or {}
        self._merged, self._head = merged, head
        self._base = float(rotary.get("rope_theta", 100.0))
        self.input_proj = nn.Linear(3 * patch * patch, size.width, bias=False)
        places = int(config.get("position_embedding_size", 10240))
        self.position_embedding_table = mx.zeros((2, places, size.width))
        clipped = bool(config.get("use_clipped_linears"))
        self.layers = [
            _Layer(size, keys=keys, head=head, clipped=clipped) for _ in range(size.layers)
        ]
        if config.get("standardize"):
            self.std_bias, self.std_scale = mx.zeros((size.width,)), mx.ones((size.width,))

    def __call__(self, numbers: mx.array, rows: int, columns: int) -> mx.array:
        across, down = self.position_embedding_table
        places = in_blocks(down[:rows, None] + across[:columns], self._merged)
        state = self.input_proj((2 * (numbers - 0.5)).astype(places.dtype)) + places
        turns = angles(rows, columns, self._merged, head=self._head, base=self._base)
        both = mx.array(np.tile(turns[:, None, ::-1], 2))  # by columns first
        cosines, sines = (turn(both).astype(state.dtype) for turn in (mx.cos, mx.sin))
        for layer in self.layers:
            state = layer(state, cosines, sines)
        # In float32: the features are too large for a float16 before they are standardized.
        blocks = state.reshape(-1, self._merged**2, state.shape[-1]).astype(mx.float32)
        features = blocks.mean(1) * math.sqrt(state.shape[-1])
        if "std_bias" in self:
            features = (features - self.std_bias) * self.std_scale
        return features.astype(state.dtype)


class _Embedder(nn.Module):
    """From large patches to features, without layers."""

    def __init__(self, config: Mapping[str, Any], *, patch: int) -> None:
        super().__init__()
        width, places = int(config["mm_embed_dim"]), int(config["mm_posemb_size"])
        self.patch_ln1 = nn.LayerNorm(3 * patch * patch)
        self.patch_dense = nn.Linear(3 * patch * patch, width)
        self.patch_ln2 = nn.LayerNorm(width)
        self.pos_embedding = mx.zeros((places, 2, width))
        self.pos_norm = nn.LayerNorm(width)

    def __call__(self, numbers: mx.array, rows: int, columns: int) -> mx.array:
        across, down = self.pos_embedding[:columns, 0], self.pos_embedding[:rows, 1]
        places = (down[:, None] + across).flatten(0, 1)
        state = self.patch_dense(self.patch_ln1(numbers.astype(places.dtype)))
        return self.pos_norm(self.patch_ln2(state) + places)


class _Network(nn.Module):
    """From patches to the rows of a text model whose states have `text_width` numbers."""

    def __init__(
        self, tower: _Tower | _Embedder, *, width: int, text_width: int, epsilon: float
    ) -> None:
        super().__init__()
        self.tower, self._epsilon = tower, epsilon
        self.embedding_projection = nn.Linear(width, text_width, bias=False)

    def __call__(self, numbers: mx.array, rows: int, columns: int) -> mx.array:
        features = self.tower(numbers, rows, columns)
        return self.embedding_projection(mx.fast.rms_norm(features, None, self._epsilon))


class Gemma4Tower(Tower):
    """The tower of a Gemma 4 in `folder`."""

    windows_only = True

    def __init__(self, folder: ModelFolder) -> None:
        config, settings = folder.config, processor_settings(folder)
        vision: Mapping[str, Any] = config["vision_config"]
        text: Mapping[str, Any] = config["text_config"]
        self._folder, self._vision = folder, vision
        self._unified = "mm_embed_dim" in vision
        if not self._unified:
            named = {"layer_norm_eps": vision.get("rms_norm_eps", 1e-6), **vision}
            self._size = size_of(named)
        self._text_width = int(text["hidden_size"])
        self._patch = int(settings.get("patch_size", vision.get("patch_size", 16)))
        merged = vision.get("pooling_kernel_size", 3)
        self._merged = int(settings.get("pooling_kernel_size", merged))
        self._most = int(settings.get("max_soft_tokens", settings.get("num_soft_tokens", 280)))
        self._filter = filter_of(settings, Resampling.BICUBIC)
        self._scale = scale_of(settings)
        if not settings.get("do_normalize"):
            self._scale = Scale(self._scale.factor, *_AS_THEY_ARE)
        seen = text.get("use_bidirectional_attention", "vision" if self._unified else None)
        self.mutual = seen == "vision"
        self.placeholder, self.mark = special_token(folder, "image", 258880)
        _, self._begin = special_token(folder, "boi", 255999)
        _, self._end = special_token(folder, "eoi", 258882)
        self._padding = int(text.get("pad_token_id") or 0)
        self.weights_bytes = sizes(folder, self._rename)

    def size_of(self, width: int, height: int) -> Grid:
        side = self._patch * self._merged
        factor = math.sqrt(self._most * side**2 / (width * height))
        tall, wide = (math.floor(factor * length / side) for length in (height, width))
        if not tall and not wide:
            raise ValueError("no token is allowed for a picture")
        if not tall:
            tall, wide = 1, min(width // height, self._most)
        elif not wide:
            tall, wide = min(height // width, self._most), 1
        tokens = tall * wide
        text = f"{self._begin}{repeated(self.mark, tokens)}{self._end}"
        patches = tokens if self._unified else tokens * self._merged**2
        return Grid(tall * side, wide * side, patches, tokens, text)

    def embed(self, pixels: Pixels) -> Seen:
        with refused_if_damaged(self._folder):
            grid = self.size_of(pixels.shape[1], pixels.shape[0])
            small = resized(pixels, grid.height, grid.width, self._filter)
            side = self._patch * self._merged if self._unified else self._patch
            numbers = self._scale(patches(small, side, 1 if self._unified else self._merged))
            features = self._network(numbers, grid.height // side, grid.width // side)
            return Seen(shrunk(features, mx.array(math.sqrt(self._text_width), features.dtype)))

    def working_bytes(self, grid: Grid) -> int:
        if self._unified:
            return grid.patches * 2 * (3 * (self._patch * self._merged) ** 2 + 4 * self._text_width)
        return self._size.working_bytes(grid.patches)

    @property
    def read_as(self) -> int:
        """Padding: its embeddings for the single layers are used for a row's."""
        return self._padding

    @cached_property
    def _network(self) -> _Network:
        return loaded(self._made, self._folder, self._rename)

    def _made(self) -> _Network:
        vision, patch, merged = self._vision, self._patch, self._merged
        tower: _Tower | _Embedder
        if self._unified:
            width = int(vision.get("output_proj_dims", vision["mm_embed_dim"]))
            tower = _Embedder(vision, patch=patch * merged)
        else:
            width = self._size.width
            tower = _Tower(vision, self._size, patch=patch, merged=merged)
        epsilon = float(vision.get("rms_norm_eps", 1e-6))
        return _Network(tower, width=width, text_width=self._text_width, epsilon=epsilon)

    def _rename(self, name: str) -> str | None:
        """Return the name in our network of a tensor of the tower or the projection after it; None
        if it is of neither, or not used."""
        plain = name.removeprefix("model.")
        for projection in ("embed_vision.", "vision_embedder.multimodal_embedder."):
            if plain.startswith(projection):
                return plain.removeprefix(projection)
        ours = plain.removeprefix("vision_tower.").removeprefix("vision_embedder.")
        unused = ours.endswith(_BOUNDS) and not self._vision.get("use_clipped_linears")
        if ours == plain or unused or "rotary_emb" in ours:
            return None
        return f"tower.{ours.removeprefix('patch_embedder.').removeprefix('encoder.')}"
