"""The towers of Gemma 4, with layers and without, against mlx-vlm and its processors."""

from typing import Any

import mlx.core as mx
import numpy as np
from PIL import Image

from engine.vision import Pixels
from tests.lab.parity import sight
from tests.lab.parity.sight import Sight, taken, text
from tests.lab.parity.subjects import Arrays, numbers, subjects

TEXT = 16
LAYERED, STANDARDIZED, UNIFIED = SUBJECTS = subjects("gemma4", Sight)
ours = sight.ours


def theirs(subject: Sight) -> Arrays:
    """By mlx-vlm."""
    from mlx_vlm.models import gemma4, gemma4_unified
    from mlx_vlm.models.gemma4.processing_gemma4 import Gemma4ImageProcessor
    from mlx_vlm.models.gemma4_unified import Gemma4UnifiedImageProcessor

    unified = subject is UNIFIED
    family: Any = gemma4_unified if unified else gemma4
    whole = dict(subject.config)
    halves: dict[str, Any] = {
        "text_config": family.TextConfig.from_dict(whole["text_config"]),
        "vision_config": family.VisionConfig.from_dict(whole["vision_config"]),
    }
    model = family.Model(family.ModelConfig.from_dict(whole | halves))
    tensors = {name: mx.array(array) for name, array in subject.weights().items()}
    model.load_weights(list(model.sanitize(tensors).items()), strict=False)
    processor = (Gemma4UnifiedImageProcessor if unified else Gemma4ImageProcessor)(
        **subject.settings
    )

    def measured(pixels: Pixels) -> tuple[int, int]:
        made, (tokens,) = processor([Image.fromarray(pixels)])
        return tokens if unified else made["pixel_values"][0, 0].size // 16, tokens

    found: Arrays = {"taken": taken(measured)}
    for index, pixels in enumerate(subject.drawn()):
        made, (tokens,) = processor([Image.fromarray(pixels)])
        if unified:
            places = mx.array(made["image_position_ids"])
            rows = model.get_image_features(mx.array(made["pixel_values"]), places)
        else:
            rows = model.encode_image(mx.array(made["pixel_values"]))[0]
        begin, row, end = subject.words.values()
        found[f"rows {index}"] = numbers(rows) / TEXT**0.5
        found[f"text {index}"] = text(f"{begin}{row * tokens}{end}")
        found[f"patches {index}"] = np.array(measured(pixels)[0])
    return found
