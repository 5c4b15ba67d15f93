"""A kernel is used where it was right and quick on this machine, and never otherwise."""

import sys
from dataclasses import asdict, replace
from functools import partial
from unittest import mock

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.draft_length.calibrations import CalibrationStore
from engine.metal import few_rows, header, trial
from engine.metal.few_rows import Shape
from engine.metal.trial import Evidence, kernels_for, try_all
from tests.support.metal.device import SHIM, on_metal
from tests.support.metal.shim import needs_a_compiler

MACHINE = {"chip": "Apple M3 Max", "system": "26.2", "mlx": "0.32.4"}
HERE = MACHINE | {"header": header.read().digest}
SHAPE = Shape(32, 256, 4, 32, "float32", "affine")
LOST, OTHER_BITS = Evidence(), Evidence("off", "2 rows have other bits")
SLOW = Evidence("slow", "1.50 times as long as MLX")
QUIET = (sys.executable, "-I", "-S", "-c")


def by_rows(layer, x):
    return mx.concatenate([layer(row) for row in mx.split(x, len(x))])


def rounding(layer, x):
    return by_rows(layer, x) * (1 + 2.0**-20)  # which bfloat16 hides


def failing(layer, x):
    raise RuntimeError("not compiled")


def seen(store, shape=SHAPE):
    return Evidence(**store.found(asdict(shape) | HERE)["seen"])


@pytest.fixture
def store(tmp_path):
    return CalibrationStore(tmp_path)


@pytest.fixture(autouse=True)
def _with_metal(monkeypatch):
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)


@pytest.mark.parametrize(
    ("product", "slower", "found"),
    [
        (by_rows, 0.0, Evidence("on", "")),
        (by_rows, 0.5, SLOW),
        (rounding, 0.0, Evidence("off", "2 rows of float32 have other bits")),
        (failing, 0.0, Evidence("off", "RuntimeError: not compiled")),
        (lambda *_: sys.exit("killed"), 0.0, LOST),
    ],
    ids=["right", "slow", "rounds by rows", "fails", "dies"],
)
def test_a_trial_ends_in_a_verdict_on_disk(product, slower, found, store, monkeypatch):
    now, shape = 0.0, replace(SHAPE, dtype="bfloat16")

    def tried(layer, x):
        nonlocal now
        now += slower / 4  # of the matrices that are timed together
        assert seen(store, shape) == LOST  # before anything is tried
        return product(layer, x)

    def clock():
        nonlocal now
        now += 1.0
        return now

    monkeypatch.setattr(few_rows, "product", tried)
    monkeypatch.setattr(trial, "perf_counter", clock)
    try:
        try_all(store, HERE, [shape])
    except SystemExit:
        assert found == LOST
    assert seen(store, shape) == found


def kernels(store, *command, **options):
    """How many shapes may be used of a model with one, where a child does this."""
    layer = nn.QuantizedLinear(256, 32, group_size=32, bits=4)
    machine = MACHINE | options.pop("machine", {})
    command = (*QUIET, *(command or ["import os; os._exit(9)"]))
    used, words = kernels_for(layer, store=store, machine=machine, command=command, **options)
    return len(used), words


@pytest.mark.parametrize(
    ("evidence", "slow", "used"),
    [
        (Evidence("on", ""), False, 1),
        (SLOW, False, 0),
        (SLOW, True, 1),
        (OTHER_BITS, True, 0),
        (LOST, True, 0),
    ],
)
def test_what_is_used_is_what_was_seen_here(evidence, slow, used, store):
    store.keep(asdict(SHAPE) | HERE, {"seen": asdict(evidence)})
    count, words = kernels(store, slow=slow)
    assert count == used
    assert words.startswith(f"on for {used} of 1 shapes")
    assert evidence.why in words
    assert kernels(store, slow=slow, machine={"mlx": "0.33.0"})[0] == 0  # the child has died


@pytest.mark.parametrize(
    ("evidence", "again", "tried"),
    [(OTHER_BITS, True, False), (LOST, False, False), (LOST, True, True)],
)
def test_other_bits_once_are_off_for_ever_and_what_was_lost_is_tried_when_asked(
    evidence, again, tried, store
):
    store.keep(asdict(SHAPE) | HERE, {"seen": asdict(evidence)})
    orders = store.folder / "orders"
    script = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    kernels(store, script, str(orders), again=again)
    assert orders.exists() == tried


def test_a_child_that_hangs_is_ended(store):
    script = "import sys, time; time.sleep(5); open(sys.argv[1], 'w')"
    words = kernels(store, script, str(store.folder / "ended"), limit_seconds=0.1)[1]
    assert words == "on for 0 of 1 shapes; off (the trial did not come back)"
    assert not (store.folder / "ended").exists()


@pytest.mark.slow
def test_a_child_on_this_machine_says_what_it_saw(store):
    layer = nn.QuantizedLinear(256, 32, group_size=32, bits=4)
    used, words = kernels_for(layer, store=store, machine=MACHINE)
    assert not used
    assert "metal" in words.lower()


def test_chips_without_a_report_a_changed_header_and_a_switch_are_off(store, monkeypatch):
    store.keep(asdict(SHAPE) | HERE, {"seen": asdict(Evidence("on", ""))})
    assert kernels(store)[0] == 1
    assert "until a report" in kernels(store, machine={"chip": "Apple M5 Pro"})[1]
    lacks = "MLX's quantized.h has 0 functions named qdot."
    changed = mock.Mock(side_effect=header.HeaderChanged(lacks))
    with monkeypatch.context() as patch:
        patch.setattr(header, "read", changed)
        assert kernels(store) == (0, f"off: {lacks}")
    with monkeypatch.context() as patch:
        patch.setenv("SLIPSTREAM_FEW_ROWS", "off")
        assert kernels(store) == (0, "off, as SLIPSTREAM_FEW_ROWS says")
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    assert kernels(store) == (0, "off: this machine has no Metal")


@needs_a_compiler
def test_metal_s_own_text_passes_its_trial(store, monkeypatch):
    monkeypatch.setattr(few_rows, "product", partial(few_rows.product, run=SHIM.metal_kernel))
    monkeypatch.setattr(trial, "_TIMED_ROWS", ())
    with on_metal():
        try_all(store, HERE, [SHAPE])
    assert seen(store) == Evidence("on", "")
