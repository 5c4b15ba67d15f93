"""How a drafter's weights are held: in 8 or 4 bits what was published in floats, all packagings by
one rule; on the CPU expanded, with the same results."""

from dataclasses import replace
from itertools import product
from unittest import mock

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import dequantize_model

import engine.cpu.backend
from engine.conversation.loading import load
from engine.conversation.pair import held_as, make_drafter
from engine.core.decoder import Decoder
from engine.device import CPU, GPU
from engine.drafters.weights import fill
from engine.quantized import KEPT, hold_in
from models.drafters.folders import DrafterFolder
from models.installed.resolve import resolve_drafters
from models.memory.model_size import weigh
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.engine.backends import computing_as
from tests.support.engine.parity.drafters import DRAFTERS, ours
from tests.support.engine.parity.subjects import TOLERANCE, difference
from tests.support.mostly_slow import mostly_slow

OF_EIGHT_BITS = 0.06  # of the size of what a network computes; with 4 bits it is .1 to 1
QUICK = ("mtp-qwen3.5-experts", "gemma-4-assistant-clustered")


def size_bytes(network):
    return sum(array.nbytes for _, array in tree_flatten(network.parameters()))


def computed(name, bits, *, unpacked=False):
    """What a drafter of a packaging computes in these bits, as on a Mac, and its size.
    `unpacked`: by matrices of floats that were rounded so."""
    sizes = []

    def hold(bits, network):
        hold_in(bits, network)
        sizes.append(size_bytes(network))
        packed = [place for place, each in network.named_modules() if hasattr(each, "bits")]
        assert bool(packed) == (bits < 16)
        assert not any(map(KEPT.search, packed))
        if unpacked:
            dequantize_model(network)

    with (
        computing_as(GPU),
        mock.patch.object(DrafterFolder, "held_bits", bits),
        mock.patch("engine.backend.hold_in", hold),
    ):
        found = ours(DRAFTERS[name])
    return found, sizes[0]


@pytest.mark.parametrize("name", mostly_slow(DRAFTERS, quick=QUICK))
def test_every_packaging_computes_as_its_rounded_matrices(name):
    whole, published = computed(name, 16)
    eight, of_eight = computed(name, 8)
    four, of_four = computed(name, 4)
    assert of_four < of_eight < 0.9 * published
    assert difference(eight, computed(name, 8, unpacked=True)[0]) <= TOLERANCE
    assert difference(four, computed(name, 4, unpacked=True)[0]) <= TOLERANCE
    first = next(iter(whole))  # before a token that it draws can be another
    known = np.isfinite(whole[first]) & np.isfinite(eight[first])
    off = np.linalg.norm(eight[first][known] - whole[first][known])
    limit = 2 * OF_EIGHT_BITS if name == "dflash2" else OF_EIGHT_BITS  # it scores few candidates
    assert 0 < off < limit * np.linalg.norm(whole[first][known])


MODES = {"affine": (8, 32), "mxfp4": (4, 32)}  # bits, and the numbers that share a scale


def packed(subject, mode, *, unpacked=False):
    """A drafter whose matrices come packed, as converters write them, or as rounded floats."""
    bits, size = MODES[mode]
    stated = {"bits": bits, "group_size": size, "mode": mode}
    tensors = {}
    for name, array in subject.weights().items():
        place, weight, _ = name.rpartition(".weight")
        if not weight or array.ndim < 2 or array.shape[-1] % size or KEPT.search(place):
            tensors[name] = array
            continue
        parts = mx.quantize(mx.array(array), **stated)
        if unpacked:
            tensors[name] = np.array(mx.dequantize(*parts, **stated).astype(mx.float32))
        else:
            kinds = zip(("weight", "scales", "biases"), parts, strict=False)
            tensors |= {f"{place}.{kind}": np.array(part) for kind, part in kinds}
    config = subject.config if unpacked else {**subject.config, "quantization": stated}
    return replace(subject, config=config, shapes={}, given=tensors)


@pytest.mark.parametrize(
    ("name", "mode"),  # mxfp4 rounds an embedding of its own to bfloat16
    mostly_slow(
        [*product(QUICK, MODES), *((name, "affine") for name in DRAFTERS if name not in QUICK)],
        quick=[(QUICK[0], "affine"), (QUICK[1], "mxfp4")],
    ),
)
def test_matrices_that_come_packed_compute_as_rounded_ones(name, mode):
    with (
        computing_as(GPU),
        mock.patch.object(DrafterFolder, "held_bits", 16),
        mock.patch("engine.drafters.block._share"),  # rounded ones are nearly the target's
    ):
        found = [ours(packed(DRAFTERS[name], mode, unpacked=floats)) for floats in (False, True)]
    assert difference(*found) <= TOLERANCE


