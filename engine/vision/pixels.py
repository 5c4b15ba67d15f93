"""Pixels as a network reads them: resized as the model's makers do it, cut into patches, scaled.

Knows numbers and Pillow's filters; no network and no file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from PIL import Image

from engine.vision import Pixels


@dataclass(frozen=True, slots=True)
class Scale:
    """How bytes become numbers: times `factor`, less `mean`, by `deviation`, a number a colour."""

    factor: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, patches: Pixels) -> mx.array:
        """Return patches, (..., numbers), as float32. Colours come last, and bytes travel to the
        device: a quarter of the numbers' size."""
        mean, deviation = mx.array(self.mean), mx.array(self.deviation)
        numbers = mx.array(patches).reshape(*patches.shape[:-1], -1, 3).astype(mx.float32)
        return ((numbers * self.factor - mean) / deviation).reshape(patches.shape)


def scale_of(settings: Mapping[str, Any]) -> Scale:
    """Return the scale that a processor's settings name; by default from -1 to 1."""

    def colours(name: str) -> tuple[float, ...]:
        values: Sequence[float] = settings.get(name) or (0.5, 0.5, 0.5)
        red, green, blue = map(float, values)
        return (red, green, blue)

    factor = float(settings.get("rescale_factor") or 1 / 255)
    return Scale(factor, colours("image_mean"), colours("image_std"))


def filter_of(settings: Mapping[str, Any], default: Image.Resampling) -> Image.Resampling:
    """Return the filter that a processor's settings name, by its number."""
    number = settings.get("resample")
    return default if number is None else Image.Resampling(number)


def fitted(
    height: int, width: int, side: int, *, fewest: int, most: int, least: int = 0
) -> tuple[int, int]:
    """Return the height and width, multiples of `side`, at which a picture is read that may have
    from `fewest` to `most` pixels, and keeps its shape about. Sides are at least `least` where that
    suffices."""
    tall, wide = (max(least, round(length / side) * side) for length in (height, width))
    if tall * wide > most:
        larger = math.sqrt(height * width / most)
        tall, wide = (max(side, int(length / larger / side) * side) for length in (height, width))
    elif tall * wide < fewest:
        larger = math.sqrt(fewest / (height * width))
        tall, wide = (math.ceil(length * larger / side) * side for length in (height, width))
    return tall, wide


def resized(pixels: Pixels, height: int, width: int, resampling: Image.Resampling) -> Pixels:
    """Return a picture of another size."""
    if pixels.shape[:2] == (height, width):
        return pixels
    return np.asarray(Image.fromarray(pixels).resize((width, height), resampling))


def patches(pixels: Pixels, size: int, merged: int = 1) -> Pixels:
    """Return the patches of a picture whose sides are multiples of `size` * `merged`, row by row:
    (patches, size * size * 3). Blocks of `merged` x `merged` patches stay together."""
    height, width = pixels.shape[0] // size // merged, pixels.shape[1] // size // merged
    parts = pixels.reshape(height, merged, size, width, merged, size, 3)
    return parts.transpose(0, 3, 1, 4, 2, 5, 6).reshape(-1, size * size * 3)
