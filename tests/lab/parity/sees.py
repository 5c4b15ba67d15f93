"""Whole models that see, tower and text half: the logits of a prompt with two pictures.

Against mlx-vlm; Gemma 3 against transformers, as mlx-vlm lets each of its tokens see all others.
In a Gemma 4, mlx-vlm lets a picture's rows see each other in all layers, transformers in those with
windows: so all have one here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import numpy as np
from PIL import Image

from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.request import ChatMessage, Picture, chat
from engine.virtual_ids import is_virtual
from engine.vision import Grid, Seen
from engine.vision.tower import require_tower
from models.model_folder import ModelFolder, inspect
from tests.lab.parity import sight
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.subjects import Arrays, numbers, target_reads_as_mlx_does
from tests.support.engine.seeing_folders import write_seeing

SIZES = ((40, 24), (37, 61))
KEPT_ROWS = 3  # of logits, at the end of the prompt and of each picture


@dataclass(frozen=True)
class Whole:
    """A whole model of a family. `text`: changes of its text half."""

    family: str
    text: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"logits-{self.family}"

    def write(self, folder: Path) -> Path:
        return write_seeing(self.family, folder, calm=True, **self.text)


WINDOWS = {"layer_types": ["sliding_attention"] * 3}
SUBJECTS = (
    Whole("lfm2-vl"),
    Whole("qwen3_vl"),
    Whole("qwen3_5"),
    Whole("gemma3"),
    Whole("gemma4"),
    Whole("gemma4_unified", WINDOWS),
)


def drawn() -> list[Any]:
    return [sight.picture(*size, seed=seed) for seed, size in enumerate(SIZES)]


def asked(folder: Path) -> list[ChatMessage]:
    """A chat with two pictures, whose files are written."""
    pictures = []
    for pixels, (width, height) in zip(drawn(), SIZES, strict=True):
        digest = sha256(f"{width} {height}\n".encode() + pixels.tobytes()).hexdigest()
        path = folder / f"{digest}.png"
        Image.fromarray(pixels).save(path)
        pictures.append(Picture(str(path.absolute()), digest, width, height))
    first, second = pictures
    return [
        ChatMessage("user", "So what is this", pictures=(first,)),
        ChatMessage("assistant", "Hm"),
        ChatMessage("user", "And these here", pictures=(second,)),
    ]


def chosen(logits: Any, tokens: list[int], row: int) -> Arrays:
    """Some rows of logits, as shares of the largest."""
    places = [place for place, token in enumerate(tokens) if token == row]
    ends = [p for p in places if tokens[p + 1] != row] + [len(tokens) - 1]
    kept = [place for end in ends for place in range(end - KEPT_ROWS + 1, end + 1)]
    return {"logits": logits[kept] / np.abs(logits).max()}


def prompt_of(session: Session, messages: list[ChatMessage]) -> tuple[list[int], list[int]]:
    """Its tokens with virtual ids, and with placeholders."""
    tokens = session.encode(chat(messages))
    row = session.target.tower.placeholder if session.target.tower else -1
    return tokens, [row if is_virtual(token) else token for token in tokens]


@target_reads_as_mlx_does
def ours(subject: Whole) -> Arrays:
    """By a session's decoder."""
    with TemporaryDirectory() as name:
        session = Session(load(inspect(subject.write(Path(name) / "model"))))
        tokens, blind = prompt_of(session, asked(Path(name)))
        read = list(session.decoder.read_from_start(tokens))
        read.append(session.decoder.read(mx.array(tokens[-1:])))
        assert session.target.tower is not None
        return chosen(numbers(mx.concatenate(read)), blind, session.target.tower.placeholder)


