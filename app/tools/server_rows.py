"""The rows of the panel: how a server, its folders and its tools are now.

Knows values; no widget, no process.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from app.tools.written_servers import shown
from engine.tools.configuration import Configuration, digest
from engine.tools.protocol import OWN, Offered, Server, State
from engine.tools.turn import about_tokens
from models.in_words import one_line

_OWN = """With tools a model can act: read your notes, calculate, ask another program.
Tick the tools that it may use. You see each call before it runs.

These tools come with Slipstream. They read the folders that you add, and nothing outside."""
_TRUST = "Tools that change nothing, by their server’s word, run without asking."
_READING = "Switches on, or off, each tool that changes nothing, by its server’s word."
_CHANGED = "Changed since you switched it on{what}. It is off until you switch it on again."
_PARTS = ("its title", "its description", "its arguments", "whether it is read-only")


@dataclass(frozen=True, slots=True)
class Place:
    """Names a row: of a server, or below it of whether the server is believed, of a folder that the
    file tools read, of all tools that only read, or of a tool."""

    server: str
    kind: Literal["server", "trust", "folder", "reading", "tool"] = "server"
    name: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the panel. `note` is short, `text` returns all there is to say. `on`: whether it is
    ticked; None if it cannot be. `warns`: something is wrong."""

    place: Place
    title: str
    note: str
    text: Callable[[], str]
    on: bool | None = None
    warns: bool = False


def rows_of(server: Server, state: State, setup: Configuration, *, log: str) -> Iterator[Row]:
    """Return the row of a server and those below it. `log`: the end of its log."""
    name, on = server.name, server.name not in setup.disabled
    tools = {tool.name: tool for tool in state.tools if on}.values()
    line, warns = state_line(state, setup)
    chosen = [tool for tool in tools if setup.is_on(tool)]
    cost = f", about {about_tokens(chosen):,} tokens a prompt" if chosen else ""
    note = f"{len(chosen)} of {len(tools)} tools on{cost}" if tools else line
    if name == OWN:
        yield Row(Place(OWN), "Comes with Slipstream", note, text=lambda: _OWN, warns=warns)
        for folder in setup.folders:
            place = Place(OWN, "folder", folder)
            yield Row(place, folder, "The file tools read it", text=lambda: _OWN)
    else:
        about = partial(_about, line, server, state, log)
        yield Row(Place(name), name, note, text=about, on=on, warns=warns)
    if reading := [tool for tool in tools if tool.read_only]:
        place, trusted = Place(name, "trust"), name in setup.trusted
        yield Row(place, "Run read-only unasked", _TRUST, text=lambda: _TRUST, on=trusted)
        place, cost = Place(name, "reading"), f"about {about_tokens(reading):,} tokens"
        on = all(map(setup.is_on, reading))
        yield Row(place, "All that only read", cost, text=lambda: _READING, on=on)
    for tool in tools:
        yield _tool_row(tool, setup)


def state_line(state: State, setup: Configuration) -> tuple[str, bool]:
    """Return the state of a server, and whether something is wrong with it."""
    if state.server in setup.disabled:
        return "Off: none of its tools can be used.", False
    if state.state == "failed":
        return f"{state.message} {state.remedy}".strip(), True
    if changed := [tool.name for tool in state.tools if setup.has_changed(tool)]:
        names = one_line(", ".join(changed))
        return f"It describes {names} otherwise than when you switched that on.", True
    return "Starting…" if state.state == "starting" else f"Running. {state.message}".strip(), False


def _about(line: str, server: Server, state: State, log: str) -> str:
    """Return the state of a server, its command, its words about itself, and its log."""
    words = (line, shown(server), state.version, state.instructions, log and f"Log:\n{log}")
    return "\n\n".join(filter(None, words))


def _tool_row(tool: Offered, setup: Configuration) -> Row:
    changed, says = _changed(tool, setup), tool.description or tool.title
    cost = f"about {about_tokens([tool]):,} tokens"
    return Row(
        Place(tool.server, "tool", tool.name),
        tool.name,
        changed or " · ".join(filter(None, (cost, "read-only" * tool.read_only, says))),
        text=partial(_details, tool, changed),
        on=setup.is_on(tool),
        warns=bool(changed),
    )


def _changed(tool: Offered, setup: Configuration) -> str:
    """Return how a tool differs from when the user switched it on; empty if it does not."""
    if not setup.has_changed(tool):
        return ""
    seen, now = setup.seen[tool.server][tool.name].split(), digest(tool).split()
    same = len(seen) == len(now)  # not of another version
    what = [part for part, a, b in zip(_PARTS, seen, now, strict=True) if a != b] if same else []
    return _CHANGED.format(what=f": {', '.join(what)}" if what else "")


def _details(tool: Offered, changed: str) -> str:
    """Return the details of a tool."""
    return "\n\n".join(
        filter(None, (changed, tool.title, tool.description, _indented(tool.schema)))
    )


def _indented(schema: str) -> str:
    """Return JSON in lines; other words as they are."""
    try:
        return json.dumps(json.loads(schema), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema
