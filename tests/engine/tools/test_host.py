"""Programs and servers over HTTP, well and ill behaved: each call ends once, the host goes on."""

import asyncio
import json
import os
import signal
import sys
from contextlib import closing
from dataclasses import replace

import anyio
import httpx2
import mcp_types as types
import psutil
import pytest
from mcp.shared.message import SessionMessage

from engine.tools.http import LimitedBody
from engine.tools.limits import Ended, LimitedStreams, Unreadable
from engine.tools.protocol import (
    LONGEST_LINE_BYTES,
    OWN,
    RESPONSES,
    Call,
    Cancel,
    Progress,
    Restart,
    Result,
    Server,
    Start,
    State,
)
from engine.tools.results import LONGEST_RESULT_BYTES, offered, result_text, short, shown
from tests.support.tools.host_process import HostProcess
from tests.support.tools.hosted import TIMEOUT_SECONDS, hosted, scripted
from tests.support.tools.http_server import KEY, http_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


ENDINGS = {
    "done": {
        **dict.fromkeys(("noise", "table"), ""),
        **dict.fromkeys(("many_lines", "complain"), "1000000"),
    },
    "failed": {
        **dict.fromkeys(("error", "refuse", "deep", "nothing", "surrogates", "unknown"), ""),
        **dict.fromkeys(("flood", "big"), "3500000"),
        "bomb": "lists",
    },
}


async def test_what_a_server_does_wrong_ends_its_call_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.tools.limits.LONGEST_MESSAGE_BYTES", 3 << 20)
    async with hosted(tmp_path) as host:
        await host.start(scripted())
        calls = [(*call, ending) for ending, calls in ENDINGS.items() for call in calls.items()]
        for tool, text, ending in (*calls, ("bomb", "numbers", "failed")):
            assert (await host.call(tool, text)).ending == ending, tool
            assert (await host.call("echo", "still")).text == "still", tool
        for tool in ("hang", "wrong_id"):
            assert (await host.call(tool, seconds=0.2)).ending == "failed", tool
            assert (await host.call("echo", "still")).text == "still", tool
        host.heard.clear()  # a cancelled call's late result is ignored
        await host.send(Call("x", "s", "late", '{"text": "0.1"}'), Cancel("x"), Cancel("y"))
        assert (await host.result("x")).ending == "cancelled"
        assert (await host.call("echo", "on")).text == "on"
        assert len([each for each in host.heard if isinstance(each, Result)]) == 2


async def test_a_server_that_dies_fails_its_calls_and_starts_again_when_asked(tmp_path):
    async with hosted(tmp_path) as host:
        await host.start(scripted(), scripted(name="other"))
        await host.send(Call("waiting", "s", "hang", "{}"))
        assert (await host.call("die")).ending == "failed"
        assert (await host.result("waiting")).ending == "failed"
        state = await host.until(State, lambda each: each.state == "failed")
        assert "status 3" in state.message
        assert "it hurts" in state.message
        assert (await host.call("echo")).ending == "failed"
        assert (await host.call("echo", "on", server="other")).text == "on"
        host.heard.clear()
        await host.send(Restart("s"))
        assert (await host.settled("s")).state == "running"
        assert (await host.call("echo", "again")).text == "again"


async def test_a_server_that_does_not_start_has_a_reason(tmp_path):
    async with hosted(tmp_path, start_seconds=0.5) as host:
        states = await host.start(
            scripted("dies", name="dies"),
            scripted("hangs", name="hangs"),
            Server("missing", "no-such-program"),
            Server("elsewhere", "cat", cwd="/no/such/folder"),
        )
        reasons = ("there is no key", "in time", "no-such-program", "/no/such/folder")
        for state, reason in zip(states, reasons, strict=True):
            assert state.state == "failed"
            assert reason in state.message
            assert state.remedy


