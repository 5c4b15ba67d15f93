"""The command line: what it prints, and where; and what it refuses."""

import io
import os
import shutil
import sys
from dataclasses import fields, replace
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock

import pytest
from tokenizers import Tokenizer
from typer.testing import CliRunner

from engine.cli.main import app, main
from engine.cli.options import AnswerOptions, ModelOptions
from engine.conversation.stats import tally
from engine.earlier_answers import earlier_answers_folder
from engine.events import Done, Prefill
from engine.process.protocol import Generate, Keep, Load, Macs, Memory
from engine.request import BALANCED, ChatMessage, Grammar, Request, Sampling, chat
from engine.server import running
from models.errors import Problem
from models.in_words import clean
from models.model_folder import ModelFolder
from tests.support.engine.ended import (
    END,
    HOSTILE,
    PROMPT,
    assert_refused,
    change_json,
    committed,
    contents,
    events_of,
    text_of,
    unlike_refusal,
)


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


def test_a_reader_that_has_gone_ends_a_command_silently(monkeypatch, capfd):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        with pytest.raises(SystemExit) as ended:
            main(["models", "list"])
    assert (ended.value.code, capfd.readouterr().err) == (1, "")


def test_a_fault_of_our_own_is_not_taken_for_the_users(generate, monkeypatch):
    def broken(*_, **__):
        raise AssertionError("a bug")

    monkeypatch.setattr("engine.cli.sessions.open_session", broken)
    with pytest.raises(AssertionError, match="a bug"):
        main(["generate", "--prompt", "x"])


# One line for everything that goes wrong, exit code 2, and nothing left behind


