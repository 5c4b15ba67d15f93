"""An engine that misbehaves: a script in its place that dies, hangs, spews and sends garbage."""

import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import (
    LONGEST_RESPONSE_BYTES,
    EngineProcess,
    EngineState,
    Patience,
)
from engine.events import Done, Failed, Stats, Text
from engine.process.protocol import LONGEST_LINE_BYTES, Count, Counted, Generate, Macs
from engine.process.supervision import KILLED
from engine.request import ChatMessage, Prompt, Request
from tests.support.app.engine_listener import Listener

UNREADABLE = "It sent something that is not a response."
HELLO = [ChatMessage("user", "Hello, and tell me about the treasure under the oak.")]
MODEL = Path("/models/some")
TO_A_LOADED_MODEL = ["STARTING", "EMPTY", "ready", "LOADING", "loading", "LOADED", "loaded"]
SHORT_DELAYS = (0.01, 0.02, 0.03)


@pytest.fixture
def log(tmp_path):
    return EngineLog(tmp_path / "logs")


@pytest.fixture
def start(qtbot, tmp_path, log):
    """Starts an engine that does what `fake_host` describes."""
    started = []

    def start(steps, *, patience=None, delays=SHORT_DELAYS):
        command = [sys.executable, "-m", "tests.support.app.fake_host", str(tmp_path / "lives")]
        engine = EngineProcess(
            log, command=[*command, *steps.split()], patience=patience, delays_seconds=delays
        )
        started.append(heard := Listener(engine, qtbot))
        engine.start()
        return heard

    yield start
    for heard in started:
        heard.engine.stop()
        heard.check()
        assert heard.engine.state is EngineState.STOPPED
        assert heard.engine.pid == 0


def ask(listener):
    return listener.engine.generate("chat", HELLO, Request())


def test_the_states_of_several_macs_are_those_of_the_process_that_leads_them(start):
    macs = Macs("/hosts.json")
    steps = "ready take ranks:ready:working kill -- ready take ranks:ready:ready load rest"
    heard = start(steps, delays=(60.0,))  # the next one begins when it is asked to
    told = []
    engine = heard.engine
    engine.ranks_changed.connect(lambda: told.append([rank.state for rank in engine.ranks]))
    engine.load(MODEL, macs=macs)
    heard.until_told("died")
    assert told == [["ready", "working"]], "they are known until another process begins"
    engine.load(MODEL, macs=macs)
    assert heard.until_told("loaded").macs == macs
    assert told[1:] == [[], ["ready", "ready"]]


def test_what_a_process_said_of_itself_is_why_it_died(start):
    heard = start("ready refused exit:1 -- ready exit:3 -- rest")
    assert heard.until_told("died") == "It does not work."
    assert "3" in heard.until_told("died", 2), "only of that process"


def test_a_process_that_led_macs_is_replaced_for_others(start):
    macs = Macs("/hosts.json")
    heard = start("ready take load take load take rest -- ready serve")
    heard.engine.load(MODEL, macs=macs)
    heard.until_told("loaded")
    first = heard.engine.pid
    heard.engine.load(MODEL, macs=replace(macs, mode="tensor"))
    heard.until_told("loaded", 2)
    assert heard.engine.pid == first, "these are led already"
    id = ask(heard)
    heard.engine.load(MODEL)
    failed = heard.end_of(id)
    assert isinstance(failed, Failed)
    assert heard.until_told("loaded", 3).macs == Macs()
    assert heard.engine.pid != first
    assert not heard.all("died")
    assert not heard.all("failed")
    assert heard.names().count("unloaded") == 1


def test_a_process_with_other_command_buffers_is_replaced(start, monkeypatch):
    """As MLX reads their sizes once."""
    heard = start("ready take load take load rest -- ready take load serve")
    program = heard.engine._command

    def host_command(target):
        return ("/usr/bin/env", "LARGER=1", *program) if "experts" in target else program

    monkeypatch.setattr("app.engine_client.engine_process.host_command", host_command)
    heard.engine._command = ()
    pids = set[int]()
    for times, name in enumerate(["some", "others", "experts"], 1):
        heard.engine.load(Path("/models", name))
        assert heard.until_told("loaded", times).target == f"/models/{name}"
        pids.add(heard.engine.pid)
    assert len(pids) == 2
    assert psutil.Process(heard.engine.pid).environ()["LARGER"] == "1"
    assert not heard.all("died")
    assert not heard.all("failed")