@pytest.mark.quick(2)
@pytest.mark.parametrize(("bits", "precision"), [(8, "8-bit"), (16, "bfloat16"), (4, "4-bit")])
def test_a_whole_model_is_held_so_only_as_a_drafter(tmp_path, bits, precision):
    tiny.write_folder("llama", folder := tmp_path / "model", dtype=mx.bfloat16)
    with computing_as(GPU):
        target = load(ModelFolder(folder))
        assert target.precision == "bfloat16"
        held = []

        def loading(files, **options):
            held.append(load(files, **options))
            return held[-1]

        drafters = resolve_drafters(str(folder), target.folder, bits=bits)
        make_drafter(drafters, target=target, decoder=Decoder(target.model), load=loading)
        assert held[0].precision == precision
        expected = weigh(drafters.parts[0].folder).size_bytes
        assert size_bytes(held[0].model) == pytest.approx(expected, rel=0.02)
        words = "as published" if bits == 16 else f"in {bits} bits"
        assert held_as(drafters) == [("model", words)]


def test_the_published_matrices_are_never_all_in_memory_with_the_packed_ones(tmp_path):
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(512, 1024, bias=False) for _ in range(8)]

    network, target = Wide(), tiny.build("llama", layers=1, dtype=mx.bfloat16)
    network.set_dtype(mx.bfloat16)
    mx.save_safetensors(str(tmp_path / "w"), dict(tree_flatten(network.parameters())))
    published = size_bytes(network)
    del network
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    with computing_as(GPU):
        fill(network := Wide(), mx.load(str(tmp_path / "w.safetensors")), target, bits=8)
    assert mx.get_peak_memory() - before < 0.75 * published
    assert size_bytes(network) < 0.54 * published


def test_what_is_packed_stays_as_it_is(tmp_path):
    tiny.write_folder("llama", tmp_path / "model", bits=4)
    folder = DrafterFolder.of_model(ModelFolder(tmp_path / "model"))
    drafters = resolve_drafters(str(folder.path), folder.files, bits=8)
    assert drafters.parts[0].folder == folder
    assert folder.held_bits == 16
    assert weigh(folder).size_bytes == weigh(folder.files).size_bytes


# --- On the CPU, and number types


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [nn.Linear(96, 160), nn.QuantizedLinear(160, 70, bias=False, group_size=32)]
        self.norm = nn.RMSNorm(70)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return self.norm(x)


@pytest.mark.cpu
def test_expanded_it_computes_the_same_and_narrowed_nearly(monkeypatch):
    kept = []
    monkeypatch.setattr(engine.cpu.backend, "keep_narrow", kept.append)
    network = Two()
    x = mx.random.normal((1, 3, 96), key=mx.random.key(3))
    before = network(x)
    mx.eval(before)

    CPU.prepare(network)

    np.testing.assert_allclose(network(x), before, rtol=1e-4, atol=1e-5)
    assert [type(part) for part in network.parts] == [nn.Linear, nn.Linear]
    assert {array.dtype for _, array in tree_flatten(network.parameters())} == {mx.float32}

    CPU.narrow(network)

    assert {id(each) for each in kept} == {id(part.weight) for part in network.parts}
    for each in kept:
        assert each.dtype == mx.float32
        assert mx.array_equal(each, each.astype(mx.bfloat16).astype(mx.float32))
    np.testing.assert_allclose(network(x), before, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_on_a_mac_a_network_gets_its_targets_number_type(dtype):
    tensors = {name: array.astype(mx.float32) for name, array in tree_flatten(Two().parameters())}
    tensors["parts.1.weight"] = Two().parts[1].weight
    network = Two()
    with computing_as(GPU):
        fill(network, tensors, tiny.build("llama", layers=1, dtype=dtype))
    kinds = {name: array.dtype for name, array in tree_flatten(network.parameters())}
    assert kinds.pop("parts.1.weight") == mx.uint32
    assert set(kinds.values()) == {dtype}
    assert network(mx.zeros((1, 2, 96), dtype)).dtype == dtype