@pytest.fixture
def later(monkeypatch):
    """Moves the clock of the event loop on, by seconds."""

    def later(seconds):
        clock = asyncio.get_running_loop().time
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock() + seconds)

    return later


async def test_a_call_that_goes_on_is_alive(tmp_path, later, monkeypatch):
    monkeypatch.setattr("engine.tools.limits._PROGRESS_APART_SECONDS", 0.0)
    async with hosted(tmp_path) as host:
        await host.start(scripted())
        await host.send(Call("x", "s", "hold", "{}", 60.0))
        for _ in range(3):
            host.heard.clear()
            await host.call("nudge")
            await host.until(Progress, lambda each: each.id == "x")
            later(50.0)
        await host.call("release")
        released = await host.result("x")
        assert released.text == "released"
        await host.send(Call("y", "s", "hold", "{}", 60.0))
        await host.call("echo")
        later(70.0)
        late = await host.result("y")
        assert late.ending == "failed"


async def test_a_start_that_says_what_it_fetches_is_alive(tmp_path, later):
    log, lines = tmp_path / "tools-s.log", list[str]()
    async with hosted(tmp_path) as host:
        await host.send(Start((scripted("fetches"),)))
        for number in range(3):
            with anyio.fail_after(TIMEOUT_SECONDS):
                while len(lines) < number + 2:  # the first names its process
                    await anyio.sleep(0.01)
                    lines = log.read_text().splitlines() if log.exists() else []
            later(50.0)
            os.kill(int(lines[0].split()[-1]), signal.SIGUSR1)
        state = await host.settled("s")
        assert state.state == "running"


async def test_a_server_that_floods_is_ended_and_the_host_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.tools.programs.NONSENSE_BYTES", 1 << 20)
    async with hosted(tmp_path) as host:
        for tool, amount in (("many_lines", "3000000"), ("ask_back", "1000")):
            await host.start(scripted(), scripted(name="other"))
            assert (await host.call(tool, amount)).ending == "failed", tool
            state = await host.until(State, lambda each: each.state == "failed")
            assert "too m" in state.message, tool  # too much output, too many requests
            assert (await host.call("echo", "on", server="other")).text == "on", tool
            await host.start()


async def test_what_a_server_describes_has_limits(tmp_path):
    async with hosted(tmp_path, start_seconds=5) as host:
        modes = ("many", "huge", "odd", "endless", "deep")
        states = await host.start(*(scripted(mode, name=mode) for mode in modes))
    many, huge, odd, endless, deep = states
    assert all(each.message and each.remedy for each in states)
    assert (endless.state, deep.state) == ("running", "failed")
    assert len(many.tools) == 256
    assert [(each.name, len(each.description)) for each in huge.tools] == [("long", 8000)]
    assert [each.name for each in odd.tools] == ["read", "forgot"]
    read = odd.tools[0]
    assert (read.title, read.read_only, read.description) == ("Read", True, "ab")
    assert json.loads(read.schema)["properties"] == {"text": {"type": "string"}}
    assert odd.version == "scripted 1.0"
    left_out = {"bare", "list", "7", "word"}
    assert {name for name in left_out if name in odd.message} == left_out


async def test_pieces_become_lines_progress_is_told_and_a_changed_list_is_read_again(tmp_path):
    async with hosted(tmp_path) as host:
        await host.start(scripted())
        image = await host.call("image")
        assert (image.text, image.bytes) == ("[image: image/png, 3.00 kB]", 3000)
        assert (await host.call("pieces")).text.split("\n") == [
            "one",
            "[audio: audio/wav, 3 bytes]",
            "[resource: file:///a.txt, 6 bytes]",
            "inside",
            "[resource: file:///a.bin, 10 bytes]",
            "[link: b file:///b]",
        ]
        assert (await host.call("structure")).text == '{"value":[1,2.5,"x"]}'
        long = await host.call("big", "3000000")
        assert long.bytes == 3_000_000
        assert 1 << 20 < len(long.text) < 1.1 * (1 << 20)
        error = await host.call("error")
        assert (error.ending, error.text) == ("failed", "no such luck[31m")
        assert (await host.call("report")).text == "reported"
        told = [each for each in host.heard if isinstance(each, Progress)]
        assert {(each.total, each.message) for each in told} == {(3.0, "on it")}
        assert (await host.call("report", "3000")).text == "reported"
        assert len([each for each in host.heard if isinstance(each, Progress)]) < 200
        assert (await host.call("change")).text == "changed"
        state = await host.until(State, lambda each: len(each.tools) == 2)
        assert [each.name for each in state.tools] == ["echo", "new"]


