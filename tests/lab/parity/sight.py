"""What is common to the parity of towers: tiny models that see, and pictures of numbers drawn from
a seed."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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

_DRAWN = np.exp(np.random.RandomState(5).uniform(0, np.log(400), (60, 2))).astype(int)
SIZES = [(wide, tall) for wide, tall in _DRAWN.tolist() if max(wide / tall, tall / wide) < 150]
"""Pictures of which only what they take is compared."""


@dataclass(frozen=True)
class Sight(Subject):
    """A model that sees, without its text half. `settings`: its preprocessor_config.json;
    `words`: its special tokens; `pictures`: the width and height of each."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[int, str] = field(default_factory=dict)
    pictures: Sequence[tuple[int, int]] = ()

    def write(self, folder: Path) -> Path:
        super().write(folder)
        (folder / "preprocessor_config.json").write_text(json.dumps(dict(self.settings)))
        added = [{"id": number, "content": word} for number, word in self.words.items()]
        tokenizer = {"model": {"vocab": {}}, "added_tokens": added}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
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


def taken(measure: Callable[[Pixels], tuple[int, int]]) -> Any:
    """The patches and tokens that `measure` gives for pictures of all sizes, (sizes, 2)."""
    return np.array([measure(np.zeros((height, width, 3), np.uint8)) for width, height in SIZES])


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
        grids = [tower.size_of(*size) for size in SIZES]
        found["taken"] = np.array([(grid.patches, grid.tokens) for grid in grids])
    return found
