"""Whole models that see, in mlx-lm with our towers, against transformers: logits behind pictures.

The text half's tensors are named as its makers do. Pictures have sizes that none is changed.
"""

from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import import_module
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes, load_model
from PIL import Image

from engine.conversation.eyes import Eyes
from engine.core.decoder import Decoder
from engine.request import ChatMessage, Picture, Prompt
from engine.vision import Pixels
from engine.vision.tower import require_tower
from models.architectures import spelled
from models.model_folder import ModelFolder
from tests.lab.parity import gemma4, lfm2_vl, qwen3_vl, towers
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.sight import Sight
from tests.lab.parity.subjects import Arrays, numbers, target_reads_as_mlx_does

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


def whole(subject: Sight, name: str, **text: Any) -> Whole:
    """A whole model with this tower, and these settings of its text half."""
    ids = {f"{kind}_token_id": id for kind, id in (("image", IMAGE), ("boi", BEGIN), ("eoi", END))}
    older = {name.replace("_id", "_index"): id for name, id in ids.items()}
    halves = {"text_config": subject.config["text_config"] | {"vocab_size": VOCABULARY} | text}
    config = dict(subject.config) | ids | older | halves | {"vocab_size": VOCABULARY}
    config["tie_word_embeddings"] = True
    words = dict(zip((BEGIN, END, IMAGE), ("<begin>", "<end>", "<image>"), strict=True))
    fields = {each: getattr(subject, each) for each in ("settings", "pictures", "given", "seed")}
    return Whole(
        name=f"sighted-{name}",
        config=config,
        shapes=dict(subject.shapes) | text_shapes(config),
        words=words,
        gain=1.0,
        **fields,
    )


def text_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The tensors of the text half, by its makers' names as mlx-lm reads them, too."""
    model_class, arguments_class = _get_classes(
        config | {"model_type": spelled(config["model_type"])}
    )
    model = model_class(arguments_class.from_dict(config))
    shapes: dict[str, tuple[int, ...]] = {}
    for name, array in dict(tree_flatten(model.parameters())).items():
        shape = array.shape
        if name.endswith("lm_head.weight"):
            continue
        if config["model_type"] not in ("gemma3", "lfm2_vl"):
            name = name.replace("language_model.model.", "model.language_model.")
            if name.endswith("conv1d.weight"):
                shape = (shape[0], shape[2], shape[1])
        shapes[name] = shape
    return shapes


