"""Rows say how servers, folders and tools are, in texts that have no keys."""

import re
from dataclasses import replace

import pytest

from app.tools.server_rows import Place, rows_of
from engine.tools.configuration import Configuration, digest
from engine.tools.protocol import OWN, Offered, Server, State
from engine.tools.turn import about_tokens

READ = Offered("files", "read", "", "Reads a file.", '{"type": "object"}', True)
WRITE = Offered("files", "write", "", "Writes.", "{}")
WROTE = replace(WRITE, description="Never overwrites.")
FILES = Server("files", "npx", ("files",), {"KEY": "secret"})
SETUP = Configuration(
    (FILES,),
    seen={"files": {"read": digest(READ), "write": digest(WROTE)}},
    folders=("/notes",),
)
RUNS = State("files", "running", (READ, WRITE), "1.2.0", "Ask before you write.")
READING = Place("files", "reading")
READ_PLACE, WRITE_PLACE = Place("files", "tool", "read"), Place("files", "tool", "write")


def rows(setup=SETUP, state=RUNS, server=FILES, log=""):
    return {row.place: row for row in rows_of(server, state, setup, log=log)}


def test_a_server_stands_in_front_of_its_tools():
    shown = rows()
    assert [*shown] == [Place("files"), Place("files", "trust"), READING, READ_PLACE, WRITE_PLACE]
    assert [row.on for row in shown.values()] == [True, False, True, True, False]
    assert "1 of 2" in shown[Place("files")].note
    assert not rows(SETUP.switched(READ, on=False))[READING].on
    assert "read-only" in shown[READ_PLACE].note
    assert "read-only" not in shown[WRITE_PLACE].note
    assert rows(SETUP.trusting("files", True))[Place("files", "trust")].on
    assert [*rows(state=replace(RUNS, tools=(WRITE,)))] == [Place("files"), WRITE_PLACE]


def test_the_tokens_of_each_tool_stand_beside_its_tick():
    large = replace(READ, name="large", description="word " * 400)
    setup, state = SETUP.switched(READ, large, on=True), replace(RUNS, tools=(READ, large))
    shown = rows(setup, state)
    counted = [int(re.findall(r"about ([\d,]+) tokens", row.note)[0].replace(",", ""))
               for place, row in shown.items() if place.kind != "trust"]  # fmt: skip
    together, reading, small, big = counted
    assert together == reading == about_tokens([READ, large])
    assert big - small == pytest.approx((2000 - len(READ.description)) / 3, abs=2)
    for words, starter in (
        ("列出文件夹中的文件" * 44, 352),
        ("öffnet die Straßenkarte " * 43, 430),
    ):
        described = replace(READ, description=words)
        added = about_tokens([described]) - about_tokens([replace(READ, description="")])
        assert 0.6 * starter < added < 1.6 * starter
    off = rows(SETUP.switched(READ, on=False))
    assert "tokens" not in off[Place("files")].note


def test_all_is_said_of_a_server_but_its_keys():
    text = rows(log="It complains.")[Place("files")].text()
    for words in ("npx files", "KEY", RUNS.version, RUNS.instructions, "It complains."):
        assert words in text
    assert "secret" not in text
    failed = State("files", "failed", message="There is no npx.", remedy="Install it.")
    for state, on, warns, words in (
        (RUNS, True, True, "write"),
        (replace(RUNS, tools=(READ,)), True, False, "Running"),
        (replace(RUNS, tools=(READ,), message="Left out: x."), True, False, "Left out: x."),
        (State("files", "starting"), True, False, "Starting"),
        (failed, True, True, "Install it."),
        (failed, False, False, "Off"),
    ):
        shown = rows(SETUP.enabling("files", on), state)[Place("files")]
        assert (shown.on, shown.warns) == (on, warns)
        assert words in shown.text()
    assert [*rows(SETUP.enabling("files", False))] == [Place("files")]


def test_a_tool_that_has_changed_says_what_and_its_schema_is_laid_out():
    row = rows()[WRITE_PLACE]
    assert (row.on, row.warns) == (False, True)
    assert [part in row.note for part in ("description", "arguments")] == [True, False]
    assert row.note in row.text()
    assert WRITE.description in row.text()
    other = replace(SETUP, seen={"files": {"write": "from another version"}})
    assert rows(other)[WRITE_PLACE].warns
    assert not rows(SETUP.switched(WRITE, on=True))[WRITE_PLACE].warns
    assert not rows()[READ_PLACE].warns
    # Schemas are laid out if they can be.
    for schema, words in (('{"a": "\u00e9"}', '  "a": "\u00e9"'), ("{", "{"), ("[" * 9999, "[[")):
        tool = replace(READ, schema=schema)
        assert words in rows(state=replace(RUNS, tools=(tool,)))[READ_PLACE].text()
    # Tools that come along read folders, and always run.
    state = State(OWN, "running", (replace(READ, server=OWN),))
    shown = rows(SETUP, state, Server(OWN))
    assert [place.kind for place in shown] == ["server", "folder", "trust", "reading", "tool"]
    assert shown[Place(OWN, "folder", "/notes")].title == "/notes"
    assert shown[Place(OWN)].on is None
