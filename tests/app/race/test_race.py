"""A race compares token by token, is fair, and can be stopped."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton

from app.chat.draft_ahead import DraftAhead
from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import EngineProcess
from app.markdown.view import TextView
from app.race.dialog import RaceDialog, result_text, verdict_text
from app.race.race import Race, RaceResult, compare_answers
from app.rounds.trace import Trace
from app.theme.palette import LIGHT
from engine.conversation.rounds import Token
from engine.conversation.stats import NoRatio, tally
from engine.events import Done, Draft, Verdict
from engine.near_ties import Fork
from engine.request import ChatMessage, Picture, Request, Sampling
from models.errors import Problem
from tests.support.app.laid_over import laid_over
from tests.support.app.made_traces import ROUND_SECONDS, made_trace
from tests.support.app.window_maker import events_file, fake_host

TEXT = "One **two** three, four five six, seven eight nine, and so on until the end."
PLAIN, SPECULATIVE = made_trace(TEXT, longest=0), made_trace(TEXT)
LINES = (ChatMessage("user", "Count."),)
NAMES = ("tiny", "Drafts by Lookup")


def test_the_same_tokens_are_identical_however_they_were_drafted():
    result = compare_answers(Trace(PLAIN), Trace(SPECULATIVE))
    assert result.difference is None
    assert result.tokens == tally(PLAIN).committed == tally(SPECULATIVE).committed
    fast = tally(SPECULATIVE)
    passes = ROUND_SECONDS * fast.committed  # what plain decoding takes for as many tokens
    assert result.ratio == pytest.approx(passes / fast.decode_seconds)
    assert f"{result.tokens} tokens" in result_text(result)


def differing(fork):
    """Of answers whose fifth tokens differ, with what the engine measured there."""
    at = next(n for n, e in enumerate(PLAIN) if isinstance(e, Verdict) and e.round == 5)
    event = PLAIN[at]
    other = replace(event, next=replace(event.next, id=-1, text=" x", p=0.5))
    drafted = [replace(e, fork=fork) if isinstance(e, Done) else e for e in SPECULATIVE]
    return compare_answers(Trace((*PLAIN[:at], other, *PLAIN[at + 1 :])), Trace(drafted))


@pytest.mark.parametrize(
    ("fork", "near", "said"),
    [
        (None, False, "differ from token 5"),
        (Fork(4, -1, 7, 0.01, 0.03), True, "near tie at token 5"),
        (Fork(4, -1, 7, 0.03, 0.03), False, "a fault of Slipstream"),
    ],
)
def test_the_first_difference_is_judged(fork, near, said):
    result = differing(fork)
    assert result.tokens == 4
    difference = result.difference
    assert (difference.place, difference.plain) == (5, Token(-1, " x", "plain", p=0.5))
    assert (difference.fork, difference.near_tie) == (fork, near)
    text = result_text(result)
    assert said in text
    assert "“·x” (p = 0.5)" in text
    assert fork is None or ("0.015 apart" not in text and "0.015" in text)


def test_without_a_draft_there_is_no_speed_to_compare_and_an_early_end_is_a_difference():
    result = compare_answers(Trace(PLAIN), Trace(PLAIN))
    assert result.speculative.proposed == 0
    assert result.ratio is NoRatio.NOTHING_DRAFTED
    assert result.ratio.value in result_text(result)
    nothing = compare_answers(Trace(), Trace())
    assert isinstance(nothing.ratio, NoRatio)
    assert "0 tokens" in result_text(nothing)
    cut = tuple(e for e in PLAIN if not (isinstance(e, Verdict) and e.round > 3))
    result = compare_answers(Trace(cut), Trace(SPECULATIVE))
    assert (result.difference.place, result.difference.plain) == (4, None)
    assert isinstance(result.ratio, NoRatio), "three plain rounds are too few"
    assert not result.difference.near_tie
    assert "ended" in result_text(result)


def slowed(events, load):
    """The same rounds, `load` times as slow at the moment (of their own clock) when they began."""
    now, found = 0.0, []
    for event in events:
        if isinstance(event, Verdict):
            times = load(now)
            now += event.seconds
            event = replace(
                event,
                seconds=event.seconds * times,
                draft_seconds=event.draft_seconds * times,
                verify_seconds=event.verify_seconds * times,
            )
        found.append(event)
    return tuple(found)


def test_the_verdict_is_fair_where_the_load_changes():
    """Plain decoding first and then the other one: a load that ended in between made it 5 times as
    fast, at 2 tokens per pass."""
    text = TEXT * 12
    plain, fast = made_trace(text, longest=0), made_trace(text)
    seconds = tally(fast).decode_seconds
    quiet = compare_answers(Trace(plain), Trace(fast))

    def first_half(now):
        return 5.0 if now < seconds / 2 else 1.0

    def tail(now):  # what plain decoding still writes alone
        return 1.0 if now < seconds else 5.0

    both = compare_answers(Trace(slowed(plain, first_half)), Trace(slowed(fast, first_half)))
    alone = compare_answers(Trace(slowed(plain, tail)), Trace(fast))
    assert alone.ratio == pytest.approx(quiet.ratio, rel=0.02)
    length = both.speculative.acceptance_length
    assert isinstance(both.ratio, NoRatio) or both.ratio <= length
    one_after_the_other = compare_answers(Trace(slowed(plain, lambda now: 5.0)), Trace(fast))
    assert one_after_the_other.ratio is NoRatio.NOT_COMPARABLE
    assert result_text(one_after_the_other).count(":") == 2  # one after each of its two subjects


@pytest.fixture
def course(qapp, tmp_path):
    """A race and its engine, which takes these steps; `ends`, its results and problems so far."""
    engines = []

    def course(steps):
        engine = EngineProcess(
            EngineLog(tmp_path), command=fake_host(tmp_path, steps), delays_seconds=(0.0,)
        )
        engines.append(engine)
        race, ends = Race(engine), []
        race.finished.connect(ends.append)
        race.failed.connect(ends.append)
        engine.load(Path("/models/tiny"))
        return SimpleNamespace(race=race, engine=engine, ends=ends)

    yield course
    for engine in engines:
        engine.stop()


def race_steps(folder):
    plain = events_file(folder, PLAIN, name="plain.jsonl")
    speculative = events_file(folder, SPECULATIVE, name="speculative.jsonl")
    return f"take race:{plain}:{speculative}"


def test_the_dialog_shows_both_answers_which_take_the_likeliest_tokens_and_the_result(
    course, until, qtbot, watch, tmp_path
):
    one = course(f"ready take load {race_steps(tmp_path)} serve")
    asked = watch(one.engine)
    penalized = Sampling(temperature=1.0, repetition_penalty=1.3)
    request = Request(sampling=penalized, max_tokens=9999)
    dialog = RaceDialog(one.race, LINES, request, names=NAMES)
    qtbot.addWidget(dialog)
    assert dialog.report() == ""
    assert not one.race.running, "it asks first"
    dialog.question.setPlainText("Another question")
    dialog.show()
    dialog.start()
    until(lambda: one.ends)
    assert not one.race.running
    (given,) = (one.request for one in asked)
    assert (given.sampling, given.max_tokens) == (Sampling(temperature=0.0), 400)
    assert {track.answer.text for track in dialog.tracks.values()} == {TEXT}
    assert dialog.result_line.text
    assert dialog.verdict.tone == "good"
    assert dialog.verdict.text == verdict_text(one.ends[0])
    clocks = [track.clock.text() for track in dialog.tracks.values()]
    assert len(set(clocks)) == 2
    result = one.ends[0]
    assert result.difference is None
    next(each for each in dialog.findChildren(QPushButton) if each.text() == "Copy result").click()
    copied = QGuiApplication.clipboard().text()
    assert result_text(result) in copied
    assert all(clock in copied for clock in clocks)
    for racer, ink in (("plain", LIGHT.plain), ("speculative", LIGHT.accepted)):
        view = dialog.tracks[racer].answer.findChild(TextView)
        until(lambda ink=ink, view=view: ink in inks_over(view))
    report = dialog.report()
    assert report.count(TEXT) == 2
    assert "Another question" in report
    assert LINES[0].content not in report


def inks_over(view):
    return {look.foreground().color().name() for _, look in laid_over(view.document())}


@pytest.fixture
def act(qtbot, tmp_path):
    """A dialog whose race is acted; `asked`, the messages of each start; `play(racer, events)`."""

    def act(message):
        race = Race(EngineProcess(EngineLog(tmp_path), command=("no", "such", "engine")))
        asked = []
        race.start = lambda messages, request: asked.append(messages)
        dialog = RaceDialog(race, (message,), Request(), names=NAMES)
        qtbot.addWidget(dialog)

        def play(racer, events):
            for event in events:
                race.happened.emit(racer, race.traces[racer].push(event))

        return SimpleNamespace(dialog=dialog, race=race, asked=asked, play=play)

    return act


def test_a_question_keeps_its_documents_and_pictures(act):
    picture = Picture("/pictures/a.png", "1" * 64, 28, 28)
    message = ChatMessage("user", "12\u00a0m\r\nHow high?", attached=6, pictures=(picture,))
    one = act(message)
    one.dialog.start()
    assert one.asked == [(message,)]
    message = replace(message, attached=0)
    one = act(message)
    one.dialog.question.setPlainText("How wide?")
    one.dialog.start()
    assert one.asked == [(replace(message, content="How wide?"),)]


def test_a_stopped_race_shows_no_draft(act, qtbot):
    one = act(LINES[0])
    one.dialog.show()
    one.dialog.start()
    ahead = one.dialog.tracks["speculative"].answer.findChild(DraftAhead)
    one.play("speculative", [next(each for each in SPECULATIVE if isinstance(each, Draft))])
    qtbot.waitUntil(lambda: ahead.round is not None)
    one.race.failed.emit(Problem("The race was stopped.", "Start another."))
    qtbot.waitUntil(lambda: ahead.round is None)


def test_a_race_waits_until_it_is_alone_and_ends_with_the_engine(course, until, qtbot):
    one = course("ready take load take text:a take as:3 reading:1:9 kill -- ready serve")
    one.engine.generate("chat", LINES, Request())
    dialog = RaceDialog(one.race, LINES, Request(), names=NAMES)
    qtbot.addWidget(dialog)
    dialog.start()
    assert one.race.waits
    at_first = dialog.verdict.text
    until(lambda: dialog.verdict.text != at_first)
    until(lambda: one.ends)
    assert isinstance(one.ends[0], Problem)
    assert not one.race.running
    dialog.close()


def test_a_race_belongs_to_one_dialog(course, until, qtbot, tmp_path):
    one = course(f"ready take load {race_steps(tmp_path)} serve")
    dialogs = [RaceDialog(one.race, LINES, Request(), names=NAMES) for _ in range(2)]
    for dialog in dialogs:
        qtbot.addWidget(dialog)
        dialog.start()
    assert dialogs[1].result_line.text
    dialogs[1].stop()
    dialogs[1].close()
    until(lambda: one.ends)
    assert isinstance(one.ends[0], RaceResult)
    assert [bool(dialog.report()) for dialog in dialogs] == [True, False]
    assert {track.answer.text for track in dialogs[1].tracks.values()} == {""}
