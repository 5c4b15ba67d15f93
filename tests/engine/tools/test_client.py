"""Each call of a tool has one result. `engine/process/test_client.py` tries any order."""

from dataclasses import replace

from engine.tools.client import ToolClient
from engine.tools.protocol import (
    COMMANDS,
    LONGEST_LINE_BYTES,
    PROTOCOL,
    RESPONSES,
    Call,
    Cancel,
    Progress,
    Ready,
    Restart,
    Result,
    Server,
    Start,
    State,
)

FILES, CLOCK = Server("files", "files"), Server("clock", "clock")


def call(id, *, seconds=60.0):
    return Call(id, "files", "read", "{}", seconds)


def hear(client, response):
    return client.hear(RESPONSES.to_line(response))


def sent(client):
    return [COMMANDS.read(line) for line in client.to_send().splitlines()]


def started(*servers):
    """One whose process has greeted and was asked for these servers."""
    client = ToolClient()
    client.want(Start(servers))
    client.begin()
    hear(client, Ready(PROTOCOL))
    sent(client)
    return client


def test_each_process_is_asked_for_the_servers_of_now():
    client, later = ToolClient(), Start((CLOCK,), ("/notes",))
    client.want(Start((FILES,)))
    assert sent(client) == []
    client.begin()
    assert sent(client) == [Start((FILES,))]
    client.want(later)
    assert sent(client) == [later]
    client.restart("clock")
    assert sent(client) == [Restart("clock")]
    client.lose("m", another=True)
    client.restart("clock")
    client.begin()
    assert sent(client) == [later]
    client = started(FILES, CLOCK)
    for name in ("files", "clock", "stranger"):
        hear(client, State(name, "running"))
    assert [*client.states] == ["files", "clock"]
    client.want(Start((CLOCK,)))
    assert [*client.states] == ["clock"]
    client.lose("m", another=True)
    assert client.states == {}


def test_a_call_waits_for_a_process_that_will_begin():
    client = ToolClient()
    assert client.call(call("early")) == Result("early", "failed", "The tools are not running.")
    client.expect()
    for id in "ab":
        assert client.call(call(id)) is None
    assert client.due_seconds is None
    refused = client.cancel("b")
    assert (refused.id, refused.ending) == ("b", "cancelled")
    client.begin()
    assert sent(client)[1:] == [call("a")]
    refused = client.call(Call("c", "files", "write", "x" * LONGEST_LINE_BYTES))
    assert (refused.id, refused.ending) == ("c", "failed"), "it is too long"
    assert sent(client) == []


def test_what_is_due_says_how_long_silence_may_last():
    client = started(FILES)
    client.call(call("a", seconds=5))
    client.call(call("b", seconds=9))
    assert client.due_seconds == 9
    client.cancel("a")
    client.cancel("a")
    assert client.due_seconds == 0
    assert sent(client) == [call("a", seconds=5), call("b", seconds=9), Cancel("a")]
    hear(client, Result("a", "cancelled", ""))
    hear(client, Result("b", "done", ""))
    assert client.due_seconds is None
    client = started(replace(FILES, tool_timeout_sec=300.0))
    client.call(call("a", seconds=60))
    assert client.due_seconds == 300
    assert sent(client) == [call("a", seconds=300.0)]


def test_a_call_has_one_result_and_what_was_sent_ends_with_its_process():
    client = started(FILES)
    for id in "ab":
        assert client.call(call(id)) is None
    assert sent(client) == [call("a"), call("b")]
    for response, own in (
        (Result("x", "done", ""), False),
        (Progress("a", 1.0), True),
        (Result("a", "done", ""), True),
        (Progress("a", 1.0), False),
        (Result("a", "done", ""), False),
    ):
        assert hear(client, response) == (response if own else None)
    client.cancel("b")
    (lost,) = client.lose("It died.", another=True)
    assert (lost.id, lost.ending) == ("b", "cancelled")
    assert client.call(call("c")) is None
    assert hear(client, Result("c", "done", "")) is None
    assert client.lose("It died.", another=True) == []
    client.begin()
    assert sent(client)[1:] == [call("c")]
    assert client.lose("It died.", another=False) == [Result("c", "failed", "It died.")]
    assert client.due_seconds is None
