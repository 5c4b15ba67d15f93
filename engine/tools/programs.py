"""A server that is a program: its process, and its messages within limits.

A transport of the MCP SDK. Between the two stands this: what is no message is counted and dropped,
a line has a largest size, and the process ends with all that it started.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from engine.pipes import Lines
from engine.process.supervision import how_it_ended
from engine.tools.log import ServerLog
from engine.tools.protocol import Server
from models.errors import Problem
from models.in_words import size

LONGEST_MESSAGE_BYTES = 8 << 20
_NONSENSE_BYTES = 16 << 20  # that are no messages, until the server is given up
_UNANSWERED = 100  # requests of the server at once
_BLOCK_BYTES = 1 << 16
_BLOCKS_APART_SECONDS = 0.002  # so that a flood of short lines comes in few blocks
_GRACE_SECONDS = 0.5  # from the end of its input until SIGTERM, and from that until SIGKILL
_LOOKS_APART_SECONDS = 0.02
_PROGRESS_APART_SECONDS = 0.1
_HEARD = ("notifications/cancelled", "notifications/tools/list_changed")  # and progress
_ID = re.compile(rb'"id"\s*:\s*"?(\d{1,15})"?\s*[,}]')
_ID_WITHIN = 400  # bytes of an unreadable message, from its beginning or end

# What a program gets from our own environment: not the keys that may be in it.
_PASSED_ON = (
    "HOME", "LOGNAME", "SHELL", "TERM", "USER", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "XDG_CONFIG_HOME", "XDG_CACHE_HOME",
    "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK",
)  # fmt: skip
# An application that the Finder starts has only the system's folders in its path.
_USUAL_PLACES = (
    "/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin", "~/.local/bin", "~/.volta/bin",
    "~/.bun/bin", "~/.deno/bin", "~/.cargo/bin", "~/.asdf/shims", "~/.local/share/mise/shims",
    "~/.local/share/fnm/aliases/default/bin", "~/.nodenv/shims", "~/.pyenv/shims",
    "~/.docker/bin", "~/.rd/bin", "~/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin",
)  # fmt: skip
_VERSIONED_PLACES = ("~/.nvm/versions/node/*/bin", "/opt/homebrew/opt/node@*/bin")
_COMES_WITH = {
    "npx": "Node.js", "npm": "Node.js", "node": "Node.js", "uvx": "uv", "uv": "uv",
    "bunx": "Bun", "bun": "Bun", "deno": "Deno", "docker": "Docker",
}  # fmt: skip

# Ends the process groups named in the last line that it read, once whoever wrote it has ended.
_GUARDIAN = """
while read -r line; do groups=$line; done
for each in $groups; do kill -TERM -$each; done
[ -z "$groups" ] || sleep 0.3
for each in $groups; do kill -KILL -$each; done
"""

Item = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Item], MemoryObjectSendStream[SessionMessage]]


class Guardian:
    """A small process that ends the programs if this process is killed."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process = subprocess.Popen(
            ("/bin/sh", "-c", _GUARDIAN),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what kills our group does not reach it
        )

    def watch(self, group: int) -> None:
        self._groups.add(group)
        self._tell()

    def forget(self, group: int) -> None:
        self._groups.discard(group)
        self._tell()

    def close(self) -> None:
        """End it, and what it still watches."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(" ".join(map(str, self._groups)).encode() + b"\n")
            self._process.stdin.flush()


def search_path(path: str = "") -> str:
    """Return `path`, and behind it the folders in which people have programs."""
    places = [Path(each).expanduser() for each in _USUAL_PLACES]
    for pattern in _VERSIONED_PLACES:  # the newest first
        top, _, rest = pattern.partition("/*")
        found = Path(top).expanduser().parent.glob(f"{Path(top).name}*{rest}")
        places += sorted(found, key=_version, reverse=True)
    kept = [*filter(None, path.split(os.pathsep)), *(str(each) for each in places if each.is_dir())]
    return os.pathsep.join(dict.fromkeys(kept))


def _version(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program: a part of ours, and `extra`."""
    ours = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    path = search_path(extra.get("PATH", os.environ.get("PATH", "")))
    return {**ours, **extra, "PATH": path}


