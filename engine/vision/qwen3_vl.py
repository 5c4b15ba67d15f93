"""Qwen3-VL, and Qwen3.5 to 3.8: a tower that turns by rows and columns at a picture's own shape.

Four patches become a token. Qwen3-VL gives its model states of the tower's middle layers too, which
are added after the model's first layers (DeepStack, arXiv 2406.04334).
"""

import math
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from PIL.Image import Resampling

from engine.vision import Grid, Pixels, Seen, Tower
from engine.vision.layers import Mlp, Size, attend
from engine.vision.pixels import filter_of, fitted, patches, resized, scale_of
from engine.vision.positions import angles, in_blocks, spread
from engine.vision.weights import loaded, processor_settings, refused_if_damaged, repeated, sizes
from models.errors import Problem
from models.model_folder import ModelFolder

_TOKEN = "<|image_pad|>"
_EPSILON = 1e-6
_BASE = 10000.0  # of the angles
_LONGEST = 200  # times the shorter side


class _Attention(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self._heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.proj = nn.Linear(size.width, size.width)

    def __call__(self, x: mx.array, cosines: mx.array, sines: mx.array) -> mx.array:
        rows, width = x.shape
        parts = self.qkv(x).reshape(rows, 3, self._heads, -1).transpose(1, 2, 0, 3)
        plain, half = parts[:2], parts.shape[-1] // 2  # queries and keys are turned at once
        other = mx.concatenate([-plain[..., half:], plain[..., :half]], axis=-1)
        queries, keys = (plain * cosines + other * sines).astype(x.dtype)
        seen = attend(queries[None], keys[None], parts[2:], scale=(2 * half) ** -0.5)
        return self.proj(seen[0].transpose(1, 0, 2).reshape(rows, width))


class _Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=_EPSILON)
        self.norm2 = nn.LayerNorm(size.width, eps=_EPSILON)
        self.attn = _Attention(size)
        self.mlp = Mlp(size)

    def __call__(self, x: mx.array, cosines: mx.array, sines: mx.array) -> mx.array:
        x = x + self.attn(self.norm1(x), cosines, sines)
        return x + self.mlp(self.norm2(x))


class _Merger(nn.Module):
    """From patches of `width`, to rows of `text_width`; `merged` of them become a token. `joined`:
    the norm is over all of a token's numbers."""

    def __init__(self, width: int, *, merged: int, text_width: int, joined: bool) -> None:
        super().__init__()
        self._width, self._joined = width * merged, joined
        self.norm = nn.LayerNorm(self._width if joined else width, eps=_EPSILON)
        self.fc1 = nn.Linear(self._width, self._width)
        self.fc2 = nn.Linear(self._width, text_width)

    def __call__(self, x: mx.array) -> mx.array:
        if self._joined:
            merged = self.norm(x.reshape(-1, self._width))
        else:
            merged = self.norm(x).reshape(-1, self._width)
        return self.fc2(nn.gelu(self.fc1(merged)))


class _Network(nn.Module):
    """From patches to rows. `merged`: the side of the blocks of patches that become tokens."""

    def __init__(self, config: Mapping[str, Any], size: Size, *, patch: int, merged: int) -> None:
        super().__init__()
        places, text_width = int(config["num_position_embeddings"]), int(config["out_hidden_size"])
        self._side, self._merged, self._head = math.isqrt(places), merged, size.width // size.heads
        self._tapped: list[int] = [int(each) for each in config["deepstack_visual_indexes"]]
        options = {"merged": merged**2, "text_width": text_width}
        self.patch_embed = nn.Linear(3 * patch * patch, size.width)
        self.pos_embed = nn.Embedding(places, size.width)
        self.blocks = [_Block(size) for _ in range(size.layers)]
        self.merger = _Merger(size.width, joined=False, **options)
        self.deepstack_merger_list = [
            _Merger(size.width, joined=True, **options) for _ in self._tapped
        ]

    def __call__(self, numbers: mx.array, rows: int, columns: int) -> Seen:
        table = self.pos_embed(mx.arange(self._side**2))
        places = spread(table.reshape(self._side, self._side, -1), rows, columns)
        state = self.patch_embed(numbers.astype(table.dtype)) + in_blocks(places, self._merged)
        turns = angles(rows, columns, self._merged, head=self._head, base=_BASE)
        both = mx.array(np.tile(turns.reshape(len(turns), -1), 2))
        cosines, sines = mx.cos(both), mx.sin(both)
        deeper: list[mx.array] = []  # by the tower's layers, in any order of their mergers
        for index, block in enumerate(self.blocks):
            state = block(state, cosines, sines)
            if index in self._tapped:
                deeper.append(self.deepstack_merger_list[self._tapped.index(index)](state))
        return Seen(self.merger(state), tuple(deeper))


