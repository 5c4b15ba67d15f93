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
    ("evidence", "asked", "used", "tried"),
    [
        (Evidence("on", ""), {}, 1, False),
        (SLOW, {}, 0, False),
        (SLOW, {"slow": True}, 1, False),
        (OTHER_BITS, {"slow": True}, 0, False),
        (OTHER_BITS, {"again": True}, 0, False),
        (LOST, {"slow": True}, 0, False),
        (LOST, {"again": True}, 0, True),
    ],
)
def test_what_is_used_is_what_was_seen_here(evidence, asked, used, tried, store):
    """Other bits once are off for ever, and what was lost is tried when that is asked for."""
    store.keep(asdict(SHAPE) | HERE, {"seen": asdict(evidence)})
    orders = store.folder / "orders"
    script = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    count, words = kernels(store, script, str(orders), **asked)
    assert (count, orders.exists()) == (used, tried)
    assert words.startswith(f"on for {used} of 1 shapes")
    assert evidence.why in words
    assert kernels(store, machine={"mlx": "0.33.0"}, **asked)[0] == 0  # the child has died


def test_a_child_that_hangs_is_ended(store):
    script = "import sys, time; time.sleep(5); open(sys.argv[1], 'w')"
    assert kernels(store, script, str(store.folder / "ended"), limit_seconds=0.1)[0] == 0
    assert not (store.folder / "ended").exists()


@pytest.mark.slow
def test_a_child_on_this_machine_says_what_it_saw(store):
    layer = nn.QuantizedLinear(256, 32, group_size=32, bits=4)
    used, words = kernels_for(layer, store=store, machine=MACHINE)
    assert not used
    assert "metal" in words.lower()


def test_chips_without_a_report_a_changed_header_and_a_switch_are_off(store, monkeypatch):
    unreported = {"chip": "Apple M5 Pro"}
    for here in (HERE, HERE | unreported):
        store.keep(asdict(SHAPE) | here, {"seen": asdict(Evidence("on", ""))})
    assert kernels(store)[0] == 1
    assert kernels(store, machine=unreported)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(header, "read", mock.Mock(side_effect=header.HeaderChanged))
        assert kernels(store)[0] == 0
    with monkeypatch.context() as patch:
        patch.setenv("SLIPSTREAM_FEW_ROWS", "off")
        assert kernels(store)[0] == 0
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    assert kernels(store)[0] == 0


@needs_a_compiler
def test_metal_s_own_text_passes_its_trial(store, monkeypatch):
    monkeypatch.setattr(few_rows, "product", partial(few_rows.product, run=SHIM.metal_kernel))
    monkeypatch.setattr(trial, "_TIMED_ROWS", ())
    with on_metal():
        try_all(store, HERE, [SHAPE])
    assert seen(store) == Evidence("on", "")


def test_a_changed_source_is_noticed(tmp_path):
    """Of MLX, out of which the kernel's functions are cut."""
    source, place = header.installed().read_text(encoding="utf-8"), tmp_path / "quantized.h"
    digests = set[str]()
    for old, new in [("", ""), ("accum += x_thread[i] * w[i];", "accum += w[i] * x_thread[i];")]:
        place.write_text(source.replace(old, new), encoding="utf-8")
        digests.add(header.read(place).digest)
    assert len(digests) == 2
    assert header.read().digest in digests
    gone = source.replace("inline U qdot(", "inline U dot(")
    twice = source + source[source.index("template <int bits, int wsize = 8>") :]
    for other in ("", gone, twice, source[: source.index("inline U qdot_safe(") + 400]):
        place.write_text(other, encoding="utf-8")
        with pytest.raises(header.HeaderChanged):
            header.read(place)
    place.unlink()
    with pytest.raises(header.HeaderChanged):
        header.read(place)
