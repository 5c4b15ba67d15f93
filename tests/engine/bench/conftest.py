"""For the benchmark's tests: the CPU, a tiny pair, one whole run, and probes that take no time."""

import json
from functools import partial

import mlx.core as mx
import pytest

from engine.bench import run, runners
from engine.bench.measure import measure_roofline
from engine.bench.options import BenchOptions
from engine.bench.run import run_bench
from engine.draft_length.calibrate import calibrate
from models.model_folder import ModelFolder
from tests.support.engine.tiny import noisy, save, write_folder


@pytest.fixture(scope="package", autouse=True)
def surroundings():
    """The CPU, where texts are equal, and small probes."""
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "measure_roofline", partial(measure_roofline, probe_bytes=1 << 20))
        patch.setattr(runners, "calibrate", partial(calibrate, budget_seconds=0.02))
        yield
    mx.set_default_device(before)


@pytest.fixture(scope="package")
def options(tmp_path_factory):
    """Two prompts for a tiny target, with a tiny drafter that is wrong now and then."""
    folder = tmp_path_factory.mktemp("bench")
    model = write_folder("llama", folder / "target", layers=1)
    write_folder("llama", folder / "tiny", layers=1)
    config = json.loads((folder / "tiny" / "config.json").read_text())
    save(noisy(model), config, folder / "tiny")
    (folder / "own.txt").write_text("Why is the sky blue, said the fox\nabababababab\n")
    return BenchOptions(
        target=ModelFolder(folder / "target"),
        drafters=("lookup", str(folder / "tiny")),
        drafter_bits=16,  # as mlx-lm drafts, so that both draft the same tokens
        lengths=("3",),
        prompts=folder / "own.txt",
        max_tokens=8,
        temperatures=(0.0, 1.0),
        out=folder / "report.json",
    )


@pytest.fixture(scope="package")
def measured(options):
    return run_bench(options, progress=lambda line: None)


@pytest.fixture(scope="package")
def report(measured):
    return measured.report()