UNCHANGED = ((84, 120), (120, 84))
DEEP, LATER, LFM2 = qwen3_vl.DEEP, qwen3_vl.LATER, lfm2_vl.BY_MLX
SUBJECTS = (
    whole(
        replace(towers.SUBJECTS[0], pictures=((48, 48), (48, 48))),
        "gemma3",
        num_hidden_layers=2,
        sliding_window=64,
        sliding_window_pattern=2,
        layer_types=["sliding_attention", "full_attention"],
        query_pre_attn_scalar=8,
        rms_norm_eps=1e-6,
    ),
    whole(
        replace(gemma4.STANDARDIZED, settings=towers.SEVENTY, pictures=UNCHANGED),
        "gemma4",
        num_hidden_layers=4,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=VOCABULARY,
        num_kv_shared_layers=1,
        num_key_value_heads=1,
        num_global_key_value_heads=1,
        use_double_wide_mlp=False,
        sliding_window=64,
        layer_types=["sliding_attention", "full_attention"] * 2,
        use_bidirectional_attention=None,
        rope_parameters={
            "full_attention": {
                "partial_rotary_factor": 0.25,
                "rope_theta": 1e6,
                "rope_type": "proportional",
            },
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
        },
    ),
    whole(
        replace(
            gemma4.UNIFIED,
            settings=towers.SEVENTY,
            pictures=UNCHANGED,
            shapes={f"model.{name}": shape for name, shape in gemma4.UNIFIED.shapes.items()},
        ),
        "gemma4-unified",
        num_hidden_layers=2,
        num_global_key_value_heads=1,
        sliding_window=64,
        attention_k_eq_v=False,
        layer_types=["sliding_attention", "full_attention"],
        use_bidirectional_attention=None,
    ),
    whole(
        replace(
            LFM2,
            pictures=((24, 32), (16, 48)),
            config=dict(LFM2.config)
            | {
                "vision_config": LFM2.config["vision_config"]
                | towers.NO_HEAD
                | {"model_type": "siglip2_vision_model"}
            },
        ),
        "lfm2-vl",
        num_hidden_layers=2,
        layer_types=["conv", "full_attention"],
        norm_eps=1e-5,
        conv_bias=False,
        conv_L_cache=3,
        block_dim=8,
        block_ff_dim=16,
        block_multiple_of=8,
        block_ffn_dim_multiplier=1.0,
        block_auto_adjust_ff_dim=False,
        max_position_embeddings=256,
        rope_theta=10000.0,
    ),
    whole(
        replace(DEEP, shapes=qwen3_vl.shapes("model.visual", 2, patch=(3, 2, 4, 4))),
        "qwen3-vl",
        num_hidden_layers=3,
    ),
    whole(
        replace(LATER, pictures=qwen3_vl.PICTURES, settings=qwen3_vl.SETTINGS),
        "qwen3-5",
        num_hidden_layers=4,
        linear_num_value_heads=2,
        linear_num_key_heads=1,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_conv_kernel_dim=4,
        full_attention_interval=2,
        layer_types=["linear_attention", "full_attention"] * 2,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [2, 1, 1],
            "mrope_interleaved": True,
            "partial_rotary_factor": 0.5,
        },
    ),
)


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
    """By transformers, or mlx-vlm where their text halves differ in more than the tower."""
    tokens = subject.prompt()
    if subject.name.endswith(("gemma4", "gemma4-unified", "qwen3-5")):
        return {"logits": by_mlx_vlm(subject, tokens)[-len(BEHIND) :] / SCALE}
    inputs = {f"picture {index}": pixels for index, pixels in enumerate(subject.drawn())}
    inputs |= {"tokens": np.array(tokens), "rows": np.array(IMAGE)}
    published, needed = as_published(subject), "transformers and torchvision"
    found = by_torch("towers_torch.py", published, inputs, packages=needed)
    return {"logits": found["logits"][-len(BEHIND) :] / SCALE}


def by_mlx_vlm(subject: Whole, tokens: list[int]) -> Any:
    """The logits of all tokens."""
    from mlx_vlm.models.gemma4.processing_gemma4 import Gemma4ImageProcessor
    from mlx_vlm.models.gemma4_unified import Gemma4UnifiedImageProcessor
    from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import Qwen3VLImageProcessor

    config = dict(subject.config)
    family: Any = import_module(f"mlx_vlm.models.{config['model_type']}")
    for half in ("text_config", "vision_config"):
        kind = getattr(family, half.title().replace("_", ""))
        config[half] = kind.from_dict(config[half])
    model = family.Model(
        family.ModelConfig(
            **{
                name: config[name]
                for name in signature(family.ModelConfig).parameters
                if name in config
            }
        )
    )
    tensors = model.sanitize({name: mx.array(each) for name, each in subject.weights().items()})
    model.load_weights(list(tensors.items()))
    model.eval()
    drawn, options = subject.drawn(), dict[str, mx.array]()
    if config["model_type"] == "qwen3_5":
        area = subject.settings["size"]
        limits = {"min_pixels": area["shortest_edge"], "max_pixels": area["longest_edge"]}
        processor = Qwen3VLImageProcessor(**subject.settings, **limits)
        made = processor([pixels.transpose(2, 0, 1) for pixels in drawn])
        options["image_grid_thw"] = mx.array(made["image_grid_thw"])
        pixels: Any = mx.array(made["pixel_values"])
    elif config["model_type"] == "gemma4":
        made, _ = Gemma4ImageProcessor(**subject.settings)(
            [Image.fromarray(each) for each in drawn]
        )
        pixels = [mx.array(each) for each in made["pixel_values"]]
    else:
        made, _ = Gemma4UnifiedImageProcessor(**subject.settings)(
            [Image.fromarray(each) for each in drawn]
        )
        options["image_position_ids"] = mx.array(made["image_position_ids"])
        pixels = mx.array(made["pixel_values"])
    ids = mx.array([tokens])
    return numbers(model(ids, pixels, mask=None, **options).logits[0])
