"""The process that runs the servers of tools: commands in, responses out, as `protocol` says.

One thread and one event loop. Each server has a task of its own, in which its connection lives and
ends; each call another. Whatever a server does, a call ends once: when its result is there, when it
is cancelled, when its time is over, or with the server.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import anyio.abc
import httpx2
import mcp_types as types
from mcp import ClientSession, MCPError
from pydantic import ValidationError

from engine.pipes import claim_pipes
from engine.tools.configuration import expanded
from engine.tools.http import http_streams
from engine.tools.log import ServerLog
from engine.tools.own import own_streams
from engine.tools.programs import Guardian, Program
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
    Quit,
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
from models.typed_json import WrongJson

START_SECONDS = 60.0  # a first start may fetch the program
_MOST_PAGES = 50  # of a list of tools
_LISTS_APART_SECONDS = 1.0
_LONGEST_ERROR = 2_000  # characters
_CLIENT = types.Implementation(name="Slipstream", version="0.1.0")

Send = Callable[[Response], None]
Streams = AbstractAsyncContextManager[Any]


@dataclass(slots=True)
class _Running:
    """A server, from its start to its end. `program`: None for one over HTTP or of our own, which
    reads the `folders`."""

    server: Server
    folders: tuple[str, ...]
    state: State
    log: ServerLog
    program: Program | None = None
    session: ClientSession | None = None
    changed: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)


class _OpenCall:
    """A call without a result. It ends once, whoever is first to end it."""

    def __init__(self, command: Call, send: Send, forget: Callable[[str], object]) -> None:
        self.command, self.scope = command, anyio.CancelScope()
        self._send, self._forget = send, forget
        self._over = False
        self._since = time.monotonic()
        self._late = asyncio.get_running_loop().call_later(
            min(max(command.seconds, 0.0), 86_400.0),
            lambda: self.end("failed", f"It took longer than {command.seconds:g} seconds."),
        )

    def end(self, ending: Ending, text: str, size_bytes: int = 0) -> None:
        """Send the result, unless one was sent."""
        if self._over:
            return
        self._over = True
        self._late.cancel()
        self._forget(self.command.id)
        seconds = time.monotonic() - self._since
        self._send(Result(self.command.id, ending, text, round(seconds, 3), size_bytes))
        self.scope.cancel()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell how far it is."""
        if not self._over:
            done, of = (each if isfinite(each) else 0.0 for each in (progress, total or 0.0))
            self._send(Progress(self.command.id, done, of, short(message or "")))


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
        self._calls: dict[str, _OpenCall] = {}
        self._tasks: anyio.abc.TaskGroup | None = None

    async def run(self, commands: anyio.abc.ObjectReceiveStream[Command]) -> None:
        """Do the commands until `quit` or their end; then end all servers."""
        async with anyio.create_task_group() as self._tasks:
            async for command in commands:
                match command:
                    case Start():
                        self._start(command)
                    case Restart(name) if name in self._servers:
                        old = self._servers[name]
                        self._begin(old.server, old.folders)
                    case Call():
                        self._call(command)
                    case Cancel(id) if id in self._calls:
                        self._calls[id].end("cancelled", "The call was cancelled.")
                    case Quit():
                        break
            for call in [*self._calls.values()]:
                call.end("cancelled", "The call was cancelled.")
            for running in self._servers.values():
                running.scope.cancel()

    # Servers

    def _start(self, command: Start) -> None:
        wanted = {server.name: server for server in (*command.servers, Server(OWN))}
        for name in [name for name in self._servers if name not in wanted]:
            self._servers.pop(name).scope.cancel()
        for name, server in wanted.items():
            folders = command.folders if name == OWN else ()
            old = self._servers.get(name)
            if old is not None and (old.server, old.folders) == (server, folders):
                self._send(old.state)
            else:
                self._begin(server, folders)

    def _begin(self, server: Server, folders: tuple[str, ...]) -> None:
        assert self._tasks is not None
        before = self._servers.get(server.name)
        state = State(server.name, "starting")
        running = _Running(server, folders, state, ServerLog(self._logs, server))
        self._servers[server.name] = running
        self._tasks.start_soon(self._live, running, before)

    async def _live(self, running: _Running, before: _Running | None) -> None:
        """The life of a server."""
        if before is not None:
            before.scope.cancel()
            await before.over.wait()
        try:
            with running.scope:
                self._tell(running, running.state)
                try:
                    await self._connect(running)
                except Exception as error:
                    self._tell(running, _failed(running, error))
        finally:
            running.session = None
            for call in [*self._calls.values()]:
                if call.command.server == running.server.name:
                    call.end("failed", "The server ended before it returned a result.")
            running.over.set()

    async def _connect(self, running: _Running) -> None:
        """Hold the connection until it ends."""
        async with self._streams(running) as (reading, writing):

            async def hear(message: Any) -> None:
                if isinstance(message, types.ToolListChangedNotification):
                    running.changed.set()

            async with ClientSession(
                reading, writing, message_handler=hear, client_info=_CLIENT
            ) as session:
                with anyio.fail_after(self._start_seconds):
                    await _greet(session)
                    running.session = session
                    await self._list(running, session)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._list_again, running, session)
                    if running.program is not None:
                        await running.program.ended.wait()
                        raise _Ended
                    await anyio.sleep_forever()

    def _streams(self, running: _Running) -> Streams:
        """The transport to a server. Raises `Problem` if a value of its is not there."""
        if running.server.name == OWN:
            return own_streams(running.folders)
        server = expanded(running.server, os.environ)
        running.log = ServerLog(self._logs, server)
        if server.url:
            return http_streams(server)
        running.program = Program(server, guardian=self._guardian, log=running.log)
        return running.program.streams()

    async def _list(self, running: _Running, session: ClientSession) -> None:
        """Ask for the tools, and tell them."""
        tools: list[types.Tool] = []
        capabilities, cursor = session.server_capabilities, None
        if capabilities is not None and capabilities.tools is not None:
            for _ in range(_MOST_PAGES):
                page = types.PaginatedRequestParams(cursor=cursor)
                answer = await session.list_tools(params=page)
                tools += answer.tools
                if (cursor := answer.next_cursor) is None:
                    break
        found, left_out = offered(running.server.name, tools)
        about = session.server_info
        version = short(f"{about.title or about.name} {about.version}") if about else ""
        message = f"{left_out:,} of its tools are left out." if left_out or cursor else ""
        remedy = (
            "A model could not read them: too many, too long or badly named." if message else ""
        )
        instructions = shown(session.instructions or "")
        name = running.server.name
        self._tell(running, State(name, "running", found, version, instructions, message, remedy))

    async def _list_again(self, running: _Running, session: ClientSession) -> None:
        while True:
            await running.changed.wait()
            running.changed = anyio.Event()
            with anyio.fail_after(self._start_seconds):
                await self._list(running, session)
            await anyio.sleep(_LISTS_APART_SECONDS)

    def _tell(self, running: _Running, state: State) -> None:
        running.state = state
        if self._servers.get(running.server.name) is running:
            self._send(state)

    # Calls

    def _call(self, command: Call) -> None:
        assert self._tasks is not None
        if command.id in self._calls:
            return
        call = _OpenCall(command, self._send, self._calls.pop)
        self._calls[command.id] = call
        running = self._servers.get(command.server)
        try:
            arguments = json.loads(command.arguments)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            call.end("failed", "The arguments are not a JSON object.")
        elif running is None or running.session is None:
            call.end("failed", f"The server {command.server} does not run.")
        else:
            self._tasks.start_soon(self._run, call, running, running.session, arguments)

    async def _run(
        self,
        call: _OpenCall,
        running: _Running,
        session: ClientSession,
        arguments: Mapping[str, Any],
    ) -> None:
        with call.scope:
            try:
                # Not `call_tool`: it checks the result by the server's schema, whose patterns may
                # take for ever.
                result = await session.send_request(
                    types.CallToolRequest(
                        params=types.CallToolRequestParams(
                            name=call.command.tool, arguments=dict(arguments)
                        )
                    ),
                    types.CallToolResult,
                    progress_callback=call.progress,
                )
                text, size_bytes = result_text(result)
                call.end("failed" if result.is_error else "done", text, size_bytes)
            except Exception as error:
                call.end("failed", running.log.masked(_why(error)))


