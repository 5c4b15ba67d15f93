"""Gemma 3: SigLIP (arXiv 2303.15343) at one size: 4,096 patches become 256 tokens.

A picture is stretched to a square. Its rows see each other.
"""

import math
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from PIL.Image import Resampling

from engine.vision import Grid, Pixels, Seen, Tower
from engine.vision.layers import Size, shrunk, size_of
from engine.vision.pixels import filter_of, patches, resized, scale_of
from engine.vision.positions import in_blocks
from engine.vision.siglip import Encoder, renamed
from engine.vision.weights import (
    loaded,
    processor_settings,
    refused_if_damaged,
    repeated,
    sizes,
    special_token,
)
from models.model_folder import ModelFolder


class _Network(nn.Module):
    """From patches to rows. `side`: of a picture, in patches; `merged`: the side of the blocks of
    patches that become tokens."""

    def __init__(self, size: Size, *, patch: int, side: int, merged: int, text_width: int) -> None:
        super().__init__()
        self._side, self._merged = side, merged
        self.patch_embedding = nn.Linear(3 * patch * patch, size.width)
        self.position_embedding = nn.Embedding(side**2, size.width)
        self.encoder = Encoder(size)
        self.mm_soft_emb_norm = nn.RMSNorm(size.width, eps=size.epsilon)
        self.mm_input_projection_weight = mx.zeros((size.width, text_width))

    def __call__(self, numbers: mx.array) -> mx.array:
        places = self.position_embedding(mx.arange(self._side**2))
        places = in_blocks(places.reshape(self._side, self._side, -1), self._merged)
        states = self.encoder((self.patch_embedding(numbers.astype(places.dtype)) + places)[None])
        means = states.reshape(-1, self._merged**2, states.shape[-1]).mean(1)
        return self.mm_soft_emb_norm(means) @ self.mm_input_projection_weight


class Gemma3Tower(Tower):
    """The tower of a Gemma 3 in `folder`."""

    mutual = True

    def __init__(self, folder: ModelFolder) -> None:
        config, settings = folder.config, processor_settings(folder)
        vision: Mapping[str, Any] = config["vision_config"]
        text: Mapping[str, Any] = config["text_config"]
        self._folder, self._size = folder, size_of(vision)
        self._patch, self._pixels = int(vision["patch_size"]), int(vision["image_size"])
        tokens = config.get("mm_tokens_per_image", text.get("mm_tokens_per_image", 256))
        self._side, self._tokens = self._pixels // self._patch, int(tokens)
        self._text_width = int(text["hidden_size"])
        self._scale, self._filter = scale_of(settings), filter_of(settings, Resampling.BILINEAR)
        self.placeholder, row = special_token(folder, "image", 262144)
        _, self.mark = special_token(folder, "boi", 255999)
        _, end = special_token(folder, "eoi", 256000)
        self._text = f"\n\n{self.mark}{repeated(row, self._tokens)}{end}\n\n"
        self.weights_bytes = sizes(folder, renamed)

    def size_of(self, width: int, height: int) -> Grid:
        return Grid(self._pixels, self._pixels, self._side**2, self._tokens, self._text)

    def embed(self, pixels: Pixels) -> Seen:
        with refused_if_damaged(self._folder):
            square = resized(pixels, self._pixels, self._pixels, self._filter)
            features = self._network(self._scale(patches(square, self._patch, self._merged)))
            factor = mx.array(
                math.sqrt(self._text_width), mx.bfloat16
            )  # as the model's text half has it
            return Seen(shrunk(features, factor))

    def working_bytes(self, grid: Grid) -> int:
        return self._size.working_bytes(grid.patches)

    @property
    def _merged(self) -> int:
        return self._side // math.isqrt(self._tokens)

    @cached_property
    def _network(self) -> _Network:
        sides = {"patch": self._patch, "side": self._side, "merged": self._merged}
        make = partial(_Network, self._size, **sides, text_width=self._text_width)
        return loaded(make, self._folder, renamed, _changed)


def _changed(name: str, tensor: mx.array) -> mx.array:
    """Return a tensor as ours: patches' weights as a matrix, with colours last as in MLX's files,
    and the norm with the 1 that is added to it."""
    if name == "patch_embedding.weight":
        if tensor.shape[-1] != 3:
            tensor = tensor.transpose(0, 2, 3, 1)
        return tensor.flatten(1)
    return 1.0 + tensor if name == "mm_soft_emb_norm.weight" else tensor
