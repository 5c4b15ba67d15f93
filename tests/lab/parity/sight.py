"""What is common to the parity of towers: tiny models that see, and pictures of numbers drawn from
a seed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from engine.vision import Pixels, Tower
from engine.vision.tower import require_tower
from models.model_folder import ModelFolder
from tests.lab.parity.subjects import Arrays, Subject, numbers


@dataclass(frozen=True)
class Sight(Subject):
    """A model that sees, without its text half. `settings`: its preprocessor_config.json;
    `pictures`: the width and height of each."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    pictures: Sequence[tuple[int, int]] = ()

    def write(self, folder: Path) -> Path:
        super().write(folder)
        (folder / "preprocessor_config.json").write_text(json.dumps(dict(self.settings)))
        return folder

    def drawn(self) -> list[Pixels]:
        """The pictures: smooth, so that all resizing matters, with noise."""
        return [picture(*size, seed=index) for index, size in enumerate(self.pictures)]


def picture(width: int, height: int, *, seed: int = 0) -> Pixels:
    """A picture of waves and noise, whose colours, rows and columns all differ."""
    state = np.random.RandomState([7, seed])
    down, across, colour = np.ogrid[:height, :width, :3]
    waves = np.sin(down / 5 + colour) + np.cos(across / 7 - 2 * colour)
    drawn = 128 + 40 * waves + 12 * state.standard_normal((height, width, 3))
    return np.clip(drawn, 0, 255).astype(np.uint8)


def text(shown: str) -> Any:
    """A text as an array."""
    return np.frombuffer(shown.encode(), dtype=np.uint8)


@contextmanager
def opened(subject: Sight) -> Iterator[Tower]:
    """Its tower, while its folder is there."""
    with TemporaryDirectory() as folder:
        yield require_tower(ModelFolder(subject.write(Path(folder))))


def ours(subject: Sight) -> Arrays:
    """By our tower: rows, tokens, and what stands in the prompt."""
    found: Arrays = {}
    with opened(subject) as tower:
        for index, pixels in enumerate(subject.drawn()):
            height, width = pixels.shape[:2]
            grid, seen = tower.size_of(width, height), tower.embed(pixels)
            found[f"rows {index}"] = numbers(seen.rows)
            found[f"text {index}"] = text(grid.text)
            found[f"patches {index}"] = np.array(grid.patches)
            for place, deeper in enumerate(seen.deeper):
                found[f"deeper {index} {place}"] = numbers(deeper)
    return found