def test_a_large_pair_has_more_time_to_end_and_hears_of_it_before_it_is_killed(start, monkeypatch):
    """It has memory wired, which a killed process may not give back."""
    heard = start("ready take load take load rest -- ready serve")
    child = heard.engine._process
    graces = []
    for times, name in enumerate(["small", "large"], 1):
        heard.engine.load(Path("/models", name))
        heard.until_told("loaded", times)
        graces.append(child.grace_seconds)
    assert graces == [1.5, 10.0]
    close, closed = child._process.closeWriteChannel, list[int]()
    monkeypatch.setattr(
        child._process, "closeWriteChannel", lambda: (closed.append(heard.engine.pid), close())
    )
    heard.engine.restart()
    assert closed == [0]
    heard.until_told("loaded", 3)


def test_what_a_replaced_process_was_to_load_did_not_fail(start):
    macs = Macs("/hosts.json")
    heard = start("ready take load take hang -- ready serve")
    heard.engine.load(MODEL, macs=macs)
    heard.until_told("loaded")
    heard.engine.load(MODEL, macs=replace(macs, mode="tensor"))
    heard.engine.use_drafting(drafter="lookup")
    heard.engine.load(MODEL)
    assert heard.until_told("loaded", 2).macs == Macs()
    assert not heard.all("failed")


def test_macs_that_were_to_be_led_are_left_before_they_are(start):
    heard = start("ready take load take hang -- ready serve")
    told = []
    heard.engine.told_guest.connect(told.append)
    heard.engine.load(MODEL)
    heard.until_told("loaded")
    first = heard.engine.pid
    heard.engine.pass_on(Generate("http-1", "", Prompt(text="a")))
    heard.engine.load(MODEL, macs=Macs("/hosts.json"))
    heard.engine.load(MODEL)
    assert heard.engine.pid != first
    assert heard.until_told("loaded", 2).macs == Macs()
    assert [type(answer) for answer in told] == [Failed]
    assert not heard.all("failed")


def test_the_order_of_things(start):
    heard = start("ready serve")
    assert heard.engine.state is EngineState.STARTING
    load = heard.engine.load(MODEL, drafter="lookup", draft_length="4")
    id = ask(heard)
    assert heard.end_of(id) == Done(id, "stop", Stats())
    assert heard.names() == [*TO_A_LOADED_MODEL, "happened"]
    loaded = heard.all("loaded")[0]
    assert (loaded.id, loaded.target, loaded.drafter) == (load, "/models/some", "lookup")
    heard.engine.stop()
    assert heard.names()[-1] == "STOPPED"
    assert not heard.all("died")


def test_what_is_stale_is_dropped(start):
    heard = start("ready stale take stale text:a stale done text:late done failed take done")
    first, second = ask(heard), ask(heard)
    heard.end_of(second)
    assert heard.of(first) == [Text(first, "a"), Done(first, "stop", Stats())]
    assert {event.generation for event in heard.all("happened")} == {first, second}
    assert not heard.all("failed")


def test_a_guest_hears_of_its_own_and_of_nothing_else(start):
    heard = start(
        "ready take load take take take as:3 text:x as:2 text:a done as:4 counted:7 as:3 done"
    )
    told = []
    heard.engine.told_guest.connect(told.append)
    heard.engine.load(MODEL)
    own = ask(heard)
    prompt = Prompt(messages=tuple(HELLO))
    heard.engine.pass_on(Generate("http-1", "", prompt))
    heard.engine.pass_on(Count("http-2", prompt))
    heard.until(lambda: len(told) == 3)
    assert told == [Text("http-1", "x"), Counted("http-2", 7), Done("http-1", "stop", Stats())]
    assert heard.of(own) == [Text(own, "a"), Done(own, "stop", Stats())]
    assert not heard.of("http-1")


