"""Tools in a terminal: runs their process, asks the user, and runs an answer step by step.

Knows a console and the rules of `engine.tools.turn`; nothing of models. A tool runs only if the
user allows it, by a key or by an option.
"""

import json
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text as Styled

from engine.cli.line_child import Asked
from engine.events import Done, Event, Text
from engine.request import ChatMessage, Request
from engine.stretches import Stretch, extend, joined, said
from engine.tools.calling import Calling
from engine.tools.client import ToolClient, host_command
from engine.tools.configuration import load
from engine.tools.protocol import OWN, Call, Offered, Result, Start
from engine.tools.steps import Step, StepCall, line_of, messages_of, must_answer
from engine.tools.turn import (
    Decision,
    GivenTool,
    Permissions,
    finished,
    given_tools,
    seconds_left,
    tools_json,
    unfit,
)
from models.errors import Problem
from models.in_words import clean, one_line

_GLANCE_SECONDS = 0.1  # between two looks at whether a call is cancelled
_LATE_SECONDS = 10.0  # after the time of a call, or its cancelling, in which the process ends it
_MOST_SHOWN = 2000  # characters of arguments
_KEYS: dict[str, Decision] = {"o": "once", "a": "always", "n": "refuse", "v": "never"}

Decide = Callable[[StepCall, GivenTool], tuple[Decision, str]]
"""Asks the user. Returns their decision, and the arguments that they wrote instead, or "". Raises
KeyboardInterrupt if the answer should stop."""


class ToolProcess:
    """The process that runs the servers, one call at a time. The first call after its death starts
    it again."""

    def __init__(self, start: Start, *, command: Sequence[str] = ()) -> None:
        self._client = ToolClient()
        self._client.want(start)
        self._process = Asked(self._client, command or host_command())

    def tools(self, *, cancelled: Callable[[], bool] = lambda: False) -> tuple[Offered, ...]:
        """Return the tools of all servers, after each has started or failed."""
        if not self._process.runs:
            self._process.begin()
        names = [server.name for server in self._client.wanted.servers] + [OWN]
        states = self._client.states
        while self._process.runs and not cancelled():
            if all(name in states and states[name].state != "starting" for name in names):
                break
            self._process.hear(_GLANCE_SECONDS)
        return tuple(tool for state in self._client.states.values() for tool in state.tools)

    @property
    def failures(self) -> list[str]:
        """A line for each server that failed to start, or whose tools are left out."""
        states = self._client.states.values()
        return [f"{each.server}: {each.message} {each.remedy}" for each in states if each.message]

    def call(self, call: Call, *, cancelled: Callable[[], bool] = lambda: False) -> Result:
        """Call a tool, and wait for its result."""
        self.tools(cancelled=cancelled)
        if (refused := self._client.call(call)) is not None:
            return refused
        latest, limit = 0.0, -1.0
        while True:
            if cancelled() and (over := self._client.cancel(call.id)) is not None:
                return over
            before, limit = limit, self._client.due_seconds or 0.0  # 0 once cancelled
            if limit != before:
                latest = time.monotonic() + limit + _LATE_SECONDS
            heard = self._process.hear(_GLANCE_SECONDS) if self._process.runs else []
            if heard:  # such as progress
                limit = -1.0
            elif time.monotonic() > latest:
                heard = self._process.end("The call timed out.")
            for each in heard or ():
                if isinstance(each, Result) and each.id == call.id:
                    return each

    def close(self) -> None:
        """End the process and its servers."""
        self._process.end()