class Program:
    """A program while it runs. `ended`: it no longer takes part. `why`: the reason, in a sentence,
    once that is known; else empty."""

    def __init__(self, server: Server, *, guardian: Guardian, log: ServerLog) -> None:
        self._server, self._guardian, self._log = server, guardian, log
        self._pending: set[int] = set()  # our requests without a response
        self._asked: set[str | int] = set()  # the server's
        self._nonsense_bytes = 0
        self._progress_at = 0.0
        self.ended = anyio.Event()
        self.why = ""

    @asynccontextmanager
    async def streams(
        self,
    ) -> AsyncIterator[
        tuple[MemoryObjectReceiveStream[Item], MemoryObjectSendStream[SessionMessage]]
    ]:
        """Run the program inside the block. Raises `Problem` if it cannot be started."""
        process = await self._start()
        heard, reading = anyio.create_memory_object_stream[Item]()
        writing, written = anyio.create_memory_object_stream[SessionMessage]()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process, heard)
                tasks.start_soon(self._write, process, written, heard)
                tasks.start_soon(self._read_complaints, process)
                try:
                    yield reading, writing
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._stop(process)
                    tasks.cancel_scope.cancel()
        finally:
            for stream in (heard, reading, writing, written):
                stream.close()
            _pipes(process).close()

    async def _start(self) -> asyncio.subprocess.Process:
        server = self._server
        variables = environment(server.env)
        folder = Path(server.cwd or "~").expanduser()
        if not folder.is_dir():
            raise Problem(
                f"Its folder {folder} is not there.", 'Correct "cwd", or make the folder.'
            )
        command = os.path.expanduser(server.command)
        program = shutil.which(command, path=variables["PATH"])
        if program is None:
            needed = _COMES_WITH.get(Path(command).name)
            raise Problem(
                f"There is no program {command}.",
                f"Install {needed}, or write the whole path of the program."
                if needed
                else "Install it, or write its whole path.",
            )
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *server.args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=variables,
                cwd=folder,
                start_new_session=True,  # so that it ends with all that it starts
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise Problem(
                f"{command} cannot be started: {reason}.", "See whether it is a program."
            ) from error
        self._guardian.watch(process.pid)
        self._log.note(f"started, process {process.pid}")
        return process

    async def _read(
        self, process: asyncio.subprocess.Process, heard: MemoryObjectSendStream[Item]
    ) -> None:
        assert process.stdout is not None
        lines = Lines(LONGEST_MESSAGE_BYTES)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with heard:
                while block := await process.stdout.read(_BLOCK_BYTES):
                    for line in lines.feed(block):
                        for item in self._items(line):
                            await heard.send(item)
                    if self._nonsense_bytes > _NONSENSE_BYTES or len(self._asked) > _UNANSWERED:
                        self.why = self.why or "It floods its standard output."
                        _kill(process.pid, signal.SIGKILL)
                        break
                    await anyio.sleep(_BLOCKS_APART_SECONDS)
        if not self.why:
            self.why = await _end_of(process)
        self.ended.set()
        while await process.stdout.read(_BLOCK_BYTES):  # until it is stopped, it can write
            pass

    def _items(self, line: bytes) -> list[Item]:
        """The message in a line; the errors that take its place; or nothing."""
        if len(line) > LONGEST_MESSAGE_BYTES:
            return self._refused(line, f"It returned more than {size(LONGEST_MESSAGE_BYTES)}.")
        if not line.lstrip().startswith(b"{"):
            self._ignore(line)
            return []
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._ignore(line)
            why = "It returned something that is no JSON, or nested too deeply."
            return self._refused(line, why) if _ids(line) else []
        match message:
            case (
                types.JSONRPCResponse(id=int() | str() as id)
                | types.JSONRPCError(id=int() | str() as id)
            ):
                self._pending.discard(_number(id))
            case types.JSONRPCRequest():
                self._asked.add(message.id)
            case types.JSONRPCNotification(method="notifications/progress"):
                if time.monotonic() - self._progress_at < _PROGRESS_APART_SECONDS:
                    return []
                self._progress_at = time.monotonic()
            case types.JSONRPCNotification() if message.method not in _HEARD:
                return []
        return [SessionMessage(message)]

    def _ignore(self, line: bytes) -> None:
        """Note the first line that is no message, and count all."""
        if not self._nonsense_bytes:
            start = self._log.masked(line[:_BLOCK_BYTES].decode(errors="replace"))
            self._log.note(f"no message: {start[:_ID_WITHIN]}")
        self._nonsense_bytes += len(line)

    def _refused(self, line: bytes, why: str) -> list[Item]:
        """Errors for the request that an unreadable line answers; or for all, if it has no id."""
        ids = [each for each in _ids(line) if each in self._pending] or sorted(self._pending)
        self._pending.difference_update(ids)
        error = types.ErrorData(code=types.PARSE_ERROR, message=why)
        return [SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=error)) for id in ids]

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        written: MemoryObjectReceiveStream[SessionMessage],
        heard: MemoryObjectSendStream[Item],
    ) -> None:
        assert process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for each in written:
                message = each.message
                if isinstance(message, types.JSONRPCRequest):
                    self._pending.add(_number(message.id))
                elif isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                    self._asked.discard(message.id if message.id is not None else "")
                data = message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(data.encode() + b"\n")
                await process.stdin.drain()

    async def _read_complaints(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while block := await process.stderr.read(_BLOCK_BYTES):
            self._log.add(block)
        self._log.close()

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await _ends(process, _GRACE_SECONDS):
                break
            _kill(process.pid, number)
        _kill(process.pid, signal.SIGKILL)  # what it started, and left
        await _ends(process, _GRACE_SECONDS)
        self._guardian.forget(process.pid)
        self._log.note(f"ended: {self.why or 'it was asked to.'}")


def _pipes(process: asyncio.subprocess.Process) -> Any:
    """The pipes of a process, which one that it left behind may hold open."""
    return process._transport  # type: ignore[attr-defined] # there is no public way to close them


async def _end_of(process: asyncio.subprocess.Process) -> str:
    """How a process ended that closed its output."""
    if await _ends(process, 1.0):
        assert process.returncode is not None
        return how_it_ended(process.returncode)
    return "It closed its output."


async def _ends(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether it ends within these seconds. Unlike `wait`, whoever holds its pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(_LOOKS_APART_SECONDS)
    return process.returncode is not None


def _kill(group: int, number: int) -> None:
    with suppress(OSError):
        os.killpg(group, number)


def _ids(line: bytes) -> list[int]:
    ends = (line[:_ID_WITHIN], line[-_ID_WITHIN:])
    return [int(found) for end in ends for found in _ID.findall(end)]


def _number(id: str | int) -> int:
    return int(id) if isinstance(id, int) or id.isdecimal() else -1
