"""Servers that behave and servers that do not: each call ends once, and the host goes on."""

import json
from pathlib import Path

import pytest

from engine.tools.protocol import (
    Call,
    Cancel,
    Restart,
    Result,
    Server,
    State,
)
from tests.support.tools.hosted import hosted, scripted

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_server_is_started_asked_and_ended(tmp_path: Path) -> None:
    async with hosted(tmp_path) as host:
        [state] = await host.start(scripted())
        assert (state.state, state.version) == ("running", "scripted 1.0")
        assert state.tools[0].name == "echo"
        assert json.loads(state.tools[0].schema)["properties"] == {"text": {"type": "string"}}
        result = await host.call("echo", "hello")
        assert (result.ending, result.text, result.bytes) == ("done", "hello", 5)


async def test_what_a_server_does_wrong_ends_its_call_alone(tmp_path: Path) -> None:
    async with hosted(tmp_path) as host:
        await host.start(scripted())
        for tool, text, ending in (
            ("noise", "", "done"),
            ("error", "", "failed"),
            ("refuse", "", "failed"),
            ("deep", "", "failed"),
            ("nothing", "", "failed"),
            ("flood", "9000000", "failed"),
            ("big", "9000000", "failed"),
            ("many_lines", "1000000", "done"),
            ("complain", "3000000", "done"),
            ("unheard", "", "done"),
            ("surrogates", "", "failed"),
            ("unknown", "", "failed"),
        ):
            assert (await host.call(tool, text)).ending == ending, tool
            assert (await host.call("echo", "still")).text == "still", tool
        for tool in ("hang", "wrong_id"):
            assert (await host.call(tool, seconds=0.2)).ending == "failed", tool
            assert (await host.call("echo", "still")).text == "still", tool


async def test_a_cancelled_call_ends_at_once_and_a_late_result_is_nobodys(tmp_path: Path) -> None:
    async with hosted(tmp_path) as host:
        await host.start(scripted())
        await host.send(Call("x", "s", "late", '{"text": "0.3"}'), Cancel("x"), Cancel("y"))
        assert (await host.result("x")).ending == "cancelled"
        assert (await host.call("echo", "on")).text == "on"
        assert len([each for each in host.heard if isinstance(each, Result)]) == 2


async def test_a_server_that_dies_fails_its_calls_and_starts_again_when_asked(
    tmp_path: Path,
) -> None:
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


async def test_a_server_that_does_not_start_has_a_reason(tmp_path: Path) -> None:
    async with hosted(tmp_path, start_seconds=0.5) as host:
        dies, hangs, missing, elsewhere = await host.start(
            scripted("dies", name="dies"),
            scripted("hangs", name="hangs"),
            Server("missing", "no-such-program"),
            Server("elsewhere", "cat", cwd="/no/such/folder"),
        )
        assert {each.state for each in (dies, hangs, missing, elsewhere)} == {"failed"}
        assert "there is no key" in dies.message
        assert "in time" in hangs.message
        assert "no-such-program" in missing.message
        assert "/no/such/folder" in elsewhere.message
        assert all(each.remedy for each in (dies, hangs, missing, elsewhere))