def test_a_death_is_told_to_everyone(start):
    heard = start("ready take load take take take kill -- ready serve")
    told = []
    heard.engine.told_guest.connect(told.append)
    heard.engine.load(MODEL)
    own = ask(heard)
    heard.engine.pass_on(Generate("http-1", "", Prompt(text="a")))
    heard.engine.pass_on(Count("http-2", Prompt(text="a")))
    assert isinstance(heard.end_of(own), Failed)
    assert [failed.generation for failed in told if isinstance(failed, Failed)] == [
        "http-1",
        "http-2",
    ]
    assert not heard.all("failed"), "the loading of the model did not fail"


def test_what_no_engine_can_be_asked_is_refused(start):
    heard = start("ready serve")
    heard.engine.stop()
    told = []
    heard.engine.told_guest.connect(told.append)
    heard.engine.pass_on(Generate("http-1", "", Prompt(text="a")))
    heard.until(lambda: told)
    assert isinstance(told[0], Failed)
    assert told[0].generation == "http-1"


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("death", "reason"),
    [
        ("kill", KILLED),
        ("exit:0", "It ended with status 0."),
        ("complain:broken exit:3", "It ended with status 3. Its last words: broken"),
        ("half kill", KILLED),
        ("print:garbage hang", UNREADABLE),
        ("half print: hang", UNREADABLE),
        ('print:{"event":"text","generation":[],"delta":""} hang', UNREADABLE),
        (f"long:{LONGEST_RESPONSE_BYTES + 1} hang", UNREADABLE),
    ],
)
def test_a_death_in_mid_answer_is_survived(death, reason, start):
    heard = start(f"ready take load take text:a {death} -- ready serve")
    heard.engine.load(MODEL)
    first = ask(heard)
    failed = heard.end_of(first)
    assert heard.of(first)[:-1] == [Text(first, "a")]
    assert isinstance(failed, Failed)
    assert failed.message == f"The engine died before it was done. {reason}"
    assert failed.remedy
    second = ask(heard)
    assert isinstance(heard.end_of(second), Done)
    assert heard.all("died") == [reason]
    assert [loaded.target for loaded in heard.all("loaded")] == ["/models/some"] * 2
    assert heard.names()[7:11] == ["happened", "WAITING", "happened", "died"]
    assert heard.names()[11:] == [*TO_A_LOADED_MODEL, "happened"]
    assert not heard.all("failed")


def test_a_last_answer_without_an_end_counts(start):
    heard = start("ready take unended exit:0 -- ready serve")
    id = ask(heard)
    heard.end_of(id)
    assert heard.text(id) == "last"


def test_the_longest_line_arrives_whole(start):
    heard = start(f"ready take long:{LONGEST_RESPONSE_BYTES} done serve")
    id = ask(heard)
    assert isinstance(heard.end_of(id), Done)
    assert len(heard.text(id)) > LONGEST_RESPONSE_BYTES - 200


def test_what_is_printed_before_it_greets_is_ignored(start):
    heard = start(f"print:warning long:{LONGEST_RESPONSE_BYTES + 1} ready serve")
    assert isinstance(heard.end_of(ask(heard)), Done)
    assert not heard.all("died")


def test_it_gives_up_and_says_what_to_do(start):
    heard = start("kill -- kill -- kill -- kill -- ready serve")
    failed = heard.until_told("failed")
    assert failed.generation == ""
    assert failed.message == f"The engine died 4 times in a row. {KILLED}"
    assert "restart the engine" in failed.remedy
    assert heard.names() == ["STARTING", "WAITING", "died"] * 3 + [
        *["STARTING", "GIVEN_UP", "died", "failed"]
    ]
    id = ask(heard)
    assert heard.of(id) == []  # not before its id is known
    refused = heard.end_of(id)
    assert refused == Failed(id, "The engine is not running.", "Restart the engine.")
    heard.engine.use_drafting(drafter="lookup")
    assert heard.until_told("failed", 2).message == refused.message
    heard.engine.restart()
    assert isinstance(heard.end_of(ask(heard)), Done)


def test_loading_something_else_tries_again(start):
    heard = start("kill -- kill -- kill -- kill -- ready serve")
    heard.until_told("failed")
    heard.engine.load(MODEL)
    assert isinstance(heard.end_of(ask(heard)), Done)