class Tools:
    """The tools of a chat in the terminal.

    Attributes: `given`, the tools that the model may call; `json`, their description in a prompt;
    `decide`, which asks the user: it refuses every call until another function is set.
    """

    def __init__(
        self,
        process: ToolProcess,
        offered: Sequence[Offered],
        console: Console,
        *,
        trusted: frozenset[str] = frozenset(),
        allowed: Collection[str] = (),
    ) -> None:
        self._process, self._console = process, console
        self.given = given_tools(offered)
        self.json = tools_json(self.given)
        names = {name for tool in self.given for name in (tool.name, tool.offered.name)}
        if unknown := [name for name in allowed if name not in names]:
            raise Problem(
                f"Unknown tool: {unknown[0]}.", f"Available tools: {', '.join(sorted(names))}."
            )
        always = {tool.key for tool in self.given if {tool.name, tool.offered.name} & {*allowed}}
        self._permissions = Permissions(frozenset(always), trusted=trusted)
        self.decide: Decide = lambda call, tool: ("refuse", "")

    def calling(self, question: str) -> Calling:
        """Return the state of calls at the start of an answer."""
        return Calling(tools=self.given, permissions=self._permissions, question=question)

    def run(
        self, calling: Calling, *, count: Callable[[str], int], cancelled: Callable[[], bool]
    ) -> bool:
        """Run the calls of the last step, with a line for each on the console. Returns whether the
        answer may continue: False if the user stopped it."""
        stopped = False
        tools = {tool.key: tool for tool in self.given}
        for call in calling.last:
            now = calling.call(call.id) or call  # a decision about another call may apply to it
            stopped = stopped or cancelled()
            if now.state == "asked" and not stopped:
                if calling.repeats(now):
                    self._console.print("This call has run before:", style="dim")
                try:
                    calling.decide(now, *self.decide(now, tools[now.key]))
                    now = calling.call(call.id) or call
                except KeyboardInterrupt:
                    stopped = True
            if now.state in ("asked", "running"):
                result = Result(now.id, "cancelled", "")
                if not stopped:
                    result = self._run(now, seconds_left(calling.steps), cancelled)
                    stopped = cancelled()
                now = finished(now, result, question=calling.question, count=count)
                calling.put(now)
            self._print(now)
        self._permissions = calling.permissions
        return not stopped

    def _run(self, call: StepCall, seconds: float, cancelled: Callable[[], bool]) -> Result:
        """Run a call. A tool whose description has changed is not called."""
        known = {tool.offered for tool in self.given}
        wanted = Call(call.id, call.server, call.tool, call.ran or call.arguments, seconds)
        with self._console.status(Styled(line_of(call))):
            now = self._process.tools(cancelled=cancelled)
            others = (tool for tool in now if tool not in known)
            if any((tool.server, tool.name) == call.key for tool in others):
                return Result(call.id, "failed", "Not called: the tool's description changed.")
            return self._process.call(wanted, cancelled=cancelled)

    def _print(self, call: StepCall) -> None:
        why = f": {one_line(call.result)[:200]}" if call.state in ("failed", "refused") else ""
        self._console.print(
            Styled(line_of(call) + why), style="dim", highlight=False, soft_wrap=True
        )


@contextmanager
def open_tools(
    path: Path | None, console: Console, *, allowed: Collection[str] = ()
) -> Iterator[Tools | None]:
    """Start the servers in a file, for the length of the block, and yield their tools; None
    without a file. Raises `Problem`.

    Of our own file only the tools that are switched on count; of another program's file all count,
    since the user is asked about each call. A server that fails to start is named on the console.
    """
    if path is None:
        if allowed:
            raise Problem("--allow needs tools.", "Name a file of MCP servers with --tools.")
        yield None
        return
    if not path.is_file():
        raise Problem(f"{path} does not exist.", "Name a file of MCP servers after --tools.")
    configuration = load(path)
    process = ToolProcess(Start(configuration.enabled(), configuration.folders))
    with closing(process):
        with console.status("Starting tool servers"):
            offered = process.tools()
        for line in process.failures:
            console.print(Styled(clean(line)), style="yellow", highlight=False, soft_wrap=True)
        others = not configuration.ours
        switched_on = [
            tool for tool in offered if configuration.is_on(tool) or (others and tool.server != OWN)
        ]
        yield Tools(process, switched_on, console, trusted=configuration.trusted, allowed=allowed)


