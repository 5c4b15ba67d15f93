"""Servers as the user writes them in one field: a command, an address, or JSON.

Keys of an edited server appear as dots, and dots that are left alone mean the same keys.
Pure; knows no widget and no file.
"""

import json
import re
import shlex
from dataclasses import replace
from pathlib import PurePath

from engine.tools.configuration import MASK, Configuration, masked, read, unfenced, written
from engine.tools.protocol import Server
from models.errors import Problem
from models.in_words import one_line

_JSON = re.compile(r'[{\[#]|//|/\*|"[^"]*"\s*:|[\w.-]+ = ')  # or TOML
_HOSTED = r"(?:localhost|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}|[\d.]+)(?::\d+)?/\S*"
_ADDRESS = re.compile(rf"https?://\S+|{_HOSTED}")
_ADDS = re.compile(r"\S+ mcp add(?:\s|$)")  # claude, codex, gemini and others
_ADDS_JSON = re.compile(r"\S+ (mcp add-json|--add-mcp) ")
_TAKES = re.compile(r"-[a-z]|--(?:transport|scope|env|header|url|timeout)", re.IGNORECASE)
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_OTHER_IN_A_FIELD = re.compile("[\u00a0\u2028\u2029]")  # Qt returns spaces and line ends for them
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_HOST = re.compile(r"://(?:[^/@]*@)?([\w.-]+)")
_NO_NAMES = re.compile(  # of a server: programs that run others, their words, parts of a host
    r"[\dA-Z_/]*|npx|bunx|uvx|pnpm|yarn|pipx|uv|node|bun|deno|docker|podman|python[\d.]*"
    r"|run|exec|dlx|tool|dist|index.js|www|mcp|api|mcp-remote"
)


def servers_in(text: str, kept: Server | None = None) -> tuple[Server, ...]:
    """Return the servers that the user wrote. `kept` is the server that is edited: its values come
    for the dots of `hidden`. Raises Problem."""
    text = unfenced(text).strip().strip("`").removeprefix("$ ")
    if adds := _ADDS_JSON.match(text):
        words = ["", *_words(text)]  # with options before the name, or after the object
        at = next((n for n, word in enumerate(words) if word[:1] == "{"), len(words) - 1)
        name, text = words[at - 1 : at + 1]
        text = text if adds[1] == "--add-mcp" else f"{{{json.dumps(name)}: {text}}}"
    is_json = _JSON.match(text)
    if is_json and kept:
        behind = hidden(kept)[1]
        text = _STRING.sub(lambda found: behind.get(found[0], found[0]), text)
    if MASK in text:
        raise Problem(f"{MASK} does not hide a key here.", "Write the value in its place.")
    if not is_json:
        server = _typed(text)
        name = kept.name if kept else server.name or _name_of(server)
        text = _json(replace(server, name=name))
    servers = read(text).servers
    if kept and len(servers) != 1:
        raise Problem("This is not one server.", "Write the server that you edit, and no other.")
    return servers


def hidden(server: Server) -> tuple[str, dict[str, str]]:
    """Return a server as JSON with dots in place of keys, and the whole strings by those with
    dots."""
    strings = iter(_STRING.findall(_json(server)))
    behind: dict[str, str] = {}

    def hide(found: re.Match[str]) -> str:
        dots, whole, number = found[0], next(strings), 1
        if dots == whole:
            return whole
        while behind.setdefault(dots, whole) != whole:
            number += 1
            dots = found[0].replace(MASK, f"{MASK}{number}")
        return dots

    return _STRING.sub(hide, _json(masked(server))), behind


def shown(server: Server) -> str:
    """Return the command or address of a server and the names of its keys, without their values."""
    dots = masked(server)
    runs = dots.url or shlex.join((dots.command, *dots.args)).replace(f"'{MASK}'", MASK)
    keys = (f"{name} {MASK}" for name in (*server.env, *server.headers))
    return one_line(" · ".join((runs, *keys)))


def _json(server: Server) -> str:
    entries = json.loads(written(Configuration((server,))))["mcpServers"]
    text = json.dumps(entries, indent=2, ensure_ascii=False)
    return _OTHER_IN_A_FIELD.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _typed(text: str) -> Server:
    """Return the server of an address or a command, without a name."""
    if _ADDRESS.fullmatch(text):
        here = re.match(r"localhost|[\d.]+[:/]", text)
        scheme = "" if "://" in text else "http://" if here else "https://"
        return Server("", url=scheme + text)
    words = _words(text)
    if _ADDS.match(text):
        return _added(words[3:])
    env = {}
    while words and (variable := _VARIABLE.fullmatch(words[0])):
        env[variable[1]] = variable[2]
        del words[0]
    if not any(words[:1]):
        raise Problem("The server has neither a command nor an address.", "Write one.")
    return Server("", words[0], tuple(words[1:]), env)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text.replace("\\\n", " "))
    except ValueError:
        raise Problem("A quotation mark is not closed.", "Close it.") from None


def _added(words: list[str]) -> Server:
    """Return the server that a command such as `claude mcp add NAME -- npx -y x` adds."""
    said: dict[str, list[str]] = {}
    plain: list[str] = []
    while words and (len(plain) < 2 or _ADDRESS.fullmatch(plain[1])):
        word = words.pop(0)
        if word == "--":
            break
        flag, _, value = word.partition("=")
        if not _TAKES.fullmatch(flag):
            plain += [word] * (word[:1] != "-")
        elif value or words:
            said.setdefault(flag.lstrip("-")[:1].lower(), []).append(value or words.pop(0))
    name, *runs = [*plain[:2], *words] or [""]
    if url := [*said.get("u", ()), *filter(_ADDRESS.fullmatch, runs[:1])][:1]:
        pairs = (each.partition(":") for each in said.get("h", ()))
        headers = {key: value.strip() for key, _, value in pairs}
        kind = "sse" if "sse" in said.get("t", ()) else ""
        return replace(_typed(url[0]), name=name, headers=headers, type=kind)
    env = dict(each.partition("=")[::2] for each in said.get("e", ()))
    return replace(_typed(shlex.join(runs)), name=name, env=env)


def _name_of(server: Server) -> str:
    """Return a name from the host of an address, or from the program or package of a command."""
    host = "".join(_HOST.findall(server.url)[:1])
    words = [word for word in (server.command, *masked(server).args) if MASK not in word]
    parts = [part for word in words if word[:1] != "-" for part in PurePath(word).parts[::-1]]
    names = (one_line(part.partition("@")[0]) for part in (*host.split("."), *parts))
    return next((name for name in names if not _NO_NAMES.fullmatch(name)), host or words[0])[:40]
