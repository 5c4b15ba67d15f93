"""An engine that misbehaves: a script in its place that dies, hangs, spews and sends garbage."""

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
from engine.process.protocol import Count, Counted, Generate
from engine.process.supervision import KILLED
from engine.request import ChatMessage, Prompt, Request
from tests.support.app.engine_listener import Listener
from tests.support.app.window_maker import fake_host

UNREADABLE = "It sent something that is not a response."
HELLO = [ChatMessage("user", "Hello, and tell me about the treasure under the oak.")]
MODEL = Path("/models/some")
TO_A_LOADED_MODEL = ["STARTING", "EMPTY", "ready", "LOADING", "loading", "LOADED", "loaded"]


@pytest.fixture
def log(tmp_path):
    return EngineLog(tmp_path / "logs")


@pytest.fixture
def start(qtbot, tmp_path, log):
    """Starts an engine that does what `fake_host` describes."""
    started = []

    def start(steps, *, patience=None, delays=(0.01, 0.02, 0.03)):
        command = fake_host(tmp_path, steps)
        engine = EngineProcess(log, command=command, patience=patience, delays_seconds=delays)
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


def test_a_process_with_other_command_buffers_is_replaced_and_only_questions_fail(
    start, monkeypatch
):
    """MLX reads their sizes once. A large pair has memory wired, which a killed process may not
    give back: it hears of its end before it is killed."""
    heard = start("ready take load take load take rest -- ready take load serve")
    program, child = heard.engine._command, heard.engine._process

    def host_command(target):
        return ("/usr/bin/env", "LARGER=1", *program) if "experts" in target else program

    monkeypatch.setattr("app.engine_client.engine_process.host_command", host_command)
    heard.engine._command = ()
    close, closed = child._process.closeWriteChannel, []
    monkeypatch.setattr(
        child._process, "closeWriteChannel", lambda: (closed.append(heard.engine.pid), close())
    )
    pids = set()
    for times, (name, grace) in enumerate({"small": 1.5, "large": 10.0, "experts": 1.5}.items(), 1):
        heard.engine.load(Path("/models", name))
        assert heard.until_told("loaded", times).target == f"/models/{name}"
        assert child.grace_seconds == grace
        pids.add(heard.engine.pid)
        if name == "large":
            id = ask(heard)
            heard.engine.use_drafting(drafter="lookup")
    assert (len(pids), closed) == (2, [0])
    assert isinstance(heard.end_of(id), Failed)
    assert psutil.Process(heard.engine.pid).environ()["LARGER"] == "1"
    assert not heard.all("died")
    assert not heard.all("failed"), "what is not done has not failed"
    assert heard.names().count("unloaded") == 1


def test_a_guest_hears_of_its_own_of_deaths_and_refusals_and_of_nothing_else(start):
    first = "take take take as:3 text:x as:2 text:a done as:4 counted:7 as:3 done"
    heard = start(f"ready take load {first} take take take kill -- ready serve")
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
    own = ask(heard)
    heard.engine.pass_on(Generate("http-3", "", prompt))
    heard.engine.pass_on(Count("http-4", prompt))
    assert isinstance(heard.end_of(own), Failed)
    heard.engine.stop()
    heard.engine.pass_on(Generate("http-5", "", prompt))
    heard.until(lambda: len(told) == 6)
    assert [(type(failed), failed.generation) for failed in told[3:]] == [
        (Failed, f"http-{number}") for number in (3, 4, 5)
    ]
    assert not heard.all("failed"), "the loading of the model did not fail"


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
    load = heard.engine.load(MODEL)
    first = ask(heard)
    failed = heard.end_of(first)
    assert heard.of(first)[:-1] == [Text(first, "a")]
    assert failed.message == f"The engine died before it was done. {reason}"
    assert failed.remedy
    second = ask(heard)
    assert isinstance(heard.end_of(second), Done)
    assert heard.all("died") == [reason]
    assert [loaded.target for loaded in heard.all("loaded")] == ["/models/some"] * 2
    assert heard.all("loaded")[0].id == load
    died = ["happened", "WAITING", "happened", "died"]
    assert heard.names() == [*TO_A_LOADED_MODEL, *died, *TO_A_LOADED_MODEL, "happened"]
    assert not heard.all("failed")


