"""Servers over HTTP, well and ill behaved."""

import httpx2
import pytest

from engine.tools.http import LimitedBody
from engine.tools.protocol import Progress, Server, State
from tests.support.tools.hosted import hosted
from tests.support.tools.http_server import KEY, http_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def address():
    with http_server() as address:
        yield address


async def test_a_server_over_http_is_called_with_its_key(tmp_path, address):
    async with hosted(tmp_path) as host:
        [state] = await host.start(Server("s", url=address, headers={"Authorization": KEY}))
        assert (state.state, state.version) == ("running", "web 1")
        for tool, text in (("json", "as JSON"), ("events", "as an event"), ("progress", "done")):
            result = await host.call(tool)
            assert (result.ending, result.text) == ("done", text)
        assert [each.done for each in host.heard if isinstance(each, Progress)] == [1.0]


async def test_what_it_does_wrong_fails_that_call(tmp_path, address):
    server = Server("s", url=address, headers={"Authorization": KEY})
    async with hosted(tmp_path) as host:
        await host.start(server)
        for tool in ("big", "endless", "lists", "packed", "refused", "nonsense", "closed"):
            result = await host.call(tool)
            assert result.ending == "failed", tool
            assert result.text, tool
            assert (await host.call("json")).text == "as JSON", tool


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"])
async def test_small_events_without_end_are_read_however_they_are_cut(end, monkeypatch):
    monkeypatch.setattr("engine.tools.limits.LONGEST_MESSAGE_BYTES", 100)

    async def blocks():
        for _ in range(50):
            yield b"data: small" + end
            yield end
        yield b"data: " + b"x" * 200

    body = aiter(LimitedBody(blocks(), events=True))
    for _ in range(100):
        await anext(body)
    with pytest.raises(httpx2.StreamError):
        await anext(body)


async def test_a_server_that_floods_is_ended(tmp_path, address):
    async with hosted(tmp_path) as host:
        await host.start(Server("s", url=address, headers={"Authorization": KEY}))
        assert (await host.call("ask_back")).ending == "failed"
        await host.until(State, lambda each: each.state == "failed")


async def test_no_connection_and_no_key_are_told(tmp_path, address):
    async with hosted(tmp_path) as host:
        nowhere = "http://127.0.0.1:9"
        states = await host.start(
            Server("stranger", url=address, headers={"Authorization": "Bearer other-key"}),
            Server("nobody", url=f"{nowhere}/mcp"),
            Server("called so", url=f"{nowhere}/x", type="sse"),
            Server("named so", url=f"{nowhere}/sse"),
            Server("with a key", url=f"{nowhere}/sse/?key=1"),
        )
        for number, state in enumerate(states):
            assert (state.state, bool(state.message)) == ("failed", True)
            assert ("mcp-remote" in state.remedy) == (number > 1)
            assert "other-key" not in state.message
