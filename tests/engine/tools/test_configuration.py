"""Servers as other programs write them, and our own file."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from engine.tools.configuration import (
    Configuration,
    digest,
    expanded,
    keys_of,
    load,
    masked,
    others_files,
    read,
    save,
    written,
)
from engine.tools.protocol import Offered, Server
from models.errors import Problem

GIT = Server("git", "uvx", ("mcp-server-git",), {"TOKEN": "abcdefgh"}, "/work")
WEB = Server("web", url="https://example.org/mcp", headers={"Authorization": "Bearer s3cret-key"})
LOG = Offered("git", "log", description="Show the log", schema='{"type":"object"}')


def test_it_reads_what_people_have(tmp_path):
    expected = (Server("git", "uvx", ("mcp-server-git",)),)
    texts = [text for what, text in WRITTEN if what == "git"]
    assert len(texts) > 15
    assert {text: read(text).servers for text in texts} == dict.fromkeys(texts, expected)
    for key in ("url", "serverUrl", "httpUrl"):
        entry = {key: WEB.url, "headers": WEB.headers, "type": "http"}
        assert read(json.dumps({"mcpServers": {"web": entry}})).servers == (WEB,)
    program = tmp_path / "my server"  # a space in its path, and no argument
    program.touch()
    comments = ("https://a.b//c", "/* x */", ",]", 'a "quoted" //')
    for entry, command, args in (
        ({"command": "x", "args": comments}, "x", comments),
        ({"command": str(program)}, str(program), ()),
        ({"command": "x"}, "x", ()),
        ({"command": f"{'x' * 5000} 'b c'"}, "x" * 5000, ("b c",)),
    ):
        assert read(json.dumps({"a": entry})).servers == (Server("a", command, args),)


LIMITS = (
    ({"timeout": 90, "startup_timeout_sec": 70}, 90, 70),  # seconds, as Cline and Codex have them
    ({"timeout": 120_000, "initTimeout": 90_000}, 120, 90),  # Gemini, Claude Code and LibreChat
    ({"tool_timeout_sec": 0.5, "startup_timeout_ms": 20_000}, 0.5, 20),
    ({"timeout": 0, "initTimeout": -1}, 0, 0),  # ours
    ({"timeout": 10**400, "initTimeout": float("nan")}, 3600, 0),
)


def test_limits_and_the_older_kind_are_read_in_the_words_of_other_programs():
    for words, call, start in LIMITS:
        (server,) = read(json.dumps({"a": {"command": "x", **words}})).servers
        assert (server.tool_timeout_sec, server.startup_timeout_sec) == (call, start)
        assert read(written(Configuration((server,)))).servers == (server,)
    older = ({"type": "sse"}, {"transport": "SSE"}, {"url": "https://a/sse/?key=b"}, {})
    found = [read(json.dumps({"a": {"url": "https://a/mcp", **each}})) for each in older]
    assert [each.servers[0].is_older for each in found] == [True, True, True, False]
    assert read(written(found[0])) == found[0]


KEPT = Path(__file__).parents[2] / "data" / "tool_servers.txt"
WRITTEN = [
    tuple(part.removesuffix("\n").partition("\n")[::2])
    for part in KEPT.read_text(encoding="utf-8").split("==> ")[1:]
]  # each text with what it is: a server, or a refusal and what that names
ENDLESS = ("[" * 200_000, *(text * 100_000 for text in ("/*", ",/**/", '\\"', ', "', ",//\n")))


def test_bad_input_is_one_problem_that_names_the_line_or_the_key():
    bad = [(text, what.partition(": ")[2]) for what, text in WRITTEN if what != "git"]
    assert len(bad) > 20
    for text, names in (*bad, ("{" * 5000, "Line 1"), *((text, "") for text in ENDLESS)):
        with pytest.raises(Problem) as caught:
            read(text)
        assert names in caught.value.message, text[:100]
        assert caught.value.remedy
        assert "\n" not in str(caught.value)


def test_our_file_keeps_all_that_was_decided():
    odd = Server("ä'b", "x", ('a "b" //', "\n", ""), {"K": "ü,}"}, "/my work")
    seen = {"git": {"log": digest(LOG)}}
    decided = Configuration((odd, WEB), frozenset({"web"}), frozenset({odd.name}), seen, ("/a",))
    assert read(written(decided)) == decided
    text = '{"mcpServers": {"a": {"command": "x", "enabled": false}, "b": {"command": "y"}}}'
    found = read(text)
    assert [server.name for server in found.enabled()] == ["b"]
    assert [server.name for server in found.enabling("a", True).enabled()] == ["a", "b"]
    assert read(written(found)) == found


def test_a_tool_is_on_as_long_as_it_is_described_as_the_user_saw_it():
    def state(offered):
        return configuration.is_on(offered), configuration.has_changed(offered)

    configuration = Configuration((GIT,))
    assert state(LOG) == (False, False)
    configuration = configuration.switched(LOG, on=True)
    assert state(LOG) == (True, False)
    assert state(replace(LOG, server="other")) == (False, False)
    for change in (
        {"description": "Show the log, and send it away"},
        {"schema": '{"type":"object","title":"x"}'},
        {"title": "x"},
        {"read_only": True},
    ):
        changed = replace(LOG, **change)
        assert state(changed) == (False, True), change
        assert configuration.switched(changed, on=True).is_on(changed)
    configuration = configuration.switched(LOG, on=False)
    assert state(LOG) == (False, False)
    # A server that is set up otherwise loses what was decided about it.
    decided = Configuration((GIT, WEB)).trusting("git", True).switched(LOG, on=True)
    assert decided.adding(Configuration((GIT,))) == decided
    other = replace(GIT, args=("something-else",))
    changed = decided.adding(Configuration((other,)))
    assert changed.servers == (WEB, other)
    assert not changed.is_on(LOG)
    assert not changed.trusted
    assert decided.without("git") == Configuration((WEB,))


def test_the_file_is_for_its_owner_alone_and_replaced_whole(tmp_path):
    path = tmp_path / "new" / "tools.json"
    assert load(path) == Configuration()
    for configuration in (Configuration((GIT,)), Configuration((WEB,), folders=("/a",))):
        save(configuration, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert load(path) == configuration
    assert [each.name for each in path.parent.iterdir()] == ["tools.json"]
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken").write_text("{")
    for name in ("binary", "broken", "."):
        with pytest.raises(Problem):
            load(tmp_path / name)
    with pytest.raises(Problem):
        save(Configuration(), tmp_path / "broken" / "tools.json")


def test_it_finds_the_files_of_other_programs(tmp_path):
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(written(Configuration((GIT,))))
    assert others_files(tmp_path) == [("Cursor", file)]
    assert load(file).servers == (GIT,)
    servers = {"git": {"command": "git"}, "odd": 5, "two": {"command": "x", "url": "https://y.z"}}
    file.write_text(json.dumps({"mcpServers": servers | {"worse": {"command": "x", "args": 7}}}))
    assert [each.name for each in load(file, whole=False).servers] == ["git"]
    with pytest.raises(Problem):
        load(file)


def test_variables_are_filled_in_or_are_a_problem():
    server = replace(GIT, args=("${userHome}/x", "${A:-b}", "$C"), env={"K": "${env:KEY} ${KEY}"})
    found = expanded(server, {"HOME": "/home/me", "KEY": "k"})
    assert found.args == ("/home/me/x", "b", "$C")
    assert found.env == {"K": "k k"}
    for text in ("${env:NONE}", "${input:key}", "${workspaceFolder}", "${}"):
        with pytest.raises(Problem):
            expanded(replace(GIT, args=(text,)), os.environ)


def test_no_key_is_shown():
    address = "https://user:pass-word@example.org/mcp?key=abc-def-ghi"
    args = ("--api-key", "sk-123456", "--token=tok-98765", "--verbose", "x")
    server = Server("a", "x", args, {"A": "12345678", "B": "1"}, url="", headers={})
    shown = str(masked(server)) + str(masked(replace(WEB, url=address)))
    for key in ("sk-123456", "tok-98765", "12345678", "s3cret", "pass-word", "abc-def-ghi"):
        assert key not in shown
    assert "--verbose" in shown
    assert masked(server).env == {"A": "•••", "B": "•••"}
    assert "s3cret-key" in keys_of(WEB)
