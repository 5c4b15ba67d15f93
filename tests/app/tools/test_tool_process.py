"""The process that runs tools restarts by itself, and each call has one result."""

import json

import pytest

from app.engine_client.engine_log import EngineLog
from app.tools.tool_process import ToolProcess
from engine.tools.protocol import OWN, Call, Result, Server, Start, State
from tests.support.app.window_maker import fake_tools_host

FILES = Server("files", "files", env={"KEY": "a-secret-that-nobody-may-see"})
BROKEN = Server("broken", "broken")


class Tools:
    """Attributes: `process`; `told`, the progress and the results that it has emitted."""

    def __init__(self, folder, steps):
        self.log = EngineLog(folder, name="tools")
        self.process = ToolProcess(
            self.log,
            command=fake_tools_host(folder, steps),
            pauses_seconds=(0.01, 0.01),
            grace_seconds=0.2,
        )
        self.told = []
        self.process.progressed.connect(self.told.append)
        self.process.ended.connect(self.told.append)

    def call(self, id, do="", *, seconds=60.0):
        self.process.call(Call(id, "files", "read", json.dumps({"do": do}), seconds))

    def running(self):
        return self.process.state("files").state == "running"

    def results(self):
        found = [one for one in self.told if isinstance(one, Result)]
        assert len({one.id for one in found}) == len(found), "a call has one result"
        return {one.id: one.ending for one in found}


@pytest.fixture
def tools(qapp, tmp_path):
    made = []

    def make(steps="ready serve"):
        made.append(Tools(tmp_path, steps))
        return made[-1]

    yield make
    for one in made:
        one.process.close()
        assert one.process.pid == 0


def test_it_runs_until_it_is_stopped(tools, until):
    one = tools("ready serve")
    assert one.process.pid == 0
    one.process.use(Start((FILES, BROKEN)))
    assert one.process.state("files") == State("files", "starting")
    until(lambda: one.running() and one.process.state("broken").state == "failed")
    assert [tool.name for tool in one.process.state("files").tools] == ["read", "write"]
    one.process.stop()
    assert one.process.pid == 0
    one.process.use(Start(()))
    until(lambda: one.process.state(OWN).state == "running")
    other = tools("ready:99 hang")  # of another version: not started again
    other.process.use(Start((FILES,)))
    until(lambda: other.process.state("files").state == "failed")
    assert "version 99" in other.process.state("files").message


def test_a_process_that_dies_is_silent_or_talks_nonsense_is_replaced_or_given_up(tools, until):
    nonsense, silent = "ready take take print:nonsense hang", "ready take take hang"
    one = tools(f"kill -- kill -- ready kill -- {nonsense} -- {silent} -- ready serve")
    one.process.use(Start((FILES,)))
    one.call("1")
    until(lambda: one.process.state("files").state == "failed")
    assert "SIGKILL" in one.process.state("files").message
    until(lambda: one.results() == {"1": "failed"})
    one.call("2")
    until(lambda: one.results().get("2") == "failed")
    one.process.restart("files")
    one.call("3")
    until(lambda: one.results().get("3") == "failed")
    one.call("4", seconds=0.1)
    until(lambda: one.results().get("4") == "failed")
    for id, do, ending in (("5", "", "done"), ("6", "kill", "failed"), ("7", "", "done")):
        one.call(id, do)  # after a death the next process goes on
        until(lambda id=id, ending=ending: one.results().get(id) == ending)
    assert one.running()


def test_keys_and_arguments_stay_out_of_the_log_and_calls_end_with_the_application(
    tools, until, tmp_path
):
    one = tools("ready serve")
    one.process.use(Start((FILES,)))
    until(one.running)
    assert "files: it runs" in one.log.tail
    one.process.call(Call("1", "files", "read", '{"path": "the-diary-of-ada.txt"}'))
    for secret in ("a-secret-that-nobody-may-see", "the-diary-of-ada.txt"):
        one.log.complaint(f"oh: {secret}".encode())
    assert "secret" not in (tmp_path / "tools.log").read_text()
    assert "diary" not in (tmp_path / "tools.log").read_text()
    until(lambda: one.results())
    for id in "23":
        one.call(id, "hang")
        until(lambda id=id: [told for told in one.told if told.id == id])
    one.process.cancel("2")
    until(lambda: one.results().get("2") == "cancelled")
    one.process.close()
    assert one.results()["3"] == "failed"
