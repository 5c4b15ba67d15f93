"""Which models see, and what their files must hold."""

from dataclasses import replace

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.device import CPU, GPU
from engine.vision.tower import require_tower, tower_of
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine.backends import computing_as
from tests.support.engine.parity.subjects import numbers
from tests.support.engine.parity.towers import TOWERS, picture

LFM2 = TOWERS["tower-lfm2-vl"]
QWEN3 = TOWERS["tower-qwen3-vl"]
GEMMA3 = TOWERS["tower-gemma3"]
GEMMA4 = TOWERS["tower-gemma4"]
UNIFIED = TOWERS["tower-gemma4-unified"]


def tower(subject, folder):
    return require_tower(ModelFolder(subject.write(folder)))


def test_a_model_of_text_and_a_conversion_that_left_the_tower_out_cannot_see(tmp_path):
    text = {"language_model.model.embed_tokens.weight": (8, 8)}
    for changed, said in (
        ({"config": {"model_type": "llama"}}, "text only"),
        ({"shapes": text}, "the vision part"),
    ):
        folder = ModelFolder(replace(LFM2, **changed).write(tmp_path / said))
        assert tower_of(folder) is None
        with pytest.raises(Problem, match=said):
            require_tower(folder)


@pytest.mark.parametrize(
    ("subject", "place", "value"),
    [
        (GEMMA3, "mm_tokens_per_image", -1),
        (GEMMA3, "vision_config.num_attention_heads", 0),
        (GEMMA3, "vision_config.num_hidden_layers", 10**12),
        (GEMMA4, "text_config", None),
        (GEMMA4, "settings.patch_size", 10**12),
        (UNIFIED, "settings.max_soft_tokens", 0),
        (UNIFIED, "image_token_id", 7),
        (LFM2, "image_token_id", "seven"),
        (LFM2, "projector_hidden_size", 20),
        (LFM2, "settings.downsample_factor", 0),
        (LFM2, "settings.tile_size", 10**9),
        (QWEN3, "vision_config.out_hidden_size", 9),
        (QWEN3, "settings.merge_size", -1),
    ],
)
def test_damaged_settings_are_a_problem(subject, place, value, tmp_path):
    table, _, key = place.rpartition(".")
    whole = dict(subject.settings if table == "settings" else subject.config)
    if table in whole:
        whole[table] = dict(whole[table]) | {key: value}
    else:
        whole[key] = value
    kind = "settings" if table == "settings" else "config"
    with pytest.raises(Problem):
        tower(replace(subject, **{kind: whole}), tmp_path).embed(picture(200, 90))


def test_a_picture_too_narrow_for_its_family_and_a_missing_tensor_are_problems(tmp_path):
    seen = tower(QWEN3, tmp_path / "narrow")
    assert seen.size_of(2, 400).tokens > 0
    with pytest.raises(Problem):
        seen.size_of(2, 401)
    shapes = dict(LFM2.shapes)
    del shapes["vision_tower.post_layernorm.weight"]
    damaged = tower(replace(LFM2, shapes=shapes), tmp_path / "damaged")
    with pytest.raises(Problem):
        damaged.embed(picture(20, 20))


def test_nothing_is_loaded_to_say_what_a_picture_takes(tmp_path):
    described = tower(LFM2, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    grid = described.size_of(20, 20)
    assert (grid.height, grid.width, grid.tokens) == (16, 16, 4)  # 2.5 is rounded to even
    assert "4 tokens" in described.in_words(grid)
    assert described.weights_bytes == sum(each.nbytes for each in LFM2.weights().values())


def test_quantized_layers_stay_quantized_on_a_mac(tmp_path):
    wider = {16: 32, 24: 64, 64: 128}  # whole groups of numbers
    sizes = {"hidden_size": 32, "intermediate_size": 64}
    config = {"projector_hidden_size": 64, "vision_config": LFM2.config["vision_config"] | sizes}
    shapes = {n: tuple(wider.get(size, size) for size in s) for n, s in LFM2.shapes.items()}
    wide = replace(LFM2, config={**LFM2.config, **config}, shapes=shapes)
    whole = tower(wide, tmp_path / "whole").embed(picture(20, 20)).rows
    path = wide.write(tmp_path / "quantized") / "model.safetensors"
    tensors = dict(mx.load(str(path)))
    for name, tensor in list(tensors.items()):
        if tensor.ndim == 2 and tensor.shape[1] % 32 == 0:  # the table of positions, too
            place = name.removesuffix(".weight")
            packed = mx.quantize(tensor, group_size=32, bits=8)
            kinds = ("weight", "scales", "biases")
            tensors |= {f"{place}.{kind}": part for kind, part in zip(kinds, packed, strict=True)}
    mx.save_safetensors(str(path), tensors)
    for mac in (False, True):
        with computing_as(GPU if mac else CPU):
            seen = require_tower(ModelFolder(path.parent))
            rows = seen.embed(picture(20, 20)).rows
            layers = [part for _, part in seen._network.named_modules()]
            for kind in (nn.QuantizedLinear, nn.QuantizedEmbedding):
                assert any(isinstance(each, kind) for each in layers) == mac
        assert np.abs(numbers(rows) - numbers(whole)).max() < 0.1
