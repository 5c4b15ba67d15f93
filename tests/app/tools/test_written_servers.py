"""Servers are read as the user writes them, and keys that are left as dots stay as they are."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.written_servers import hidden, servers_in, shown
from engine.tools.configuration import MASK, Configuration, written
from engine.tools.protocol import Server
from models.errors import Problem

GIT = Server(
    "git",
    "uvx",
    ("mcp-server-git", "--repo", "/my code", "--api-key", "key-in-args"),
    {"TOKEN": "key-in-env", "MODE": "${env:MODE}"},
    "/tmp",
)
WEB = Server(
    "web",
    url="https://a.example/mcp?key=key-in-address",
    headers={"Authorization": "Bearer key-in-header"},
)
TEXTS = st.text(st.characters(exclude_categories=["C"], exclude_characters="\0"), max_size=20)


SERVERS = (
    ("npx -y 'a server' ~/Notes", Server("a server", "npx", ("-y", "a server", "~/Notes"))),
    ("npx \\\n  -y notes@1.2", Server("notes", "npx", ("-y", "notes@1.2"))),
    ("KEY=abc MODE='a b' notes", Server("notes", "notes", (), {"KEY": "abc", "MODE": "a b"})),
    ('"/my apps/notes" stdio', Server("notes", "/my apps/notes", ("stdio",))),
    (" https://notes.example/mcp\n", Server("notes", url="https://notes.example/mcp")),
    ("```bash\n$ npx -y notes\n```", Server("notes", "npx", ("-y", "notes"))),
    ("`notes.example/mcp`", Server("notes", url="https://notes.example/mcp")),
    ("localhost:80/mcp", Server("localhost", url="http://localhost:80/mcp")),
    (
        "claude mcp add notes -e K=v -- npx -y x",
        Server("notes", "npx", ("-y", "x"), {"K": "v"}),
    ),
    ("gemini mcp add notes npx -y x", Server("notes", "npx", ("-y", "x"))),
    ("codex mcp add notes --url https://a/mcp", Server("notes", url="https://a/mcp")),
    (
        "claude mcp add --transport sse notes https://a/b --header 'K: v'",
        Server("notes", url="https://a/b", headers={"K": "v"}, type="sse"),
    ),
    ('claude mcp add-json notes \'{"command": "a"}\'', Server("notes", "a")),
    ('claude mcp add-json notes \'{"command": "a"}\' -s user', Server("notes", "a")),
    ('code --add-mcp \'{"name": "notes", "command": "a"}\'', Server("notes", "a")),
    ('model = "b"\n[mcp_servers.notes]\ncommand = "a"', Server("notes", "a")),
    ('{"notes": {"command": "a"}}', Server("notes", "a")),
    ('"notes": {"command": "a"},', Server("notes", "a")),
    ('{"mcpServers": {"notes": {"command": "a"}}}', Server("notes", "a")),
    ('// mine\n{"servers": {"notes": {"command": "a"}}}', Server("notes", "a")),
)
NAMED = (
    ("npx -y @modelcontextprotocol/server-filesystem ~/Notes", "server-filesystem"),
    ("uvx mcp-server-git", "mcp-server-git"),
    ("docker run -i --rm -e GITHUB_TOKEN mcp/github", "github"),
    ("node /home/me/notes/dist/index.js", "notes"),
    ("npx -y server --token github_pat_123", "server"),
    ("npx", "npx"),
    ("https://mcp.linear.app/sse", "linear"),
    ("https://someone:secret@api.search.example/mcp", "search"),
    ("http://127.0.0.1:3000/mcp", "127.0.0.1"),
)
NO_SERVERS = (
    *("", "'open", "KEY=abc", '{"command": "a"}', "{", "[]", '{"a": {}}', "''"),
    *("claude mcp add", "claude mcp add a", "x mcp add-json a b", "'x mcp add-json a b'"),
)


def test_a_command_an_address_and_json_are_servers_whose_names_are_guessed():
    for text, server in SERVERS:
        assert servers_in(text) == (server,), text
    for text, name in NAMED:
        assert [server.name for server in servers_in(text)] == [name], text
    for text in NO_SERVERS:
        with pytest.raises(Problem):
            pytest.fail(f"{text} is {servers_in(text)}")


@given(st.sampled_from(SERVERS), st.integers(0, 60), st.text(max_size=4) | st.just(MASK))
def test_whatever_is_written_is_a_server_or_a_problem(row, place, more):
    text, _ = row
    for kept in (None, GIT):
        with suppress(Problem):
            found = servers_in(text[:place] + more + text[place:], kept)
            assert all(server.name for server in found)


def test_no_key_is_in_the_text_of_a_server_which_is_one_line():
    for server in (GIT, WEB):
        for text in (hidden(server)[0], shown(server)):
            assert "key-in" not in text
            assert MASK in text
        assert servers_in(hidden(server)[0], server) == (server,)
    nasty = Server("a", "run", ("a\n\u202eb", "--key", "secret"), {"K\n": "another secret"})
    assert shown(nasty) == f"run 'a b' --key {MASK} · K {MASK}"
    assert shown(replace(WEB, url="https://a.example", headers={})) == "https://a.example"


@given(
    st.lists(TEXTS, max_size=4),
    st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=3),
)
def test_what_is_left_alone_stays_as_it_is(args, env):
    server = Server("a", "a-program", ("--key", *args), env)
    if MASK not in written(Configuration((server,))):
        assert servers_in(hidden(server)[0], server) == (server,)


def test_dots_stand_for_the_values_of_the_server_that_is_edited_or_are_a_problem():
    server = replace(GIT, args=("--key", "first key", "--key", "second"))
    text, _ = hidden(server)
    entry = json.loads(text)["git"]
    first, second = entry["args"][1::2]
    assert first != second
    entry["args"] = ["--more", "--key", second]
    entry["env"] = {"TOKEN": "another"}
    (edited,) = servers_in(json.dumps({"files": entry}, ensure_ascii=False), server)
    assert edited.name == "files"
    assert edited.args == ("--more", "--key", "second")
    assert edited.env == {"TOKEN": "another"}
    assert servers_in("npx other", server) == (Server("git", "npx", ("other",)),)
    text, _ = hidden(GIT)
    assert servers_in(text.replace("/my code", "/other"), GIT)[0].env == GIT.env
    for written_text, kept in (
        (text, None),
        (text, WEB),
        (text.replace(f'"{MASK}"', f'"Bearer {MASK}"', 1), GIT),
        (f"npx --key {MASK}", GIT),
        ('{"a": {"command": "a"}, "b": {"command": "b"}}', GIT),
    ):
        with pytest.raises(Problem):
            servers_in(written_text, kept)
