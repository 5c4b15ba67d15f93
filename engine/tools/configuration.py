"""The servers that a person has set up, and what of them is switched on: `tools.json`.

Reads `mcpServers` as Claude Desktop, LM Studio, Cursor and others write it, and VS Code's
`servers`. Bad input is one `Problem` that names the line or the key. Runs nothing.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
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
_OURS = "slipstream"  # the field beside the servers that holds what others do not know
_OTHERS = (  # on a Mac and, where it differs, on Linux
    ("Claude Desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
    ("Claude Desktop", ".config/Claude/claude_desktop_config.json"),
    ("LM Studio", ".lmstudio/mcp.json"),
    ("LM Studio", ".cache/lm-studio/mcp.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", "Library/Application Support/Code/User/mcp.json"),
    ("VS Code", ".config/Code/User/mcp.json"),
    ("Windsurf", ".codeium/windsurf/mcp_config.json"),
    ("Claude Code", ".claude.json"),
    ("Gemini", ".gemini/settings.json"),
)
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_VARIABLE = re.compile(r"\$\{(?:env:)?([^}]*)\}")
_ENVIRONMENT = re.compile(r"([A-Za-z_]\w*)(?::-(.*))?", re.DOTALL)
_KEY_FLAG = re.compile(r"--?[\w-]*(?:key|token|secret|password|credential)[\w-]*", re.IGNORECASE)
_KEY_IN_URL = re.compile(r"(?<=://)[^/@]+(?=@)|(?<==)[^&#]+")


@dataclass(frozen=True, slots=True)
class _Entry:
    """The fields of a server that are read; others are left out."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class _Ours:
    """What a person has decided about a server. `tools`: those that are on, with their digests."""

    disabled: bool = False
    trusted: bool = False
    tools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers as they were written, which may hold keys and `${env:NAME}`, and decisions.

    `disabled` servers do not run. `trusted` servers are believed when they say that a tool changes
    nothing. `seen`: the tools that are on, by server and name, each with the digest of its
    description as a person last saw it. The tools that come along read the `folders`.
    """

    servers: tuple[Server, ...] = ()
    disabled: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()
    seen: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    def enabled(self) -> tuple[Server, ...]:
        """The servers that are to run, as they were written: see `expanded`."""
        return tuple(server for server in self.servers if server.name not in self.disabled)

    def is_on(self, tool: Offered) -> bool:
        """Whether a model may be given this tool: it was switched on as it is described now."""
        seen = self.seen.get(tool.server, {}).get(tool.name)
        return seen is not None and seen == digest(tool)

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
        return replace(self, trusted=_with(self.trusted, name, trusted))

    def enabling(self, name: str, enabled: bool) -> Self:
        """The server `name` set to run, or not."""
        return replace(self, disabled=_with(self.disabled, name, not enabled))

    def adding(self, other: "Configuration") -> Self:
        """With the servers of another one, in place of those with the same names. What was decided
        about a server that is set up otherwise now is forgotten."""
        new = tuple(server for server in other.servers if server not in self.servers)
        kept = self
        for server in new:
            kept = kept.without(server.name)
        return replace(kept, servers=kept.servers + new, disabled=kept.disabled | other.disabled)

    def without(self, name: str) -> Self:
        """Without the server `name`, and what was decided about it."""
        return replace(
            self,
            servers=tuple(server for server in self.servers if server.name != name),
            disabled=self.disabled - {name},
            trusted=self.trusted - {name},
            seen={server: tools for server, tools in self.seen.items() if server != name},
        )


def _with(names: frozenset[str], name: str, inside: bool) -> frozenset[str]:
    return names | {name} if inside else names - {name}


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
    """The files of other programs that are in a person's home, with the names of the programs."""
    return [(name, home / path) for name, path in _OTHERS if (home / path).is_file()]


