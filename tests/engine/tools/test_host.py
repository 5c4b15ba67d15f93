"""Programs and servers over HTTP, well and ill behaved: each call ends once, the host goes on."""

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace

import anyio
import httpx2
import psutil
import pytest

from engine.tools.http import LimitedBody
from engine.tools.protocol import OWN, Call, Cancel, Progress, Restart, Result, Server, Start, State
from tests.support.tools.hosted import TIMEOUT_SECONDS, hosted, scripted
from tests.support.tools.http_server import KEY, http_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


ENDINGS = {
    "done": {
        **dict.fromkeys(("noise", "ask_bomb", "table", "unheard"), ""),
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
