"""A race compares token by token, leaves the drafting as it was, and can be stopped."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import EngineProcess
from app.models.loader import ModelLoader
from app.race.dialog import RaceDialog, result_text
from app.race.race import Race, RaceDifference, RaceResult, compare_answers
from app.rounds.trace import Trace
from app.settings import Pair, Settings
from engine.events import Event, Stats, Verdict
from engine.request import ChatMessage, Request, Sampling
from engine.rounds import Token
from engine.stats import tally
from models.errors import Problem
from tests.support.app.engine_listener import TIMEOUT_SECONDS
from tests.support.app.made_traces import made_trace
from tests.support.app.traces import traces
from tests.support.app.window_maker import events_file, fake_host

TEXT = "One two three, four five six, seven eight nine, and so on until the end."
PLAIN, SPECULATIVE = made_trace(TEXT, longest=0), made_trace(TEXT)
LINES = (ChatMessage("user", "Count."),)


def test_the_same_tokens_are_identical_however_they_were_drafted() -> None:
    result = compare_answers(Trace(PLAIN), Trace(SPECULATIVE))
    assert result.difference is None
    assert result.tokens == tally(PLAIN).committed == tally(SPECULATIVE).committed
    assert result.ratio == pytest.approx(
        tally(PLAIN).decode_seconds / tally(SPECULATIVE).decode_seconds
    )
    assert f"{result.tokens} tokens" in result_text(result)


def test_the_first_difference_with_its_margin() -> None:
    at = next(n for n, e in enumerate(PLAIN) if isinstance(e, Verdict) and e.round == 5)
    event = PLAIN[at]
    assert isinstance(event, Verdict)
    assert event.next is not None
    other = replace(event, next=replace(event.next, id=-1, text=" x", p=0.5))
    result = compare_answers(Trace((*PLAIN[:at], other, *PLAIN[at + 1 :])), Trace(SPECULATIVE))
    assert result.tokens == 4
    difference = result.difference
    assert difference is not None
    assert (difference.place, difference.plain) == (5, Token(-1, " x", "plain", p=0.5))
    assert difference.speculative is not None
    assert difference.margin == pytest.approx(abs(0.5 - difference.speculative.p))
    assert "token 5" in result_text(result)
    assert "“·x” (p = 0.5)" in result_text(result)


def test_an_answer_that_ends_early_differs_at_its_end() -> None:
    cut = tuple(e for e in PLAIN if not (isinstance(e, Verdict) and e.round > 3))
    result = compare_answers(Trace(cut), Trace(SPECULATIVE))
    assert result.difference is not None
    assert (result.difference.place, result.difference.plain) == (4, None)
    assert result.difference.margin is None
    assert "ended" in result_text(result)


def test_without_a_draft_there_is_no_speed_to_compare() -> None:
    result = compare_answers(Trace(PLAIN), Trace(PLAIN))
    assert result.speculative.proposed == 0
    assert f"{result.ratio:.2f}" not in result_text(result)


def test_nothing_measured_is_no_speed() -> None:
    nothing = RaceResult(0, None, Stats(), Stats())
    assert nothing.ratio is None
    assert "0 tokens" in result_text(nothing)
    assert RaceDifference(1, None, None).margin is None


@given(traces())
def test_any_trace_is_identical_to_itself(events: tuple[Event, ...]) -> None:
    result = compare_answers(Trace(events), Trace(events))
    assert result.difference is None
    assert result.tokens == tally(events).committed


class RaceSetup:
    """Attributes: `race`, `engine`, `loader`; `ends`, the results and problems so far."""

    def __init__(self, folder: Path, steps: str, qtbot: QtBot) -> None:
        self._qtbot = qtbot
        stored = QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat)
        self.settings = Settings(stored)
        self.settings.pair = Pair("/models/tiny", "lookup", "4")
        self.engine = EngineProcess(
            EngineLog(folder), command=fake_host(folder, steps), delays_seconds=(0.0,)
        )
        self.loader = ModelLoader(self.engine, self.settings)
        self.race = Race(self.engine, self.loader)
        self.ends: list[RaceResult | Problem] = []
        self.race.finished.connect(self.ends.append)
        self.race.failed.connect(self.ends.append)
        self.loader.begin()
        self.until(lambda: self.loader.loaded)

    def until(self, holds: Callable[[], object]) -> None:
        self._qtbot.waitUntil(lambda: bool(holds()), timeout=TIMEOUT_SECONDS * 1000)

    @property
    def drafting(self) -> tuple[str, str]:
        loaded = self.loader.loaded
        return (loaded.drafter, loaded.draft_length) if loaded else ("", "")


@pytest.fixture
def course(qtbot: QtBot, tmp_path: Path) -> Iterator[Callable[[str], RaceSetup]]:
    courses: list[RaceSetup] = []

    def course(steps: str) -> RaceSetup:
        courses.append(RaceSetup(tmp_path, steps, qtbot))
        return courses[-1]

    yield course
    for one in courses:
        one.engine.stop()


def race_steps(folder: Path) -> str:
    plain = events_file(folder, PLAIN, name="plain.jsonl")
    speculative = events_file(folder, SPECULATIVE, name="speculative.jsonl")
    return f"take drafting take play:{plain} take drafting take play:{speculative}"


def test_both_run_and_the_drafter_is_restored(
    course: Callable[[str], RaceSetup], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = course(f"ready take load {race_steps(tmp_path)} serve")
    requests: list[Request] = []
    generate = one.engine.generate

    def spy(conversation: str, messages: tuple[ChatMessage, ...], request: Request) -> str:
        requests.append(request)
        return generate(conversation, messages, request)

    monkeypatch.setattr(one.engine, "generate", spy)
    one.race.start(LINES, Request(sampling=Sampling(temperature=1.0), max_tokens=9999))
    one.until(lambda: one.ends)
    assert isinstance(one.ends[0], RaceResult)
    assert one.ends[0].difference is None
    assert one.drafting == ("lookup", "4")
    assert one.settings.pair == Pair("/models/tiny", "lookup", "4")
    assert {request.sampling.temperature for request in requests} == {0.0}
    assert requests[0] == requests[1]
    assert not one.race.running


def test_a_dead_engine_ends_the_race_and_the_drafter_is_restored(
    course: Callable[[str], RaceSetup],
) -> None:
    one = course("ready take load take drafting take kill -- ready serve")
    one.race.start(LINES, Request())
    one.until(lambda: one.ends)
    assert isinstance(one.ends[0], Problem)
    one.until(lambda: one.drafting == ("lookup", "4"))


def test_a_drafter_that_fails_ends_the_race(course: Callable[[str], RaceSetup]) -> None:
    one = course("ready take load take drafting take done take failed take serve")
    one.race.start(LINES, Request())
    one.until(lambda: one.ends)
    assert isinstance(one.ends[0], Problem)
    assert one.ends[0].remedy == "Do otherwise."
    one.until(lambda: one.drafting == ("lookup", "4"))


def test_the_dialog_shows_both_answers_and_the_result(
    course: Callable[[str], RaceSetup], qtbot: QtBot, tmp_path: Path
) -> None:
    one = course(f"ready take load {race_steps(tmp_path)} serve")
    dialog = RaceDialog(one.race, LINES, Request(), names=("tiny", "lookup"))
    qtbot.addWidget(dialog)
    one.until(lambda: one.ends)
    assert {track.text.toPlainText() for track in dialog.tracks.values()} == {TEXT}
    titles = [label.text() for label in dialog.findChildren(QLabel)]
    assert {"tiny, plain decoding", "tiny, drafter lookup"} <= set(titles)
    assert dialog.result_line.text
    assert dialog.result_line.standing == "good"
    clocks = [track.clock.text() for track in dialog.tracks.values()]
    assert len(set(clocks)) == 2
