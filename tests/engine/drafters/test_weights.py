"""A drafter's weights on the CPU: expanded, and the same results."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

import engine.cpu.backend
from engine.device import CPU, GPU
from engine.drafters.weights import fill
from tests.support.engine.backends import computing_as
from tests.support.engine.tiny import build

on_cpu = pytest.mark.skipif(mx.default_device() != mx.cpu, reason="elsewhere weights stay")


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [nn.Linear(96, 160), nn.QuantizedLinear(160, 70, bias=False, group_size=32)]
        self.norm = nn.RMSNorm(70)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        result = self.norm(x)
        return result


@pytest.mark.cpu
@on_cpu
def test_expanded_it_computes_the_same():
    network = Two()
    x = mx.random.normal((1, 3, 96), key=mx.random.key(3))
    before = network(x)
    mx.eval(before)

    CPU.prepare(network)

    after = network(x)
    assert after.shape == before.shape
    assert np.allclose(np.array(after), np.array(before), rtol=1e-4, atol=1e-5)
    assert [type(part) for part in network.parts] == [nn.Linear, nn.Linear]
    assert {array.dtype for _, array in tree_flatten(network.parameters())} == {mx.float32}


@pytest.mark.cpu
@on_cpu
def test_narrowed_it_computes_nearly_the_same(monkeypatch):
    kept = list[mx.array]()
    monkeypatch.setattr(engine.cpu.backend, "keep_narrow", kept.append)
    network = Two()
    x = mx.random.normal((1, 3, 96), key=mx.random.key(3))
    CPU.prepare(network)
    before = network(x)

    CPU.narrow(network)

    assert {id(each) for each in kept} == {id(part.weight) for part in network.parts}
    for each in kept:
        assert each.dtype == mx.float32
        assert mx.array_equal(each, each.astype(mx.bfloat16).astype(mx.float32))
    assert np.allclose(np.array(network(x)), np.array(before), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_on_a_mac_a_network_gets_its_targets_number_type(dtype):
    tensors = {name: array.astype(mx.float32) for name, array in tree_flatten(Two().parameters())}
    tensors["parts.1.weight"] = Two().parts[1].weight
    network = Two()
    with computing_as(GPU):
        fill(network, tensors, build("llama", layers=1, dtype=dtype))
    kinds = {name: array.dtype for name, array in tree_flatten(network.parameters())}
    assert kinds.pop("parts.1.weight") == mx.uint32
    assert set(kinds.values()) == {dtype}
    assert network(mx.zeros((1, 2, 96), dtype)).dtype == dtype