async def test_only_servers_that_are_set_up_otherwise_start_again(tmp_path):
    async def pid(server):
        return int((await host.call("pid", server=server)).text)

    async with hosted(tmp_path) as host:
        await host.start(scripted(), scripted(name="other"))
        pids = {name: await pid(name) for name in ("s", "other")}
        host.heard.clear()
        await host.send(Start((scripted(env={"A": "b"}), scripted(name="other"))))
        await host.until(State, lambda each: (each.server, each.state) == ("s", "starting"))
        await host.settled("s")
        assert await pid("other") == pids["other"]
        assert await pid("s") != pids["s"]
        await host.start()
        assert (await host.call("echo")).ending == "failed"
        with anyio.fail_after(TIMEOUT_SECONDS):
            while psutil.pid_exists(pids["other"]):
                await anyio.sleep(0.01)


async def test_a_program_gets_what_it_needs_and_none_of_our_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "ours-alone")
    monkeypatch.setenv("THEIR_KEY", "for-them")
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".local" / "bin").mkdir(parents=True)
    (tmp_path / "run").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "run").chmod(0o755)
    async with hosted(tmp_path) as host:
        beside, missing, fine = await host.start(
            replace(scripted(name="beside"), command="./run", cwd=str(tmp_path)),
            scripted(name="missing", env={"A": "${env:NO_SUCH}"}),
            scripted(env={"A": "b", "KEY": "${env:THEIR_KEY}"}),
        )
        states = beside.state, missing.state, fine.state
        assert states == ("running", "failed", "running")
        assert "NO_SUCH" in missing.message
        found = json.loads((await host.call("environment")).text)
        assert (found["A"], found["KEY"]) == ("b", "for-them")
        assert "HF_TOKEN" not in found
        places = found["PATH"].split(os.pathsep)
        assert places[0] == "/usr/bin"
        assert str(tmp_path / ".local" / "bin") in places


async def test_the_tools_that_come_along_are_a_server_like_others(tmp_path):
    (tmp_path / "a.txt").write_text("the text")
    read = Call("x", OWN, "read_file", '{"path": "a.txt"}')
    async with hosted(tmp_path / "logs") as host:
        await host.start(folders=(str(tmp_path),))
        state = await host.settled(OWN)
        names = [each.name for each in state.tools]
        assert names == ["list_files", "read_file", "calculate", "today"]
        assert all(each.read_only for each in state.tools)
        await host.send(read)
        assert (await host.result("x")).text == "the text"
        await host.start()  # without the folder
        await host.settled(OWN)
        await host.send(replace(read, id="y"))
        assert (await host.result("y")).ending == "failed"


