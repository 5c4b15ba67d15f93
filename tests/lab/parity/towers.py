"""All families of towers against transformers, from files named and laid out as their makers do.

Where transformers has no processor by Pillow, pictures have a size that none is changed.
"""

from dataclasses import replace
from typing import Any

from tests.lab.parity import gemma3, gemma4, lfm2_vl, qwen3_vl, sight
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.sight import Sight
from tests.lab.parity.subjects import Arrays, draw

QWEN_TEXT: dict[str, Any] = qwen3_vl.config("qwen3_vl", [])["text_config"]
EXPERTS = {
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 8,
    "decoder_sparse_step": 1,
}


def qwen(kind: str, taps: list[int]) -> Sight:
    """A Qwen that sees."""
    text = QWEN_TEXT | {"model_type": f"{kind}_text"}
    if kind.endswith("_moe"):
        text |= EXPERTS
    return replace(
        qwen3_vl.DEEP,
        name=f"tower-{kind.replace('_', '-')}-transformers",
        config=qwen3_vl.config(kind, taps, text_config=text),
        shapes=qwen3_vl.shapes("model.visual", len(taps), patch=(3, 2, 4, 4)),
        seed=3,
    )


PROJECTION = "model.embed_vision.embedding_projection.weight"
NO_HEAD = {"vision_use_head": False}
SEVENTY = gemma4.SETTINGS | {"max_soft_tokens": 70}  # the fewest that it takes
UNCHANGED = (84, 120)  # pixels of a picture of 70 tokens
SUBJECTS = (
    replace(
        gemma3.ORIGINAL,
        name="tower-gemma3-transformers",
        config=gemma3.CONFIG
        | {"vision_config": gemma3.CONFIG["vision_config"] | NO_HEAD | {"layer_norm_eps": 1e-6}},
        seed=3,
    ),
    replace(
        gemma4.STANDARDIZED,
        name="tower-gemma4-transformers",
        settings=SEVENTY,
        pictures=(UNCHANGED, (50, 90)),
        seed=3,
        gain=1.0,
    ),
    replace(
        gemma4.UNIFIED,
        name="tower-gemma4-unified-transformers",
        shapes={f"model.{name}": shape for name, shape in gemma4.UNIFIED.shapes.items()},
        # Rows near 1: MLX's norm over a patch's numbers is five millionths off.
        given={PROJECTION: draw(PROJECTION, (gemma4.TEXT, gemma4.WIDTH), seed=3) / 16},
        settings=SEVENTY,
        pictures=(UNCHANGED,),
        seed=3,
    ),
    replace(
        lfm2_vl.BY_MLX,
        name="tower-lfm2-vl-transformers",
        config=lfm2_vl.config(
            vision_config=lfm2_vl.config()["vision_config"]
            | NO_HEAD
            | {"model_type": "siglip2_vision_model"}
        ),
        shapes=lfm2_vl.shapes("model.vision_tower", "model.multi_modal_projector"),
        pictures=((24, 32), (16, 48)),
        seed=3,
    ),
    qwen("qwen3_vl", [0, 2]),
    qwen("qwen3_vl_moe", [1]),
    qwen("qwen3_5", []),
)


def ours(subject: Sight) -> Arrays:
    """By our tower: its rows alone."""
    found = sight.ours(subject).items()
    return {name: rows for name, rows in found if name.startswith(("rows", "deeper"))}


def theirs(subject: Sight) -> Arrays:
    """By transformers; those of Gemma as they are before the model enlarges them."""
    inputs = {f"picture {index}": pixels for index, pixels in enumerate(subject.drawn())}
    found = by_torch("towers_torch.py", subject, inputs, packages="transformers and torchvision")
    scale = gemma3.TEXT**0.5 if "gemma" in subject.name else 1.0
    return {name: rows / scale for name, rows in found.items()}
