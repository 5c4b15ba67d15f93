"""LFM2-VL and LFM2.5-VL: SigLIP 2 (arXiv 2502.14786) at a picture's own shape.

Four patches become a token. A large picture is cut into tiles of one size, and a small version of
the whole comes after them. The MLX conversions of their maker say that pictures are not cut, which
the models were trained for: like mlx-vlm, this reads past that.
"""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from itertools import product
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from PIL.Image import Resampling

from engine.vision import Grid, Pixels, Seen, Tower
from engine.vision.layers import Size, size_of
from engine.vision.pixels import filter_of, fitted, patches, resized, scale_of
from engine.vision.positions import in_blocks, stretched
from engine.vision.siglip import Encoder, renamed
from engine.vision.weights import loaded, processor_settings, refused_if_damaged, repeated, sizes
from models.model_folder import ModelFolder

_TOKEN = "<image>"
_MOST_TILES = 64


class _Network(nn.Module):
    """From patches to rows. `merged`: the side of the blocks of patches that become tokens."""

    def __init__(self, config: Mapping[str, Any], size: Size, *, patch: int, merged: int) -> None:
        super().__init__()
        places = int(config["vision_config"].get("num_patches", 256))
        behind = size.width * merged**2
        self._side, self._merged = math.isqrt(places), merged
        self.patch_embedding = nn.Linear(3 * patch * patch, size.width)
        self.position_embedding = nn.Embedding(places, size.width)
        self.encoder = Encoder(size)
        if config.get("projector_use_layernorm", True):
            self.layer_norm = nn.LayerNorm(behind)
        hidden, bias = int(config["projector_hidden_size"]), config.get("projector_bias", True)
        self.linear_1 = nn.Linear(behind, hidden, bias=bias)
        self.linear_2 = nn.Linear(hidden, int(config["text_config"]["hidden_size"]), bias=bias)

    def __call__(self, numbers: mx.array, rows: int, columns: int) -> mx.array:
        """Return the rows of pictures of rows * columns patches, one after another."""
        table = self.position_embedding(mx.arange(self._side**2))
        places = stretched(table.reshape(self._side, self._side, -1), rows, columns)
        embedded = self.patch_embedding(numbers.astype(table.dtype))
        states = self.encoder(embedded + in_blocks(places, self._merged))
        merged = states.reshape(-1, self._merged**2 * states.shape[-1])
        if "layer_norm" in self:
            merged = self.layer_norm(merged)
        return self.linear_2(nn.gelu(self.linear_1(merged)))