def load(path: Path) -> Configuration:
    """Read a file, ours or another program's; empty if there is none. Raises `Problem`."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except FileNotFoundError:
        return Configuration()
    except OSError as error:
        raise Problem(
            f"{path} cannot be read: {error.strerror or error}.", "See whether you may read it."
        ) from error
    if len(data) > _LARGEST_BYTES:
        raise Problem(f"{path} is over {size(_LARGEST_BYTES)}.", "Choose another file.")
    try:
        return read(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Problem(f"{path} is not text.", "Choose another file.") from None
    except Problem as problem:
        raise Problem(f"{path.name}: {problem.message}", problem.remedy) from None


def save(configuration: Configuration, path: Path) -> None:
    """Replace our file. Nobody else may read it, as it may hold keys. Raises `Problem`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.unlink(missing_ok=True)
            opened = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(opened, "w", encoding="utf-8") as file:
                file.write(written(configuration))
    except OSError as error:
        raise Problem(
            f"{path} cannot be written: {error.strerror or error}.",
            "Make room on the disk, and see whether you may write there.",
        ) from error


def written(configuration: Configuration) -> str:
    """Our file: the servers as other programs have them, and a field of our own."""
    servers, ours = {}, {}
    for server in configuration.servers:
        fields = ("command", "args", "env", "cwd", "url", "headers")
        given = {name: getattr(server, name) for name in fields if getattr(server, name)}
        servers[server.name] = given
    for name in sorted({*configuration.disabled, *configuration.trusted, *configuration.seen}):
        ours[name] = {
            "disabled": name in configuration.disabled,
            "trusted": name in configuration.trusted,
            "tools": configuration.seen.get(name, {}),
        }
    own = {"servers": ours, "folders": configuration.folders}
    return json.dumps({"mcpServers": servers, _OURS: own}, indent=2, default=dict)


# Texts


def read(text: str) -> Configuration:
    """Read our file, another program's, or what a person pasted: all of such a file, or only the
    servers in it. Raises `Problem`."""
    value = _parsed(text)
    found: Any
    for place in ("mcpServers", "servers"):
        if place in value:
            found = value[place]
            break
    else:
        place, found = "", value
        if "command" in value or "url" in value:
            raise Problem("The server has no name.", 'Write it as {"name": {"command": ...}}.')
        if not all(isinstance(each, dict) for each in value.values()):
            raise Problem('It has no field "mcpServers".', _EXAMPLE)
    if not isinstance(found, dict):
        raise Problem(f"{place} is not an object.", _EXAMPLE)
    servers: list[Server] = []
    disabled: set[str] = set()
    for name, entry in found.items():
        server, off = _server(name, entry, place=f"{place}.{name}" if place else name)
        servers.append(server)
        disabled.update({name} if off else ())
    try:
        ours = decode(_OurField, value.get(_OURS, {}), place=_OURS, ignore_unknown=True)
    except WrongJson as error:
        raise Problem(error.message, error.remedy) from None
    return Configuration(
        tuple(servers),
        frozenset(disabled | {name for name, each in ours.servers.items() if each.disabled}),
        frozenset(name for name, each in ours.servers.items() if each.trusted),
        {name: each.tools for name, each in ours.servers.items() if each.tools},
        ours.folders,
    )


_EXAMPLE = 'Write {"mcpServers": {"name": {"command": "npx", "args": ["-y", "package"]}}}.'


@dataclass(frozen=True, slots=True)
class _OurField:
    servers: Mapping[str, _Ours] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


def _parsed(text: str) -> dict[str, Any]:
    """The object in a text, which may have comments and commas too many, as VS Code allows them. A
    part of an object counts as one: `"git": {...}`."""
    plain = _STRING_OR_COMMENT.sub(_kept_string, text)
    plain = _STRING_OR_COMMA.sub(_kept_string, plain).strip()
    if plain.startswith('"'):
        plain = f"{{{plain.rstrip(',')}}}"
    if not plain:
        raise Problem("There is no text.", _EXAMPLE)
    try:
        value = json.loads(plain)
    except json.JSONDecodeError as error:
        line = text[: len(text) - len(text.lstrip())].count("\n") + error.lineno
        raise Problem(
            f"Line {line} is not JSON: {error.msg}.", "Correct that line, or the one before it."
        ) from None
    except (ValueError, RecursionError):  # a number with too many digits; nested too deeply
        raise Problem("It is not JSON that can be read.", _EXAMPLE) from None
    if not isinstance(value, dict):
        raise Problem("It is not a JSON object.", _EXAMPLE)
    return value