async def test_a_server_over_http(tmp_path):
    """It is called with its key, what it does wrong fails that call, and a flood ends it."""
    nowhere = "http://127.0.0.1:9"
    with http_server() as address:
        async with hosted(tmp_path) as host:
            [state] = await host.start(Server("s", url=address, headers={"Authorization": KEY}))
            assert (state.state, state.version) == ("running", "web 1")
            results = [await host.call(tool) for tool in ("json", "events", "progress")]
            assert [each.text for each in results] == ["as JSON", "as an event", "done"]
            assert [each.done for each in host.heard if isinstance(each, Progress)] == [1.0]
            for tool in ("big", "endless", "lists", "packed", "refused", "nonsense", "closed"):
                result = await host.call(tool)
                assert (result.ending, bool(result.text)) == ("failed", True), tool
                assert (await host.call("json")).text == "as JSON", tool
            assert (await host.call("ask_back")).ending == "failed"
            await host.until(State, lambda each: each.state == "failed")
            states = await host.start(
                Server("stranger", url=address, headers={"Authorization": "Bearer other-key"}),
                Server("absent", url=f"{nowhere}/mcp"),
                Server("called so", url=f"{nowhere}/x", type="sse"),
                Server("named so", url=f"{nowhere}/sse"),
                Server("with a key", url=f"{nowhere}/sse/?key=1"),
            )
    for number, state in enumerate(states):
        assert (state.state, bool(state.message)) == ("failed", True)
        assert ("mcp-remote" in state.remedy) == (number > 1)
        assert "other-key" not in state.message


async def test_small_events_without_end_are_read_however_they_are_cut(monkeypatch):
    monkeypatch.setattr("engine.tools.limits.LONGEST_MESSAGE_BYTES", 100)

    async def blocks(end):
        for _ in range(50):
            yield b"data: small" + end
            yield end
        yield b"data: " + b"x" * 200

    for end in (b"\r\n", b"\n", b"\r"):
        body = aiter(LimitedBody(blocks(end), events=True))
        for _ in range(100):
            await anext(body)
        with pytest.raises(httpx2.StreamError):
            await anext(body)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """As the Finder starts it: without a terminal, so that a login shell is asked for the path."""
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nexport PATH="/their/bin:$PATH"\neval "$2"\n')
    shell.chmod(0o755)
    monkeypatch.setenv("SHELL", str(shell))
    monkeypatch.delenv("TERM", raising=False)
    with closing(HostProcess(tmp_path)) as host:
        yield host


def with_a_child(host):
    """A stubborn server that has started a child: both, and the rest of the host's children."""
    assert host.start(scripted("stubborn"))["s"].state == "running"
    result = host.call("s", "leave_child")
    path = json.loads(host.call("s", "environment").text)["PATH"]
    assert path.startswith("/their/bin:")
    children = psutil.Process(host.process.pid).children(recursive=True)
    assert int(result.text) in [each.pid for each in children]
    return children


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["killed", "end of input", "terminated"])
def test_nothing_is_left_running(host, how):
    """And lines that are no commands are named, and the rest is done."""
    long = json.dumps({"command": "call", "arguments": "x" * (9 << 20)}).encode()
    host.stdin.write(b"\n[]\nnot json\n{}\n" + long + b"\n" + b'{"command": "cancel"}\n')
    host.send(Start((), ()), Call("a", "unknown", "x", "{}"), Call("b", OWN, "x", "[]"))
    for id in ("a", "b"):
        result = host.next(Result)
        assert (result.id, result.ending) == (id, "failed")
    children = with_a_child(host)
    assert len(children) == 3  # the server, its child, and what ends them if the host cannot
    match how:
        case "killed":
            host.process.kill()
        case "end of input":
            host.stdin.close()
        case "terminated":
            host.process.terminate()
    assert host.process.wait(TIMEOUT_SECONDS) in ((0,) if how == "end of input" else (-9, -15))
    _, alive = psutil.wait_procs(children, TIMEOUT_SECONDS)
    assert not alive


# What a session gets of the messages of a server, and what is shown and read of them


def request(id, **params):
    return SessionMessage(types.JSONRPCRequest(jsonrpc="2.0", id=id, method="ping", params=params))


def response(id, **result):
    return SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=id, result=result))


def notification(method, **params):
    return SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method=method, params=params))