class Lfm2Tower(Tower):
    """The tower of an LFM2-VL in `folder`."""

    mark = _TOKEN

    def __init__(self, folder: ModelFolder) -> None:
        config, settings = folder.config, processor_settings(folder)
        self._folder = folder
        self.placeholder = int(config.get("image_token_id", config.get("image_token_index")))
        self._patch = int(settings.get("encoder_patch_size", settings.get("patch_size", 16)))
        self._merged = int(settings.get("downsample_factor", 2))
        self._fewest = int(settings.get("min_image_tokens", 64))
        self._most = int(settings.get("max_image_tokens", 256))
        self._tolerance = float(settings.get("max_pixels_tolerance", 2.0))
        self._tile = int(settings.get("tile_size", 512))
        most = min(int(settings.get("max_tiles", 10)), _MOST_TILES)
        tiles = range(int(settings.get("min_tiles", 2)), most + 1)
        self._layouts = sorted(_layouts(tiles), key=math.prod)
        self._marked = bool(settings.get("use_image_special_tokens", True))
        self._scale = scale_of(settings)
        self._filter = filter_of(settings, Resampling.BILINEAR)
        layers = int(config["vision_config"]["num_hidden_layers"])
        last = int(config.get("vision_feature_layer", -1))
        self._size = size_of({**config["vision_config"], "num_hidden_layers": layers + last + 1})
        self.weights_bytes = sizes(folder, self._rename)

    def size_of(self, width: int, height: int) -> Grid:
        tall, wide = self._small(height, width)
        whole = self._tokens(tall, wide)
        columns, rows = self._tiles(height, width)
        if rows * columns == 1:
            text, tokens, pixels = repeated(_TOKEN, whole), whole, tall * wide
        else:
            each = self._tokens(self._tile, self._tile)
            places = product(range(1, rows + 1), range(1, columns + 1))
            text = "".join(
                self._special(f"<|img_row_{row}_col_{column}|>") + repeated(_TOKEN, each)
                for row, column in places
            )
            text += self._special("<|img_thumbnail|>") + repeated(_TOKEN, whole)
            tokens, pixels = rows * columns * each + whole, rows * columns * self._tile**2
            pixels += tall * wide
            tall, wide = rows * self._tile, columns * self._tile
        text = self._special("<|image_start|>") + text + self._special("<|image_end|>")
        return Grid(tall, wide, pixels // self._patch**2, tokens, text)

    def embed(self, pixels: Pixels) -> Seen:
        with refused_if_damaged(self._folder):
            height, width = pixels.shape[:2]
            columns, rows = self._tiles(height, width)
            whole = resized(pixels, *self._small(height, width), self._filter)
            if rows * columns == 1:
                return Seen(self._seen([whole]))
            tile = self._tile
            large = resized(pixels, rows * tile, columns * tile, self._filter)
            tiles = [
                large[row * tile : (row + 1) * tile, column * tile : (column + 1) * tile]
                for row, column in product(range(rows), range(columns))
            ]
            return Seen(mx.concatenate([self._seen(tiles), self._seen([whole])]))

    def working_bytes(self, grid: Grid) -> int:
        return self._size.working_bytes(grid.patches)

    @cached_property
    def _network(self) -> _Network:
        config, size = self._folder.config, self._size
        make = partial(_Network, config, size, patch=self._patch, merged=self._merged)
        return loaded(make, self._folder, self._rename)

    def _rename(self, name: str) -> str | None:
        ours = renamed(name)
        if ours is None or (
            ours.startswith("layer_norm.")
            and not self._folder.config.get("projector_use_layernorm", True)
        ):
            return None
        above = ours.startswith("encoder.layers.") and int(ours.split(".")[2]) >= self._size.layers
        return None if above else ours

    def _seen(self, pictures: list[Pixels]) -> mx.array:
        """Return the rows of pictures of one size, one after another."""
        numbers = mx.stack(
            [self._scale(patches(picture, self._patch, self._merged)) for picture in pictures]
        )
        height, width = pictures[0].shape[:2]
        return self._network(numbers, height // self._patch, width // self._patch)

    def _special(self, token: str) -> str:
        return token if self._marked else ""

    def _tokens(self, height: int, width: int) -> int:
        side = self._patch * self._merged
        return math.ceil(height / side) * math.ceil(width / side)

    def _small(self, height: int, width: int) -> tuple[int, int]:
        """Return the height and width at which a whole picture is read."""
        side = self._patch * self._merged
        fewest, most = self._fewest * side**2, self._most * side**2
        return fitted(height, width, side, fewest=fewest, most=most, least=side)

    def _tiles(self, height: int, width: int) -> tuple[int, int]:
        """Return the columns and rows of tiles whose shape is nearest to the picture's; of equally
        near shapes, the one with the most tiles that the picture fills half. (1, 1) for a picture
        that is not large."""
        side = self._patch * self._merged
        tall, wide = (max(self._patch, round(length / side) * side) for length in (height, width))
        if tall * wide <= self._most * side**2 * self._tolerance or not self._layouts:
            return 1, 1
        best, apart = (1, 1), math.inf
        for layout in self._layouts:
            columns, rows = layout
            difference = abs(width / height - columns / rows)
            fills = width * height > 0.5 * self._tile**2 * rows * columns
            if difference < apart or (difference == apart and fills):
                best, apart = layout, difference
        return best


def _layouts(tiles: range) -> Iterator[tuple[int, int]]:
    """Yield all columns and rows of as many tiles as are in `tiles`, narrow ones first."""
    for columns, rows in product(range(1, tiles.stop), repeat=2):
        if columns * rows in tiles:
            yield columns, rows
