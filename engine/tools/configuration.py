"""The servers that the user has set up, and what of them is switched on: `tools.json`.

Reads `mcpServers` as Claude Desktop, LM Studio, Cursor and others write it, and what VS Code, Zed,
Codex and opencode have for it. Bad input is one `Problem` that names the line or the key. Runs
nothing.
"""

import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from engine.tools.protocol import OWN, Offered, Server
from models.errors import Problem
from models.files import replacing
from models.in_words import one_line, size
from models.typed_json import WrongJson, decode

MASK = "•••"
SHORTEST_KEY = 6  # characters: "true" or "8080" would hide half of a log
_LARGEST_BYTES = 16 << 20  # Claude Code keeps much else in the same file
_LONGEST_NAME = 64
_OURS = "slipstream"  # the field next to the servers, for settings that only we have
_EXAMPLE = 'Write {"mcpServers": {"name": {"command": "npx", "args": ["-y", "package"]}}}.'
_OTHERS = {
    "Library/Application Support/Claude/claude_desktop_config.json": "Claude Desktop",
    ".lmstudio/mcp.json": "LM Studio",
    ".cache/lm-studio/mcp.json": "LM Studio",  # where it was first installed long ago
    ".cursor/mcp.json": "Cursor",
    "Library/Application Support/Code/User/mcp.json": "VS Code",
    ".codeium/windsurf/mcp_config.json": "Windsurf",
    ".claude.json": "Claude Code",
    ".gemini/settings.json": "Gemini",
}
_SERVERS = re.compile(r"(?:\w+\.)?(?:(?:mcp|context)[._-]?)?servers|mcp", re.IGNORECASE)
_RUNS = ("command", "cmd", "url", "serverUrl", "httpUrl")  # fields of a server
_WORDS = {  # of other programs, for ours
    "serverUrl": "url", "httpUrl": "url", "cmd": "command", "path": "command", "envs": "env",
    "environment": "env", "http_headers": "headers", "timeout": "tool_timeout_sec",
    "initTimeout": "startup_timeout_sec", "startup_timeout_ms": "startup_timeout_sec",
}  # fmt: skip
_MOST_SECONDS = 3600.0  # of a limit. More are milliseconds: some programs write these
_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_LEFT_OUT = re.compile(  # of JSON; and strings, which keep all that is in them
    rf'("(?:\\.|[^"\\\n])*"?)|{_COMMENT}|\xa0|,(?=(?>\s|{_COMMENT})*+(?:[}}\]]|\Z))', re.DOTALL
)
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+: [ -~]*", re.ASCII)
_VARIABLE = re.compile(r"\$\{(?:(?:env:)?([A-Za-z_]\w*)(?::-([^}]*))?|[^}]*)\}")
_KEY_FLAG = re.compile(r"--?[\w-]*(?:key|token|secret|password|credential)[\w-]*", re.IGNORECASE)
_KEY_IN_URL = re.compile(r"(?<=://)[^/@]+(?=@)|(?<==)[^&#]+")


