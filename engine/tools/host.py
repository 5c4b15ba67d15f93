"""The process that runs the servers of tools: commands in, responses out, as `protocol` says.

One thread and one event loop. Each server has a task of its own, in which its connection lives and
ends; each call another. A call ends once, even if its server fails: with its result, when it is
cancelled, when its time is over, or with the server.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import anyio.abc
import mcp_types as types
from mcp import ClientSession, MCPError
from pydantic import ValidationError

from engine.pipes import claim_pipes
from engine.tools.configuration import expanded
from engine.tools.http import http_streams
from engine.tools.limits import Ended, LimitedStreams
from engine.tools.log import ServerLog
from engine.tools.own import own_streams
from engine.tools.programs import Guardian, login_path, program_streams
from engine.tools.protocol import (
    COMMANDS,
    LONGEST_LINE_BYTES,
    OWN,
    PROTOCOL,
    RESPONSES,
    Call,
    Cancel,
    Command,
    Ending,
    Progress,
    Ready,
    Response,
    Restart,
    Result,
    Server,
    Start,
    State,
)
from engine.tools.results import offered, result_text, short, shown
from models.errors import Problem
from models.files import log_folder
from models.this_process import open_many_files

START_SECONDS = 60.0
_MOST_START_SECONDS = 600.0  # of a first start, which may fetch the program
_MOST_PAGES = 50  # of a list of tools
_LISTS_APART_SECONDS = 1.0
_LONGEST_ERROR = 2_000  # characters
_LONGEST_REASON = 400  # characters
_MOST_NAMED = 8  # tools that are left out
_MORE_TIME = 'Restart it, or give it more time: "startup_timeout_sec" in its JSON.'
_OLDER = "It may be of an older kind, SSE: use its /mcp address, or npx -y mcp-remote ADDRESS."
_CLIENT = types.Implementation(name="Slipstream", version="0.1.0")

Send = Callable[[Response], None]


@dataclass(slots=True)
class _Running:
    """A server, from its start to its end. `session`: while it can be called; `changed`: its list
    of tools is another."""

    server: Server
    state: State
    log: ServerLog
    session: ClientSession | None = None
    changed: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class Host:
    """Runs servers and calls. For one event loop."""

    def __init__(
        self,
        send: Send,
        *,
        guardian: Guardian,
        logs: Path,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._send, self._guardian, self._logs = send, guardian, logs
        self._start_seconds = start_seconds
        self._servers: dict[str, _Running] = {}
        self._lives: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)  # of the same name
        self._calls: dict[str, anyio.CancelScope] = {}  # those without a result
        self._tasks: anyio.abc.TaskGroup

    async def run(self, commands: AsyncIterable[Command]) -> None:
        """Do the commands until their end; then end all servers."""
        async with anyio.create_task_group() as self._tasks:
            async for command in commands:
                match command:
                    case Start():
                        self._start(command)
                    case Restart(name) if name in self._servers:
                        self._begin(self._servers[name].server)
                    case Call(id, seconds=seconds) if id not in self._calls:
                        latest = anyio.current_time() + seconds
                        self._calls[id] = anyio.CancelScope(deadline=latest)
                        self._tasks.start_soon(self._call, command, self._calls[id])
                    case Cancel(id) if id in self._calls:
                        self._calls[id].cancel()
            for running in self._servers.values():
                running.scope.cancel()

    # Servers

    def _start(self, command: Start) -> None:
        own = Server(OWN, args=command.folders)
        wanted = {server.name: server for server in (*command.servers, own)}
        for name in self._servers.keys() - wanted.keys():
            self._servers.pop(name).scope.cancel()
        for name, server in wanted.items():
            if name in self._servers and self._servers[name].server == server:
                self._send(self._servers[name].state)
            else:
                self._begin(server)

    def _begin(self, server: Server) -> None:
        """Start a server, in place of one of its name."""
        if server.name in self._servers:
            self._servers[server.name].scope.cancel()
        state = State(server.name, "starting")
        running = _Running(server, state, ServerLog(self._logs, server))
        self._servers[server.name] = running
        self._tell(running, state)
        self._tasks.start_soon(self._live, running)

    async def _live(self, running: _Running) -> None:
        """The life of a server, which begins when the one before has ended."""
        name = running.server.name
        with running.scope:
            async with self._lives[name]:
                try:
                    await self._connect(running)
                except Exception as error:
                    why = _problem(error, running)
                    state = State(name, "failed", message=why.message, remedy=why.remedy)
                    self._tell(running, state)

    async def _connect(self, running: _Running) -> None:
        """Hold the connection until it ends."""

        async def hear(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                running.changed.set()

        async with self._streams(running) as streams:
            limited = LimitedStreams(*streams)
            async with ClientSession(
                limited, limited, message_handler=hear, client_info=_CLIENT
            ) as session:
                try:
                    with self._time_to_start(running):
                        await _greet(session)
                        running.session = session
                        await self._list(running, session, limited.odd_tools)
                    while True:
                        await running.changed.wait()
                        running.changed = anyio.Event()
                        with self._time_to_start(running):
                            await self._list(running, session, limited.odd_tools)
                        await anyio.sleep(_LISTS_APART_SECONDS)
                finally:
                    running.session = None

    @contextmanager
    def _time_to_start(self, running: _Running) -> Iterator[None]:
        """Raise TimeoutError if the block takes too long. A line in the server's log, such as of a
        download, counts as life."""
        seconds = running.server.startup_timeout_sec or self._start_seconds
        latest = anyio.current_time() + max(seconds, _MOST_START_SECONDS)
        with anyio.fail_after(seconds) as limit:

            def extend() -> None:
                limit.deadline = min(anyio.current_time() + seconds, latest)

            running.log.heard = extend
            yield

    def _streams(self, running: _Running) -> AbstractAsyncContextManager[Any]:
        """The transport to a server. Raises `Problem` if a value of its is not there."""
        if running.server.name == OWN:
            return own_streams(running.server.args)
        server = expanded(running.server, os.environ)
        running.log = ServerLog(self._logs, server)
        if server.url:
            return http_streams(server)
        return program_streams(server, guardian=self._guardian, log=running.log)

    async def _list(self, running: _Running, session: ClientSession, odd: list[str]) -> None:
        """Ask for the tools, and tell them; `odd` gets the names of unreadable ones."""
        tools: list[types.Tool] = []
        odd.clear()
        capabilities, cursor = session.server_capabilities, None
        if capabilities is not None and capabilities.tools is not None:
            for _ in range(_MOST_PAGES):
                page = types.PaginatedRequestParams(cursor=cursor)
                answer = await session.list_tools(params=page)
                tools += answer.tools
                if (cursor := answer.next_cursor) is None:
                    break
        name, about = running.server.name, session.server_info
        found, left_out = offered(name, tools)
        left_out = (*odd, *left_out, *["the rest of a list without end"] * (cursor is not None))
        version = short(f"{about.title or about.name} {about.version}") if about else ""
        instructions = shown(session.instructions or "")
        message = remedy = ""
        if left_out:
            named = ", ".join(map(short, left_out[:_MOST_NAMED]))
            message = f"{len(left_out):,} of its tools are left out: {named}."
            remedy = "A model could not read them: without a schema, too long or badly named."
        self._tell(running, State(name, "running", found, version, instructions, message, remedy))

    def _tell(self, running: _Running, state: State) -> None:
        running.state = state
        if self._servers.get(running.server.name) is running:
            self._send(state)

    # Calls

    async def _call(self, command: Call, scope: anyio.CancelScope) -> None:
        """Call a tool, and send the result, however the call ends."""
        began = time.monotonic()
        outcome: tuple[Ending, str, int] = "cancelled", "The call was cancelled.", 0
        with scope:
            outcome = await self._outcome(command)
        if scope.cancelled_caught and anyio.current_time() >= scope.deadline:
            why = f'It took longer than {command.seconds:g} seconds ("timeout" of its server).'
            outcome = "failed", why, 0
        ending, text, size_bytes = outcome
        seconds = round(time.monotonic() - began, 3)
        del self._calls[command.id]
        self._send(Result(command.id, ending, text, seconds, size_bytes))

    async def _outcome(self, command: Call) -> tuple[Ending, str, int]:
        """How a call ends, the text of its result, and the size of all that the server returned."""

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            if command.id in self._calls:  # which is alive, as it goes on
                self._calls[command.id].deadline = anyio.current_time() + command.seconds
                done, of = (each if isfinite(each) else 0.0 for each in (progress, total or 0.0))
                self._send(Progress(command.id, done, of, short(message or "")))

        running = self._servers.get(command.server)
        if running is None or running.session is None:
            return "failed", f"The server {command.server} is not running.", 0
        try:
            parameters = types.CallToolRequestParams(
                name=command.tool, arguments=json.loads(command.arguments)
            )
            # Not `call_tool`: it checks the result by the server's schema, whose patterns may take
            # endlessly long.
            result = await running.session.send_request(
                types.CallToolRequest(params=parameters),
                types.CallToolResult,
                progress_callback=tell,
            )
            text, size_bytes = result_text(result)
            return "failed" if result.is_error else "done", text, size_bytes
        except Exception as error:
            return "failed", running.log.masked(_why(error)), 0


async def _greet(session: ClientSession) -> None:
    """Agree on a version of MCP, an older or the newest one."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.error.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION):
            raise
        await session.discover()


def _problem(error: Exception, running: _Running) -> Problem:
    """The end of a server by an error, for the user."""
    causes = _causes(error)
    cause = next((each for each in causes if isinstance(each, Ended | Problem)), causes[0])
    if isinstance(cause, Problem):
        return cause
    log, message = running.log, _why(cause)
    remedy = f"Read {log.path.name}, and restart it."
    if running.server.url:
        older = running.server.is_older
        remedy = _OLDER if older else "Check its address and its key, and restart it."
    else:
        remedy = _MORE_TIME if isinstance(cause, TimeoutError) else remedy
        message += f" Its log says: {short(log.reason, _LONGEST_REASON)}" if log.reason else ""
    return Problem(log.masked(message), remedy)


def _causes(error: Exception) -> list[Exception]:
    if not isinstance(error, ExceptionGroup):
        return [error]
    return [cause for each in error.exceptions for cause in _causes(each)]


def _why(error: Exception) -> str:
    """A sentence on what went wrong with a server or a call."""
    match error:
        case Ended():
            return str(error)
        case TimeoutError():
            return "It did not answer in time."
        case MCPError(error=types.ErrorData(message="Connection closed")):  # the SDK's own words
            return "The server ended before it returned a result."
        case MCPError():
            return short(error.error.message, _LONGEST_ERROR) or "It failed without a message."
        case ValidationError():
            return "It sent an invalid MCP message."
        case _:
            return f"It failed: {type(error).__name__}: {short(str(error))}"