def theirs(subject: Whole) -> Arrays:
    """By mlx-vlm or transformers, with our towers' rows, which have a parity of their own."""
    with TemporaryDirectory() as name:
        folder = subject.write(Path(name) / "model")
        session = Session(load(inspect(folder)))
        _, blind = prompt_of(session, asked(Path(name)))
        tower = require_tower(ModelFolder(folder))
        seen = [tower.embed(pixels) for pixels in drawn()]
        rows = mx.concatenate([each.rows for each in seen])
        config = json.loads((folder / "config.json").read_text())
        if subject.family == "gemma3":
            given = {"tokens": np.array(blind), "rows": numbers(rows)}
            found = by_torch("gemma3_torch.py", subject, given, packages="transformers")  # type: ignore[arg-type]
            return chosen(found["logits"], blind, tower.placeholder)
        grids = [tower.size_of(*size) for size in SIZES]
        given = embedded_by_mlx_vlm(config, folder, mx.array([blind]), rows, tower.placeholder)
        logits = _by_mlx_vlm(*given, seen=seen, grids=grids, row=tower.placeholder)
        return chosen(numbers(logits[0]), blind, tower.placeholder)


def embedded_by_mlx_vlm(
    config: dict[str, Any], folder: Path, ids: mx.array, rows: mx.array, row: int
) -> tuple[dict[str, Any], Any, mx.array, mx.array]:
    """The config.json, mlx-vlm's text half, and a prompt as ids and as embeddings."""
    kind = config["model_type"].replace("-", "_")
    module = import_module(f"mlx_vlm.models.{kind}")
    settings = import_module(f"mlx_vlm.models.{kind}.config")
    half_of = import_module("mlx_vlm.models.gemma4.config") if "gemma4" in kind else settings
    text = dict(config["text_config"])
    layers = enumerate(text.get("layer_types", ()))
    text["full_attn_idxs"] = [at for at, each in layers if each == "full_attention"]
    halves = {
        "text_config": half_of.TextConfig.from_dict(text),
        "vision_config": settings.VisionConfig.from_dict(config["vision_config"]),
    }
    model = module.Model(module.ModelConfig.from_dict(config | {"model_type": kind} | halves))
    tensors: Any = mx.load(str(folder / "model.safetensors"))
    if kind == "lfm2_vl":  # whose head is tied, also where the config does not say so
        tensors["language_model.lm_head.weight"] = tensors[
            "language_model.model.embed_tokens.weight"
        ]
    model.load_weights(list(model.sanitize(tensors).items()), strict=False)
    half: Any = model.language_model
    embedded = half.model.embed_tokens(ids)
    places = [place for place, token in enumerate(ids.tolist()[0]) if token == row]  # type: ignore[union-attr,arg-type]
    embedded[0, mx.array(places)] = rows
    return config, half, ids, embedded


def _by_mlx_vlm(
    config: Mapping[str, Any],
    half: Any,
    ids: mx.array,
    embedded: mx.array,
    *,
    seen: Sequence[Seen],
    grids: Sequence[Grid],
    row: int,
) -> mx.array:
    """The logits of a prompt by mlx-vlm's text half."""
    options: dict[str, Any] = {}
    if config["model_type"].startswith("qwen"):
        merged = config["vision_config"]["spatial_merge_size"]
        shapes = [(1, *(merged * side for side in grid.shape or ())) for grid in grids]
        options["position_ids"], _ = half.get_rope_index(ids, mx.array(shapes))
        if seen[0].deeper:
            deeper = zip(*(each.deeper for each in seen), strict=True)
            options["visual_pos_masks"] = ids == row
            options["deepstack_visual_embeds"] = [mx.concatenate(list(each)) for each in deeper]
    if config["model_type"].startswith("gemma4"):
        embedded = embedded * half.model.embed_scale
        options["mm_token_type_ids"] = (ids == row).astype(mx.int32)
        if half.model.hidden_size_per_layer_input:
            known = mx.where(ids == row, 0, ids)
            options["per_layer_inputs"] = half.model.get_per_layer_inputs(known)
    logits: mx.array = half(ids, inputs_embeds=embedded, **options).logits
    return logits
