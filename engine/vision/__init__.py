"""Pictures as rows of embeddings, which a model reads in a prompt in place of tokens.

A family of models that see has a file here, with its `Tower`: how a picture is resized and cut into
patches, and the network that makes rows of them. `engine.vision.tower` finds a model's. Pictures
come as pixels, upright and in RGB; nothing here decodes files, or knows of the text model.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]  # (height, width, 3)


@dataclass(frozen=True, slots=True)
class Grid:
    """How a tower reads a picture of some size.

    `height`, `width`: the pixels that it is resized to; `patches`: what the network reads of it;
    `tokens`: the rows in the prompt. `text` is in the prompt for the picture, in place of the
    tower's `mark`; each token `placeholder` in it is a row. `shape`: how many rows of tokens lie
    over the picture, and how many in each, in families whose positions have three dimensions.
    """

    height: int
    width: int
    patches: int
    tokens: int
    text: str
    shape: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a model reads of a picture.

    `rows`: (tokens, width), as the model's embedding table would give them. `deeper`: added to
    these rows' states after the first layers, an array of the same shape for each.
    """

    rows: mx.array
    deeper: tuple[mx.array, ...] = ()


class Tower(ABC):
    """What makes rows of pictures, for the model of one folder.

    `mark`: what the model's chat template writes for a picture. `placeholder`: the token id that
    is a row's token in `Grid.text`, and for drafters that embed tokens themselves. `mutual`:
    whether the rows of a picture attend to each other, also to later ones; with `windows_only` in
    layers with sliding windows alone. `sections`: where positions have three dimensions, how many
    pairs of a head's numbers each of them turns; see `engine.vision.positions`. `weights_bytes`:
    the size of its weights.
    """

    mark: str
    placeholder: int
    mutual: bool = False
    windows_only: bool = False
    sections: tuple[int, ...] = ()
    weights_bytes: int

    @abstractmethod
    def size_of(self, width: int, height: int) -> Grid:
        """Return how a picture of `width` x `height` pixels is read; needs no weights. Raises
        `Problem` for a picture that the family does not take."""

    @abstractmethod
    def embed(self, pixels: Pixels) -> Seen:
        """Return the rows of a picture, which are computed when they are used. Loads the weights at
        the first call. Raises `Problem`."""

    @abstractmethod
    def working_bytes(self, grid: Grid) -> int:
        """Return an estimate of the memory that the network needs for such a picture, without its
        weights."""

    @property
    def read_as(self) -> int:
        """The token id that the model is given in a row's place, where it asks for ids with
        embeddings."""
        return self.placeholder

    def in_words(self, grid: Grid) -> str:
        """Return what a picture takes, such as "1,024 tokens, needs about 0.3 GB": the memory is an
        estimate, with the weights."""
        gigabytes = (self.weights_bytes + self.working_bytes(grid)) / 1e9
        return f"{grid.tokens:,} tokens, needs about {max(gigabytes, 0.1):.1f} GB"
