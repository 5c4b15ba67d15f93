"""Tools without a process, and the events of an answer that calls them."""

from dataclasses import replace

from app.chat.tool_runner import ToolRunner
from engine.events import CallPiece, Done, Text
from engine.stretches import Stretch, cut, joined
from engine.tools.protocol import Offered, Progress, Result
from tests.support.app.made_traces import made_trace

READ = Offered(
    "files",
    "read_file",
    description="Read a file of the folder.",
    schema='{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}',
    read_only=True,
)
WRITE = Offered("files", "write_file", schema='{"type":"object"}')
ADD = Offered("maths", "add", schema='{"type":"object"}')


class FakeTools(ToolRunner):
    """Offers tools, and ends their calls when it is told to.

    Attributes: `tools`; `believed`, the servers that are trusted; `calls`, `cancelled`, in order.
    """

    def __init__(self, *tools):
        super().__init__()
        self.tools = tools
        self.believed = frozenset()
        self.calls = []
        self.cancelled = []

    @property
    def set_up(self):
        return bool(self.tools)

    def offered(self):
        return self.tools

    def trusted(self):
        return self.believed

    def call(self, call):
        self.calls.append(call)

    def cancel(self, id):
        self.cancelled.append(id)

    def end(self, text, *, ending="done", call=-1):
        """End a call, the latest if no other is named."""
        size = len(text.encode())
        self.ended.emit(Result(self.calls[call].id, ending, text, 0.1, size))

    def progress(self, done, total, message=""):
        self.progressed.emit(Progress(self.calls[-1].id, done, total, message))


def called(said, *calls, thought=""):
    """The events of a step that thinks, says something and then calls tools: each a name and its
    arguments."""
    texts = [f'<tool_call>{{"name": "{name}", "arguments": {args}}}</tool_call>\n'
             for name, args in calls]  # fmt: skip
    reasoning = f"<think>{thought}</think>\n" if thought else ""
    stretches = joined(
        (
            Stretch("mark", 7 * bool(thought)),
            Stretch("reasoning", len(thought)),
            Stretch("mark", 9 * bool(thought)),
            Stretch("content", len(said)),
            Stretch("call", sum(map(len, texts))),
        )
    )
    pieces = tuple(CallPiece(n, name, args, ended=True) for n, (name, args) in enumerate(calls))
    return marked(made_trace(reasoning + said + "".join(texts)), stretches, pieces)


def marked(events, stretches, pieces=()):
    """These events, with the stretches of their text, and its calls at the end."""
    found = []
    for event in events:
        if isinstance(event, Text):
            its, stretches = cut(stretches, len(event.delta))
            event = replace(event, stretches=its)
        if isinstance(event, Done):
            found.append(Text("g", "", calls=pieces))
        found.append(event)
    return tuple(found)