def test_lines_count_up_to_the_longest_and_without_an_end_but_not_before_the_greeting(
    start, monkeypatch
):
    longest = 10_000
    monkeypatch.setattr("app.engine_client.engine_process.LONGEST_RESPONSE_BYTES", longest)
    before, rest = f"print:warning long:{longest + 1}", "take unended exit:0 -- ready serve"
    heard = start(f"{before} ready take long:{longest} done {rest}")
    whole, last = ask(heard), ask(heard)
    assert isinstance(heard.end_of(whole), Done)
    assert len(heard.text(whole)) > longest - 200
    heard.end_of(last)
    assert heard.text(last) == "last"
    assert len(heard.all("died")) == 1


def test_it_gives_up_and_says_what_to_do(start):
    heard = start("kill -- kill -- kill -- kill -- ready serve")
    load = heard.engine.load(MODEL)
    failed = heard.until_told("failed", 2)
    assert [each.generation for each in heard.all("failed")] == [load, ""]
    assert failed.message == f"The engine died 4 times in a row. {KILLED}"
    assert "restart the engine" in failed.remedy
    assert heard.names() == ["STARTING", "WAITING", "died"] * 3 + [
        *["STARTING", "GIVEN_UP", "failed", "died", "failed"]
    ]
    id = ask(heard)
    assert heard.of(id) == []  # not before its id is known
    refused = heard.end_of(id)
    assert refused == Failed(id, "The engine is not running.", "Restart the engine.")
    drafting = heard.engine.use_drafting(drafter="lookup")
    assert heard.until_told("failed", 3) == replace(refused, generation=drafting)
    heard.engine.restart()
    assert isinstance(heard.end_of(ask(heard)), Done)


def test_an_answer_between_deaths_makes_them_forgotten(start):
    heard = start("ready take done kill", delays=(0.01,))
    for count in range(1, 4):
        assert isinstance(heard.end_of(ask(heard)), Done)
        heard.until_told("died", count)
    assert heard.engine.state is not EngineState.GIVEN_UP


@pytest.mark.parametrize(("window", "host"), [(1, 2), (2, 1), (2, 3)])
def test_another_version_is_refused_until_another_load(start, monkeypatch, window, host):
    """A window of before refuses an engine of now, and one of now an engine of before."""
    monkeypatch.setattr("app.engine_client.engine_process.PROTOCOL", window)
    heard = start(f"protocol:{host} hang -- protocol:{window} serve")
    failed = heard.until_told("failed")
    assert f"version {host}" in failed.message
    assert f"version {window}" in failed.message
    assert failed.remedy == "Install Slipstream again."
    assert heard.engine.state is EngineState.GIVEN_UP
    assert not heard.all("ready")
    heard.engine.load(MODEL)
    assert isinstance(heard.end_of(ask(heard)), Done)


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


def test_restarting_from_within_an_event(start):
    heard = start("ready take text:a text:b done hang -- ready serve")
    heard.engine.happened.connect(
        lambda event: heard.engine.restart() if getattr(event, "delta", "") == "a" else None
    )
    id = ask(heard)
    assert isinstance(heard.end_of(id), Failed)
    assert heard.text(id) == "a"
    assert isinstance(heard.end_of(ask(heard)), Done)


def test_complaints_are_drained_and_kept_without_what_messages_say(start, log):
    heard = start("spew ready spew take complain:xyzzy spew complain:end text:answer done serve")
    id = heard.engine.generate("chat", [ChatMessage("user", "xyzzy")], Request())
    assert isinstance(heard.end_of(id), Done)
    heard.until(lambda: log.tail[-1:] == ("end",))
    assert len(log.tail) == 200
    heard.engine.stop()
    text = log.path.read_text(encoding="utf-8")
    assert "started, process" in text
    assert "(a line that quotes a message)" in text
    assert "xyzzy" not in text
    assert "answer" not in text
