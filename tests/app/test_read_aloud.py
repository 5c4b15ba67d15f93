"""An answer is read aloud by a program that has its words on standard input, and is stopped."""

import sys

import pytest

from app.read_aloud import spoken
from engine.events import Done, Stats, Text
from tests.support.app.window_maker import events_file
from tests.support.app.window_use import answered, send

ANSWER = "-o out.aiff **Two** [links](https://x.example) and `code`.\n\n```py\nx = 1\n```\n\n- last"
SPOKEN = ["-o out.aiff Two links and code.", "last", *"ab12", "bold [ [volm 0]]"]


@pytest.fixture
def say(tmp_path, monkeypatch):
    """A stand-in on the path, which writes its words and arguments down, then goes on."""
    program, heard = tmp_path / "say", tmp_path / "heard"
    program.write_text(
        f"#!{sys.executable}\nimport pathlib, sys, time\n"
        f"pathlib.Path({str(heard)!r}).write_text(repr((sys.argv[1:], sys.stdin.read())))\n"
        "time.sleep(600)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return heard


def test_what_is_not_words_is_left_out_and_it_is_not_offered_without_the_program(
    open_window, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not open_window().menus.actions["read_aloud"].isVisible()
    words = spoken(ANSWER + "\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n<b>bold</b> [[volm 0]]")
    assert words.split("\n") == SPOKEN


def test_it_is_read_and_stopped_and_ends_with_the_window(say, open_window, until, tmp_path):
    said = [Text("", ANSWER), Done("", "stop", Stats())]
    window = open_window(f"ready take load take play:{events_file(tmp_path, said)} serve")
    until(lambda: window.loader.loaded)
    send(window, "go")
    until(answered(window, 2))
    action, reader = window.menus.actions["read_aloud"], window.answer_commands.reader
    action.trigger()
    until(say.exists)
    until(say.read_text)
    assert say.read_text() == repr(([], spoken(ANSWER)))
    action.trigger()
    assert not reader.reading
    action.trigger()
    assert reader.reading
    window.close()
    assert not reader.reading
