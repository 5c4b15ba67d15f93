"""When a benchmark lets the machine rest."""

from dataclasses import replace

import pytest

from engine.bench.cooling import Cooling, Thermometer
from engine.bench.options import BenchOptions
from engine.bench.run import run_bench


def told(speeds: list[float], *, limit: float = 0.1) -> Thermometer:
    thermometer = Thermometer(limit=limit)
    for speed in speeds:
        thermometer.measured(speed)
    return thermometer


def test_one_slow_measurement_is_an_accident() -> None:
    assert told([10, 10, 10]).fall is None
    assert told([10, 10, 10, 10, 2]).fall == 0.0
    assert told([10, 10, 10, 8, 8]).fall == pytest.approx(0.2)
    assert told([10, 10, 10, 20, 20]).fall == 0.0, "faster is no fall"
    assert told([10, 10, 10, 0, 0]).fall is None, "what has no speed was not measured"


def test_it_rests_while_it_is_slow_for_half_of_the_working_time_at_most() -> None:
    thermometer = told([10, 10, 10, 8, 8])
    assert thermometer.rest_due(working_seconds=1) == 0.0
    assert thermometer.rest_due(working_seconds=30) == 10.0
    assert thermometer.rest_due(working_seconds=30) == 5.0
    assert thermometer.rest_due(working_seconds=30) == 0.0
    for _ in range(3):
        thermometer.measured(10)
    assert thermometer.rest_due(working_seconds=999) == 0.0, "it has cooled down"
    assert thermometer.reading() == Cooling(pytest.approx(0.2), 0.1, 2, 15.0)  # type: ignore[arg-type]


def test_it_rests_only_past_the_limit_and_never_with_none() -> None:
    assert told([10, 10, 10, 9, 9.5, 9.5]).rest_due(working_seconds=99) == 0.0
    assert told([10, 10, 10, 1, 1], limit=0.0).rest_due(working_seconds=99) == 0.0


def test_a_benchmark_rests_and_says_so(
    options: BenchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Thermometer, "fall", property(lambda self: 0.4))
    monkeypatch.setattr(
        Thermometer, "rest_due", lambda self, *, working_seconds: 3.0 * (working_seconds > 0)
    )
    slept: list[float] = []
    lines: list[str] = []
    short = replace(options, drafters=(), temperatures=(0.0,), out=None)

    report = run_bench(short, progress=lines.append, sleep=slept.append)

    assert slept == [3.0] * 3, "before everyone but the very first"
    assert "40% slower than at first: 3 s of rest" in lines
    assert report.cooling is not None
    assert report.cooling.fall == 0.4


def test_without_a_limit_nothing_is_gauged(options: BenchOptions) -> None:
    short = replace(options, drafters=(), temperatures=(0.0,), out=None, cool_down=0.0)
    report = run_bench(short, progress=lambda line: None, sleep=lambda seconds: None)
    assert report.cooling == Cooling(None, 0.0, 0, 0.0)