def _kept_string(found: re.Match[str]) -> str:
    """A string as it is; nothing but its line ends of a comment or a comma."""
    text = found[0]
    return text if text.startswith('"') else "\n" * text.count("\n")


def _server(name: str, entry: object, *, place: str) -> tuple[Server, bool]:
    """A server, and whether it is disabled. Raises `Problem`."""
    if not name or len(name) > _LONGEST_NAME or one_line(name) != name or name == OWN:
        raise Problem(
            f"No server can have the name {name[:_LONGEST_NAME]!r}.",
            f"Give it another of at most {_LONGEST_NAME} characters.",
        )
    if isinstance(entry, dict):  # as Windsurf and Gemini call it; and null as if it were not there
        url = entry.get("serverUrl") or entry.get("httpUrl")
        entry = {key: each for key, each in entry.items() if each is not None}
        entry = {**({"url": url} if url else {}), **entry}
    try:
        found = decode(_Entry, entry, place=place, ignore_unknown=True)
    except WrongJson as error:
        raise Problem(error.message, error.remedy) from None
    if bool(found.command) == bool(found.url):
        raise Problem(
            f'{place} has {"both" if found.url else "none"} of "command" and "url".',
            'Give "command" for a program, or "url" for a server over HTTP.',
        )
    if found.url and not re.match(r"https?://[^/\s]|\$\{", found.url):
        raise Problem(f"{place}.url is not an address.", "Give one that begins with https://.")
    command, args = found.command, found.args
    if not args and " " in command and not Path(command).expanduser().exists():
        try:
            command, *rest = shlex.split(command)
        except ValueError:
            raise Problem(f"{place}.command lacks a quote.", "Close it.") from None
        args = tuple(rest)
    texts = (command, found.cwd, *args, *found.env, *found.env.values())
    if any("\0" in each for each in texts):
        raise Problem(f"{place} has a character that no program can be given.", "Take it out.")
    for key, each in found.headers.items():
        if not (key.isascii() and re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", key)) or not (
            each.isascii() and each.isprintable()
        ):
            raise Problem(f"{place}.headers has what no header can have.", "Correct it.")
    server = Server(name, command, args, found.env, found.cwd, found.url, found.headers)
    return server, found.disabled


# Values that are filled in, and those that are hidden


def expanded(server: Server, variables: Mapping[str, str]) -> Server:
    """The server with `${env:NAME}`, `${NAME}` and `${NAME:-default}` filled in from an
    environment. Raises `Problem` for one that is not there."""

    def value_of(found: re.Match[str]) -> str:
        name = {"userHome": "HOME"}.get(found[1], found[1])
        match = _ENVIRONMENT.fullmatch(name)
        value = variables.get(match[1], match[2]) if match else None
        if value is None:
            raise Problem(
                f"{server.name}: {found[0][:_LONGEST_NAME]} has no value here.",
                "Write the value in its place, under Settings, Tools.",
            )
        return value

    return _each_text(server, lambda text: _VARIABLE.sub(value_of, text))


def keys_of(server: Server) -> tuple[str, ...]:
    """The texts of a server that may be keys, longest first: all values of its environment and
    headers, arguments behind a flag such as --api-key, and what an address has in it."""
    found = {*server.env.values(), *server.headers.values(), *_KEY_IN_URL.findall(server.url)}
    for flag, value in zip(("", *server.args), server.args, strict=False):
        if _KEY_FLAG.fullmatch(flag):
            found.add(value)
        name, equals, inside = value.partition("=")
        if equals and _KEY_FLAG.fullmatch(name):
            found.add(inside)
    # "Bearer abc" is looked for without its first word, too.
    found |= {value.split()[-1] for value in server.headers.values() if value.split()}
    return tuple(sorted(filter(None, found), key=len, reverse=True))


def masked(server: Server) -> Server:
    """The server as it may be shown: dots in place of what may be a key."""
    keys = [key for key in keys_of(server) if not _VARIABLE.fullmatch(key)]
    hidden = set(keys)

    def mask(text: str) -> str:
        if text in hidden:
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
        args=tuple(change(each) for each in server.args),
        env={name: change(each) for name, each in server.env.items()},
        cwd=change(server.cwd),
        url=change(server.url),
        headers={name: change(each) for name, each in server.headers.items()},
    )
