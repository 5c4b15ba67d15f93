"""A rank loads its own part of a model folder and holds nothing else of it; what all parts compute
is what the whole model does, in the same number type."""

import gc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.cluster.follower import Follower
from engine.cluster.group import Group
from engine.cluster.leader import Leader, LeadingDecoder
from engine.cluster.share import RankShare, load_part
from engine.conversation.loading import LoadedModel, load
from engine.core.decoder import Decoder
from models.errors import Problem
from models.model_folder import ModelFolder
from models.sharing import Mode
from tests.support.engine.ranks import Ranks
from tests.support.engine.shared_targets import config_of
from tests.support.engine.tiny import build, byte_tokenizer, save
from tests.support.mostly_slow import mostly_slow

pytestmark = pytest.mark.usefixtures("on_the_cpu")

CASES = [(None, True), (4, True), (4, False)]
KEPT_WHOLE = 16384  # bytes more than its half for which MLX does not copy a matrix
ROWS = list(range(5, 25))


@dataclass(frozen=True, slots=True)
class Told:
    """What a rank says of its part. `held_bytes`: what MLX holds since; `logits` of rank 0's."""

    precision: str
    size_bytes: int
    held_bytes: int
    logits: Any


def use_part(group: Group, path: Path, mode: Mode, split: tuple[int, ...], expand: bool) -> Told:
    """Load it and read `ROWS` with all ranks."""
    gc.collect()
    before = mx.get_active_memory()
    share = RankShare(mode, group.rank(), group.size(), split)
    loaded, part = load_part(ModelFolder(path), share, group, expand=expand)
    mx.synchronize()  # what the last arrays were made of is let go a moment later
    held = mx.get_active_memory() - before
    logits = None
    if group.rank():
        Follower(part).run(lambda: True)
    else:
        leader = Leader(part)
        logits = np.array(LeadingDecoder(loaded.model, leader=leader).read(mx.array(ROWS)))
        leader.quit()
    return Told(loaded.precision, part.size_bytes, held, logits)


def write_folder(path: Path, name: str, *, bits: int | None = None) -> Path:
    vocabulary = byte_tokenizer(path)
    config = config_of(name) | {"vocab_size": vocabulary, "eos_token_id": 256}
    config |= {"head_dim": 16, "intermediate_size": 6144}
    model = build(name, sizes=config, vocabulary=vocabulary, bits=bits)
    if bits:
        config["quantization"] = {"group_size": 32, "bits": bits}
    save(model, config, path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("plain"), "qwen3")


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("quantized"), "qwen3", bits=4)


def whole(path: Path, *, expand: bool) -> tuple[LoadedModel, Any]:
    loaded = load(ModelFolder(path), expand=expand)
    return loaded, np.array(Decoder(loaded.model).read(mx.array(ROWS)))


def size_of_share(loaded: LoadedModel, own: range, *, divided: int = 1) -> int:
    """Bytes of these layers, of whose matrices each rank has a part, and of all outside layers."""
    size = 0
    arrays: Any = tree_flatten(loaded.model.parameters())
    for name, array in arrays:
        _, inside, rest = name.partition(".layers.")
        if not inside:
            size += array.nbytes
        elif int(rest.split(".")[0]) in own:
            size += array.nbytes // (divided if array.ndim == 2 else 1)
    return size


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "expand"), mostly_slow(CASES, quick=[(4, False)]))
def test_layers_of_a_pipeline_are_those_of_the_whole_model(
    two: Ranks, folder: Path, quantized: Path, bits: int | None, expand: bool
) -> None:
    path = quantized if bits else folder
    told = two.call(use_part, path, "pipeline", (2, 4), expand)
    loaded, logits = whole(path, expand=expand)
    np.testing.assert_array_equal(told[0].logits, logits)
    for each, own in zip(told, (range(4, 6), range(4)), strict=True):
        assert each.precision == loaded.precision
        assert each.size_bytes == size_of_share(loaded, own)
        assert each.held_bytes == pytest.approx(each.size_bytes, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "expand"), CASES)
def test_parts_of_every_layer_are_halves_of_its_matrices(
    two: Ranks, folder: Path, quantized: Path, bits: int | None, expand: bool
) -> None:
    path = quantized if bits else folder
    loaded, logits = whole(path, expand=expand)
    for each in two.call(use_part, path, "tensor", (), expand):
        assert each.size_bytes == size_of_share(loaded, range(6), divided=2)
        assert each.held_bytes <= 1.05 * each.size_bytes + KEPT_WHOLE * 7 * 6
        if each.logits is not None:
            np.testing.assert_allclose(each.logits, logits, atol=1e-3)


def test_what_cannot_be_shared_is_refused_before_a_weight_is_read(folder: Path) -> None:
    nobody: Any = None
    with pytest.raises(Problem, match="12 attention heads"):
        load_part(ModelFolder(folder), RankShare("tensor", 0, 5), nobody, expand=True)
    with pytest.raises(Problem, match=r"\[5, 2\]"):
        load_part(ModelFolder(folder), RankShare("pipeline", 0, 2, (5, 2)), nobody, expand=True)