def ask_user(console: Console, read: Callable[[], str]) -> Decide:
    """Return a function that asks on a console and reads keys with `read`, during which Ctrl-C has
    its usual effect."""

    def decide(call: StepCall, tool: GivenTool) -> tuple[Decision, str]:
        reads = " (read-only, according to its server)" if tool.offered.read_only else ""
        console.print(Styled(clean(f"{tool.offered.server}: {tool.offered.name}{reads}")))
        console.print(Styled(_shown(call.arguments)))
        console.print(
            "o: run once; a: always in this chat; n: no; v: never. Or type other arguments.",
            style="dim",
            highlight=False,
        )
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            while True:
                line = read().strip()
                if line in _KEYS:
                    return _KEYS[line], ""
                fault = unfit(line, tool) if line.startswith("{") else "Type o, a, n, v or JSON."
                if not fault:
                    return "once", line
                console.print(Styled(fault), style="red")
        except EOFError:
            return "refuse", ""
        finally:
            signal.signal(signal.SIGINT, before)

    return decide


def _shown(arguments: str) -> str:
    """Return arguments as the user can read them: one a line, invisible characters escaped."""
    try:
        value = json.loads(arguments)
        shown = json.dumps(value, indent=1, ensure_ascii=False)
        if clean(shown) != shown:
            shown = json.dumps(value, indent=1)
    except (ValueError, RecursionError):
        shown = json.dumps(arguments)
    more = len(shown) - _MOST_SHOWN
    return shown if more <= 0 else f"{shown[:_MOST_SHOWN]}… and {more:,} more characters"


class AnswerInSteps:
    """An answer that may call tools, generation by generation. Attribute: `events`, all so far."""

    def __init__(
        self,
        ask: Callable[..., Iterator[Event]],
        asked: Sequence[ChatMessage],
        request: Request,
        tools: Tools | None,
        *,
        count: Callable[[str], int],
        cancelled: Callable[[], bool] = lambda: False,
        hurried: Callable[[], bool] = lambda: False,
    ) -> None:
        """`ask`: see `ChildSession.answer`. `asked`: a chat whose last message is the question."""
        self._ask, self._asked, self._request, self._tools = ask, asked, request, tools
        self._count, self._cancelled, self._hurried = count, cancelled, hurried
        question = asked[-1].content[asked[-1].attached :]
        self._calling = tools.calling(question) if tools else Calling()
        self.events: list[Event] = []
        self.text = ""
        self.stretches: list[Stretch] = []

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return self._calling.steps

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The answer as messages of a chat."""
        stretches = joined(self.stretches)
        if self.steps:
            return messages_of(self.text, stretches, self.steps)
        reasoning = said(self.text, stretches, "reasoning")
        return (ChatMessage("assistant", said(self.text, stretches), reasoning=reasoning),)

    @property
    def content(self) -> str:
        """The answer's text, without reasoning and calls."""
        return said(self.text, joined(self.stretches))

    def generations(self) -> Iterator[Iterator[Event]]:
        """Yield the events of each generation; after the caller has read them, run its calls."""
        while True:
            begun = len(self.events)
            messages = self.messages if self.steps else ()
            events = self._ask(
                [*self._asked, *messages],
                replace(self._request, may_call=not must_answer(self.steps)),
                tools=self._tools.json if self._tools else "",
                cancelled=self._cancelled,
                hurried=self._hurried,
            )
            yield self._heard(events)
            done = self.events[-1] if len(self.events) > begun else None
            if self._tools is None or not isinstance(done, Done) or done.reason == "cancelled":
                return
            if not self._calling.begin_step(done.generation, place=len(self.text)):
                return
            if not self._tools.run(self._calling, count=self._count, cancelled=self._cancelled):
                return

    def _heard(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            self.events.append(event)
            if isinstance(event, Text):
                self.text += event.delta
                extend(self.stretches, event.parts)
                self._calling.hear(event)
            yield event
