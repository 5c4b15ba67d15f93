"""The tower of Qwen3-VL and Qwen3.5 against mlx-vlm, its processor, and its rope index.

mlx-vlm's Qwen3-VL with experts rounds its two kinds of GELU otherwise than its makers' program.
"""

import mlx.core as mx
import numpy as np

from engine.vision import Pixels
from engine.vision.positions import axes, set_back, three_dimensional
from tests.lab.parity import sight
from tests.lab.parity.sight import Sight, taken, text
from tests.lab.parity.subjects import Arrays, numbers, subjects

IMAGE, START, END = 60, 61, 62
SECTIONS = [4, 2, 2]
DEEP, LATER = SUBJECTS = subjects("qwen3_vl", Sight)


def prompt(tokens: list[int]) -> list[int]:
    """A prompt with pictures that take so many tokens: text between, before and behind them."""
    words = [5, 7]
    for count in tokens:
        words += [START, *[IMAGE] * count, END, 9]
    return words


def ours(subject: Sight) -> Arrays:
    """By our tower; and the positions in a prompt of all pictures, and what is turned by which."""
    found = sight.ours(subject)
    with sight.opened(subject) as tower:
        grids = [tower.size_of(*size) for size in subject.pictures]
        words = prompt([grid.tokens for grid in grids])
        firsts = [i for i, word in enumerate(words) if word == IMAGE and words[i - 1] == START]
        found["positions"] = three_dimensional(len(words), list(zip(firsts, grids, strict=True)))
        found["set back"] = np.array(set_back(grids))
        found["axes"] = axes(tower.sections, 8)
    return found


def theirs(subject: Sight) -> Arrays:
    """By mlx-vlm."""
    from mlx_vlm.models.qwen3_vl import Model, ModelConfig
    from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import Qwen3VLImageProcessor
    from mlx_vlm.models.rope_utils import mrope_position_selector

    model = Model(ModelConfig.from_dict(dict(subject.config)))
    tensors = {name: mx.array(array) for name, array in subject.weights().items()}
    tensors = model.vision_tower.sanitize(model.sanitize(tensors))
    model.load_weights(list(tensors.items()), strict=False)
    settings = dict(subject.settings)
    area = settings.pop("size")
    settings.setdefault("min_pixels", area["shortest_edge"])
    settings.setdefault("max_pixels", area["longest_edge"])
    processor = Qwen3VLImageProcessor(**settings)

    def measured(pixels: Pixels) -> tuple[int, int]:
        patches = len(processor([np.transpose(pixels, (2, 0, 1))])["pixel_values"])
        return patches, patches // 4

    found: Arrays = {"taken": taken(measured)}
    grids, tokens = [], []
    for index, pixels in enumerate(subject.drawn()):
        made = processor([np.transpose(pixels, (2, 0, 1))])
        grids.append(made["image_grid_thw"][0])
        tokens.append(int(np.prod(grids[-1])) // 4)
        rows, deeper = model.vision_tower(
            mx.array(made["pixel_values"]), mx.array(made["image_grid_thw"])
        )
        found[f"rows {index}"] = numbers(rows)
        for place, each in enumerate(deeper):
            found[f"deeper {index} {place}"] = numbers(each)
        found[f"text {index}"] = text("<|image_pad|>" * tokens[-1])
        found[f"patches {index}"] = np.array(len(made["pixel_values"]))
    words = mx.array([prompt(tokens)])
    positions, delta = model.language_model.get_rope_index(words, mx.array(np.stack(grids)))
    found["positions"] = np.array(positions[:, 0]).astype(np.int32)
    found["set back"] = -np.array(delta)[0, 0]
    found["axes"] = np.array(mrope_position_selector("interleaved", SECTIONS, 8)).astype(np.int32)
    return found