@dataclass(frozen=True, slots=True)
class _Decided:
    """The user's decisions about a server. `tools`: those switched on, with their digests."""

    disabled: bool = False
    trusted: bool = False
    tools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Ours:
    servers: Mapping[str, _Decided] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers as they were written, which may hold keys and `${env:NAME}`, and decisions.

    `disabled` servers do not run. `trusted` servers are believed when they say that a tool changes
    nothing. `seen`: the tools that are on, by server and name, each with the digest of its
    description as the user last saw it. The tools that come along read the `folders`.
    `ours`: it was read from our own file, not from another program's.
    """

    servers: tuple[Server, ...] = ()
    disabled: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()
    seen: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    ours: bool = field(default=False, compare=False)

    def enabled(self) -> tuple[Server, ...]:
        """The servers that are to run, as they were written: see `expanded`."""
        return tuple(server for server in self.servers if server.name not in self.disabled)

    def is_on(self, tool: Offered) -> bool:
        """Whether a model may be given this tool: it was switched on as it is described now."""
        return self.seen.get(tool.server, {}).get(tool.name) == digest(tool)

    def has_changed(self, tool: Offered) -> bool:
        """Whether the tool was on, and is described otherwise since."""
        return tool.name in self.seen.get(tool.server, {}) and not self.is_on(tool)

    def switched(self, *tools: Offered, on: bool) -> Self:
        """These tools on, as they are described now, or off."""
        seen = {name: dict(tools) for name, tools in self.seen.items()}
        for tool in tools:
            of_server = seen.setdefault(tool.server, {})
            of_server.pop(tool.name, None)
            if on:
                of_server[tool.name] = digest(tool)
        return replace(self, seen={name: tools for name, tools in seen.items() if tools})

    def trusting(self, name: str, trusted: bool) -> Self:
        """The server `name` believed, or not, on which of its tools change nothing."""
        return replace(self, trusted=self.trusted | {name} if trusted else self.trusted - {name})

    def enabling(self, name: str, enabled: bool) -> Self:
        """The server `name` set to run, or not."""
        return replace(self, disabled=self.disabled - {name} if enabled else self.disabled | {name})

    def adding(self, other: "Configuration") -> Self:
        """With the servers of another one, in place of those with the same names. Decisions
        about a server that is set up otherwise now are forgotten."""
        new = tuple(server for server in other.servers if server not in self.servers)
        kept = self
        for server in new:
            kept = kept.without(server.name)
        return replace(kept, servers=kept.servers + new, disabled=kept.disabled | other.disabled)

    def without(self, name: str) -> Self:
        """Without the server `name`, and the decisions about it."""
        return replace(
            self,
            servers=tuple(server for server in self.servers if server.name != name),
            disabled=self.disabled - {name},
            trusted=self.trusted - {name},
            seen={server: tools for server, tools in self.seen.items() if server != name},
        )


def digest(tool: Offered) -> str:
    """A digest of each thing that a server says about a tool, with a space between: its title, its
    description, the schema of its arguments, and whether it is read-only."""
    said = (tool.title, tool.description, tool.schema, tool.read_only)
    return " ".join(sha256(json.dumps(each).encode()).hexdigest()[:32] for each in said)


# Files


def configuration_file(data: Path) -> Path:
    """The path of our own file in the folder of the app's data."""
    return data / "tools.json"


def others_files(home: Path) -> list[tuple[str, Path]]:
    """The files of other programs that are in the user's home, with the names of the programs."""
    return [(name, home / path) for path, name in _OTHERS.items() if (home / path).is_file()]


def load(path: Path, *, whole: bool = True) -> Configuration:
    """Read a file, ours or another program's; empty if there is none. Raises `Problem`.

    `whole`: also if a single server cannot be read; otherwise that server is left out."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
        if len(data) > _LARGEST_BYTES:
            raise Problem(f"It is larger than {size(_LARGEST_BYTES)}.", "Choose another file.")
        return read(data.decode("utf-8-sig"), whole=whole)
    except FileNotFoundError:
        return Configuration()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}."
        raise Problem(message, "Check its permissions.") from error
    except UnicodeDecodeError:
        raise Problem(f"{path} is not text.", "Choose another file.") from None
    except Problem as problem:
        raise Problem(f"{path.name}: {problem.message}", problem.remedy) from None


def save(configuration: Configuration, path: Path) -> None:
    """Replace our file. No one else may read it, as it may hold keys. Raises `Problem`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.unlink(missing_ok=True)
            partial.touch(0o600, exist_ok=False)
            partial.write_text(written(configuration), encoding="utf-8")
    except OSError as error:
        raise Problem(
            f"{path} cannot be written: {error.strerror or error}.",
            "Free some disk space, and check the folder's permissions.",
        ) from error


def written(configuration: Configuration) -> str:
    """Our file: the servers as other programs have them, and a field of our own."""
    servers = {
        server.name: {key: each for key, each in asdict(server).items() if each and key != "name"}
        for server in configuration.servers
    }
    disabled, trusted, seen = configuration.disabled, configuration.trusted, configuration.seen
    decided = {
        name: _Decided(name in disabled, name in trusted, seen.get(name, {}))
        for name in sorted({*disabled, *trusted, *seen})
    }
    ours = asdict(_Ours(decided, configuration.folders))
    return json.dumps({"mcpServers": servers, _OURS: ours}, indent=2)


