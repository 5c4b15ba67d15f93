"""The local server's process is switched on and off, dies and is started again, and what it asks
the engine for goes with it."""

import os

import psutil
import pytest

from app.server.local_server import ServerState
from engine.events import Done, Failed, Stats, Text
from engine.process.protocol import Counted, Loaded, Loading, Ready, Unloaded
from engine.request import ChatMessage, Request

IDLE = "ready take load take"
BUSY = "ready take load take text:a take"


def test_it_is_told_what_there_is_and_of_its_own_alone(serve):
    one = serve(
        "ready take load take take take as:2 text:own as:3 text:x as:4 counted:7 as:3 done "
        "as:2 done take",
        "listen generate:1 count:2 RECORD",
    )
    own = one.engine.generate("chat", [ChatMessage("user", "Hello.")], Request())
    assert one.server.state is ServerState.OFF
    one.server.switch(True)
    one.until_state(ServerState.ON)
    one.heard.end_of(own)
    one.until(lambda: len(one.received()) == 5)
    ready, loaded, *rest = one.received()
    assert isinstance(ready, Ready)
    assert isinstance(loaded, Loaded)
    assert rest == [
        Text("http-1", "x"),
        Counted("http-2", 7),
        Done("http-1", "stop", Stats()),
    ]
    assert one.server.status.address.endswith(str(one.settings.server_port))


def test_what_a_server_may_not_ask_is_refused(serve):
    one = serve(IDLE, "listen unload load stranger print:nonsense RECORD")
    one.server.switch(True)
    one.until(lambda: len(one.received()) == 6)
    refused = [(getattr(each, "generation", ""), each.cause) for each in one.received()[2:]]
    assert refused == [(name, "request") for name in ("http-u", "http-l", "mine", "")]
    assert len(one.heard.all("loaded")) == 1
    assert one.server.state is ServerState.ON


def test_an_engine_that_hangs_is_restarted_for_a_program(serve):
    one = serve("ready take load take text:a hang -- ready serve", "listen generate:1 RECORD")
    first = one.engine.pid
    one.engine.hung.emit(60.0)
    assert one.engine.pid == first, "the window itself only says so"
    one.server.switch(True)
    one.until(lambda: Text("http-1", "a") in one.received())
    one.engine.hung.emit(60.0)
    one.until(lambda: sum(isinstance(answer, Loaded) for answer in one.received()) == 2)
    kinds = [type(answer) for answer in one.received()[2:]]
    assert kinds == [Text, Failed, Unloaded, Ready, Loading, Loaded]
    failed = one.received()[3]
    assert (failed.generation, failed.cause) == ("http-1", "engine")
    assert one.engine.pid != first


@pytest.mark.parametrize("fails", [False, True], ids=["it is loaded", "it cannot be loaded"])
def test_a_model_that_rests_is_woken(serve, tmp_path, fails):
    ask = tmp_path / "ask"
    one = serve(
        "ready take load take begin take failed serve" if fails else "ready serve",
        f"listen wait:{ask} generate:1 count:2 generate:3 cancel:3 RECORD",
    )
    one.server.switch(True)
    one.until_state(ServerState.ON)
    one.loader.unload()
    one.until(lambda: one.loader.loaded is None)
    assert one.server.can_wake
    ask.touch()
    if fails:
        one.until(lambda: one.received()[-1:] == [Unloaded("")])
        failed = {answer.generation for answer in one.received() if isinstance(answer, Failed)}
        assert "http-1" in failed
        assert not one.server.can_wake
        return
    one.until(lambda: Done("http-1", "stop", Stats()) in one.received())
    assert not any(isinstance(answer, Unloaded) for answer in one.received())
    # Its end comes while the model is loaded, or right after: the two race.
    one.until(lambda: "http-3" in [a.generation for a in one.received() if isinstance(a, Done)])
    one.until(lambda: any(isinstance(answer, Counted) for answer in one.received()))
    assert len(one.heard.all("loaded")) == 2


def test_its_death_is_told_and_cancels_what_it_asked(serve, tmp_path):
    says = "take take take quote complain:broken"
    one = serve(BUSY, f"listen generate:1 {says} kill -- listen rest")
    one.server.switch(True)
    one.until_state(ServerState.FAILED)
    assert "SIGKILL" in one.server.problem
    assert "broken" in one.server.problem
    assert one.engine.cancelled == ["http-1"]
    log = (tmp_path / "server.log").read_text()
    assert ("broken" in log, "treasure" in log) == (True, False), "no prompt"
    assert one.server.on
    one.server.restart()
    one.until_state(ServerState.ON)
    assert one.server.problem == ""


def test_switched_off_it_ends_and_leaves_nothing(serve):
    one = serve(BUSY, "listen generate:1 RECORD")
    one.server.switch(True)
    one.until(lambda: len(one.received()) == 3)
    process = one.server.pid
    one.server.switch(False)
    assert one.engine.cancelled == ["http-1"]
    one.until_state(ServerState.OFF)
    assert not psutil.pid_exists(process)
    assert one.server.problem == ""


def test_off_nobody_is_asked_and_none_starts_where_others_can_read_the_key(serve):
    one = serve(IDLE, "listen RECORD generate:9 count:9")  # after the end of its input
    assert one.server.key
    assert one.key_file.stat().st_mode & 0o777 == 0o600
    one.server.switch(True)
    one.until_state(ServerState.ON)
    one.server.switch(False)
    one.until_state(ServerState.OFF)
    assert not one.engine.answering
    os.chmod(one.key_file, 0o644)
    one.server.switch(True)
    assert one.server.state is ServerState.FAILED
    one.server.switch(False)
    assert one.server.state is ServerState.OFF


def test_a_taken_port_is_said_and_off_and_on_again_there_is_one(serve):
    one = serve(IDLE, "listen:Port_8737_is_in_use. exit:1 -- listen RECORD")
    one.server.switch(True)
    one.until_state(ServerState.FAILED)
    one.settings.server_port = 8888
    one.server.restart()
    one.until_state(ServerState.ON)
    assert one.server.status.address.endswith(":8888")
    one.server.switch(False)
    assert one.server.state is ServerState.ENDING
    one.server.switch(True)
    one.until_state(ServerState.ON)
    assert one.server.on
    one.until(lambda: len(one.received()) == 4)  # each process got the current state
