"""Our towers make the rows that other people's programs made of the same weights and pictures, and
mlx-lm's models the logits behind them.

What those programs gave is kept beside `tests.lab.parity`, which can ask them again.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import engine.vision.gemma3
import engine.vision.gemma4
import engine.vision.lfm2_vl
import engine.vision.qwen3_vl
from engine.device import GPU
from engine.vision import Pixels, Seen, Tower
from engine.vision.pixels import patches as cut
from engine.vision.positions import angles, stretched
from tests.lab.parity import gemma3, gemma4, lfm2_vl, qwen3_vl, sighted, towers
from tests.lab.parity.sight import Sight
from tests.lab.parity.subjects import TOLERANCE, difference, kept
from tests.support.engine.backends import computing_as

Patch = pytest.MonkeyPatch
MODULES = (gemma3, gemma4, lfm2_vl, qwen3_vl, sighted, towers)
SUBJECTS = {each.name: (module, each) for module in MODULES for each in module.SUBJECTS}


@pytest.mark.parametrize("name", SUBJECTS)
def test_it_makes_the_rows_that_others_make(name: str) -> None:
    module, subject = SUBJECTS[name]
    assert difference(module.ours(subject), kept(subject)) <= TOLERANCE


@pytest.mark.parametrize(
    "name", ["tower-gemma3", "tower-gemma4", "tower-lfm2-vl", "tower-qwen3-vl"]
)
def test_a_mac_makes_them_too(name: str) -> None:
    module, subject = SUBJECTS[name]
    with computing_as(GPU):
        assert difference(module.ours(subject), kept(subject)) <= TOLERANCE


def transposed_patches(patch: Patch) -> None:
    def broken(pixels: Pixels, size: int, merged: int) -> Pixels:
        parts = cut(pixels, size, merged).reshape(-1, size, size, 3)
        return parts.transpose(0, 2, 1, 3).reshape(len(parts), -1)

    patch.setattr(engine.vision.lfm2_vl, "patches", broken)


def unsmoothed_positions(patch: Patch) -> None:
    def broken(before: int, after: int) -> object:
        middles = (np.arange(after) + 0.5) * before / after - 0.5
        apart = np.abs(np.arange(before) - np.clip(middles, 0, before - 1)[:, None])
        return np.maximum(0.0, 1.0 - apart).astype(np.float32)

    patch.setattr("engine.vision.positions._triangles", broken)


def another_filter(patch: Patch) -> None:
    patch.setattr(engine.vision.lfm2_vl, "filter_of", lambda settings, default: default)


def another_gelu(patch: Patch) -> None:
    patch.setattr("mlx.nn.gelu_approx", lambda x: x * mx.sigmoid(1.702 * x))


def positions_as_of_another_family(patch: Patch) -> None:
    patch.setattr(engine.vision.qwen3_vl, "spread", stretched)


def rows_for_columns(patch: Patch) -> None:
    for family in (engine.vision.gemma4, engine.vision.qwen3_vl):
        patch.setattr(
            family, "angles", lambda *sizes, **options: angles(*sizes, **options)[:, ::-1].copy()
        )


def states_of_the_layer_before(patch: Patch) -> None:
    make = engine.vision.qwen3_vl._Network.__init__

    def broken(network: Any, *arguments: Any, **options: Any) -> None:
        make(network, *arguments, **options)
        network._tapped = [tap + 1 for tap in network._tapped]

    patch.setattr(engine.vision.qwen3_vl._Network, "__init__", broken)


def text_behind_all_rows(patch: Patch) -> None:
    patch.setattr(
        "engine.vision.positions.max", lambda rows, columns: rows * columns, raising=False
    )


def pooled_in_lines(patch: Patch) -> None:
    patch.setattr(engine.vision.gemma3, "patches", lambda pixels, size, merged: cut(pixels, size))


def unbounded(patch: Patch) -> None:
    patch.setattr("mlx.core.clip", lambda x, *bounds: x)


def rows_are_not_mutual(patch: Patch) -> None:
    patch.setattr(engine.vision.gemma3.Gemma3Tower, "mutual", False)


def rows_have_the_placeholders_embeddings(patch: Patch) -> None:
    patch.setattr(engine.vision.gemma4.Gemma4Tower, "read_as", Tower.read_as)


def rows_as_large_as_the_model_makes_them(patch: Patch) -> None:
    patch.setattr(engine.vision.gemma4, "shrunk", lambda features, factor: features)


def nothing_is_set_back(patch: Patch) -> None:
    patch.setattr("engine.conversation.eyes.set_back", lambda grids: 0)


def nothing_is_added_behind_layers(patch: Patch) -> None:
    patch.setattr("engine.vision.qwen3_vl.Seen", lambda rows, deeper: Seen(rows))


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("mutant", "module", "subject"),
    [
        (transposed_patches, lfm2_vl, lfm2_vl.BY_MLX),
        (unsmoothed_positions, lfm2_vl, lfm2_vl.BY_MLX),
        (another_filter, lfm2_vl, lfm2_vl.BY_MLX),
        (another_gelu, lfm2_vl, lfm2_vl.BY_MLX),
        (pooled_in_lines, gemma3, gemma3.BY_MLX),
        (unbounded, gemma4, gemma4.STANDARDIZED),
        (rows_for_columns, gemma4, gemma4.LAYERED),
        (positions_as_of_another_family, qwen3_vl, qwen3_vl.DEEP),
        (rows_for_columns, qwen3_vl, qwen3_vl.DEEP),
        (states_of_the_layer_before, qwen3_vl, qwen3_vl.DEEP),
        (text_behind_all_rows, qwen3_vl, qwen3_vl.DEEP),
        (rows_are_not_mutual, *SUBJECTS["sighted-gemma3"]),
        (rows_have_the_placeholders_embeddings, *SUBJECTS["sighted-gemma4"]),
        (rows_as_large_as_the_model_makes_them, *SUBJECTS["sighted-gemma4"]),
        (nothing_is_set_back, *SUBJECTS["sighted-qwen3-5"]),
        (nothing_is_added_behind_layers, *SUBJECTS["sighted-qwen3-vl"]),
    ],
)
def test_parity_refutes_mutants(
    mutant: Callable[[Patch], None], module: ModuleType, subject: Sight, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    assert difference(module.ours(subject), kept(subject)) > 100 * TOLERANCE
