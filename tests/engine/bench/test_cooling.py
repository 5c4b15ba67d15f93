"""When a benchmark lets the machine rest, and how long it says that it will take."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bench import cooling, run
from engine.bench.cooling import Cooling, SlowdownMonitor, hot_in_notifyutil
from engine.bench.figures import seconds_to_go, verdicts_of_flags
from engine.bench.options import BenchOptions
from engine.bench.render import remarks
from engine.bench.report import Measurements
from engine.bench.runners import PLAIN, Measurement, Workload
from engine.conversation.stats import tally
from engine.events import Stats


def told(speeds: list[float], *, limit: float = 0.1) -> SlowdownMonitor:
    monitor = SlowdownMonitor(limit=limit)
    for speed in speeds:
        monitor.measured(speed)
    return monitor


def test_one_slow_measurement_is_an_accident() -> None:
    assert told([10, 10, 10]).fall is None
    assert told([10, 10, 10, 10, 2]).fall == 0.0
    assert told([10, 10, 10, 8, 8]).fall == pytest.approx(0.2)
    assert told([10, 10, 10, 20, 20]).fall == 0.0, "faster is no fall"
    assert told([10, 10, 10, 0, 0]).fall is None, "what has no speed was not measured"


def test_it_rests_while_heat_slows_it_for_a_tenth_of_the_time_at_most() -> None:
    monitor = told([10, 10, 10, 8, 8])
    assert monitor.rest_due(hot=True, elapsed_seconds=9) == 0.0
    assert monitor.rest_due(hot=True, elapsed_seconds=150) == 10.0
    assert monitor.rest_due(hot=True, elapsed_seconds=160) == 6.0
    assert monitor.rest_due(hot=True, elapsed_seconds=160) == 0.0
    assert monitor.rest_due(hot=False, elapsed_seconds=9999) == 0.0, "it is other programs"
    for _ in range(3):
        monitor.measured(10)
    assert monitor.rest_due(hot=True, elapsed_seconds=9999) == 0.0, "it has cooled down"
    assert monitor.reading() == Cooling(pytest.approx(0.2), 0.1, 2, 16.0, hot=True)  # type: ignore[arg-type]


def test_it_rests_only_past_the_limit_and_never_with_none() -> None:
    mild = told([10, 10, 10, 9, 9.5, 9.5])
    assert not mild.slow
    assert mild.rest_due(hot=True, elapsed_seconds=99) == 0.0
    assert told([10, 10, 10, 1, 1], limit=0.0).rest_due(hot=True, elapsed_seconds=99) == 0.0


def test_what_the_system_said_of_heat_is_remembered_once_it_was_asked() -> None:
    monitor = told([10, 10, 10, 5, 5])
    seen = []
    for hot in (None, False, None, True, False):
        monitor.rest_due(hot=hot, elapsed_seconds=0)
        seen.append(monitor.reading().hot)
    assert seen == [None, False, False, True, True]


@given(
    st.lists(
        st.tuples(st.floats(0, 50), st.sampled_from([None, False, True]), st.floats(0, 200)),
        max_size=60,
    )
)
def test_rests_are_for_heat_alone_and_never_more_than_a_tenth(
    story: list[tuple[float, bool | None, float]],
) -> None:
    monitor = told([100, 100, 100])
    elapsed = rested = 0.0
    for speed, hot, seconds in story:
        monitor.measured(speed)
        elapsed += seconds
        rest = monitor.rest_due(hot=hot, elapsed_seconds=elapsed)
        assert rest == 0.0 or hot
        elapsed += rest
        rested += rest
        assert rested <= 0.1 * elapsed + 1e-9
    assert monitor.reading().rest_seconds == rested


@pytest.mark.parametrize(
    ("said", "is_hot"),
    [
        ("com.apple.system.thermalpressurelevel 0\n", False),
        ("com.apple.system.thermalpressurelevel 2\n", True),
        ("com.apple.system.thermalpressurelevel: Failed with code 9\n", None),
        ("", None),
    ],
)
def test_heat_is_read_from_what_macos_prints(said: str, is_hot: bool | None) -> None:
    assert hot_in_notifyutil(said) is is_hot


def test_linux_is_not_asked_and_a_mac_without_the_tool_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError("notifyutil")

    monkeypatch.setattr(cooling.subprocess, "run", absent)
    for platform in ("linux", "darwin"):
        monkeypatch.setattr(sys, "platform", platform)
        assert cooling.is_hot() is None


class Clock:
    """Stands still but for what is done."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Scripted:
    """A runner that takes exactly so long: a reading speed, a writing speed by the clock."""

    def __init__(self, name: str, clock: Clock, speed: Callable[[float], float]) -> None:
        self.name = name
        self._clock, self._speed = clock, speed

    def run(self, workload: Workload) -> Measurement:
        count = 5 if len(workload.prompt) < 60 else workload.limit
        seconds = count / self._speed(self._clock.now)
        reading = len(workload.prompt) / 100
        self._clock.now += reading + seconds
        stats = replace(
            tally(verdicts_of_flags([False] * count, length=0)),
            decode_seconds=seconds,
            prompt_tokens=len(workload.prompt),
            prefill_seconds=reading,
        )
        return Measurement((), stats)


