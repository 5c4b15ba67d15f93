"""Each call of a tool has one result, in whatever order calls, lines and deaths come."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

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
    client = ToolClient()
    client.want(Start((FILES,)))
    assert sent(client) == []
    client.begin()
    assert sent(client) == [Start((FILES,))]
    client.want(Start((CLOCK,), ("/notes",)))
    assert sent(client) == [Start((CLOCK,), ("/notes",))]
    client.lose("m", another=True)
    client.begin()
    assert sent(client) == [Start((CLOCK,), ("/notes",))]


def test_states_are_of_servers_that_are_wanted_and_of_this_process():
    client = started(FILES, CLOCK)
    for name in ("files", "clock", "stranger"):
        hear(client, State(name, "running"))
    assert [*client.states] == ["files", "clock"]
    client.want(Start((CLOCK,)))
    assert [*client.states] == ["clock"]
    client.lose("m", another=True)
    assert client.states == {}


def test_a_server_is_started_again():
    client = started(FILES)
    client.restart("files")
    assert sent(client) == [Restart("files")]
    client.lose("m", another=True)
    client.restart("files")
    client.begin()
    assert sent(client) == [Start((FILES,))]


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


def test_a_call_that_is_too_long_fails_alone():
    client = started(FILES)
    refused = client.call(Call("a", "files", "write", "x" * LONGEST_LINE_BYTES))
    assert refused.ending == "failed"
    assert sent(client) == []


class Calls(RuleBasedStateMachine):
    """Calls, cancels, responses true and false, processes that begin and die."""

    def __init__(self):
        super().__init__()
        self.client = ToolClient()
        self.client.want(Start((FILES,)))
        self.made = 0
        self.open = set()
        self.sent = set()
        self.ended = set()
        self.running = self.expected = False

    def end(self, result):
        if result is not None:
            assert result.id in self.open, "a call has one result"
            self.open.discard(result.id)
            self.ended.add(result.id)

    def write(self):
        for command in sent(self.client):
            if isinstance(command, Call):
                assert command.id not in self.sent, "a call is sent once"
                assert self.running
                self.sent.add(command.id)

    @rule()
    def ask(self):
        self.made += 1
        self.open.add(str(self.made))
        self.end(self.client.call(call(str(self.made))))
        self.write()
        assert (str(self.made) in self.open) == self.expected

    @rule(number=st.integers(1, 8))
    def stop(self, number):
        self.end(self.client.cancel(str(number)))
        self.write()

    @rule(number=st.integers(1, 8), ending=st.sampled_from(["done", "failed", "cancelled"]))
    def tell_result(self, number, ending):
        result = Result(str(number), ending, "")
        heard = hear(self.client, result)
        assert (heard == result) == (str(number) in self.open & self.sent)
        self.end(heard if isinstance(heard, Result) else None)

    @rule(number=st.integers(1, 8))
    def tell_progress(self, number):
        heard = hear(self.client, Progress(str(number), 1.0))
        assert (heard is not None) == (str(number) in self.open & self.sent)

    @precondition(lambda self: not self.running)
    @rule()
    def expect(self):
        self.client.expect()
        self.expected = True

    @precondition(lambda self: not self.running)
    @rule()
    def begin(self):
        self.client.begin()
        self.running = self.expected = True
        self.write()
        assert self.open <= self.sent
        assert (self.client.due_seconds is not None) == bool(self.open)

    @rule(another=st.booleans())
    def die(self, another):
        for result in self.client.lose("It died.", another=another):
            assert another <= (result.id in self.sent)
            self.end(result)
        assert self.client.due_seconds is None
        assert not self.open & self.sent
        assert another or not self.open
        self.running, self.expected = False, another

    def teardown(self):
        for result in self.client.lose("It ended.", another=False):
            self.end(result)
        assert self.ended == {str(number) for number in range(1, self.made + 1)}


TestCalls = Calls.TestCase
