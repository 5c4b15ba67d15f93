"""The tower of Gemma 3 against mlx-vlm, and its processor, which is transformers'.

mlx-vlm's norm behind the layers has an epsilon of its own, 1e-5, which is ours here too.
"""

from typing import Any

import mlx.core as mx
import numpy as np

from tests.lab.parity import sight
from tests.lab.parity.lfm2_vl import HIDDEN, WIDTH, siglip_layers
from tests.lab.parity.sight import Sight, taken, text
from tests.lab.parity.subjects import Arrays, numbers

TEXT = 16  # whose root, by which rows are enlarged, is a bfloat16
WORDS = {255999: "<start_of_image>", 256000: "<end_of_image>", 262144: "<image_soft_token>"}
SETTINGS: dict[str, Any] = {
    "size": {"height": 48, "width": 48},
    "resample": 2,
    "image_mean": [0.5, 0.4, 0.6],
    "image_std": [0.5, 0.6, 0.4],
}
CONFIG: dict[str, Any] = {
    "model_type": "gemma3",
    "image_token_index": 262144,
    "mm_tokens_per_image": 9,
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": TEXT,
        "num_hidden_layers": 1,
        "intermediate_size": 8,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "vocab_size": 64,
        "mm_tokens_per_image": 9,
    },
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 48,
        "patch_size": 4,
        "layer_norm_eps": 1e-5,
    },
}
SIGLIP = "vision_tower.vision_model"
SHAPES: dict[str, tuple[int, ...]] = siglip_layers(SIGLIP, 2, width=WIDTH, hidden=HIDDEN) | {
    f"{SIGLIP}.embeddings.patch_embedding.weight": (WIDTH, 4, 4, 3),
    f"{SIGLIP}.embeddings.patch_embedding.bias": (WIDTH,),
    f"{SIGLIP}.embeddings.position_embedding.weight": (144, WIDTH),
    "multi_modal_projector.mm_input_projection_weight": (WIDTH, TEXT),
    "multi_modal_projector.mm_soft_emb_norm.weight": (WIDTH,),
}
BY_MLX = Sight(
    name="tower-gemma3",
    config=CONFIG,
    shapes=SHAPES,
    settings=SETTINGS,
    words=WORDS,
    pictures=((48, 48), (37, 91), (3, 50)),
)
ORIGINAL = Sight(
    name="tower-gemma3-original",
    config=CONFIG,
    shapes=SHAPES | {f"{SIGLIP}.embeddings.patch_embedding.weight": (WIDTH, 3, 4, 4)},
    settings=SETTINGS | {"resample": 3},
    words=WORDS,
    pictures=((60, 40),),
    seed=1,
)
SUBJECTS = (BY_MLX, ORIGINAL)
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
        begin, end, row = WORDS.values()
        found[f"text {index}"] = text(f"\n\n{begin}{row * len(rows)}{end}\n\n")
        found[f"patches {index}"] = np.array(state.shape[1])
    return found
