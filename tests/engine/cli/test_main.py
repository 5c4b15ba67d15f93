"""The command line: what it prints, and where; and what it refuses."""

import io
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
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
    change_json,
    committed,
    contents,
    events_of,
    text_of,
    unlike_refusal,
)

# Answers


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


def test_the_engine_is_asked_for_what_the_options_say(generate, run, asked, target, monkeypatch):
    assert generate().out == f"{clean(HOSTILE)}\n"
    load, plain, keep = asked
    assert (load.target, load.drafter, load.parallel) == (str(target), "auto", 1)
    assert load.sampling == Sampling()  # as greedy was asked for
    assert plain.prompt == chat([ChatMessage("user", PROMPT)])
    assert plain.request == Request(sampling=None, max_tokens=24, keep_instructions=True)
    assert isinstance(keep, Keep)
    assert generate("--json").out.isascii()
    asked.clear()
    monkeypatch.setattr("builtins.input", Mock(side_effect=[PROMPT, EOFError]))
    ended = run("chat", "--target", target, "--system", "be nice")
    assert (ended.code, ended.err) == (0, "")
    assert clean(HOSTILE) in ended.out
    assert [type(command) for command in asked] == [Load, Generate, Keep]
    system = ChatMessage("system", "be nice")
    assert asked[1].prompt.messages == (system, ChatMessage("user", PROMPT))


def test_options_reach_the_request_and_a_dash_reads_the_prompt(
    generate, asked, tmp_path, monkeypatch
):
    def feed(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))

    schema = tmp_path / "schema.json"
    schema.write_text("{}", encoding="utf-8-sig")
    words = ("--system", "be nice", "--stop", "a", "--stop", "b", "--max-tokens", 7)
    words += ("--schema", schema, "--thinking", "low", "--thinking-budget", 9, "--prompt", "-")
    feed("grüße\n".encode())
    assert generate(*words).code == 0
    _, wished, _ = asked
    assert wished.prompt.messages == (
        ChatMessage("system", "be nice"),
        ChatMessage("user", "grüße\n"),
    )
    assert wished.request == Request(
        sampling=None,
        max_tokens=7,
        stops=("a", "b"),
        grammar=Grammar("json schema", "{}"),
        thinking="low",
        thinking_budget=9,
        keep_instructions=True,
    )
    for data, word in ((b"", "empty"), (b"\n \n", "empty"), (b"\xff", "UTF-8")):
        feed(data)
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
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert generate().out == piped, name


# The other commands


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


# One line for everything that goes wrong, exit code 2, and nothing left behind


def _gone(name):
    return lambda folder: (folder / name).unlink()


