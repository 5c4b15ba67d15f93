"""Bytes that a pass reads, against what the memory gives; and a curve's arithmetic."""

from itertools import count, pairwise
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.speculate
from engine.bench.measure import (
    Bandwidth,
    CurvePoint,
    PassCurve,
    Roofline,
    accept_cost,
    at_depth,
    cache_bytes,
    measure_bandwidth,
    measure_curve,
    reads_all_weights,
    weight_bytes,
)
from engine.core.accept import by_block
from engine.core.decoder import Decoder
from tests.support.engine.tiny import build


def test_a_pass_reads_all_weights_but_an_embedding_that_is_no_output_layer() -> None:
    separate, tied = build("llama"), build("lfm2")
    table = 64 * 64 * 4
    everything = sum(
        array.nbytes for module in separate.modules() for array in module.values()
        if isinstance(array, mx.array)
    )  # fmt: skip
    assert weight_bytes(separate) == everything - table
    assert weight_bytes(tied) > table
    assert weight_bytes(build("lfm2", vocabulary=128)) - weight_bytes(tied) == table


def test_quantized_weights_count_as_they_are_held() -> None:
    # 4 bits and two half-precision or float numbers for each group of 32.
    share = weight_bytes(build("llama", bits=4)) / weight_bytes(build("llama"))
    assert 4 / 32 < share < 7 / 32


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "mamba"])
def test_caches_count_what_is_in_them(architecture: str) -> None:
    decoder = Decoder(build(architecture))
    with at_depth(decoder, 10):
        few = cache_bytes(decoder)
    with at_depth(decoder, 40):
        many = cache_bytes(decoder)
    assert decoder.length == 0
    if architecture == "llama":
        keys_and_values, layers, heads, width, size = 2, 4, 2, 16, 4
        one = keys_and_values * layers * heads * width * size
        assert few == pytest.approx(10 * one, rel=0.01)
        assert many == pytest.approx(40 * one, rel=0.01)
    elif architecture == "mamba":
        assert few == many > 0
    else:
        assert few < many


def test_shares_of_the_bandwidth() -> None:
    roofline = Roofline(Bandwidth(1000.0, "sum"), weight_bytes=80, cache_bytes=20, depth=5)
    assert roofline.passes_per_second == 10.0
    assert roofline.share(passes=5, seconds=1.0) == 0.5
    assert roofline.share(passes=5, seconds=0.0) is None


def test_a_mixture_of_experts_is_told_from_a_model_that_reads_all() -> None:
    class QuantizedSwitchLinear(nn.Module):  # as mlx-lm calls them
        pass

    model = nn.Module()
    assert reads_all_weights(model)
    model.experts = QuantizedSwitchLinear()
    assert not reads_all_weights(model)


def test_the_probe_names_what_was_quickest() -> None:
    bandwidth = measure_bandwidth(1 << 16)
    assert bandwidth.bytes_per_second > 0
    assert bandwidth.probe in ("row times matrix", "sum")


def test_acceptance_costs_something_and_the_model_that_costs_nothing_does_not_show() -> None:
    for temperature in (0.0, 1.0):
        cost = accept_cost(vocabulary=64, temperature=temperature, rule=by_block, dtype=mx.float32)
        assert cost.temperature == temperature
        assert cost.seconds(rounds=1, rows=5) > 0
        assert cost.seconds(rounds=2, rows=10) == pytest.approx(2 * cost.seconds(rounds=1, rows=5))


def test_a_curve_is_measured_behind_the_depth_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build("gemma3_text", layers=2)  # whose sliding window changes shape about there
    decoder = Decoder(model)
    now, reading = 0.0, engine.speculate.read_together

    def of_a_millisecond(*args: Any) -> list[mx.array]:
        nonlocal now
        now += 1e-3
        return reading(*args)

    monkeypatch.setattr(engine.speculate, "perf_counter", lambda: now)
    monkeypatch.setattr(engine.speculate, "read_together", of_a_millisecond)
    with at_depth(decoder, 120) as tokens:
        held = cache_bytes(decoder)
        curve = measure_curve(decoder, tokens)
        assert (decoder.length, cache_bytes(decoder)) == (120, held)
    assert decoder.length == 0
    assert curve is not None
    assert curve.depth >= 120
    rows = [point.rows for point in curve.points]
    assert rows[0] == 1
    assert rows == sorted(rows)
    assert all(point.seconds == pytest.approx(1e-3) for point in curve.points)


def test_no_curve_is_drawn_from_timings_that_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Decoder(build("llama", layers=1))
    ticks = count()
    monkeypatch.setattr(engine.speculate, "perf_counter", lambda: next(ticks) ** 3 * 1e-3)
    with at_depth(decoder, 20) as tokens:
        assert measure_curve(decoder, tokens) is None
    assert decoder.length == 0


def linear(slope: float, step: float = 0.0) -> PassCurve:
    """A plain pass takes 10 ms, each further row `slope` of that, a drafted token `step` of it."""
    points = tuple(CurvePoint(rows, 0.01 * (1 + slope * (rows - 1))) for rows in (1, 2, 4, 8))
    return PassCurve(9, points, "model", 0.01 * step)


def test_a_curve_between_its_points_and_beyond() -> None:
    curve = linear(0.5)
    assert [curve.relative(rows) for rows in (1, 3, 8, 10)] == pytest.approx([1, 2, 4.5, 5.5])
    assert PassCurve(9, (CurvePoint(1, 0.5),)).relative(3) == 3


def test_what_drafting_can_gain() -> None:
    free = linear(0.0)
    assert free.by_rows.gain(3, acceptance=1.0) == pytest.approx(4.0)
    assert free.by_rows.gain(3, acceptance=0.5) == pytest.approx(1.875)
    assert free.best(acceptance=0.9)[0] == 7
    dear = linear(1.0)  # every row costs a plain pass, as on a CPU with quantized weights
    assert dear.best(acceptance=1.0)[1] == pytest.approx(1.0)
    assert dear.best(acceptance=0.5) == (0, 1.0)
    assert linear(0.0, step=1.0).best(acceptance=0.9) == (0, 1.0)


@settings(deadline=None)
@given(st.floats(0, 2), st.floats(0, 2), st.floats(0, 1))
def test_more_acceptance_never_gains_less(slope: float, step: float, acceptance: float) -> None:
    curve = linear(slope, step)
    gains = [curve.best(acceptance=a)[1] for a in (0.0, acceptance / 2, acceptance, 1.0)]
    assert gains[0] >= 1.0
    assert all(first <= second + 1e-9 for first, second in pairwise(gains))
