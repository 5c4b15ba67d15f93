"""Whole models that see, in mlx-lm with our towers, against transformers: logits behind pictures.

The text half's tensors are named as its makers do. Pictures have sizes that none is changed.
"""

from dataclasses import dataclass, replace
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
from engine.vision import Pixels
from engine.vision.tower import require_tower
from models.architectures import spelled
from models.model_folder import ModelFolder
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.sight import Sight
from tests.lab.parity.subjects import Arrays, numbers, subjects, target_reads_as_mlx_does

BEHIND = [9, 12, 30, 41]  # text, whose logits are compared
IMAGE, BEGIN, END = 60, 61, 62
VOCABULARY = 64
SCALE = 16  # of logits


@dataclass(frozen=True)
class Whole(Sight):
    """A whole model that sees; `before` and `after` are what stands around a picture's rows."""

    before: tuple[int, ...] = (7, BEGIN)
    after: tuple[int, ...] = (END,)

    def prompt(self) -> list[int]:
        """Its prompt, with a placeholder for each row."""
        with TemporaryDirectory() as folder:
            tower = require_tower(ModelFolder(self.write(Path(folder))))
            counts = [tower.size_of(*size).tokens for size in self.pictures]
        shown = [(*self.before, *[IMAGE] * count, *self.after) for count in counts]
        return [5, *(token for each in shown for token in each), *BEHIND]


SUBJECTS = subjects("sighted", Whole)
*_, QWEN35 = SUBJECTS


def as_published(subject: Whole) -> Whole:
    """The same, named and laid out as transformers reads it, where mlx-lm reads only its own."""
    if not subject.name.endswith("lfm2-vl"):
        return subject
    given = {}
    for name, array in subject.weights().items():
        inner = name.replace("language_model.model.", "language_model.")
        given[f"model.{inner}"] = array.swapaxes(1, 2) if array.ndim == 3 else array
    return replace(subject, given=given, shapes={})


def saved(pixels: Pixels, folder: Path) -> Picture:
    """A picture as a person attaches it."""
    height, width = pixels.shape[:2]
    digest = sha256(f"{width} {height}\n".encode() + pixels.tobytes()).hexdigest()
    path = folder / f"{digest}.png"
    Image.fromarray(pixels).save(path)
    return Picture(str(path), digest, width, height)


@target_reads_as_mlx_does
def ours(subject: Whole) -> Arrays:
    """By mlx-lm's text half and our tower, through our decoder."""
    with TemporaryDirectory() as name:
        folder = subject.write(Path(name))
        named = {"model_type": spelled(subject.config["model_type"])}
        model, _ = load_model(folder, model_config=named)
        eyes = Eyes(require_tower(ModelFolder(folder)))
        pictures = tuple(saved(pixels, folder) for pixels in subject.drawn())
        tokens = eyes.see(
            Prompt(messages=(ChatMessage("user", "", pictures=pictures),)), subject.prompt()
        )
        target = Decoder(model, sights=eyes.sights)
        for _ in target.prefill(tokens[: 1 - len(BEHIND)]):
            pass
        logits = target.read(mx.array(tokens[-len(BEHIND) :]))
        mx.eval(logits)
    return {"logits": numbers(logits) / SCALE}


def theirs(subject: Whole) -> Arrays:
    """By transformers; Qwen3.5 by mlx-vlm, whose linear layers compute as mlx-lm's."""
    tokens = subject.prompt()
    if subject is QWEN35:
        return {"logits": by_mlx_vlm(subject, tokens)[-len(BEHIND) :] / SCALE}
    inputs = {f"picture {index}": pixels for index, pixels in enumerate(subject.drawn())}
    inputs |= {"tokens": np.array(tokens), "rows": np.array(IMAGE)}
    published, needed = as_published(subject), "transformers and torchvision"
    found = by_torch("towers_torch.py", published, inputs, packages=needed)
    return {"logits": found["logits"][-len(BEHIND) :] / SCALE}


def by_mlx_vlm(subject: Whole, tokens: list[int]) -> Any:
    """The logits of all tokens."""
    from mlx_vlm.models.qwen3_5 import Model, ModelConfig, TextConfig
    from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import Qwen3VLImageProcessor

    config = ModelConfig.from_dict(dict(subject.config))
    config.text_config = TextConfig.from_dict(subject.config["text_config"])
    model = Model(config)
    tensors = model.sanitize({name: mx.array(each) for name, each in subject.weights().items()})
    model.load_weights(list(tensors.items()))
    model.eval()
    area = subject.settings["size"]
    limits = {"min_pixels": area["shortest_edge"], "max_pixels": area["longest_edge"]}
    processor = Qwen3VLImageProcessor(**subject.settings, **limits)
    made = processor([pixels.transpose(2, 0, 1) for pixels in subject.drawn()])
    pixels, grids = (mx.array(made[name]) for name in ("pixel_values", "image_grid_thw"))
    return numbers(model(mx.array([tokens]), pixels, mask=None, image_grid_thw=grids).logits[0])
