"""Our towers make the rows that other people's programs made of the same weights and pictures, and
mlx-lm's models the logits behind them.

What those programs gave is kept: see `tests.support.engine.parity.subjects`.
"""

import mlx.core as mx
import numpy as np
import pytest

import engine.vision.gemma3
import engine.vision.gemma4
import engine.vision.lfm2_vl
import engine.vision.qwen3_vl
from engine.device import GPU
from engine.vision import Seen, Tower
from engine.vision.pixels import patches as cut
from engine.vision.positions import angles, stretched
from tests.support.engine.backends import computing_as
from tests.support.engine.parity.subjects import TOLERANCE, difference, kept
from tests.support.engine.parity.towers import TOWERS, ours

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("name", TOWERS)
def test_it_makes_the_rows_that_others_make(name):
    assert difference(ours(TOWERS[name]), kept(TOWERS[name])) <= TOLERANCE


@pytest.mark.parametrize(
    "name", ["tower-gemma3", "tower-gemma4", "tower-lfm2-vl", "tower-qwen3-vl"]
)
def test_a_mac_makes_them_too(name):
    with computing_as(GPU):
        assert difference(ours(TOWERS[name]), kept(TOWERS[name])) <= TOLERANCE


def transposed_patches(patch):
    def broken(pixels, size, merged):
        parts = cut(pixels, size, merged).reshape(-1, size, size, 3)
        return parts.transpose(0, 2, 1, 3).reshape(len(parts), -1)

    patch.setattr(engine.vision.lfm2_vl, "patches", broken)


def unsmoothed_positions(patch):
    def broken(before, after):
        middles = (np.arange(after) + 0.5) * before / after - 0.5
        apart = np.abs(np.arange(before) - np.clip(middles, 0, before - 1)[:, None])
        return np.maximum(0.0, 1.0 - apart).astype(np.float32)

    patch.setattr("engine.vision.positions._triangles", broken)


def another_filter(patch):
    patch.setattr(engine.vision.lfm2_vl, "filter_of", lambda settings, default: default)


def another_gelu(patch):
    patch.setattr("mlx.nn.gelu_approx", lambda x: x * mx.sigmoid(1.702 * x))


def positions_as_of_another_family(patch):
    patch.setattr(engine.vision.qwen3_vl, "spread", stretched)


def rows_for_columns(patch):
    for family in (engine.vision.gemma4, engine.vision.qwen3_vl):
        patch.setattr(
            family, "angles", lambda *sizes, **options: angles(*sizes, **options)[:, ::-1].copy()
        )


def states_of_the_layer_before(patch):
    make = engine.vision.qwen3_vl._Network.__init__

    def broken(network, *arguments, **options):
        make(network, *arguments, **options)
        network._tapped = [tap + 1 for tap in network._tapped]

    patch.setattr(engine.vision.qwen3_vl._Network, "__init__", broken)


def text_behind_all_rows(patch):
    patch.setattr(
        "engine.vision.positions.max", lambda rows, columns: rows * columns, raising=False
    )


def pooled_in_lines(patch):
    patch.setattr(engine.vision.gemma3, "patches", lambda pixels, size, merged: cut(pixels, size))


def unbounded(patch):
    patch.setattr("mlx.core.clip", lambda x, *bounds: x)


def rows_are_not_mutual(patch):
    patch.setattr(engine.vision.gemma3.Gemma3Tower, "mutual", False)


def mutual_in_all_layers(patch):
    patch.setattr(engine.vision.gemma4.Gemma4Tower, "windows_only", False)


def rows_have_the_placeholders_embeddings(patch):
    patch.setattr(engine.vision.gemma4.Gemma4Tower, "read_as", Tower.read_as)


def rows_as_large_as_the_model_makes_them(patch):
    patch.setattr(engine.vision.gemma4, "shrunk", lambda features, factor: features)


def nothing_is_set_back(patch):
    patch.setattr("engine.conversation.eyes.set_back", lambda grids: 0)


def nothing_is_added_behind_layers(patch):
    patch.setattr("engine.vision.qwen3_vl.Seen", lambda rows, deeper: Seen(rows))


@pytest.mark.cpu
@pytest.mark.quick(8)  # those of towers alone
@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        (transposed_patches, "tower-lfm2-vl"),
        (unsmoothed_positions, "tower-lfm2-vl"),
        (another_filter, "tower-lfm2-vl"),
        (another_gelu, "tower-lfm2-vl"),
        (pooled_in_lines, "tower-gemma3"),
        (unbounded, "tower-gemma4-standardized"),
        (rows_for_columns, "tower-gemma4"),
        (positions_as_of_another_family, "tower-qwen3-vl"),
        (rows_for_columns, "tower-qwen3-vl"),
        (states_of_the_layer_before, "tower-qwen3-vl"),
        (text_behind_all_rows, "tower-qwen3-vl"),
        (rows_are_not_mutual, "sighted-gemma3"),
        (mutual_in_all_layers, "sighted-gemma4"),
        (rows_have_the_placeholders_embeddings, "sighted-gemma4"),
        (rows_as_large_as_the_model_makes_them, "sighted-gemma4"),
        (nothing_is_set_back, "sighted-qwen3-5"),
        (nothing_is_added_behind_layers, "sighted-qwen3-vl"),
    ],
)
def test_parity_refutes_mutants(mutant, name, monkeypatch):
    mutant(monkeypatch)
    assert difference(ours(TOWERS[name]), kept(TOWERS[name])) > 100 * TOLERANCE
