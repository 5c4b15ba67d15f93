"""A server that is a program: its process, and its messages in lines.

A transport of the MCP SDK. Other output is counted and dropped, a line has a largest size,
and the process ends with all that it started.
"""

import asyncio
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import anyio
import mcp_types as types
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage

from engine.pipes import Lines
from engine.process.supervision import how_it_ended
from engine.tools.limits import LONGEST_MESSAGE_BYTES, Allowance, Ended, Item, Unreadable
from engine.tools.log import ServerLog
from engine.tools.protocol import Server
from models.errors import Problem
from models.files import written_path

NONSENSE_BYTES = 16 << 20  # of other output, until the server is given up
_BLOCK_BYTES = 1 << 16
_BLOCKS_APART_SECONDS = 0.002  # so that a flood of short lines comes in few blocks
_GRACE_SECONDS = 0.5  # from the end of its input until SIGTERM, and from that until SIGKILL
_LOOKS_APART_SECONDS = 0.02
_ID = re.compile(rb'"id"\s*:\s*"?(\d{1,15})"?\s*[,}]')
_ID_WITHIN = 400  # bytes of an unreadable message, from its beginning or end

# What a program gets from our own environment: not the keys that may be in it.
_PASSED_ON = (
    "HOME", "LOGNAME", "SHELL", "TERM", "USER", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "XDG_CONFIG_HOME", "XDG_CACHE_HOME",
    "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK",
)  # fmt: skip
# Used after the path of the user's login shell, which may not answer.
_PLACES = (
    "/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin", "~/.local/bin", "~/.cargo/bin",
    "~/.bun/bin", "~/.deno/bin", "~/.volta/bin", "~/.docker/bin", "/usr/bin", "/bin",
)  # fmt: skip
_SHELL_SECONDS = 5.0
_MARK = "___path___"  # other things that a shell says stay outside
_COMES_WITH = {"npx": "Node.js", "node": "Node.js", "uvx": "uv", "bunx": "Bun", "docker": "Docker"}

# Ends the process groups named in the last line that it read, once the writer has ended.
_GUARDIAN = """
while read -r line; do groups=$line; done
for each in $groups; do kill -TERM -$each; done
[ -z "$groups" ] || sleep 0.3
for each in $groups; do kill -KILL -$each; done
"""


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

    @contextmanager
    def watching(self, group: int) -> Iterator[None]:
        """End this group of processes, too, if this process is killed in the block."""
        self._tell(self._groups | {group})
        try:
            yield
        finally:
            self._tell(self._groups - {group})

    def close(self) -> None:
        """End it, and the programs that it still watches."""
        self._process.communicate()

    def _tell(self, groups: set[int]) -> None:
        self._groups = groups
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(" ".join(map(str, groups)).encode() + b"\n")
            self._process.stdin.flush()


