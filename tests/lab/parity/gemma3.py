"""The tower of Gemma 3 against mlx-vlm, and its processor, which is transformers'.

mlx-vlm's norm behind the layers has an epsilon of its own, 1e-5, which is ours here too.
"""

from typing import Any

import mlx.core as mx
import numpy as np

from tests.lab.parity import sight
from tests.lab.parity.sight import Sight, taken, text
from tests.lab.parity.subjects import Arrays, numbers, subjects

TEXT = 16  # whose root, by which rows are enlarged, is a bfloat16
BY_MLX, ORIGINAL = SUBJECTS = subjects("gemma3", Sight)
ours = sight.ours


def theirs(subject: Sight) -> Arrays:
    """By mlx-vlm."""
    from mlx_vlm.models.gemma3 import Model, ModelConfig
    from mlx_vlm.models.gemma3.config import TextConfig, VisionConfig
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

    whole = dict(subject.config)
    halves: dict[str, Any] = {
        "text_config": TextConfig.from_dict(whole["text_config"]),
        "vision_config": VisionConfig.from_dict(whole["vision_config"]),
    }
    model = Model(ModelConfig.from_dict(whole | halves))
    tensors = {name: mx.array(array) for name, array in subject.weights().items()}
    model.load_weights(list(model.vision_tower.sanitize(tensors).items()), strict=False)
    processor = Gemma3ImageProcessorPil(**subject.settings)
    found: Arrays = {"taken": taken(lambda pixels: (144, 9))}
    for index, pixels in enumerate(subject.drawn()):
        made = processor(pixels, input_data_format="channels_last", return_tensors="np")
        state, _, _ = model.vision_tower(mx.array(made["pixel_values"]).transpose(0, 2, 3, 1))
        rows = model.multi_modal_projector(state)[0]
        found[f"rows {index}"] = numbers(rows) / TEXT**0.5
        begin, end, row = subject.words.values()
        found[f"text {index}"] = text(f"\n\n{begin}{row * len(rows)}{end}\n\n")
        found[f"patches {index}"] = np.array(state.shape[1])
    return found
