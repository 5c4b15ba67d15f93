"""The tower of Qwen3-VL and Qwen3.5 against mlx-vlm, its processor, and its rope index.

mlx-vlm's Qwen3-VL with experts rounds its two kinds of GELU otherwise than its makers' program.
"""

from typing import Any

import mlx.core as mx
import numpy as np

from engine.vision import Pixels
from engine.vision.positions import axes, set_back, three_dimensional
from tests.lab.parity import sight
from tests.lab.parity.sight import Sight, taken, text
from tests.lab.parity.subjects import Arrays, numbers

WIDTH, HIDDEN, TEXT = 16, 24, 8
IMAGE, START, END = 60, 61, 62
SETTINGS: dict[str, Any] = {
    "patch_size": 4,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "size": {"shortest_edge": 256, "longest_edge": 2048},
    "image_mean": [0.5, 0.4, 0.6],
    "image_std": [0.5, 0.6, 0.4],
}
PICTURES = ((20, 20), (37, 61), (3, 90), (120, 81))
SECTIONS = [4, 2, 2]


def config(kind: str, taps: list[int], **changes: Any) -> dict[str, Any]:
    """A config.json."""
    rotary = {"type": "default", "rope_theta": 10000.0, "mrope_section": SECTIONS}
    return {
        "model_type": kind,
        "image_token_id": IMAGE,
        "video_token_id": 63,
        "vision_start_token_id": START,
        "text_config": {
            "model_type": f"{kind}_text",
            "hidden_size": TEXT,
            "num_hidden_layers": 1,
            "intermediate_size": 8,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "rms_norm_eps": 1e-6,
            "vocab_size": 64,
            "max_position_embeddings": 256,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "rope_scaling": rotary,
        },
        "vision_config": {
            "model_type": kind,
            "depth": 4,
            "hidden_size": WIDTH,
            "intermediate_size": HIDDEN,
            "out_hidden_size": TEXT,
            "num_heads": 2,
            "in_channels": 3,
            "patch_size": 4,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 36,
            "deepstack_visual_indexes": taps,
        },
    } | changes


def shapes(
    prefix: str, taps: int, *, patch: tuple[int, ...] = (2, 4, 4, 3)
) -> dict[str, tuple[int, ...]]:
    """All tensors but the text half's."""
    linear = {"patch_embed.proj": (WIDTH, *patch)}
    found: dict[str, tuple[int, ...]] = {"pos_embed.weight": (36, WIDTH)}
    for layer in range(4):
        place = f"blocks.{layer}"
        linear |= {
            f"{place}.attn.qkv": (3 * WIDTH, WIDTH),
            f"{place}.attn.proj": (WIDTH, WIDTH),
            f"{place}.mlp.linear_fc1": (HIDDEN, WIDTH),
            f"{place}.mlp.linear_fc2": (WIDTH, HIDDEN),
            f"{place}.norm1": (WIDTH,),
            f"{place}.norm2": (WIDTH,),
        }
    for place in ("merger", *(f"deepstack_merger_list.{tap}" for tap in range(taps))):
        linear |= {
            f"{place}.norm": (WIDTH if place == "merger" else 4 * WIDTH,),
            f"{place}.linear_fc1": (4 * WIDTH, 4 * WIDTH),
            f"{place}.linear_fc2": (TEXT, 4 * WIDTH),
        }
    for name, shape in linear.items():
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return {f"{prefix}.{name}": shape for name, shape in found.items()}


DEEP = Sight(
    name="tower-qwen3-vl",
    config=config("qwen3_vl", [2, 0]),
    shapes=shapes("vision_tower", 2),
    settings=SETTINGS,
    pictures=PICTURES,
)
LATER = Sight(
    name="tower-qwen3-5",
    config=config("qwen3_5", []),
    shapes=shapes("model.visual", 0, patch=(3, 2, 4, 4)),
    settings=SETTINGS | {"min_pixels": 1024, "max_pixels": 1536},
    pictures=((40, 24), (5, 4)),
    seed=1,
)
SUBJECTS = (DEEP, LATER)


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