@dataclass(frozen=True)
class Line:
    """Of the progress, and when it came."""

    at: float
    text: str


Benchmark = tuple[Measurements, list[Line], Clock]


@pytest.fixture
def benchmark(
    options: BenchOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Benchmark]:
    """Six prompts, the first a short one with a short answer, for two runners by script.

    After forty seconds the machine has 40 % less for them.
    """

    def measure(**surroundings: Callable[[], bool | None]) -> Benchmark:
        clock, lines = Clock(), list[Line]()
        monkeypatch.setattr(
            run,
            "make_runners",
            lambda *_: [
                Scripted(name, clock, lambda now: 5.0 if now < 40 else 3.0)
                for name in (PLAIN, "ours")
            ],
        )
        monkeypatch.setattr(run, "_measure_roofline", lambda *_: None)
        place = tmp_path / "own.txt"
        place.write_text("a\n" + "".join(f"{letter * 600}\n" for letter in "bcdef"))
        six = replace(options, prompts=place, per_category=6, temperatures=(0.0,), out=None)
        measured = run.run_bench(
            six,
            progress=lambda text: lines.append(Line(clock.now, text)),
            sleep=clock.sleep,
            clock=clock,
            **surroundings,
        )
        assert len(measured.answers) == 12
        return measured, lines, clock

    return measure


def rests_in(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.text.endswith("of rest")]


def test_a_busy_machine_is_not_rested(benchmark: Callable[..., Benchmark]) -> None:
    measured, lines, _ = benchmark(hot=lambda: None)
    assert rests_in(lines) == []
    assert measured.setup.cooling == Cooling(pytest.approx(0.4), 0.15, 0, 0.0, hot=None)  # type: ignore[arg-type]

    measured, lines, _ = benchmark(hot=lambda: False)
    assert rests_in(lines) == []
    assert measured.setup.cooling is not None
    assert measured.setup.cooling.hot is False
    assert any("40%" in line and "reports no heat" in line for line in remarks(measured.report()))


def test_a_hot_machine_is_rested_a_tenth_of_the_time(benchmark: Callable[..., Benchmark]) -> None:
    measured, lines, clock = benchmark(hot=lambda: True)
    cooling = measured.setup.cooling
    assert cooling is not None
    assert cooling.rests == len(rests_in(lines)) > 1
    assert 0 < cooling.rest_seconds <= 0.1 * clock.now
    assert cooling.hot is True
    assert any("let it cool down" in line for line in remarks(measured.report()))


def test_the_time_to_go_does_not_begin_absurdly_low(
    benchmark: Callable[..., Benchmark], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_span", repr)
    _, lines, clock = benchmark(hot=lambda: None)
    estimates = [
        (line.at, float(found[1]))
        for line in lines
        if (found := re.search(r"about (.*) to", line.text))
    ]
    assert len(estimates) == 6
    assert estimates[-1][1] == 0.0
    for at, estimate in estimates[:-1]:
        assert 0.5 < estimate / (clock.now - at) < 1.5, "it slows down to 60 %, which nobody knew"


@given(
    st.lists(st.integers(1, 2000), min_size=2, max_size=20),
    st.integers(1, 19),
    st.integers(1, 4),
    st.integers(2, 200),
)
def test_the_time_to_go_is_right_where_all_answers_are_long(
    prompts: list[int], done: int, each: int, limit: int
) -> None:
    def seconds(chosen: list[int]) -> float:
        return each * sum(0.01 * tokens + 0.2 * limit for tokens in chosen)

    done = min(done, len(prompts))
    answers = [
        Stats(prompt_tokens=tokens, prefill_seconds=0.01 * tokens, plain=limit - 1)
        for tokens in prompts[:done]
        for _ in range(each)
    ]
    estimate = seconds_to_go(
        answers,
        prompts=done,
        left=prompts[done:],
        limit=limit,
        elapsed_seconds=seconds(prompts[:done]),
    )
    assert estimate == pytest.approx(seconds(prompts[done:]))


@given(st.integers(1, 100))
def test_a_short_first_answer_does_not_promise_that_all_are_short(written: int) -> None:
    first = Stats(prompt_tokens=50, prefill_seconds=0.5, plain=written - 1)
    estimate = seconds_to_go(
        [first], prompts=1, left=[50] * 5, limit=100, elapsed_seconds=0.5 + 0.2 * written
    )
    longest = 5 * (0.5 + 0.2 * 100)
    assert 0.5 * longest < estimate <= longest + 1e-9


def test_nothing_measured_promises_nothing() -> None:
    assert seconds_to_go([], prompts=1, left=[50], limit=100, elapsed_seconds=1.0) == 0.0


def test_without_a_limit_nothing_is_gauged(options: BenchOptions) -> None:
    short = replace(options, drafters=(), temperatures=(0.0,), out=None, cool_down=0.0)
    measured = run.run_bench(short, progress=lambda line: None, sleep=lambda seconds: None)
    assert measured.setup.cooling == Cooling(None, 0.0, 0, 0.0)