def test_an_answer_between_deaths_makes_them_forgotten(start):
    heard = start("ready take done kill")
    for count in range(1, 7):
        assert isinstance(heard.end_of(ask(heard)), Done)
        heard.until_told("died", count)
    assert heard.engine.state is not EngineState.GIVEN_UP


def test_a_model_that_kills_is_not_loaded_again(start):
    heard = start("ready take load take begin kill -- ready serve")
    heard.engine.load(Path("/models/good"))
    heard.until_told("loaded")
    bad = heard.engine.load(Path("/models/bad"))
    failed = heard.until_told("failed")
    assert failed.generation == bad
    assert "SIGKILL" in failed.message
    assert "smaller" in failed.remedy
    heard.until_told("loaded", 2)
    assert [loaded.target for loaded in heard.all("loaded")] == ["/models/good"] * 2
    assert heard.engine.state is EngineState.LOADED


def test_a_program_that_is_missing(qtbot, log):
    engine = EngineProcess(log, command=["/no/such/program"], delays_seconds=())
    heard = Listener(engine, qtbot)
    load = engine.load(MODEL)
    failed = heard.until_told("failed", 2)
    assert [failure.generation for failure in heard.all("failed")] == [load, ""]
    assert "could not be started" in failed.message
    assert engine.state is EngineState.GIVEN_UP
    engine.stop()


@pytest.mark.parametrize(("window", "host"), [(1, 2), (2, 1), (2, 3)])
def test_another_version_is_refused_at_once(start, monkeypatch, window, host):
    """A window of before refuses an engine of now, and one of now an engine of before."""
    monkeypatch.setattr("app.engine_client.engine_process.PROTOCOL", window)
    heard = start(f"protocol:{host} hang")
    failed = heard.until_told("failed")
    assert f"version {host}" in failed.message
    assert f"version {window}" in failed.message
    assert failed.remedy == "Install Slipstream again."
    assert heard.engine.state is EngineState.GIVEN_UP
    assert not heard.all("ready")


def test_silence_is_told_once_and_restarting_ends_it(start):
    patience = Patience(answering_seconds=0.5)
    heard = start("ready take load take text:a hang -- ready serve", patience=patience)
    heard.engine.load(MODEL)
    id = ask(heard)
    assert heard.until_told("hung") >= 0.5
    assert heard.engine.hanging
    hanging = heard.engine.pid
    heard.engine.restart()
    assert not heard.engine.hanging
    assert heard.names()[-4:] == ["responsive", "STARTING", "happened", "unloaded"]
    failed = heard.end_of(id)
    assert isinstance(failed, Failed)
    assert "restarted" in failed.message
    second = ask(heard)
    assert isinstance(heard.end_of(second), Done)
    heard.until(lambda: not psutil.pid_exists(hanging))
    assert len(heard.all("hung")) == 1
    assert not heard.all("died")


@pytest.mark.quick(1)
@pytest.mark.parametrize("steps", ["rest", "ready take rest", "ready take load rest"])
def test_it_is_watched_from_the_start(steps, start):
    patience = Patience(starting_seconds=0.5, loading_seconds=0.5, answering_seconds=0.5)
    heard = start(steps, patience=patience)
    heard.engine.load(MODEL)
    ask(heard)
    assert heard.until_told("hung") >= 0.5
    assert heard.engine.hanging


@pytest.mark.slow
def test_stopping_a_hanging_engine(start):
    heard = start("ready take text:a hang")
    id = ask(heard)
    heard.until(lambda: heard.of(id))
    pid = heard.engine.pid
    heard.engine.stop()
    assert not psutil.pid_exists(pid)
    failed = heard.of(id)[-1]
    assert isinstance(failed, Failed)
    assert "stopped" in failed.message
    late = ask(heard)
    assert isinstance(heard.end_of(late), Failed)


def test_garbage_as_last_words_does_not_bring_it_back(start):
    heard = start("ready take text:a take print:garbage")
    id = ask(heard)
    heard.until(lambda: heard.of(id))
    heard.engine.stop()
    assert heard.engine.state is EngineState.STOPPED
    assert not heard.all("died")