CONFIG, TOKENIZER = "config.json", "tokenizer_config.json"
LOOKS_AROUND = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
BROKEN = {  # a file, what becomes of it or changes in it, and what is said of it
    "no config": (CONFIG, None, ("config.json",)),
    "truncated": ("model.safetensors", 50_000, ("damaged", "again")),
    "empty tokenizer": ("tokenizer.json", b"{}", ("cannot be loaded",)),
    "hostile name": (CONFIG, {"model_type": "x\x1b[2J\u202e\ny"}, ("cannot be loaded",)),
    "other shapes": (CONFIG, {"hidden_size": 32}, ("shape",)),
    "a word for an end": (CONFIG, {"eos_token_id": "x"}, ("cannot be loaded",)),
    "template that refuses": (
        *(TOKENIZER, {"chat_template": "{{ raise_exception('no\x1b[2J\\nnever\\n') }}"}),
        ("template", "never"),
    ),
    "looks around": (TOKENIZER, {"chat_template": LOOKS_AROUND}, ("template", "unsafe")),
    "code": (CONFIG, {"model_file": "evil.py", "model_type": "llama"}, ("code",)),
    "code of a tokenizer": (
        *(TOKENIZER, {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil"] * 2}}),
        ("code",),
    ),
}


def test_a_model_that_is_broken_or_wants_to_run_code(target, tmp_path, run):
    canary = tmp_path / "it ran"
    for name, (file, change, _) in BROKEN.items():
        folder = Path(shutil.copytree(target, tmp_path / name))
        (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w').close()\n")
        match change:
            case None:
                (folder / file).unlink()
            case int():
                os.truncate(folder / file, change)
            case bytes():
                (folder / file).write_bytes(change)
            case _:
                change_json(folder / file, **change)
    before, said = contents(tmp_path), ("generate", "--prompt", "x", "--target")
    ends = ((name, run(*said, tmp_path / name), words) for name, (*_, words) in BROKEN.items())
    assert failures(ends) == {}
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


def test_options_that_cannot_be(generate, run, target, tmp_path):
    none, unknown = tmp_path / "none.json", tmp_path / "schema.json"
    unknown.write_text('{"type": "string", "not": {}}')
    assert failures((each, generate(*each), words) for each, *words in (
        (("--temperature", "nan"), "temperature", "Choose", "from"),
        (("--draft-length", "17"), "'17'", "0 to 16"),
        *((("--drafter", each), "no drafter", "Choose auto") for each in ("", "no/such/folder")),
        (("--drafter", "early-exit:2"), "after 2", "Choose from 1 to 1"),
        *((("--prompt", text), "empty", "Write a question") for text in ("", " \n\u2003")),
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


STORIES = Path(__file__).parents[2] / "data" / "stories260K"


def load(target, **options):
    return ModelOptions(**options).load(ModelFolder(target), id="1", parallel=2)


def all_commands(app, *before):
    yield before
    for command in app.registered_commands:
        assert command.callback is not None
        if not command.hidden:
            yield (*before, command.name or command.callback.__name__)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from all_commands(group.typer_instance, *before, str(group.name))


def test_all_help_can_be_read_and_ends_with_an_example():
    found = list(all_commands(app))
    assert ("models", "pull") in found
    of_a_model = [each.name.replace("_", "-") for each in fields(ModelOptions)]
    for words in found:
        ended = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"})
        assert (ended.exit_code, "Example: slipstream " in ended.output) == (0, True), words
        assert "…" not in ended.output, f"{words}: cut off"
        if words[-1:] in (("generate",), ("chat",), ("serve",), ("agent",)):
            lacking = [name for name in of_a_model if f"--{name} " not in ended.output]
            assert lacking == [], words


def test_what_was_chosen_is_loaded(target):
    chosen = {"drafter": "suffix", "draft_length": "4", "learn": True, "measure": True}
    assert load(target, **chosen, context=100, cache_bits=8) == Load(
        *("1", str(target), "suffix", "4", Memory(100, 8)), parallel=2, learn=True, measure=True
    )
    assert load(target, cache=False).keep_bytes == 0
    assert load(target, hosts=Path("/a"), mode="tensor").macs == Macs("/a", "tensor")
    assert load(target).sampling is None
    assert load(target, temperature=0).sampling == Sampling()
    assert load(target, top_k=5).sampling == Sampling(top_k=5)
    seeded = load(target, seed=7).sampling
    assert (seeded.seed, seeded.repeatable) == (7, True)
    assert (seeded.temperature, seeded.top_p) == (BALANCED.temperature, BALANCED.top_p)
    # What cannot be is refused before anything is read.
    for wrong in ({"temperature": -1.0}, {"context": 1}, {"cache_bits": 5}, {"mode": "tensor"}):
        with pytest.raises(Problem):
            pytest.fail(f"{wrong} is {AnswerOptions(**wrong)}")


# The server


def test_what_cannot_be_served_is_refused(run, target):
    for words, told in (
        (("--host", "192.0.2.1"), "--key-file"),
        (("--host", "0.0.0.0"), "--host"),
        (("--key-file", "/dev/null"), "chmod"),
        (("--target", "/nowhere/at/all"), "/nowhere/at/all"),
        (("--allow", "no-such-model", "--target", target), "no-such-model"),
        (("--keep", "soon", "--target", target), "soon"),
    ):
        assert_refused(run("serve", "--port", "0", *words), told)


def test_a_server_gets_its_place_and_its_models(monkeypatch):
    got = []

    async def attached(place, offers, **_):
        got.append((place, offers))

    monkeypatch.setattr(running, "serve_attached", attached)
    monkeypatch.chdir(STORIES.parent)
    words = ["--waiting", "3", "--allow-host", "host.docker.internal", "--allow-host", "mac.local"]
    words += ["--allow", STORIES.name, "--allow", f"claude-*={STORIES.name}", "--keep", "2m"]
    done = CliRunner().invoke(app, ["serve", "--attached", "--drafter", "none", *words])
    assert done.exit_code == 0, done.output
    ((place, offers),) = got
    sockets, bound = replace(place, port=0).bind()
    for one in sockets:
        one.close()
    for each in (place, bound):
        assert (each.names, each.most_waiting) == (("host.docker.internal", "mac.local"), 3)
    assert bound.port > 0
    ((name, load),) = offers.loads.items()
    assert (name, load.drafter) == (STORIES.name, "auto")
    assert (dict(offers.aliases), offers.keep_seconds) == ({"claude-*": STORIES.name}, 120.0)
