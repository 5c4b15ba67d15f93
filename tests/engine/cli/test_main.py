"""The command line: what it prints, and where."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from unittest.mock import Mock

import pytest
from tokenizers import Tokenizer

from engine.cli.main import main
from engine.conversation.stats import tally
from engine.earlier_answers import earlier_answers_folder
from engine.events import Done, Prefill
from engine.process.protocol import Generate, Keep, Load
from engine.request import ChatMessage, Grammar, Request, Sampling, chat
from models.in_words import clean
from tests.support.engine.ended import (
    END,
    HOSTILE,
    PROMPT,
    ROOT,
    assert_refused,
    committed,
    events_of,
    text_of,
)

# Answers


def test_where_answers_cannot_be_kept_that_is_said(generate):
    folder = earlier_answers_folder()
    folder.parent.mkdir()
    folder.write_text("a file")
    assert_refused(generate("--learn"), str(folder), "--learn")


def test_json_is_the_events_of_the_answer(generate, target, drafter):
    plain = generate("--drafter", "none").out
    words = ("--json", "--drafter", f"lookup+{drafter}", "--draft-length", 4)
    events = events_of(generate(*words))
    assert len({event.generation for event in events}) == 1
    assert isinstance(events[0], Prefill)
    done = events[-1]
    assert isinstance(done, Done)
    assert done.reason == ("stop" if committed(events)[-1] == END else "length")
    assert done.stats == tally(events)
    assert done.stats.proposed > 0
    text = text_of(events)
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    assert tokenizer.decode(committed(events), skip_special_tokens=True) == text + done.cut
    assert clean(text) == plain.removesuffix("\n")


def test_the_engine_is_asked_for_what_the_options_say(
    generate, run, asked, target, tmp_path, monkeypatch
):
    assert generate().out == f"{clean(HOSTILE)}\n"
    load, plain, keep = asked
    assert (load.target, load.drafter, load.parallel) == (str(target), "auto", 1)
    assert load.sampling == Sampling()  # as greedy was asked for
    assert plain.prompt == chat([ChatMessage("user", PROMPT)])
    assert plain.request == Request(sampling=None, max_tokens=24, keep_instructions=True)
    assert isinstance(keep, Keep)
    assert generate("--json").out.isascii()
    asked.clear()
    read = Mock(side_effect=[PROMPT, EOFError])
    monkeypatch.setattr("builtins.input", read)
    ended = run("chat", "--target", target, "--system", "be nice")
    assert (ended.code, ended.err) == (0, "")
    assert clean(HOSTILE) in ended.out
    assert [type(command) for command in asked] == [Load, Generate, Keep]
    assert asked[1].prompt.messages == (
        ChatMessage("system", "be nice"),
        ChatMessage("user", PROMPT),
    )
    asked.clear()
    schema = tmp_path / "schema.json"
    schema.write_text("{}", encoding="utf-8-sig")
    words = ("--system", "be nice", "--stop", "a", "--stop", "b", "--max-tokens", 7)
    assert (
        generate(*words, "--schema", schema, "--thinking", "low", "--thinking-budget", 9).code == 0
    )
    _, wished, _ = asked
    assert wished.prompt.messages[0] == ChatMessage("system", "be nice")
    assert wished.request == replace(
        plain.request,
        max_tokens=7,
        stops=("a", "b"),
        grammar=Grammar("json schema", "{}"),
        thinking="low",
        thinking_budget=9,
    )


def feed(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_a_dash_reads_the_prompt(generate, asked, monkeypatch):
    feed(monkeypatch, "grüße\n".encode())
    assert generate("--prompt", "-").code == 0
    assert asked[1].prompt == chat([ChatMessage("user", "grüße\n")])
    for data, word in ((b"", "empty"), (b"\n \n", "empty"), (b"\xff", "UTF-8")):
        feed(monkeypatch, data)
        assert_refused(generate("--prompt", "-"), word)


# What reaches the terminal


@pytest.mark.usefixtures("asked")
def test_a_terminal_gets_colours_unless_it_wants_none(generate, monkeypatch):
    piped = generate().out
    assert "\x1b" not in piped
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert generate().out == piped  # a file has no cursor to move
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[" in generate().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert generate().out == piped
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert generate().out == piped


# The other commands


def test_the_version(run):
    ended = run("--version")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.split() == ["Slipstream", metadata.version("slipstream")]


def read_until(terminal, *words, times=1):
    """Read what comes from the terminal until each of `words` did, so often."""
    seen = b""
    while not all(seen.count(word) >= times for word in words):
        ready, _, _ = select.select([terminal], [], [], 120)
        assert ready, f"nothing more came after {seen[-300:]!r}"
        seen += os.read(terminal, 1 << 16)


def test_a_reader_that_has_gone_ends_a_command_silently(monkeypatch, capfd):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        with pytest.raises(SystemExit) as ended:
            main(["models", "list"])
    assert (ended.value.code, capfd.readouterr().err) == (1, "")


@pytest.mark.slow
def test_chat_on_a_real_terminal_survives_an_interrupt(target, tmp_path):
    saved = tmp_path / "chat.json"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "chat", "--target", target, "--max-tokens", "4000"],
        cwd=ROOT,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        read_until(ours, b"> ")
        os.write(ours, b"tell me more\r")
        read_until(ours, b"\x1b[?7h", times=20)  # drawn that often, it has begun to answer
        process.send_signal(signal.SIGINT)
        read_until(ours, b"tokens/s", b"\n> ")
        os.write(ours, f"/save {saved}\r".encode())
        read_until(ours, b"Saved to")
        os.write(ours, b"/quit\r")
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    messages = json.loads(saved.read_text())["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["content"]


def test_a_fault_of_our_own_is_not_taken_for_the_users(generate, monkeypatch):
    def broken(*_, **__):
        raise AssertionError("a bug")

    monkeypatch.setattr("engine.cli.sessions.open_session", broken)
    with pytest.raises(AssertionError, match="a bug"):
        main(["generate", "--prompt", "x"])
