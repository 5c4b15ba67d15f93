"""Bytes that a pass reads, against what the memory gives; and a curve's arithmetic."""

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.bench.measure import (
    Bandwidth,
    CurvePoint,
    PassCurve,
    Roofline,
    at_depth,
    cache_bytes,
    reads_all_weights,
    weight_bytes,
)
from engine.core.decoder import Decoder
from tests.support.engine.tiny import build


def test_a_pass_reads_all_weights_but_an_embedding_that_is_no_output_layer():
    separate, tied = build("llama"), build("lfm2")
    table = 64 * 64 * 4
    everything = sum(
        array.nbytes for module in separate.modules() for array in module.values()
        if isinstance(array, mx.array)
    )  # fmt: skip
    assert weight_bytes(separate) == everything - table
    assert weight_bytes(tied) > table
    assert weight_bytes(build("lfm2", vocabulary=128)) - weight_bytes(tied) == table


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "mamba"])
def test_caches_count_what_is_in_them(architecture):
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


def test_shares_of_the_bandwidth():
    roofline = Roofline(Bandwidth(1000.0, "sum"), weight_bytes=80, cache_bytes=20, depth=5)
    assert roofline.passes_per_second == 10.0
    assert roofline.share(passes=5, seconds=1.0) == 0.5
    assert roofline.share(passes=5, seconds=0.0) is None


def test_a_mixture_of_experts_is_told_from_a_model_that_reads_all():
    class QuantizedSwitchLinear(nn.Module):  # as mlx-lm calls them
        pass

    model = nn.Module()
    assert reads_all_weights(model)
    model.experts = QuantizedSwitchLinear()
    assert not reads_all_weights(model)


def linear(slope, step=0.0):
    """A plain pass takes 10 ms, each further row `slope` of that, a drafted token `step` of it."""
    points = tuple(CurvePoint(rows, 0.01 * (1 + slope * (rows - 1))) for rows in (1, 2, 4, 8))
    return PassCurve(9, points, "model", 0.01 * step)


def test_what_drafting_can_gain_by_a_curve_between_its_points_and_beyond():
    curve = linear(0.5)
    assert [curve.relative(rows) for rows in (1, 3, 8, 10)] == pytest.approx([1, 2, 4.5, 5.5])
    assert PassCurve(9, (CurvePoint(1, 0.5),)).relative(3) == 3
    free = linear(0.0)
    assert free.by_rows.gain(3, acceptance=1.0) == pytest.approx(4.0)
    assert free.by_rows.gain(3, acceptance=0.5) == pytest.approx(1.875)
    assert free.best(acceptance=0.9)[0] == 7
    dear = linear(1.0)  # every row costs a plain pass, as on a CPU with quantized weights
    assert dear.best(acceptance=1.0)[1] == pytest.approx(1.0)
    assert dear.best(acceptance=0.5) == (0, 1.0)
    assert linear(0.0, step=1.0).best(acceptance=0.9) == (0, 1.0)
