"""The benchmark of the window: its rounds, its host, its figures; a tiny one runs in whole."""

import json
import subprocess
import sys
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rounds.trace import Trace
from engine.conversation.stats import tally
from engine.events import Done, Prefill, Stats
from engine.process.protocol import Cancel, Response
from tests.lab.window_benchmark.frames import Frame, by_thousand, growth, summarize
from tests.lab.window_benchmark.host import CommandRunner, play
from tests.lab.window_benchmark.rounds import committed, made_rounds, made_text
from tests.lab.window_benchmark.run import Opening, Report, Run, as_json, as_text, main
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, ROOT

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)


@given(characters=st.integers(0, 4000), longest=st.integers(2, 8))
def test_the_rounds_are_an_answer_and_keep_the_laws(characters: int, longest: int) -> None:
    text = made_text(characters)
    assert len(text) >= characters
    rounds = list(made_rounds(text, generation="g", longest=longest))
    events = [event for events in rounds for event in events]
    told = Trace(events).pieces
    assert "".join(piece.text for piece in told if piece.written) == text
    stats = tally(events)
    assert sum(map(committed, rounds)) == stats.committed
    assert stats.proposed == stats.accepted + stats.rejected + stats.discarded


def test_the_text_has_everything_and_tokens_of_about_four_characters() -> None:
    text = made_text(5000)
    for sign in ("## ", "- **", "  1. ", "|---|", "```python", "> ", "`"):
        assert sign in text
    events = [event for events in made_rounds(text, generation="g") for event in events]
    told = Trace(events).pieces
    assert {piece.kind for piece in told} == {
        *("accepted", "rejected", "discarded", "correction", "bonus", "plain")
    }
    assert 3.0 < len(text) / tally(events).committed < 5.0
    assert made_text(5000) == text


class Clock:
    """Time passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def played(*commands: Cancel) -> tuple[list[Response], float]:
    clock, said = Clock(), list[Response]()
    queue: CommandRunner = SimpleQueue()
    for command in commands:
        queue.put(command)
    play(
        "g",
        made_text(1000),
        speed=200.0,
        commands=queue,
        say=said.append,
        clock=lambda: clock.now,
        sleep=clock.sleep,
    )
    return said, clock.now


def test_it_plays_at_the_speed_that_is_asked_for() -> None:
    said, seconds = played()
    assert isinstance(said[0], Prefill)
    done = said[-1]
    assert isinstance(done, Done)
    assert done.reason == "stop"
    assert seconds == pytest.approx(done.stats.committed / 200.0, abs=0.05)


def test_a_cancelled_one_ends() -> None:
    said, _ = played(Cancel("another"), Cancel("g"))
    assert said[1:] == [Done("g", "cancelled", Stats(64, 0, 0.01))]


def frames(*milliseconds: float, characters: int = 0) -> list[Frame]:
    return [Frame(ms / 1000, ms / 2000, characters) for ms in milliseconds]


def test_figures_of_frames() -> None:
    summary = summarize(frames(*range(1, 101)))
    assert (summary.frames, summary.max_ms, summary.mean_ms) == (100, 100.0, 50.5)
    assert summary.p50_ms == pytest.approx(51.0)
    assert summary.p99_ms == pytest.approx(100.0)
    assert summary.processor_max_ms == pytest.approx(50.0)


def test_growth_is_seen_and_flatness_too() -> None:
    flat = [f for thousand in range(30) for f in frames(*[4] * 9, characters=1000 * thousand)]
    assert growth(flat) == pytest.approx(1.0)
    steep = [
        f for thousand in range(30) for f in frames(*[1 + thousand] * 9, characters=1000 * thousand)
    ]
    grown = growth(steep)
    assert grown is not None
    assert grown > 3
    assert list(by_thousand(steep)) == list(range(30))
    assert growth(flat[:3]) is None


def test_what_is_printed() -> None:
    run = Run("light", tuple(frames(3, 5, characters=1200)), tuple(frames(9)), 2000)
    report = Report((0.5, 0.7), (Opening(600, 0.25, 0.125, 3),), (run,))
    text = as_text(report)
    for shown in (
        "0.50, 0.70 s",
        "light, 2,000 characters",
        "from 1,000",
        "5.0",
        "at its end",
        "0.25 s",
    ):
        assert shown in text
    figures = json.loads(json.dumps(as_json(report)))
    assert figures["first_paint_seconds"] == [0.5, 0.7]
    assert figures["openings"][0]["laid_out"] == 3
    assert figures["runs"][0]["by_thousand"]["1"]["max_ms"] == pytest.approx(5.0)
    assert figures["runs"][0]["growth"] is None


def test_a_tiny_benchmark_of_the_real_window() -> None:
    """In a process of its own, as it is run: it changes how garbage is collected."""
    command = [sys.executable, "-m", "tests.lab.window_benchmark.run", "--json", "--starts", "1"]
    done = subprocess.run(
        [*command, "--characters", "900", "--speed", "1500", "--messages", "40"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout)
    (start,) = figures["first_paint_seconds"]
    assert 0.0 < start < 60.0
    assert len(figures["openings"]) == 3
    for opening in figures["openings"]:
        assert opening["messages"] == 40
        assert opening["processor_seconds"] > 0.0
        assert 0 < opening["laid_out"] < 10
    runs = figures["runs"]
    for run in runs:
        assert run["characters"] == len(made_text(900))
        whole = run["whole"]
        assert whole["frames"] >= 5
        assert 0.0 < whole["p50_ms"] <= whole["p99_ms"] <= whole["max_ms"]
        assert 0.0 < whole["processor_p50_ms"] <= whole["processor_max_ms"]
        assert set(run["by_thousand"]) <= {"0", "1"}
    assert len({run["name"] for run in runs}) == len(runs) == 3


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--fast"])
    assert "--characters" in capsys.readouterr().err