def _holding(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def _configured(**changes):
    return lambda folder: change_json(folder / "config.json", **changes)


def _templated(template):
    return lambda folder: change_json(folder / "tokenizer_config.json", chat_template=template)


WEIGHTS = "model.safetensors"
BROKEN = {
    "no config": (_gone("config.json"), ("config.json",)),
    "truncated": (lambda at: os.truncate(at / WEIGHTS, 50_000), ("damaged", "again")),
    "empty tokenizer": (_holding("tokenizer.json", b"{}"), ("cannot be loaded",)),
    "hostile architecture": (_configured(model_type="x\x1b[2J\u202e\ny"), ("cannot be loaded",)),
    "other shapes": (_configured(hidden_size=32), ("shape",)),
    "a word for an end": (_configured(eos_token_id="x"), ("cannot be loaded",)),
    "template that refuses": (
        _templated("{{ raise_exception('no\x1b[2J\\nnever\\n') }}"),
        ("template", "never"),
    ),
    "template that looks around": (
        _templated("{{ ''.__class__.__mro__[1].__subclasses__() }}"),
        ("template", "unsafe"),
    ),
    "code of a known model": (_configured(model_file="evil.py", model_type="llama"), ("code",)),
    "code of a tokenizer": (
        lambda at: change_json(
            at / "tokenizer_config.json",
            tokenizer_class="Evil",
            auto_map={"AutoTokenizer": ["evil.Evil", "evil.Evil"]},
        ),
        ("code",),
    ),
}


def test_a_model_that_is_broken_or_wants_to_run_code(target, tmp_path, run):
    canary = tmp_path / "it ran"
    for name, (break_it, _) in BROKEN.items():
        folder = Path(shutil.copytree(target, tmp_path / name))
        (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w').close()\n")
        break_it(folder)
    before = contents(tmp_path)
    assert (
        failures(
            (name, run("generate", "--target", tmp_path / name, "--prompt", "x"), words)
            for name, (_, words) in BROKEN.items()
        )
        == {}
    )
    # Only what drafting costs is kept, where the weights could be told apart.
    after = {path: data for path, data in contents(tmp_path).items() if "home" not in path.parts}
    assert after == before, "something was left, or was run"


def failures(ended):
    """What was not refused with these words, by its name."""
    told = {name: unlike_refusal(run, *words) for name, run, words in ended}
    return {name: fault for name, fault in told.items() if fault}


def test_no_model_at_all(tmp_path, monkeypatch, run):
    none, source = tmp_path / "none", tmp_path / "model.gguf"
    hostile, at = tmp_path / "a\x1b[2J\nb", ("generate", "--prompt", "x", "--target")
    assert_refused(run(*at, none), str(none), "Check the path")
    assert_refused(run(*at, hostile), "was not found")
    assert_refused(run("chat", "--target", none), "Check the path")
    for size_bytes in (0, 50):
        source.write_bytes((b"GGUF\x03\0\0\0" + b"\x05" * 50)[:size_bytes])
        for words in ((*at, source), ("convert", source, tmp_path / "imported")):
            assert_refused(run(*words), "model.gguf", "again")
    assert [path for path, data in contents(tmp_path).items() if data is not None] == [source]
    monkeypatch.setenv("SLIPSTREAM_STARTER_GGUF", str(source))
    assert_refused(run(*at[:-1]), "SLIPSTREAM_STARTER_GGUF", "sha256")


# Requests that cannot be met


def test_a_prompt_longer_than_the_model_can_look_at(folder, run):
    change_json(folder / "config.json", max_position_embeddings=16)

    def answer(prompt):
        return run("generate", "--target", folder, "--prompt", prompt, "--json")

    # The template adds two tokens: 16 leave no room for an answer, 15 leave room for one token.
    assert_refused(answer("x" * 14), "16", "Shorten")
    assert len(committed(events_of(answer("x" * 13)))) == 1


DRAFTERS = "no drafter", "Choose auto, none, lookup"


def test_options_that_cannot_be(generate, run, target, tmp_path):
    none, unknown = tmp_path / "none.json", tmp_path / "schema.json"
    unknown.write_text('{"type": "string", "not": {}}')
    assert failures((each, generate(*each), words) for each, *words in (
        (("--temperature", "nan"), "temperature", "Choose", "from"),
        (("--top-p", "1.1"), "top_p", "Choose", "from"),
        (("--seed", 1 << 80), "seed", "Choose", "from"),
        *((("--draft-length", each), repr(each), "0 to 16") for each in ("17", "AUTO")),
        *((("--drafter", each), *DRAFTERS) for each in ("", "lookup+", "no/such/folder")),
        (("--drafter", "early-exit:2"), "after 2", "Choose from 1 to 1"),
        *((("--prompt", text), "empty", "Write a question") for text in ("", " \n\t", "\u2003")),
        (("--stop", ""), "stop string is empty"),
        (("--schema", none), "none.json"),
        (("--schema", unknown), "JSON schema", '"not"'),
        (("--regex", "a("), "regular expression", "unclosed group"),
        (("--regex", "caf\udce9"), "half a character"),
        (("--regex", "a", "--schema", "b.json"), "one"),
        # What Python makes of an argument that is not UTF-8.
        *(((where, "caf\udce9"), "UTF-8") for where in ("--prompt", "--system")),
    )) == {}  # fmt: skip
    bench, chat = ("bench", "--target", target), ("chat", "--target", tmp_path)
    assert failures((each, run(*each), words) for each, *words in (
        *(((*bench, "--runner", each), repr(each), "slash") for each in ("suffix", "suffix/")),
        ((*chat, "--temperature", "-1"), "temperature"),
    )) == {}  # fmt: skip
    kept = earlier_answers_folder()
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("a file")
    assert_refused(generate("--learn"), str(kept), "--learn")
    for arguments in (["generate"], ["generate", "--prompt", "x", "--no-such-option"]):
        ended = run(*arguments)
        assert (ended.code, ended.out, "Usage" in ended.err) == (2, "", True), arguments
    ended = run("--version")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.split() == ["Slipstream", metadata.version("slipstream")]


def test_a_drafter_that_shares_no_token(folder, generate):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    model = tokenizer["model"]
    model["vocab"] = {2 * token: id for token, id in model["vocab"].items()}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert_refused(generate("--drafter", folder), "cannot draft", "in model", "same model")
