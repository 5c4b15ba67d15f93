"""The towers of Gemma 4, with layers and without, against mlx-vlm and its processors."""

from typing import Any

import mlx.core as mx
import numpy as np
from PIL import Image

from engine.vision import Pixels
from tests.lab.parity import sight
from tests.lab.parity.sight import Sight, taken, text
from tests.lab.parity.subjects import Arrays, numbers

WIDTH, HIDDEN, TEXT, HEAD = 16, 24, 16, 8
WORDS = {255999: "<|image>", 258880: "<|image|>", 258882: "<image|>"}
SETTINGS: dict[str, Any] = {"patch_size": 4, "pooling_kernel_size": 3, "max_soft_tokens": 20}
PICTURES = ((48, 48), (37, 91), (3, 90), (70, 30))


def config(kind: str, vision: dict[str, Any]) -> dict[str, Any]:
    """A config.json."""
    return {
        "model_type": kind,
        "text_config": {
            "model_type": f"{kind}_text",
            "hidden_size": TEXT,
            "num_hidden_layers": 1,
            "intermediate_size": 8,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "global_head_dim": 8,
            "hidden_size_per_layer_input": 0,
            "num_kv_shared_layers": 0,
            "vocab_size": 64,
            "layer_types": ["full_attention"],
        },
        "vision_config": vision,
        "audio_config": None,
    }


def layered(*, keys: int, clipped: bool, standardized: bool) -> dict[str, Any]:
    """The config.json of a model whose tower has layers."""
    return config(
        "gemma4",
        {
            "model_type": "gemma4_vision",
            "hidden_size": WIDTH,
            "intermediate_size": HIDDEN,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": keys,
            "head_dim": HEAD,
            "patch_size": 4,
            "pooling_kernel_size": 3,
            "default_output_length": 20,
            "position_embedding_size": 64,
            "use_clipped_linears": clipped,
            "standardize": standardized,
        },
    )


def shapes(prefix: str, *, keys: int, standardized: bool) -> dict[str, tuple[int, ...]]:
    """All tensors of a model whose tower has layers, but the text half's."""
    tower = f"{prefix}vision_tower"
    found: dict[str, tuple[int, ...]] = {
        f"{tower}.patch_embedder.input_proj.weight": (WIDTH, 48),
        f"{tower}.patch_embedder.position_embedding_table": (2, 64, WIDTH),
        f"{prefix}embed_vision.embedding_projection.weight": (TEXT, WIDTH),
    }
    if standardized:
        found |= {f"{tower}.std_bias": (WIDTH,), f"{tower}.std_scale": (WIDTH,)}
    for layer in range(2):
        place = f"{tower}.encoder.layers.{layer}"
        linear = {"q": (2 * HEAD, WIDTH), "k": (keys * HEAD, WIDTH), "v": (keys * HEAD, WIDTH)}
        linear |= {"o": (WIDTH, 2 * HEAD)}
        found |= {
            f"{place}.self_attn.{name}_proj.linear.weight": shape for name, shape in linear.items()
        }
        found |= {
            f"{place}.mlp.{name}_proj.linear.weight": (HIDDEN, WIDTH) for name in ("gate", "up")
        }
        found |= {
            f"{place}.mlp.down_proj.linear.weight": (WIDTH, HIDDEN),
            f"{place}.self_attn.q_norm.weight": (HEAD,),
            f"{place}.self_attn.k_norm.weight": (HEAD,),
        }
        norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
        found |= {f"{place}.{name}_layernorm.weight": (WIDTH,) for name in norms}
    return found


CLIPPED = shapes("model.", keys=1, standardized=True)
LAYERED = Sight(
    name="tower-gemma4",
    config=layered(keys=2, clipped=False, standardized=False),
    shapes=shapes("", keys=2, standardized=False),
    settings=SETTINGS,
    words=WORDS,
    pictures=PICTURES,
)
STANDARDIZED = Sight(
    name="tower-gemma4-standardized",
    config=layered(keys=1, clipped=True, standardized=True),
    shapes=CLIPPED,
    given={
        name.replace("linear.weight", f"{side}_{end}"): np.array(sign * bound, np.float32)
        for name in CLIPPED
        if name.endswith("linear.weight")
        for side, bound in (("input", 1.0), ("output", 1.5))
        for end, sign in (("min", -1), ("max", 1))
    },
    settings=SETTINGS,
    words=WORDS,
    pictures=((48, 48), (20, 70)),
    seed=1,
)
UNIFIED = Sight(
    name="tower-gemma4-unified",
    config=config(
        "gemma4_unified",
        {
            "model_type": "gemma4_unified_vision",
            "patch_size": 4,
            "pooling_kernel_size": 3,
            "model_patch_size": 12,
            "mm_embed_dim": WIDTH,
            "mm_posemb_size": 24,
            "output_proj_dims": WIDTH,
        },
    ),
    shapes={
        "vision_embedder.patch_ln1.weight": (432,),
        "vision_embedder.patch_ln1.bias": (432,),
        "vision_embedder.patch_dense.weight": (WIDTH, 432),
        "vision_embedder.patch_dense.bias": (WIDTH,),
        "vision_embedder.patch_ln2.weight": (WIDTH,),
        "vision_embedder.patch_ln2.bias": (WIDTH,),
        "vision_embedder.pos_embedding": (24, 2, WIDTH),
        "vision_embedder.pos_norm.weight": (WIDTH,),
        "vision_embedder.pos_norm.bias": (WIDTH,),
        "embed_vision.embedding_projection.weight": (TEXT, WIDTH),
    },
    settings=SETTINGS,
    words=WORDS,
    pictures=PICTURES,
    seed=2,
)
SUBJECTS = (LAYERED, STANDARDIZED, UNIFIED)
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
        begin, row, end = WORDS.values()
        found[f"rows {index}"] = numbers(rows) / TEXT**0.5
        found[f"text {index}"] = text(f"{begin}{row * tokens}{end}")
        found[f"patches {index}"] = np.array(measured(pixels)[0])
    return found
