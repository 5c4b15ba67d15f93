"""Our towers make the rows that other people's programs made of the same weights and pictures.

What those programs gave is kept beside `tests.lab.parity`, which can ask them again.
"""

from collections.abc import Callable
from types import ModuleType

import mlx.core as mx
import numpy as np
import pytest

import engine.vision.lfm2_vl
from engine.device import GPU
from engine.vision import Pixels
from tests.lab.parity import lfm2_vl
from tests.lab.parity.sight import Sight
from tests.lab.parity.subjects import TOLERANCE, difference, kept
from tests.support.engine.backends import computing_as

Patch = pytest.MonkeyPatch
MODULES = (lfm2_vl,)
SUBJECTS = {each.name: (module, each) for module in MODULES for each in module.SUBJECTS}


@pytest.mark.parametrize("name", SUBJECTS)
def test_it_makes_the_rows_that_others_make(name: str) -> None:
    module, subject = SUBJECTS[name]
    assert difference(module.ours(subject), kept(subject)) <= TOLERANCE


def test_a_mac_makes_them_too() -> None:
    with computing_as(GPU):
        assert difference(lfm2_vl.ours(lfm2_vl.BY_MLX), kept(lfm2_vl.BY_MLX)) <= TOLERANCE


def transposed_patches(patch: Patch) -> None:
    cut = engine.vision.lfm2_vl.patches

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


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("mutant", "module", "subject"),
    [
        (transposed_patches, lfm2_vl, lfm2_vl.BY_MLX),
        (unsmoothed_positions, lfm2_vl, lfm2_vl.BY_MLX),
        (another_filter, lfm2_vl, lfm2_vl.BY_MLX),
        (another_gelu, lfm2_vl, lfm2_vl.BY_MLX),
    ],
)
def test_parity_refutes_mutants(
    mutant: Callable[[Patch], None], module: ModuleType, subject: Sight, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    assert difference(module.ours(subject), kept(subject)) > 100 * TOLERANCE