class QwenTower(Tower):
    """The tower of a Qwen that sees in `folder`."""

    mark = _TOKEN

    def __init__(self, folder: ModelFolder) -> None:
        config, text, settings = (
            folder.config,
            folder.config["text_config"],
            processor_settings(folder),
        )
        vision: Mapping[str, Any] = config["vision_config"]
        self._folder = folder
        self._config = {"num_position_embeddings": 2304, "deepstack_visual_indexes": (), **vision}
        self.placeholder = int(config.get("image_token_id", config.get("image_token_index")))
        text = config["text_config"]
        rotary = text.get("rope_parameters") or text.get("rope_scaling") or {}
        self.sections = tuple(int(each) for each in rotary.get("mrope_section") or ())
        self._patch = int(settings.get("patch_size", 16))
        self._merged = int(settings.get("merge_size", 2))
        area = settings.get("size") or {}
        fewest, most = settings.get("min_pixels"), settings.get("max_pixels")
        self._fewest = int(fewest or area.get("shortest_edge", 56 * 56))
        self._most = int(most or area.get("longest_edge", 28 * 28 * 1280))
        self._scale = scale_of(settings)
        self._filter = filter_of(settings, Resampling.BICUBIC)
        self._size = Size(
            width=int(vision["hidden_size"]),
            hidden=int(vision["intermediate_size"]),
            heads=int(vision["num_heads"]),
            layers=int(vision["depth"]),
            epsilon=_EPSILON,
        )
        self.weights_bytes = sizes(folder, _renamed)

    def size_of(self, width: int, height: int) -> Grid:
        if max(width, height) > _LONGEST * min(width, height):
            raise Problem(
                f"A picture of {width} x {height} pixels is too narrow for this model.",
                f"Crop it: the longer side may be at most {_LONGEST} times the shorter.",
            )
        side = self._patch * self._merged
        tall, wide = fitted(height, width, side, fewest=self._fewest, most=self._most)
        shape = (tall // side, wide // side)
        tokens = math.prod(shape)
        return Grid(tall, wide, tokens * self._merged**2, tokens, repeated(_TOKEN, tokens), shape)

    def embed(self, pixels: Pixels) -> Seen:
        with refused_if_damaged(self._folder):
            grid = self.size_of(pixels.shape[1], pixels.shape[0])
            small = resized(pixels, grid.height, grid.width, self._filter)
            numbers = self._scale(patches(small, self._patch, self._merged))
            return self._network(numbers, grid.height // self._patch, grid.width // self._patch)

    def working_bytes(self, grid: Grid) -> int:
        return self._size.working_bytes(grid.patches)

    @cached_property
    def _network(self) -> _Network:
        config, size = self._config, self._size
        make = partial(_Network, config, size, patch=self._patch, merged=self._merged)
        return loaded(make, self._folder, _renamed, _changed)


def _renamed(name: str) -> str | None:
    """Return the name in our network of a tensor of the tower; None if it is not of the tower."""
    plain = name.removeprefix("model.").removeprefix("language_model.")
    ours = plain.removeprefix("vision_tower.").removeprefix("visual.")
    if ours == plain:
        return None
    return ours.replace("patch_embed.proj.", "patch_embed.").replace(".linear_fc", ".fc")


def _changed(name: str, tensor: mx.array) -> mx.array:
    """Return a tensor as ours: a still picture is a film of equal frames, so the patches' weights
    for all frames are added once. Colours come last, as in MLX's files."""
    if name != "patch_embed.weight" or tensor.ndim != 5:
        return tensor
    if tensor.shape[-1] != 3:
        tensor = tensor.transpose(0, 2, 3, 4, 1)
    return tensor.astype(mx.float32).sum(1).flatten(1).astype(tensor.dtype)