# Texts


def read(text: str, *, whole: bool = True) -> Configuration:
    """Read our file, another program's, or what the user pasted: all of such a file, or only the
    servers in it. `whole`: see `load`. Raises `Problem`."""
    value = _parsed(unfenced(text))
    servers_in, place = _group(value)
    if not place and not all(isinstance(entry, dict) for entry in servers_in.values()):
        raise Problem('It has no "mcpServers" and no named servers.', _EXAMPLE)
    try:
        entries = decode(dict[str, Any], servers_in, place=place)
        servers = tuple(_servers(entries, place, whole=whole))
        ours = decode(_Ours, value.get(_OURS, {}), place=_OURS, ignore_unknown=True)
    except WrongJson as error:
        raise Problem(error.message, error.remedy) from None
    decided = ours.servers.items()
    entered = {server.name: entries[server.name] for server in servers}
    disabled = {
        name
        for name, entry in entered.items()
        if entry.get("disabled") or entry.get("enabled") is False
    }
    return Configuration(
        servers,
        frozenset(disabled.union(name for name, each in decided if each.disabled)),
        frozenset(name for name, each in decided if each.trusted),
        {name: each.tools for name, each in decided if each.tools},
        ours.folders,
        ours=_OURS in value,
    )


def unfenced(text: str) -> str:
    """The first block of code in a text in Markdown; other text as it is."""
    found = _FENCE.search(text)
    return found[1] if found else text