async def _read(stream: BinaryIO) -> AsyncIterator[Command]:
    """The commands until their end. Other lines are printed on standard error."""
    reader = asyncio.StreamReader(LONGEST_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), stream
    )
    while not reader.at_eof():
        try:
            if line := await reader.readline():
                yield COMMANDS.read(line)
        except ValueError as error:  # WrongJson, or the line is too long
            print(error, file=sys.stderr)


def main() -> None:
    """Run until the end of standard input. The servers end with this process, however it ends."""
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the parent
    logging.disable(logging.CRITICAL)  # the SDK would log what servers write
    open_many_files()
    guardian = Guardian()
    commands, responses = claim_pipes()

    def send(response: Response) -> None:
        with suppress(OSError):  # no one reads it: the end of standard input follows
            responses.write(RESPONSES.to_line(response))
            responses.flush()

    send(Ready(PROTOCOL))
    if "TERM" not in os.environ:  # not from a terminal, whose path is the user's
        folders = (login_path(os.environ), os.environ.get("PATH", ""))
        os.environ["PATH"] = os.pathsep.join(filter(None, folders))
    asyncio.run(Host(send, guardian=guardian, logs=log_folder()).run(_read(commands)))
    guardian.close()
    os._exit(0)  # not waiting for threads that read a document
