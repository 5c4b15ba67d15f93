"""The tools that come along, as an MCP server in this process: files, arithmetic, the date.

They follow the rules of any other server's, and change nothing. Files are read inside the folders
that a person named, and nowhere else.
"""

import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.memory import create_client_server_memory_streams

from engine.documents.reading import Cancelled, read_document
from engine.tools.calculator import calculate
from engine.tools.protocol import OWN
from models.errors import Problem
from models.in_words import size
from models.typed_json import WrongJson, decode

_MOST_ENTRIES = 500
_TEXT_BYTES = 1 << 20  # of a file that is read as text; a result is not longer
_BINARY_WITHIN = 8192  # bytes in which a zero says that it is no text


@dataclass(frozen=True, slots=True)
class _ListFiles:
    path: str = ""


@dataclass(frozen=True, slots=True)
class _ReadFile:
    path: str


@dataclass(frozen=True, slots=True)
class _Calculate:
    expression: str


@dataclass(frozen=True, slots=True)
class _Today:
    zone: str = ""


_Arguments = _ListFiles | _ReadFile | _Calculate | _Today


def _tool(
    name: str, title: str, description: str, argument: str, about: str, *, required: bool = True
) -> types.Tool:
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": about}},
        "required": [argument] if required else [],
        "additionalProperties": False,
    }
    hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return types.Tool(
        name=name, title=title, description=description, input_schema=schema, annotations=hints
    )


_TOOLS: dict[str, tuple[types.Tool, type[_Arguments]]] = {
    tool.name: (tool, kind)
    for tool, kind in (
        (
            _tool(
                *("list_files", "List files", "List a folder that the user has shared."),
                *("path", "The folder. Without it, the shared folders are listed."),
                required=False,
            ),
            _ListFiles,
        ),
        (
            _tool(
                *("read_file", "Read a file"),
                "Read a file in a shared folder as text, also a PDF, Word or Excel file.",
                *("path", "The file, as list_files names it."),
            ),
            _ReadFile,
        ),
        (
            _tool(
                *("calculate", "Calculate"),
                "Calculate exactly. Operators: + - * / // % **. Functions: sqrt, abs, round, floor,"
                " ceil, min, max, sum. Also pi.",
                *("expression", "Such as (3 + 4) * 0.1 ** 2."),
            ),
            _Calculate,
        ),
        (
            _tool(
                *("today", "Today's date", "Tell the date, the weekday, the time and the zone."),
                *("zone", "A time zone, such as Europe/Berlin. Without it, the user's."),
                required=False,
            ),
            _Today,
        ),
    )
}


@asynccontextmanager
async def own_streams(folders: tuple[str, ...]) -> AsyncIterator[Any]:
    """The client's streams to a server with these tools, which runs while the block does."""

    async def list_tools(
        context: ServerRequestContext[Any], page: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool for tool, _ in _TOOLS.values()])

    async def call_tool(
        context: ServerRequestContext[Any], call: types.CallToolRequestParams
    ) -> types.CallToolResult:
        failed = False
        try:
            text = await _run(call.name, call.arguments or {}, folders)
        except (Problem, WrongJson) as problem:
            text, failed = f"{problem.message} {problem.remedy}", True
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=failed)

    server = Server(OWN, on_list_tools=list_tools, on_call_tool=call_tool)
    async with (
        create_client_server_memory_streams() as (ours, theirs),
        anyio.create_task_group() as tasks,
    ):
        options = server.create_initialization_options()
        tasks.start_soon(server.run, *theirs, options)
        try:
            yield ours
        finally:
            tasks.cancel_scope.cancel()


async def _run(name: str, given: dict[str, Any], folders: tuple[str, ...]) -> str:
    """The result of a tool. Raises `Problem` or `WrongJson`."""
    if name not in _TOOLS:
        raise Problem(f"There is no tool {name[:40]!r}.", f"Use {', '.join(_TOOLS)}.")
    arguments = decode(_TOOLS[name][1], given, place=name)
    shared = Shared(folders)
    work: Callable[[], str]
    match arguments:
        case _ListFiles(path):
            work = partial(shared.list, path)
        case _ReadFile(path):
            stop = False
            work = partial(shared.read, path, cancelled=lambda: stop)
            try:
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
            finally:
                stop = True
        case _Calculate(expression):
            work = partial(calculate, expression)
        case _Today(zone):
            return today(zone)
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


