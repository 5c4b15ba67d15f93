"""Which models see, and what their files must hold."""

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.vision import Tower
from engine.vision.tower import require_tower, tower_of
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.lab.parity import lfm2_vl
from tests.lab.parity.sight import Sight, picture
from tests.lab.parity.subjects import numbers
from tests.support.engine.backends import on_a_mac


def tower(subject: Sight, folder: Path) -> Tower:
    return require_tower(ModelFolder(subject.write(folder)))


def test_a_model_of_text_has_no_tower(tmp_path: Path) -> None:
    folder = ModelFolder(replace(lfm2_vl.BY_MLX, config={"model_type": "llama"}).write(tmp_path))
    assert tower_of(folder) is None
    with pytest.raises(Problem, match="reads text only"):
        require_tower(folder)


def test_a_conversion_that_left_the_tower_out_cannot_see(tmp_path: Path) -> None:
    text = {"language_model.model.embed_tokens.weight": (8, 8)}
    folder = ModelFolder(replace(lfm2_vl.BY_MLX, shapes=text).write(tmp_path))
    assert tower_of(folder) is None
    with pytest.raises(Problem, match="left out the part that reads pictures"):
        require_tower(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"image_token_id": "seven"},
        {"vision_config": {}},
        {"downsample_factor": 0},
        {"projector_hidden_size": 20},
    ],
)
def test_damaged_settings_are_a_problem(changes: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(Problem):
        tower(
            replace(lfm2_vl.BY_MLX, config=lfm2_vl.config(**changes), settings={}), tmp_path
        ).embed(picture(20, 20))


def test_a_missing_tensor_is_a_problem(tmp_path: Path) -> None:
    shapes = dict(lfm2_vl.BY_MLX.shapes)
    del shapes["vision_tower.post_layernorm.weight"]
    damaged = tower(replace(lfm2_vl.BY_MLX, shapes=shapes), tmp_path)
    with pytest.raises(Problem, match="damaged"):
        damaged.embed(picture(20, 20))


def test_nothing_is_loaded_to_say_what_a_picture_takes(tmp_path: Path) -> None:
    subject = lfm2_vl.BY_MLX
    described = tower(subject, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    grid = described.size_of(20, 20)
    assert (grid.height, grid.width, grid.tokens) == (16, 16, 4)  # 2.5 is rounded to even
    assert described.in_words(grid) == "4 tokens, needs about 0.1 GB"
    assert described.weights_bytes == sum(each.nbytes for each in subject.weights().values())


def test_quantized_layers_stay_quantized_on_a_mac(tmp_path: Path) -> None:
    subject = lfm2_vl.BY_MLX
    wide = replace(
        subject,
        config=lfm2_vl.config(
            projector_hidden_size=32,
        ),
        shapes=subject.shapes
        | {
            "multi_modal_projector.linear_1.weight": (32, 64),
            "multi_modal_projector.linear_1.bias": (32,),
            "multi_modal_projector.linear_2.weight": (8, 32),
        },
    )
    whole = tower(wide, tmp_path / "whole").embed(picture(20, 20)).rows
    path = wide.write(tmp_path / "quantized") / "model.safetensors"
    tensors = dict(mx.load(str(path)))
    for name in ("linear_1", "linear_2"):
        place = f"multi_modal_projector.{name}"
        packed = mx.quantize(tensors[f"{place}.weight"], group_size=32, bits=8)
        kinds = ("weight", "scales", "biases")
        tensors |= {f"{place}.{kind}": part for kind, part in zip(kinds, packed, strict=True)}
    mx.save_safetensors(str(path), tensors)
    for mac in (False, True):
        with on_a_mac() if mac else pytest.MonkeyPatch.context():
            seen = require_tower(ModelFolder(path.parent))
            rows = seen.embed(picture(20, 20)).rows
            layers = [part for _, part in seen._network.named_modules()]  # type: ignore[attr-defined]
            assert any(isinstance(each, nn.QuantizedLinear) for each in layers) == mac
        assert np.abs(numbers(rows) - numbers(whole)).max() < 0.05
