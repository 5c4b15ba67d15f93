"""What a session gets of the messages of a server, and what is shown and read of them."""

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from engine.tools.limits import Ended, LimitedStreams, Unreadable
from engine.tools.protocol import LONGEST_LINE_BYTES, RESPONSES, State
from engine.tools.results import LONGEST_RESULT_BYTES, offered, result_text, short, shown

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


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