def login_path(variables: Mapping[str, str], *, seconds: float = _SHELL_SECONDS) -> str:
    """The path as the user's login shell has it. An application that the Finder starts has only the
    system's folders in its own. Empty if the shell does not answer in time."""
    script = f"echo {_MARK}; /usr/bin/printenv PATH; echo {_MARK}"
    with (
        suppress(OSError, LookupError, subprocess.TimeoutExpired),
        TemporaryFile() as said,  # a pipe could be held open by what a shell starts
    ):
        shell = variables.get("SHELL") or pwd.getpwuid(os.getuid()).pw_shell
        asked = subprocess.Popen(
            (shell, "-ilc", script),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.DEVNULL,
            env=dict(variables),
            start_new_session=True,  # so that it asks no terminal
        )
        try:
            asked.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(asked.pid, signal.SIGKILL)
            asked.wait()
            raise
        said.seek(0)
        return said.read().decode(errors="replace").split(_MARK)[1].strip()
    return ""


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program: a part of ours, and `extra`. Its path goes on with the folders
    in which people have programs."""
    variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    folders = extra.get("PATH", os.environ.get("PATH", "")).split(os.pathsep)
    folders += filter(os.path.isdir, map(os.path.expanduser, _PLACES))
    path = os.pathsep.join(dict.fromkeys(filter(None, folders)))
    return {**variables, **extra, "PATH": path}


class _Program:
    """A transport in one: the messages of a process, and those for it. `receive` raises `Ended`."""

    def __init__(self, process: asyncio.subprocess.Process, log: ServerLog) -> None:
        self._process, self._log = process, log
        self._lines = Lines(LONGEST_MESSAGE_BYTES)
        self._heard: deque[Item] = deque()
        self._nonsense_bytes = 0

    async def receive(self) -> Item:
        assert self._process.stdout is not None
        while not self._heard:
            await anyio.sleep(_BLOCKS_APART_SECONDS)
            block = await self._process.stdout.read(_BLOCK_BYTES)
            if not block:
                raise self._ended(await _how_it_ended(self._process))
            self._heard += filter(None, map(self._message, self._lines.feed(block)))
            if self._nonsense_bytes > NONSENSE_BYTES:
                raise self._ended("It wrote too much to standard output that is not MCP.")
        return self._heard.popleft()

    async def send(self, item: SessionMessage) -> None:
        assert self._process.stdin is not None
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        with suppress(OSError):  # it has ended: `receive` says so
            self._process.stdin.write(data.encode() + b"\n")
            await self._process.stdin.drain()

    def _message(self, line: bytes) -> Item | None:
        """The message in a line, or an error if some request may be answered by it."""
        is_object = line.lstrip().startswith(b"{")
        ends = (line[:_ID_WITHIN], line[-_ID_WITHIN:]) if is_object else ()
        ids = [int(found) for end in ends for found in _ID.findall(end)]
        if why := Allowance().refusal(line):
            return Unreadable(why, ids)
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            return SessionMessage(message)
        except ValueError:
            if not self._nonsense_bytes:
                start = self._log.masked(line[:_BLOCK_BYTES].decode(errors="replace"))
                self._log.note(f"not a message: {start[:_ID_WITHIN]}")
            self._nonsense_bytes += len(line)
            why = "It returned invalid JSON, or nested it too deeply."
            return Unreadable(why, ids) if ids else None

    def _ended(self, why: str) -> Ended:
        self._log.note(why)
        return Ended(why)


@asynccontextmanager
async def program_streams(
    server: Server, *, guardian: Guardian, log: ServerLog
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a program, which runs in the block. Raises `Problem` if it cannot start."""
    process = await _start(server)
    program = _Program(process, log)
    log.note(f"started, process {process.pid}")
    try:
        with guardian.watching(process.pid):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_read_complaints, process, log)
                try:
                    yield program, program
                finally:
                    with anyio.CancelScope(shield=True):
                        await _stop(process)
                    tasks.cancel_scope.cancel()
    finally:
        log.note("ended")
        # Its pipes, which a process that it left may hold open, have no public way to close.
        process._transport.close()  # type: ignore[attr-defined]


async def _start(server: Server) -> asyncio.subprocess.Process:
    variables = environment(server.env)
    folder = written_path(server.cwd or "~").absolute()
    if not folder.is_dir():
        raise Problem(f"Its folder {folder} does not exist.", 'Correct "cwd", or make the folder.')
    command = os.path.expanduser(server.command)
    command = os.path.join(folder, command) if "/" in command else command
    found = shutil.which(command, path=variables["PATH"])
    if found is None:
        needed = _COMES_WITH.get(Path(command).name, "it")
        remedy = f"Install {needed}, or write the whole path of the program."
        raise Problem(f"The program {command} was not found.", remedy)
    try:
        return await asyncio.create_subprocess_exec(
            found,
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
        message = f"{command} cannot be started: {reason}."
        raise Problem(message, "Check that it is a program.") from error


async def _read_complaints(process: asyncio.subprocess.Process, log: ServerLog) -> None:
    assert process.stderr is not None
    while block := await process.stderr.read(_BLOCK_BYTES):
        log.add(block)
    log.close()


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End a program, and all that it started."""
    assert process.stdin is not None
    process.stdin.close()
    await _ends(process, _GRACE_SECONDS)
    await terminate_posix_process_tree(process, _GRACE_SECONDS)  # type: ignore[arg-type]
    await _ends(process, _GRACE_SECONDS)


async def _how_it_ended(process: asyncio.subprocess.Process) -> str:
    """How a program ended that closed its output."""
    if not await _ends(process, 1.0):
        return "It closed its output."
    assert process.returncode is not None
    return how_it_ended(process.returncode)


async def _ends(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether it ends within these seconds. Unlike `wait`, does not depend on its pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(_LOOKS_APART_SECONDS)
    return process.returncode is not None
