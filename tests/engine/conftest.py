"""For the engine's tests."""

from dataclasses import replace

import mlx.core as mx
import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.circumstances import Contention, ProcessorTimes
from engine.device import BACKENDS, CPU
from tests.support.engine.tiny import byte_tokenizer

END = 256


class Calm(Contention):
    """Of a machine that does nothing else."""

    def __init__(self):
        super().__init__(lambda: ProcessorTimes(0.0, 0.0, 0.0))


@pytest.fixture(autouse=True)
def calm(monkeypatch):
    """What is remembered must not depend on what runs beside the tests. To time a GPU's kernels on
    a CPU takes seconds for each model, and says nothing."""
    monkeypatch.setattr("engine.conversation.pair_costs.Contention", Calm)
    monkeypatch.setattr("engine.core.split_attention._pays", lambda *given: False)


@pytest.fixture
def on_the_cpu():
    """The CPU, where greedy texts are equal to the letter."""
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


@pytest.fixture(params=[False, True], ids=["in turn", "beside the host"])
def beside_host(request, monkeypatch):
    """Whether the loop takes the device for one that runs beside the host."""
    beside = request.param
    monkeypatch.setitem(BACKENDS, mx.cpu, replace(CPU, beside_host=beside))
    return beside


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    byte_tokenizer(folder)
    return load_tokenizer(folder, eos_token_ids=[END])
