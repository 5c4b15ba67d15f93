"""Our towers make the rows that other people's programs made of the same weights and pictures, and
mlx-lm's models the logits after them.

What those programs gave is kept: see `tests.support.engine.parity.subjects`.
"""

import math
from dataclasses import replace

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

import engine.vision.qwen3_vl
from engine.device import CPU, GPU
from engine.vision import Seen, Tower
from engine.vision.pixels import patches as cut
from engine.vision.positions import angles, stretched
from engine.vision.tower import require_tower, tower_of
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine.backends import computing_as
from tests.support.engine.parity.subjects import TOLERANCE, difference, kept, numbers
from tests.support.engine.parity.towers import TOWERS, ours, picture


@pytest.mark.parametrize("name", TOWERS)
def test_it_makes_the_rows_that_others_make(name):
    assert difference(ours(TOWERS[name]), kept(TOWERS[name])) <= TOLERANCE


@pytest.mark.parametrize(
    "name", ["tower-gemma3", "tower-gemma4", "tower-lfm2-vl", "tower-qwen3-vl"]
)
def test_a_mac_makes_them_too(name):
    with computing_as(GPU):
        assert difference(ours(TOWERS[name]), kept(TOWERS[name])) <= TOLERANCE


def transposed(pixels, size, merged):
    parts = cut(pixels, size, merged).reshape(-1, size, size, 3)
    return parts.transpose(0, 2, 1, 3).reshape(len(parts), -1)


def unsmoothed(before, after):
    middles = (np.arange(after) + 0.5) * before / after - 0.5
    apart = np.abs(np.arange(before) - np.clip(middles, 0, before - 1)[:, None])
    return np.maximum(0.0, 1.0 - apart).astype(np.float32)


def turned(*sizes, **options):
    return angles(*sizes, **options)[:, ::-1].copy()


_make = engine.vision.qwen3_vl._Network.__init__


def tapped_later(network, *arguments, **options):
    _make(network, *arguments, **options)
    network._tapped = [tap + 1 for tap in network._tapped]


def quick_gelu(x):
    return x * mx.sigmoid(1.702 * x)


MUTANTS = {  # what is computed in place of another function or value; a subject that shows it
    "transposed patches": ("lfm2_vl.patches", transposed, "tower-lfm2-vl"),
    "unsmoothed positions": ("positions._triangles", unsmoothed, "tower-lfm2-vl"),
    "another filter": ("lfm2_vl.filter_of", lambda settings, default: default, "tower-lfm2-vl"),
    "another gelu": ("mlx.nn.gelu_approx", quick_gelu, "tower-lfm2-vl"),
    "pooled in lines": ("gemma3.patches", lambda *given: cut(*given[:2]), "tower-gemma3"),
    "unbounded": ("mlx.core.clip", lambda x, *bounds: x, "tower-gemma4-standardized"),
    "rows for columns": ("gemma4.angles", turned, "tower-gemma4"),
    "positions as of another family": ("qwen3_vl.spread", stretched, "tower-qwen3-vl"),
    "rows for columns, too": ("qwen3_vl.angles", turned, "tower-qwen3-vl"),
    "states of the layer before": ("qwen3_vl._Network.__init__", tapped_later, "tower-qwen3-vl"),
    "text after all rows": ("positions.max", lambda *sides: math.prod(sides), "tower-qwen3-vl"),
    "rows are not mutual": ("gemma3.Gemma3Tower.mutual", False, "sighted-gemma3"),
    "mutual in all layers": ("gemma4.Gemma4Tower.windows_only", False, "sighted-gemma4"),
    "the placeholder's embeddings": ("gemma4.Gemma4Tower.read_as", Tower.read_as, "sighted-gemma4"),
    "rows as the model makes them": ("gemma4.shrunk", lambda rows, factor: rows, "sighted-gemma4"),
    "nothing is set back": ("engine.conversation.eyes.set_back", lambda _: 0, "sighted-qwen3-5"),
    "nothing after layers": ("qwen3_vl.Seen", lambda rows, deeper: Seen(rows), "sighted-qwen3-vl"),
}


@pytest.mark.cpu
@pytest.mark.quick(8)  # those of towers alone
@pytest.mark.parametrize(("place", "mutant", "name"), MUTANTS.values(), ids=MUTANTS)
def test_parity_refutes_mutants(place, mutant, name, monkeypatch):
    whole = place if place.startswith(("mlx.", "engine.")) else f"engine.vision.{place}"
    monkeypatch.setattr(whole, mutant, raising=False)
    assert difference(ours(TOWERS[name]), kept(TOWERS[name])) > 100 * TOLERANCE


# Which models see, and what their files must hold


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