def test_it_can_be_started_again_after_a_stop(start):
    heard = start("ready serve")
    heard.engine.load(MODEL)
    heard.until_told("loaded")
    heard.engine.stop()
    heard.engine.start()
    heard.until_told("loaded", 2)


def test_a_failure_of_a_load_carries_its_id(start):
    heard = start("ready take begin failed refused take failed serve")
    load = heard.engine.load(MODEL)
    drafting = heard.engine.use_drafting(drafter="nonsense")
    heard.until_told("failed", 3)
    assert [failed.generation for failed in heard.all("failed")] == [load, "", drafting]
    assert len(heard.all("unloaded")) == 1
    assert heard.engine.state is EngineState.EMPTY
    assert heard.all("happened") == []


@pytest.mark.slow
def test_cancelling_what_was_never_sent(start):
    heard = start("ready kill -- ready serve", delays=(0.5,))
    heard.until_told("died")
    assert heard.engine.state is EngineState.WAITING
    id = ask(heard)
    heard.engine.cancel(id)
    assert heard.of(id) == []
    assert heard.end_of(id) == Done(id, "cancelled", Stats())
    assert isinstance(heard.end_of(ask(heard)), Done)


def test_a_conversation_that_is_too_long(start):
    heard = start("ready serve")
    huge = [ChatMessage("user", "x" * LONGEST_LINE_BYTES)]
    id = heard.engine.generate("chat", huge, Request())
    failed = heard.end_of(id)
    assert isinstance(failed, Failed)
    assert failed.message == "The conversation is over 8 MB."
    assert isinstance(heard.end_of(ask(heard)), Done)


def test_one_may_act_from_within_an_event(start):
    heard = start("ready take text:a text:b done serve")
    followers = []

    def follow(event):
        if isinstance(event, Text) and event.delta == "a":
            followers.append(ask(heard))
        if isinstance(event, Done) and len(followers) == 1:
            followers.append("")
            heard.engine.stop()

    heard.engine.happened.connect(follow)
    id = ask(heard)
    assert isinstance(heard.end_of(id), Done)
    assert heard.text(id) == "ab"
    heard.until(lambda: heard.of(followers[0]))
    heard.end_of(followers[0])
    assert heard.engine.state is EngineState.STOPPED


def test_asking_while_it_stops_is_answered(start):
    heard = start("ready take text:a take text:b")
    asked = []

    def ask_more(event):
        if isinstance(event, Text) and event.delta == "b":
            asked.extend([ask(heard), heard.engine.load(MODEL)])

    heard.engine.happened.connect(ask_more)
    id = ask(heard)
    heard.until(lambda: heard.of(id))
    heard.engine.stop()
    assert heard.text(id) == "ab"
    assert isinstance(heard.end_of(asked[0]), Failed)
    assert [failed.generation for failed in heard.all("failed")] == [asked[1]]


def test_restarting_from_within_an_event(start):
    heard = start("ready take text:a text:b done hang -- ready serve")
    heard.engine.happened.connect(
        lambda event: heard.engine.restart() if getattr(event, "delta", "") == "a" else None
    )
    id = ask(heard)
    assert isinstance(heard.end_of(id), Failed)
    assert heard.text(id) == "a"
    assert isinstance(heard.end_of(ask(heard)), Done)


def test_complaints_are_drained_and_kept(start, log):
    heard = start("spew ready spew take complain:treasure spew complain:end done serve")
    assert isinstance(heard.end_of(ask(heard)), Done)
    heard.until(lambda: log.tail[-1:] == ("end",))
    assert len(log.tail) == 200


def test_no_message_text_is_logged(start, log):
    heard = start("ready take complain:xyzzy text:answer done serve")
    id = heard.engine.generate("chat", [ChatMessage("user", "xyzzy")], Request())
    assert isinstance(heard.end_of(id), Done)
    heard.until(lambda: log.tail)
    heard.engine.stop()
    text = log.path.read_text(encoding="utf-8")
    assert "started, process" in text
    assert "(a line that quotes a message)" in text
    assert "xyzzy" not in text
    assert "answer" not in text