class Ends:
    """A session's end of the streams, and the server's."""

    def __init__(self):
        self.heard, reading = anyio.create_memory_object_stream[SessionMessage | Exception](1000)
        writing, self.said = anyio.create_memory_object_stream[SessionMessage](1000)
        self.session = LimitedStreams(reading, writing)
        self.streams = (self.heard, reading, writing, self.said)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for stream in self.streams:
            stream.close()

    async def pass_on(self, *items):
        """The messages that a session gets of these, up to a last response."""
        for item in (*items, response(-1)):
            await self.heard.send(item)
        found = []
        while True:
            item = await self.session.receive()
            if getattr(item.message, "id", None) == -1:
                return found
            found.append(item.message)


async def test_results_of_too_many_values_fail_alone():
    async with Ends() as ends:
        few = {"content": [{"type": "text", "text": "a"}] * 2_000}
        wide = {"content": [{}] * 2_001}
        deep = {"structuredContent": {"rows": [[1] * 100] * 1_000}}
        found = await ends.pass_on(response(1, **few), response(2, **wide), response(3, **deep))
        assert [type(each) for each in found] == [
            types.JSONRPCResponse, types.JSONRPCError, types.JSONRPCError,
        ]  # fmt: skip
        assert [each.id for each in found] == [1, 2, 3]


async def test_what_cannot_be_read_fails_its_request_or_all():
    async with Ends() as ends:
        for id in (1, 2, 3, 4):
            await ends.session.send(request(id))
        assert [each.id for each in await ends.pass_on(Unreadable("long", [2, 7]))] == [2]
        await ends.pass_on(response(3))
        assert [each.id for each in await ends.pass_on(Unreadable("long", []))] == [1, 4]
        assert await ends.pass_on(Unreadable("long", [])) == []


async def test_of_what_it_is_told_unasked_little_is_let_through():
    async with Ends() as ends:
        junk = [1.5] * 10
        ping, change, log, progress = await ends.pass_on(
            request(1, junk=junk),
            notification("notifications/tools/list_changed", junk=junk),
            notification("notifications/message", data=junk),
            notification("notifications/progress", progressToken=1, progress=0.5, junk=junk),
            notification("notifications/progress", progressToken=1, progress=0.6),
        )
        assert ping.params is change.params is log.params is None
        assert progress.params == {"progressToken": 1, "progress": 0.5}


def test_what_is_shown_and_read_has_limits():
    large = [types.Tool(name=f"t{n}", input_schema={"x": "y" * 90_000}) for n in range(100)]
    assert 0 < len(offered("s", large)[0]) < 20
    first = types.Tool(name="first", input_schema={"x": "y" * LONGEST_LINE_BYTES})
    (found,), _ = offered("s", [first, types.Tool(name="next", input_schema={})])
    assert found.name == "next"
    wide = [types.Tool(name=f"t{n}", input_schema={"x": "🙂" * 24_000}) for n in range(100)]
    state = State("s", "running", offered("s", wide)[0])
    assert len(RESPONSES.to_line(state)) <= LONGEST_LINE_BYTES
    text, total = result_text(types.CallToolResult(content=[types.TextContent(text="xé" * 10**6)]))
    assert total == 3 * 10**6
    assert len(text.encode()) < LONGEST_RESULT_BYTES + 100
    assert text.endswith("[cut: the first 1.05 MB of 3.00 MB]")
    assert short("a\ud800\n b") == "a� b"
    assert len(shown("x" * 10**6)) == 8000
    block = types.ResourceLink(name="n" * 10**5, uri="u\n" * 10**5)
    assert len(result_text(types.CallToolResult(content=[block]))[0]) < 1000


async def test_a_server_that_does_not_read_its_answers_is_given_up():
    async with Ends() as ends:
        for _ in range(3):
            await ends.pass_on(*map(request, range(90)))
            for id in range(90):
                await ends.session.send(response(id))
        with pytest.raises(Ended):
            await ends.pass_on(*map(request, range(101)))
