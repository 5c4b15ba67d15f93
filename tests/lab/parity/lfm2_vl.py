"""The tower of LFM2-VL against mlx-vlm, and its processor."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np

from engine.vision import Pixels
from tests.lab.parity import sight
from tests.lab.parity.sight import Sight, taken, text
from tests.lab.parity.subjects import Arrays, numbers

WIDTH, HIDDEN, TEXT = 16, 24, 8
SETTINGS: dict[str, Any] = {
    "encoder_patch_size": 4,
    "downsample_factor": 2,
    "min_image_tokens": 4,
    "max_image_tokens": 16,
    "tile_size": 24,
    "min_tiles": 2,
    "max_tiles": 6,
    "max_pixels_tolerance": 2.0,
    "do_image_splitting": False,  # as its maker's conversions say
    "do_resize": False,
    "resample": 3,
    "image_mean": [0.5, 0.4, 0.6],
    "image_std": [0.5, 0.6, 0.4],
}
PICTURES = ((20, 20), (37, 21), (3, 50), (90, 61), (200, 40))


def config(**changes: Any) -> dict[str, Any]:
    """A config.json."""
    return {
        "model_type": "lfm2_vl",
        "image_token_id": 396,
        "downsample_factor": 2,
        "projector_hidden_size": HIDDEN,
        "text_config": {
            "model_type": "lfm2",
            "hidden_size": TEXT,
            "num_hidden_layers": 1,
            "layer_types": ["full_attention"],
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "vocab_size": 400,
            "intermediate_size": 8,
            "block_dim": 8,
        },
        "vision_config": {
            "model_type": "lfm2_vl",
            "hidden_size": WIDTH,
            "intermediate_size": HIDDEN,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_patches": 25,
            "patch_size": 4,
        },
    } | changes


def siglip_layers(
    prefix: str, count: int, *, width: int, hidden: int
) -> dict[str, tuple[int, ...]]:
    """The tensors of SigLIP's layers and of the norm behind them."""
    sizes = {f"self_attn.{name}_proj": (width, width) for name in ("q", "k", "v", "out")}
    sizes |= {"mlp.fc1": (hidden, width), "mlp.fc2": (width, hidden)}
    shapes: dict[str, tuple[int, ...]] = {"post_layernorm.weight": (width,)}
    shapes["post_layernorm.bias"] = (width,)
    for layer in range(count):
        for name, shape in sizes.items():
            shapes[f"encoder.layers.{layer}.{name}.weight"] = shape
            shapes[f"encoder.layers.{layer}.{name}.bias"] = shape[:1]
        for norm in (1, 2):
            shapes[f"encoder.layers.{layer}.layer_norm{norm}.weight"] = (width,)
            shapes[f"encoder.layers.{layer}.layer_norm{norm}.bias"] = (width,)
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


def shapes(prefix: str, projector: str, *, normed: bool = True) -> dict[str, tuple[int, ...]]:
    """All tensors but the text half's."""
    found: dict[str, tuple[int, ...]] = siglip_layers(prefix, 2, width=WIDTH, hidden=HIDDEN) | {
        f"{prefix}.embeddings.patch_embedding.weight": (WIDTH, 48),
        f"{prefix}.embeddings.patch_embedding.bias": (WIDTH,),
        f"{prefix}.embeddings.position_embedding.weight": (25, WIDTH),
        f"{projector}.linear_1.weight": (HIDDEN, 4 * WIDTH),
        f"{projector}.linear_1.bias": (HIDDEN,),
        f"{projector}.linear_2.weight": (TEXT, HIDDEN),
        f"{projector}.linear_2.bias": (TEXT,),
    }
    if normed:
        found |= {f"{projector}.layer_norm.{kind}": (4 * WIDTH,) for kind in ("weight", "bias")}
    return found


BY_MLX = Sight(
    name="tower-lfm2-vl",
    config=config(),
    shapes=shapes("vision_tower", "multi_modal_projector"),
    settings=SETTINGS,
    pictures=PICTURES,
)
ORIGINAL = Sight(
    name="tower-lfm2-vl-original",
    config=config(projector_use_layernorm=False),
    shapes=shapes("model.vision_tower.vision_model", "model.multi_modal_projector", normed=False),
    settings=SETTINGS | {"resample": 2, "downsample_factor": 2, "max_image_tokens": 12},
    pictures=((64, 64), (33, 70)),
    seed=1,
)
SUBJECTS = (BY_MLX, ORIGINAL)
ours = sight.ours


def theirs(subject: Sight) -> Arrays:
    """By mlx-vlm."""
    from mlx_vlm.models.lfm2_vl import Model, ModelConfig
    from mlx_vlm.models.lfm2_vl.config import TextConfig, VisionConfig
    from mlx_vlm.models.lfm2_vl.processing_lfm2_vl import Lfm2VlNumpyImageProcessor
    from transformers.models.lfm2_vl.processing_lfm2_vl import Lfm2VlProcessor

    whole = dict(subject.config)
    halves: Mapping[str, Any] = {
        "text_config": TextConfig.from_dict(whole["text_config"]),
        "vision_config": VisionConfig.from_dict(whole["vision_config"]),
    }
    model = Model(ModelConfig.from_dict(whole | halves))
    tensors = {name: mx.array(array) for name, array in subject.weights().items()}
    model.load_weights(list(model.sanitize(tensors).items()), strict=False)
    splitting = {"do_image_splitting": True, "use_thumbnail": True}
    processor = Lfm2VlNumpyImageProcessor(**{**subject.settings, **splitting})
    names = {"start": "<|image_start|>", "end": "<|image_end|>", "thumbnail": "<|img_thumbnail|>"}
    words = SimpleNamespace(
        image_token="<image>", **{f"image_{name}_token": word for name, word in names.items()}
    )

    def prepared(pixels: Pixels) -> tuple[Any, str]:
        made = processor.preprocess([pixels])
        tall, wide = made["image_sizes"][0] // 8
        rows, columns = int(made["image_rows"][0]), int(made["image_cols"][0])
        return made, Lfm2VlProcessor._build_image_tokens(
            words, rows, columns, 9, tall * wide, True, True
        )

    def measured(pixels: Pixels) -> tuple[int, int]:
        made, shown = prepared(pixels)
        return int(np.prod(made["spatial_shapes"], axis=1).sum()), shown.count("<image>")

    found: Arrays = {"taken": taken(measured)}
    for index, pixels in enumerate(subject.drawn()):
        made, shown = prepared(pixels)
        rows = model.encode_images(
            mx.array(made["pixel_values"]),
            spatial_shapes=mx.array(made["spatial_shapes"]),
            pixel_attention_mask=mx.array(made["pixel_attention_mask"]),
        )
        found[f"rows {index}"] = numbers(mx.concatenate(rows))
        found[f"text {index}"] = text(shown)
        found[f"patches {index}"] = np.array(measured(pixels)[0])
    return found