class Shared:
    """The folders that a person named, and what is in them."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = [Path(folder).resolve() for folder in folders]

    def list(self, path: str) -> str:
        """The entries of a folder, one a line, with their sizes. Raises `Problem`."""
        if not path.strip():
            return "\n".join(f"{folder}/" for folder in self._folders) or _NOTHING_SHARED
        folder = self._inside(path)
        if not folder.is_dir():
            raise Problem(f"{folder} is no folder.", "Read it with read_file.")
        lines: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(lines) > _MOST_ENTRIES:
                    break
                lines.append(_entry(entry))
        lines.sort()
        if len(lines) > _MOST_ENTRIES:
            lines[_MOST_ENTRIES:] = [f"(and more: these are {_MOST_ENTRIES} of them)"]
        return "\n".join(lines) or "The folder is empty."

    def read(self, path: str, *, cancelled: Callable[[], bool] = lambda: False) -> str:
        """The text of a file. Raises `Problem`."""
        file = self._inside(path)
        if file.is_dir():
            raise Problem(f"{file} is a folder.", "List it with list_files.")
        try:
            # Not waiting where it is a pipe; not following what has become a link since.
            opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with os.fdopen(opened, "rb") as stream:
                if not stat.S_ISREG(os.fstat(opened).st_mode):
                    raise Problem(f"{file} is no file.", "Choose another one.")
                data = stream.read(_TEXT_BYTES + 4)
        except OSError as error:
            raise _unreadable(file, error) from error
        text = _as_text(data)
        if text is not None:
            return text
        try:
            document = read_document(file, cancelled=cancelled)
        except Cancelled:
            return ""
        return "\n\n".join(f"[{each.label}]\n{each.text}" for each in document.sections)

    def _inside(self, path: str) -> Path:
        """The file or folder that a path leads to, links resolved. Raises `Problem` if it is not in
        a shared folder, whether or not it exists."""
        if not self._folders:
            raise Problem(_NOTHING_SHARED, "Ask the user to share one, under Settings, Tools.")
        for folder in self._folders:
            try:
                found = (folder / Path(path).expanduser()).resolve(strict=True)
            except (OSError, ValueError, RuntimeError):
                continue
            if found.is_relative_to(folder):
                return found
        raise Problem(f"{path[:200]!r} is in no shared folder.", "See list_files for what is.")


_NOTHING_SHARED = "No folder is shared."


def _entry(entry: "os.DirEntry[str]") -> str:
    try:
        if entry.is_dir(follow_symlinks=False):
            return f"{entry.path}/"
        if entry.is_symlink():
            return f"{entry.path} (a link)"
        return f"{entry.path} ({size(entry.stat(follow_symlinks=False).st_size)})"
    except OSError:
        return entry.path


def _as_text(data: bytes) -> str | None:
    """The text in a file that begins so; None if it is no text."""
    whole = len(data) <= _TEXT_BYTES
    if b"\0" in data[:_BINARY_WITHIN]:
        return None
    try:  # where it is cut, half a character may be left
        text = data[:_TEXT_BYTES].decode("utf-8-sig", "strict" if whole else "ignore")
    except UnicodeDecodeError:
        return None
    return (text if whole else f"{text}\n(the first {size(_TEXT_BYTES)})") or "The file is empty."


def _unreadable(file: Path, error: OSError) -> Problem:
    return Problem(
        f"{file} cannot be opened: {error.strerror or type(error).__name__}.",
        "See whether it is still there.",
    )


def today(zone: str) -> str:
    """The date, weekday, time and zone now. Raises `Problem`."""
    try:
        now = datetime.now(ZoneInfo(zone)) if zone.strip() else datetime.now().astimezone()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Problem(f"There is no time zone {zone[:40]!r}.", "Such as Europe/Berlin.") from None
    name = zone.strip() or now.tzname()
    written = now.isoformat("T", "seconds")
    return f"{now:%A, %d %B %Y, %H:%M:%S} {name} (UTC{now:%:z}), which is {written}."
