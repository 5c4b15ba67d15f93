"""What our towers compute for the models of `subjects` that see. Their pictures are numbers drawn
from a seed.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model
from PIL import Image

from engine.conversation.eyes import Eyes
from engine.core.decoder import Decoder
from engine.request import ChatMessage, Picture, Prompt
from engine.vision.positions import axes, set_back, three_dimensional
from engine.vision.tower import require_tower
from models.architectures import spelled
from models.model_folder import ModelFolder
from tests.support.engine.parity.subjects import (
    Subject,
    numbers,
    subjects,
    target_reads_as_mlx_does,
)

_DRAWN = np.exp(np.random.RandomState(5).uniform(0, np.log(400), (60, 2))).astype(int)
AFTER = [9, 12, 30, 41]  # text, whose logits are compared
IMAGE, BEGIN, END = 60, 61, 62
SIZES = [(wide, tall) for wide, tall in _DRAWN.tolist() if max(wide / tall, tall / wide) < 150]
"""Pictures of which only what they take is compared."""


@dataclass(frozen=True)
class Sight(Subject):
    """A model that sees, without its text half. `settings`: its preprocessor_config.json;
    `words`: its special tokens; `pictures`: the width and height of each."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[int, str] = field(default_factory=dict)
    pictures: Sequence[tuple[int, int]] = ()

    def write(self, folder):
        super().write(folder)
        (folder / "preprocessor_config.json").write_text(json.dumps(dict(self.settings)))
        added = [{"id": number, "content": word} for number, word in self.words.items()]
        tokenizer = {"model": {"vocab": {}}, "added_tokens": added}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        return folder

    def drawn(self):
        """The pictures: smooth, so that all resizing matters, with noise."""
        return [picture(*size, seed=index) for index, size in enumerate(self.pictures)]


def picture(width, height, *, seed=0):
    """A picture of waves and noise, whose colours, rows and columns all differ."""
    state = np.random.RandomState([7, seed])
    down, across, colour = np.ogrid[:height, :width, :3]
    waves = np.sin(down / 5 + colour) + np.cos(across / 7 - 2 * colour)
    drawn = 128 + 40 * waves + 12 * state.standard_normal((height, width, 3))
    return np.clip(drawn, 0, 255).astype(np.uint8)


@contextmanager
def opened(subject):
    """Its tower, while its folder is there."""
    with TemporaryDirectory() as folder:
        yield require_tower(ModelFolder(subject.write(Path(folder))))


def of_towers(subject):
    """Rows, tokens, and what stands in the prompt."""
    found = {}
    with opened(subject) as tower:
        for index, pixels in enumerate(subject.drawn()):
            height, width = pixels.shape[:2]
            grid, seen = tower.size_of(width, height), tower.embed(pixels)
            found[f"rows {index}"] = numbers(seen.rows)
            found[f"text {index}"] = np.frombuffer(grid.text.encode(), dtype=np.uint8)
            found[f"patches {index}"] = np.array(grid.patches)
            for place, deeper in enumerate(seen.deeper):
                found[f"deeper {index} {place}"] = numbers(deeper)
        grids = [tower.size_of(*size) for size in SIZES]
        found["taken"] = np.array([(grid.patches, grid.tokens) for grid in grids])
    return found


def of_rows(subject):
    """The tower's rows alone."""
    found = of_towers(subject).items()
    return {name: rows for name, rows in found if name.startswith(("rows", "deeper"))}


def of_qwen(subject):
    """Also the positions in a prompt of all pictures, and what is turned by which."""
    found = of_towers(subject)
    with opened(subject) as tower:
        grids = [tower.size_of(*size) for size in subject.pictures]
        words = [5, 7]
        for grid in grids:
            words += [BEGIN, *[IMAGE] * grid.tokens, END, 9]
        firsts = [i for i, word in enumerate(words) if word == IMAGE and words[i - 1] == BEGIN]
        found["positions"] = three_dimensional(len(words), list(zip(firsts, grids, strict=True)))
        found["set back"] = np.array(set_back(grids))
        found["axes"] = axes(tower.sections, 8)
    return found


@dataclass(frozen=True)
class Whole(Sight):
    """A whole model that sees; `before` and `after` are what stands around a picture's rows."""

    before: tuple[int, ...] = (7, BEGIN)
    after: tuple[int, ...] = (END,)


def saved(pixels, folder):
    """A picture as the user attaches it."""
    height, width = pixels.shape[:2]
    digest = sha256(f"{width} {height}\n".encode() + pixels.tobytes()).hexdigest()
    path = folder / f"{digest}.png"
    Image.fromarray(pixels).save(path)
    return Picture(str(path), digest, width, height)


def of_whole(subject):
    """Logits after all pictures, by mlx-lm's text half and our tower, through our decoder."""
    assert isinstance(subject, Whole)
    with TemporaryDirectory() as name:
        folder = subject.write(Path(name))
        named = {"model_type": spelled(subject.config["model_type"])}
        model, _ = load_model(folder, model_config=named)
        tower = require_tower(ModelFolder(folder))
        counts = [tower.size_of(*size).tokens for size in subject.pictures]
        prompt = [5]  # with a placeholder for each row
        for count in counts:
            prompt += [*subject.before, *[IMAGE] * count, *subject.after]
        eyes = Eyes(tower)
        pictures = tuple(saved(pixels, folder) for pixels in subject.drawn())
        message = ChatMessage("user", "", pictures=pictures)
        tokens = eyes.see(Prompt(messages=(message,)), [*prompt, *AFTER])
        target = Decoder(model, sights=eyes.sights)
        for _ in target.prefill(tokens[: 1 - len(AFTER)]):
            pass
        logits = target.read(mx.array(tokens[-len(AFTER) :]))
        mx.eval(logits)
    return {"logits": numbers(logits) / 16}


_KINDS = {
    "gemma3": of_towers,
    "gemma4": of_towers,
    "lfm2_vl": of_towers,
    "qwen3_vl": of_qwen,
    "towers": of_rows,
    "sighted": of_whole,
}
BY_KIND = {kind: {**subjects(kind, Whole if kind == "sighted" else Sight)} for kind in _KINDS}
TOWERS = {name: each for kind in BY_KIND.values() for name, each in kind.items()}


@target_reads_as_mlx_does
def ours(subject):
    """What our tower gives."""
    kind = next(kind for kind, known in BY_KIND.items() if subject.name in known)
    return _KINDS[kind](subject)
