"""Our towers make the rows that other people's programs made of the same weights and pictures, and
mlx-lm's models the logits after them.

What those programs gave is kept: see `tests.support.engine.parity.subjects`.
"""

import math

import mlx.core as mx
import numpy as np
import pytest

import engine.vision.qwen3_vl
from engine.device import GPU
from engine.vision import Seen, Tower
from engine.vision.pixels import patches as cut
from engine.vision.positions import angles, stretched
from tests.support.engine.backends import computing_as
from tests.support.engine.parity.subjects import TOLERANCE, difference, kept
from tests.support.engine.parity.towers import TOWERS, ours


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