class _Ended(Exception):
    """The program ended by itself."""


async def _greet(session: ClientSession) -> None:
    """Agree on a version of MCP, an older or the newest one."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.error.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION):
            raise
        await session.discover()


def _failed(running: _Running, error: Exception) -> State:
    """The state of a server that ended with an error."""
    name, log = running.server.name, running.log
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    remedy = f"Look into {log.path.name}, and start it again."
    if isinstance(error, Problem):
        return State(name, "failed", message=error.message, remedy=error.remedy)
    if running.program is None:
        return State(name, "failed", message=log.masked(_why(error)), remedy=_HTTP_REMEDY)
    ended = isinstance(error, _Ended | MCPError) and running.program.ended.is_set()
    message = running.program.why if ended else _why(error)
    if log.last:
        message += f" Its last words: {short(log.last)}"
    return State(name, "failed", message=log.masked(message), remedy=remedy)


_HTTP_REMEDY = "See whether its address and its key are right, and start it again."


def _why(error: Exception) -> str:
    """A sentence on what went wrong with a server or a call."""
    match error:
        case TimeoutError():
            return "It did not answer in time."
        case MCPError(error=types.ErrorData(message="Connection closed")):  # the SDK's own words
            return "The server ended before it returned a result."
        case MCPError():
            return short(error.error.message, _LONGEST_ERROR) or "It failed, and does not say why."
        case ValidationError():
            return "It sent something that is not MCP."
        case httpx2.HTTPError() | OSError():
            return f"It cannot be reached: {short(str(error)) or type(error).__name__}."
        case _:
            return f"It failed: {type(error).__name__}: {short(str(error))}"


async def _read_commands(stream: BinaryIO, commands: anyio.abc.ObjectSendStream[Command]) -> None:
    """Read commands until their end. Those that are none are named on standard error."""
    reader = asyncio.StreamReader(LONGEST_LINE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), stream
    )
    try:
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                await reader.readexactly(error.consumed)
                continue
            try:
                await commands.send(COMMANDS.read(line))
            except WrongJson as error:
                print(error.message, error.remedy, file=sys.stderr)
    except (asyncio.IncompleteReadError, anyio.BrokenResourceError):
        pass
    finally:
        transport.close()
        await commands.aclose()


async def _main(commands: BinaryIO, send: Send, guardian: Guardian) -> None:
    host = Host(send, guardian=guardian, logs=log_folder())
    sending, receiving = anyio.create_memory_object_stream[Command]()
    async with receiving, anyio.create_task_group() as tasks:
        tasks.start_soon(_read_commands, commands, sending)
        await host.run(receiving)
        tasks.cancel_scope.cancel()


def main() -> None:
    """Run until `quit` or the end of standard input. The servers end with it, however it ends."""
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for whoever started this
    logging.disable(logging.CRITICAL)  # the SDK would log what servers write
    open_many_files()
    guardian = Guardian()
    commands, responses = claim_pipes()

    def send(response: Response) -> None:
        try:
            responses.write(RESPONSES.to_line(response))
            responses.flush()
        except OSError:  # nobody reads it: the end of standard input follows
            pass

    send(Ready(PROTOCOL))
    with suppress(KeyboardInterrupt):
        asyncio.run(_main(commands, send, guardian))
    guardian.close()
    os._exit(0)  # not waiting for threads that read a document
