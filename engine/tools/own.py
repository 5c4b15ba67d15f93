"""The tools that come along, as an MCP server in this process: files, arithmetic, the date.

They follow the rules of any other server's, and change nothing. Files are read inside the folders
that the user named, and nowhere else.
"""

import os
import stat
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event
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

_MOST_ENTRIES = 500
_TEXT_BYTES = 1_000_000  # of a file that is read as text: fits in a result


def _tool(
    name: str, title: str, description: str, argument: str, about: str, *, required: bool = True
) -> types.Tool:
    """A tool that takes a text, and changes nothing."""
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


_TOOLS = [
    _tool(
        "list_files", "List files", "List a folder that the user has shared.",
        "path", "The folder. Without it, the shared folders are listed.", required=False,
    ),
    _tool(
        "read_file", "Read a file",
        "Read a file in a shared folder as text, also a PDF, Word or Excel file.",
        "path", "The file, as list_files names it.",
    ),
    _tool(
        "calculate", "Calculate",
        "Calculate exactly. Operators: + - * / // % **. Functions: sqrt, abs, round, floor, ceil,"
        " min, max, sum. Also pi.",
        "expression", "Such as (3 + 4) * 0.1 ** 2.",
    ),
    _tool(
        "today", "Today's date", "Tell the date, the weekday, the time and the zone.",
        "zone", "A time zone, such as Europe/Berlin. Without it, the user's.", required=False,
    ),
]  # fmt: skip


@asynccontextmanager
async def own_streams(folders: tuple[str, ...]) -> AsyncIterator[Any]:
    """The client's streams to a server with these tools, which runs while the block does."""

    async def list_tools(
        context: ServerRequestContext[Any], page: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_TOOLS)

    async def call_tool(
        context: ServerRequestContext[Any], call: types.CallToolRequestParams
    ) -> types.CallToolResult:
        failed = False
        try:
            text = await _run(call.name, call.arguments or {}, folders)
        except Problem as problem:
            text, failed = str(problem), True
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=failed)

    server = Server(OWN, on_list_tools=list_tools, on_call_tool=call_tool)
    async with (
        create_client_server_memory_streams() as (ours, theirs),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(server.run, *theirs, server.create_initialization_options())
        try:
            yield ours
        finally:
            tasks.cancel_scope.cancel()


async def _run(name: str, arguments: dict[str, Any], folders: tuple[str, ...]) -> str:
    """The result of a tool. Raises `Problem`."""
    shared, cancelled = Shared(folders), Event()
    tools: dict[str, Callable[[str], str]] = {
        "list_files": shared.list,
        "read_file": partial(shared.read, cancelled=cancelled.is_set),
        "calculate": calculate,
        "today": today,
    }
    if name not in tools:
        raise Problem(f"Unknown tool {name[:40]!r}.", f"Use {', '.join(tools)}.")
    argument = str(next(iter(arguments.values()), ""))  # checked by its schema, in `turn`
    try:
        return await anyio.to_thread.run_sync(tools[name], argument, abandon_on_cancel=True)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise Problem(f"{argument} cannot be read: {why}.", "Check that it exists.") from error
    finally:
        cancelled.set()


class Shared:
    """The folders that the user named, and their contents."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = [Path(folder).resolve() for folder in folders]

    def list(self, path: str) -> str:
        """The entries of a folder, one a line, with their sizes. Raises `Problem` and OSError."""
        if not path.strip():
            return "\n".join(f"{folder}/" for folder in self._folders) or _NOTHING_SHARED
        folder = self._inside(path)
        if not folder.is_dir():
            raise Problem(f"{folder} is not a folder.", "Read it with read_file.")
        with os.scandir(folder) as entries:
            lines = sorted(map(_entry, islice(entries, _MOST_ENTRIES + 1)))
        if len(lines) > _MOST_ENTRIES:
            lines[_MOST_ENTRIES:] = [f"(and more: these are {_MOST_ENTRIES} of them)"]
        return "\n".join(lines) or "The folder is empty."

    def read(self, path: str, *, cancelled: Callable[[], bool] = lambda: False) -> str:
        """The text of a file. Raises `Problem` and OSError."""
        file = self._inside(path)
        if file.is_dir():
            raise Problem(f"{file} is a folder.", "List it with list_files.")
        # Not waiting where it is a pipe; not following what has become a link since.
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(opened, "rb") as stream:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise Problem(f"{file} is not a file.", "Choose another one.")
            data = stream.read(_TEXT_BYTES + 1)
        whole = len(data) <= _TEXT_BYTES
        with suppress(UnicodeDecodeError):  # where it is cut, a part of a character may be left
            text = getincrementaldecoder("utf-8-sig")().decode(data[:_TEXT_BYTES], final=whole)
            if "\0" not in text and not text.startswith("%PDF-"):
                cut = "" if whole else f"\n(the first {size(_TEXT_BYTES)})"
                return f"{text}{cut}" or "The file is empty."
        try:
            sections = read_document(file, cancelled=cancelled).sections
        except Cancelled:
            return ""
        return "\n\n".join(f"[{each.place}]\n{each.text}" for each in sections)

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
        raise Problem(f"{path[:200]!r} is not in a shared folder.", "Find files with list_files.")


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


def today(zone: str) -> str:
    """The date, weekday, time and zone now. Raises `Problem`."""
    try:
        now = datetime.now(ZoneInfo(zone)) if zone.strip() else datetime.now().astimezone()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Problem(f"Unknown time zone {zone[:40]!r}.", "Write it as Europe/Berlin.") from None
    name = zone.strip() or now.tzname()
    written = now.isoformat("T", "seconds")
    return f"{now:%A, %d %B %Y, %H:%M:%S} {name} (UTC{now:%:z}), which is {written}."