def _group(value: Any, place: str = "") -> tuple[Any, str]:
    """The servers by their names in a parsed value, and their place: they may be all of it, and
    they may be a list."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        value = {str(each.get("name", "")): each for each in value}
    if not isinstance(value, dict) or "." in place:
        return value, place
    if not place and _is_server(value):
        named = isinstance(value.get("name"), str)
        return ({value["name"]: value} if named else value), place
    names = sorted(filter(_SERVERS.fullmatch, value), key="mcp".__eq__)  # others have more below it
    for name in names:
        if not _is_server(value[name]):
            return _group(value[name], f"{place}.{name}" if place else name)
    return value, place


def _is_server(value: object) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(k), str | list) for k in _RUNS)


def _parsed(text: str) -> dict[str, Any]:
    """The object in a text, which may have comments and commas too many, as VS Code allows them. A
    part of an object counts as one: `"git": {...}`."""
    plain = _LEFT_OUT.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)
    try:
        value = json.loads(f"{{{plain}}}" if plain.lstrip().startswith('"') else plain)
    except json.JSONDecodeError as error:
        with suppress(ValueError, LookupError, RecursionError):
            return {"mcp_servers": tomllib.loads(text)["mcp_servers"]}
        raise Problem(
            f"Line {error.lineno} is not JSON: {error.msg}.",
            "Correct that line, or the one before it.",
        ) from None
    except (ValueError, RecursionError):  # a number with too many digits; nested too deeply
        raise Problem("It is not valid JSON.", _EXAMPLE) from None
    if not isinstance(value, dict):
        raise Problem("It is not a JSON object.", _EXAMPLE)
    return value


def _servers(entries: Mapping[str, Any], place: str, *, whole: bool) -> Iterator[Server]:
    for name, entry in entries.items():
        try:
            yield _server(name, entry, f"{place}.{name}" if place else name)
        except (Problem, WrongJson):
            if whole:
                raise


def _server(name: str, entry: object, place: str) -> Server:
    """A server in a file. Raises `Problem` and WrongJson."""
    if not 0 < len(name) <= _LONGEST_NAME or one_line(name) != name or name == OWN:
        raise Problem(
            f"{name[:_LONGEST_NAME]!r} is not a valid name for a server.",
            f"Use another name, of at most {_LONGEST_NAME} characters.",
        )
    if isinstance(entry, dict):
        entry = _in_our_words(entry, name)
    server = decode(Server, entry, place=place, ignore_unknown=True)
    if bool(server.command) == bool(server.url):
        raise Problem(
            f'{place} has {"both" if server.url else "none"} of "command" and "url".',
            'Give "command" for a program, or "url" for a server over HTTP.',
        )
    if server.url and not re.match(r"https?://[^/\s]|\$\{", server.url):
        raise Problem(
            f"{place}.url is not an address.", "Write an address that begins with https://."
        )
    if not all(_HEADER.fullmatch(f"{key}: {each}") for key, each in server.headers.items()):
        raise Problem(f"{place}.headers has an invalid header.", "Correct it.")
    typed = not server.args and " " in server.command  # as in a terminal
    if not typed or os.path.exists(os.path.expanduser(server.command)):
        return server
    try:
        command, *args = shlex.split(server.command)
    except ValueError:
        raise Problem(f"{place}.command lacks a quote.", "Close it.") from None
    return replace(server, command=command, args=tuple(args))


def _in_our_words(entry: dict[str, Any], name: str) -> dict[str, Any]:
    """The entry of a server with the fields that we have; null as if not there."""
    found = {key: each for key, each in entry.items() if each is not None}
    if isinstance(inside := found.get("command"), dict):  # Zed
        found.update({"command": "", **inside})
    for theirs, ours in _WORDS.items():
        if theirs in found and not found.get(ours):
            found[ours] = found[theirs]
    if isinstance(words := found.get("command"), list) and words:  # opencode
        found["command"], found["args"] = words[0], [*words[1:], *found.get("args", ())]
    for limit in ("tool_timeout_sec", "startup_timeout_sec"):
        seconds = found.get(limit)
        if isinstance(seconds, int | float) and not 0 < seconds <= _MOST_SECONDS:
            found[limit] = min(max(0, seconds), 1000 * _MOST_SECONDS) / 1000
    older = "sse" in (str(found.get(key)).lower() for key in ("type", "transport"))
    return {**found, "name": name, "type": "sse" if older else ""}


# Values that are filled in, and hidden ones


def expanded(server: Server, variables: Mapping[str, str]) -> Server:
    """The server with `${env:NAME}`, `${NAME}` and `${NAME:-default}` filled in from an
    environment. Raises `Problem` for a missing variable."""

    def value_of(found: re.Match[str]) -> str:
        name = "HOME" if found[1] == "userHome" else found[1]
        value = variables.get(name or "", found[2])
        if value is None:
            raise Problem(
                f"{server.name}: {found[0][:_LONGEST_NAME]} has no value.",
                "Replace it with a value, under Settings, Tools.",
            )
        return value

    return _each_text(server, lambda text: _VARIABLE.sub(value_of, text))


def keys_of(server: Server) -> tuple[str, ...]:
    """The texts of a server that may be keys, longest first: all values of its environment and
    headers, arguments after a flag such as --api-key, and what an address has in it."""
    found = {*server.env.values(), *server.headers.values(), *_KEY_IN_URL.findall(server.url)}
    # "Bearer abc" is looked for without its first word, too.
    found.update(value.split()[-1] for value in server.headers.values() if value.split())
    for flag, value in pairwise(("", *server.args)):
        name, _, inside = value.partition("=")
        found.add(value if _KEY_FLAG.fullmatch(flag) else "")
        found.add(inside if _KEY_FLAG.fullmatch(name) else "")
    return tuple(sorted(found - {""}, key=len, reverse=True))


def masked(server: Server) -> Server:
    """The server as it may be shown: dots in place of what may be a key."""
    keys = [key for key in keys_of(server) if not _VARIABLE.fullmatch(key)]

    def mask(text: str) -> str:
        if text in keys:
            return MASK
        for key in keys:
            if len(key) >= SHORTEST_KEY:
                text = text.replace(key, MASK)
        return text

    return _each_text(server, mask)


def _each_text(server: Server, change: Callable[[str], str]) -> Server:
    return replace(
        server,
        command=change(server.command),
        args=tuple(map(change, server.args)),
        env={name: change(each) for name, each in server.env.items()},
        cwd=change(server.cwd),
        url=change(server.url),
        headers={name: change(each) for name, each in server.headers.items()},
    )
