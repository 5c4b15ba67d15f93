"""The command line: what it prints where, and one line for everything that goes wrong."""

import io
import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.utils import save_model
from tokenizers import Tokenizer

from engine import __main__
from engine.__main__ import main
from engine.events import Done, Draft, Event, Prefill, Text, Verdict, from_json
from engine.stats import tally
from engine.terminal import clean
from tests.engine import tiny

ROOT = Path(__file__).parents[2]
PROMPT = "a b a b a b"  # of which there is something to look up
END = 256  # the tiny models' end of text
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Run:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


Command = Callable[..., Run]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The CPU, where texts are equal to the letter; models kept apart; no terminal's settings."""
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path / "home"))
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "target"
    tiny.write_folder("llama", folder)
    return folder


@pytest.fixture(scope="module")
def drafter(target: Path) -> Path:
    """A model that guesses the target's tokens now and then."""
    folder = Path(shutil.copytree(target, target.with_name("drafter")))
    save_model(folder, tiny.noisy(tiny.write_folder("llama", folder)))
    return folder


@pytest.fixture
def folder(target: Path, tmp_path: Path) -> Path:
    """A copy of the target, to be broken."""
    return Path(shutil.copytree(target, tmp_path / "model"))


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs a command line in this process."""

    def run(*arguments: object) -> Run:
        with pytest.raises(SystemExit) as exit_info:
            main(list(map(str, arguments)))
        out, err = capfd.readouterr()
        code = exit_info.value.code
        assert code is None or isinstance(code, int)
        return Run(code or 0, out, err)

    return run


@pytest.fixture
def generate(run: Command, target: Path) -> Command:
    """Runs `generate` on the target, with a prompt, for 24 tokens, unless the arguments differ."""

    def generate(*arguments: object) -> Run:
        return run(
            "generate", "--target", target, "--prompt", PROMPT, "--max-tokens", 24, *arguments
        )

    return generate


def assert_refused(ended: Run, *words: str) -> None:
    """One line on standard error that holds all `words`, nothing else anywhere, exit code 2."""
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("slipstream: ")
    assert ended.err.endswith(".\n")
    assert len(ended.err.splitlines()) == 1, ended.err
    assert not CONTROLS.search(ended.err.removesuffix("\n"))
    for word in words:
        assert word in ended.err, ended.err


def contents(folder: Path) -> dict[Path, bytes | None]:
    """All that lies under `folder`; None for a folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def events_of(ended: Run) -> list[Event]:
    assert ended.code == 0, ended.err
    assert ended.err == ""
    return [from_json(line) for line in ended.out.splitlines()]


def text_of(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


def committed(events: list[Event]) -> list[int]:
    """The ids of all tokens that stand."""
    ids: list[int] = []
    drafts = {event.round: event.tokens for event in events if isinstance(event, Draft)}
    for event in events:
        if isinstance(event, Verdict):
            ids += [token.id for token in drafts.get(event.round, ())[: event.accepted]]
            ids += [event.next.id] if event.next else []
    return ids


def change_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# Models that are none


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def _no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _only_pickles(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _truncated(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(50_000)


def _empty_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def _garbage_weights(folder: Path) -> None:
    size_bytes = (folder / "model.safetensors").stat().st_size
    (folder / "model.safetensors").write_bytes(b"\xa5" * size_bytes)


def _garbage_config(folder: Path) -> None:
    (folder / "config.json").write_bytes(b"\x00\xff{not json")


def _list_config(folder: Path) -> None:
    (folder / "config.json").write_text("[]")


def _no_model_type(folder: Path) -> None:
    change_json(folder / "config.json", model_type=None)


def _configured(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: change_json(folder / "config.json", **changes)


def _templated(template: str) -> Callable[[Path], None]:
    return lambda folder: change_json(folder / "tokenizer_config.json", chat_template=template)


def _no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def _empty_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


def _garbage_tokenizer_config(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("[")


BROKEN: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "empty": (_empty, ("config.json",)),
    "no config": (_no_config, ("config.json",)),
    "no weights": (_no_weights, ("no weights", "MLX version")),
    "only pickles": (_only_pickles, ("pickle",)),
    "truncated": (_truncated, ("damaged", "again")),
    "empty weights": (_empty_weights, ("damaged", "again")),
    "garbage weights": (_garbage_weights, ("damaged", "again")),
    "garbage config": (_garbage_config, ("config.json", "JSON")),
    "config is a list": (_list_config, ("config.json", "JSON")),
    "no model type": (_no_model_type, ("model_type",)),
    "no tokenizer": (_no_tokenizer, ("tokenizer.json",)),
    "empty tokenizer": (_empty_tokenizer, ("cannot be loaded",)),
    "garbage tokenizer config": (_garbage_tokenizer_config, ("cannot be loaded",)),
    "unknown architecture": (_configured(model_type="nonesuch"), ("nonesuch", "not supported")),
    "a module that exits": (_configured(model_type="olmo"), ("cannot be loaded", "olmo")),
    "a module that is no model": (_configured(model_type="cache"), ("cannot be loaded",)),
    "hostile architecture": (_configured(model_type="x\x1b[2J\u202e\ny"), ("cannot be loaded",)),
    "other shapes": (_configured(hidden_size=32), ("shape",)),
    "no heads": (_configured(num_attention_heads=0), ("cannot be loaded",)),
    "absurd width": (_configured(hidden_size=1 << 40), ("cannot be loaded",)),
    "text for a number": (_configured(hidden_size="64"), ("cannot be loaded",)),
    "a word for an end": (_configured(eos_token_id="x"), ("cannot be loaded",)),
    "template with bad syntax": (_templated("{% for %}"), ("template",)),
    "template that divides by 0": (_templated("{{ 1 / 0 }}"), ("template",)),
    "template that refuses": (
        _templated("{{ raise_exception('no\x1b[2J\\nnever\\n') }}"),
        ("template", "never"),
    ),
    "template that looks around": (
        _templated("{{ ''.__class__.__mro__[1].__subclasses__() }}"),
        ("template", "unsafe"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_model(name: str, folder: Path, tmp_path: Path, run: Command) -> None:
    break_it, words = BROKEN[name]
    break_it(folder)
    before = contents(tmp_path)
    assert_refused(run("generate", "--target", folder, "--prompt", "x"), *words)
    assert contents(tmp_path) == before, "something was left behind"


def test_no_model_at_all(tmp_path: Path, run: Command) -> None:
    ended = run("generate", "--target", tmp_path / "none", "--prompt", "x")
    assert_refused(ended, str(tmp_path / "none"), "Check the path")
    hostile = tmp_path / "a\x1b[2J\nb"
    assert_refused(run("generate", "--target", hostile, "--prompt", "x"), "no model folder")


@pytest.mark.parametrize("command", ["generate", "import"])
@pytest.mark.parametrize("size_bytes", [0, 4, 50])
def test_a_gguf_file_that_is_none(
    command: str, size_bytes: int, tmp_path: Path, run: Command
) -> None:
    source = tmp_path / "model.gguf"
    source.write_bytes((b"GGUF\x03\0\0\0" + b"\x05" * 50)[:size_bytes])
    if command == "generate":
        ended = run("generate", "--target", source, "--prompt", "x")
    else:
        ended = run("import", source, tmp_path / "imported")
    assert_refused(ended, "model.gguf", "again")
    left = [path for path, data in contents(tmp_path).items() if data is not None]
    assert left == [source]
    assert not (tmp_path / "imported").exists()


def test_a_starter_file_that_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    monkeypatch.setenv("SLIPSTREAM_STARTER_GGUF", str(other))
    assert_refused(run("generate", "--prompt", "x"), "SLIPSTREAM_STARTER_GGUF", "sha256")


CODE: dict[str, tuple[str, dict[str, Any]]] = {
    "config": ("config.json", {"model_file": "evil.py"}),
    "config of a known model": ("config.json", {"model_file": "evil.py", "model_type": "llama"}),
    "remote code": (
        "config.json",
        {"model_type": "evil", "auto_map": {"AutoModelForCausalLM": "evil.Model"}},
    ),
    "tokenizer": (
        "tokenizer_config.json",
        {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}},
    ),
}


@pytest.mark.parametrize("kind", CODE)
def test_a_model_that_wants_to_run_code(kind: str, folder: Path, run: Command) -> None:
    canary = folder.parent / "it ran"
    (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w').close()\n")
    name, changes = CODE[kind]
    change_json(folder / name, **changes)
    assert_refused(run("generate", "--target", folder, "--prompt", "x"), "code")
    assert not canary.exists()


# Requests that cannot be met


@pytest.mark.parametrize("prompt", ["", " \n\t", "\u2003"])
def test_an_empty_prompt(prompt: str, generate: Command) -> None:
    assert_refused(generate("--prompt", prompt), "empty", "Write something")


def test_a_prompt_longer_than_the_model_can_look_at(folder: Path, run: Command) -> None:
    change_json(folder / "config.json", max_position_embeddings=16)

    def answer(prompt: str) -> Run:
        return run("generate", "--target", folder, "--prompt", prompt, "--json")

    # The template adds two tokens: 16 leave no room for an answer, 15 leave room for one token.
    assert_refused(answer("x" * 14), "16", "Shorten")
    assert_refused(answer("x" * 100), "102", "16", "Shorten")
    assert len(committed(events_of(answer("x" * 13)))) == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("temperature", value) for value in ("-0.1", "nan", "inf", "101")],
        *[("top-p", value) for value in ("-0.1", "1.1", "nan")],
        *[("min-p", value) for value in ("-0.1", "1.1", "nan")],
        ("top-k", "-1"),
        ("repetition-penalty", "0"),
        ("presence-penalty", "inf"),
        ("frequency-penalty", "nan"),
        *[("seed", value) for value in ("-1", str(1 << 80))],
    ],
)
def test_sampling_that_is_out_of_range(option: str, value: str, generate: Command) -> None:
    ended = generate(f"--{option}", value)
    assert_refused(ended, option.replace("-", "_"), "Choose", "from")


@pytest.mark.parametrize("length", ["-1", "17", "1.5", "", "AUTO", "many", "²"])
def test_a_draft_length_that_is_none(length: str, generate: Command) -> None:
    assert_refused(generate("--draft-length", length), repr(length), "0 to 16")


@pytest.mark.parametrize("name", ["", "lookup+", "Lookup", "early-exit:x", "no/such/folder"])
def test_a_drafter_that_is_none(name: str, generate: Command) -> None:
    assert_refused(generate("--drafter", name), "no drafter", "Choose none, lookup")


@pytest.mark.parametrize("layers", [0, 4, 10**20])
def test_an_early_exit_out_of_range(layers: int, generate: Command) -> None:
    ended = generate("--drafter", f"early-exit:{layers}")
    assert_refused(ended, f"after {layers}", "Choose from 1 to 3")


def test_a_drafter_with_other_tokens(folder: Path, generate: Command) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["A"], vocabulary["B"] = vocabulary["B"], vocabulary["A"]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert_refused(generate("--drafter", folder), "token 65 is 'A'", "'B' in model", "same model")


def test_an_empty_stop_string(generate: Command) -> None:
    assert_refused(generate("--stop", ""), "stop string is empty")


@pytest.mark.parametrize("where", ["--prompt", "--system"])
def test_text_that_is_no_unicode(where: str, generate: Command) -> None:
    # What Python makes of an argument that is not UTF-8.
    assert_refused(generate(where, "caf\udce9"), "UTF-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate"],
        ["generate", "--prompt", "x", "--max-tokens", "0"],
        ["generate", "--prompt", "x", "--temperature", "warm"],
        ["generate", "--prompt", "x", "--no-such-option"],
        ["import", "model.gguf"],
        ["no-such-command"],
    ],
)
def test_wrong_usage(arguments: list[str], run: Command) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Usage" in ended.err


# Answers


def test_every_drafter_writes_the_same(generate: Command, drafter: Path) -> None:
    plain = generate("--drafter", "none")
    assert plain.code == 0
    assert len(plain.out) > 10
    assert plain.err.count("\n") == 1
    assert "no drafts" in plain.err
    for name in ("lookup", "early-exit", "early-exit:1", drafter, f"lookup + {drafter}"):
        for length in ("auto", "4", "16"):
            drafted = generate("--drafter", name, "--draft-length", length)
            assert (drafted.code, drafted.out) == (0, plain.out), (name, length)


def test_json_is_events_that_obey_the_laws(generate: Command, target: Path, drafter: Path) -> None:
    plain = generate("--drafter", "none").out
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    for name in ("none", "lookup", "early-exit:1", drafter, f"lookup+{drafter}"):
        events = events_of(generate("--json", "--drafter", name, "--draft-length", 4))

        assert len({event.generation for event in events}) == 1
        assert isinstance(events[0], Prefill)
        *_, done = events
        assert isinstance(done, Done)
        assert [event for event in events if isinstance(event, Done)] == [done]
        assert done.reason == ("stop" if committed(events)[-1] == END else "length")
        stats = done.stats
        assert stats == tally(events)
        assert stats.proposed == stats.accepted + stats.rejected + stats.discarded
        assert stats.committed == len(committed(events)) <= 24
        assert (stats.proposed > 0) == (name != "none")

        rounds = [event for event in events if isinstance(event, Draft | Verdict)]
        for draft, verdict in itertools.pairwise(rounds):
            if isinstance(draft, Draft):
                assert isinstance(verdict, Verdict)
                assert (draft.round, len(draft.tokens)) == (verdict.round, len(verdict.judgements))
        text = text_of(events)
        assert tokenizer.decode(committed(events), skip_special_tokens=True) == text + done.cut
        assert clean(text) == plain.removesuffix("\n")


def test_every_answer_has_an_id_of_its_own(generate: Command) -> None:
    ids = {events_of(generate("--json"))[0].generation for _ in range(2)}
    assert len(ids) == 2


@pytest.mark.parametrize("name", ["none", "lookup", "early-exit:1"])
def test_a_seed_reproduces(name: str, generate: Command) -> None:
    # A draft length that does not depend on the clock: it takes part in what is drawn.
    def text(seed: int) -> str:
        sampling = ("--temperature", 1, "--top-p", 0.95, "--seed", seed)
        return text_of(
            events_of(generate("--json", "--drafter", name, "--draft-length", 3, *sampling))
        )

    assert text(1) == text(1)
    assert len({text(seed) for seed in range(3)}) == 3


def test_greedy_needs_no_seed(generate: Command) -> None:
    assert generate("--seed", 1).out == generate("--seed", 2).out == generate().out


@pytest.mark.parametrize("count", [1, 2, 7])
def test_max_tokens(count: int, generate: Command, drafter: Path) -> None:
    whole = text_of(events_of(generate("--json", "--drafter", "none")))
    events = events_of(generate("--json", "--drafter", drafter, "--max-tokens", count))
    assert len(committed(events)) == count
    assert whole.startswith(text_of(events).rstrip("\ufffd"))


def test_stop_strings(generate: Command, drafter: Path) -> None:
    whole = text_of(events_of(generate("--json", "--drafter", "none")))
    places = [place for place, letter in enumerate(whole) if "!" <= letter <= "~"]
    first, later = places[2], places[4]
    stop, other = whole[first : first + 2], whole[later]
    assert whole.index(stop) == first

    events = events_of(generate("--json", "--drafter", drafter, "--stop", stop, "--stop", other))
    done = events[-1]
    assert isinstance(done, Done)
    end = min(first, whole.index(other))
    assert text_of(events) == whole[:end]
    assert done.reason == "stop"
    assert whole.startswith((whole[:end] + done.cut).rstrip("\ufffd"))
    assert clean(generate("--stop", stop).out) == clean(whole[:first]) + "\n"


def test_the_system_prompt_is_read(generate: Command) -> None:
    def prompt_tokens(*arguments: object) -> int:
        return tally(events_of(generate("--json", *arguments))).prompt_tokens

    assert prompt_tokens("--system", "be nice") == prompt_tokens() + 1 + len("be nice")


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_a_dash_reads_the_prompt(generate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, "grüße\n".encode())
    piped = generate("--prompt", "-")
    assert piped.code == 0
    assert piped.out == generate("--prompt", "grüße\n").out


@pytest.mark.parametrize(
    ("data", "word"), [(b"", "empty"), (b"\n \n", "empty"), (b"\xff", "UTF-8")]
)
def test_a_dash_and_nothing_to_read(
    data: bytes, word: str, generate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, data)
    assert_refused(generate("--prompt", "-"), word)


# What reaches the terminal


@pytest.fixture
def hostile(target: Path, folder: Path, generate: Command) -> Path:
    """A model whose answer to `PROMPT` begins with ESC [2J and a right-to-left override."""
    wanted = [*b"\x1b[2J", *"\u202e".encode()]
    tokenizer = json.loads((target / "tokenizer.json").read_text())
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    ids = list(dict.fromkeys(committed(events_of(generate("--json", "--drafter", "none")))))
    ids = [number for number in ids if number < 256 and number not in PROMPT.encode()][
        : len(wanted)
    ]
    letters = {number: letter for letter, number in vocabulary.items()}
    order = list(range(256))
    for number, byte in zip(ids, wanted, strict=True):
        place = order.index(byte)
        order[number], order[place] = order[place], order[number]
    tokenizer["model"]["vocab"] = {letters[byte]: number for number, byte in enumerate(order)}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def test_the_model_cannot_drive_the_terminal(hostile: Path, generate: Command) -> None:
    text = text_of(events_of(generate("--json", "--target", hostile)))
    assert "\x1b" in text
    assert "\u202e" in text
    shown = generate("--target", hostile)
    assert shown.code == 0
    assert shown.out == clean(text) + "\n"
    assert not CONTROLS.search(shown.out)
    raw = generate("--target", hostile, "--json").out
    assert raw.isascii()
    assert "\x1b" not in raw


def test_a_terminal_gets_colours_unless_it_wants_none(
    generate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = generate().out
    assert "\x1b" not in piped
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    assert "\x1b[" in generate().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert generate().out == piped
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert generate().out == piped


def child(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, its output in pipes."""
    return subprocess.run(
        [sys.executable, "-m", "engine", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_a_pipe_gets_plain_text(hostile: Path, generate: Command) -> None:
    here = generate("--target", hostile)
    piped = child(
        *("generate", "--target", hostile, "--prompt", PROMPT, "--max-tokens", 24),
        TERM="xterm-256color",
        COLORTERM="truecolor",
    )
    assert (piped.returncode, piped.stdout) == (0, here.out)
    assert "tokens/s" in piped.stderr
    assert piped.stderr.count("\n") == 1
    assert not CONTROLS.search(piped.stdout + piped.stderr)


def test_nothing_but_one_line_comes_from_a_child(folder: Path) -> None:
    # In a process of its own, where no test runner has set up logging and warnings.
    change_json(folder / "config.json", model_type="olmo")
    ended = child("generate", "--target", folder, "--prompt", "x")
    assert_refused(Run(ended.returncode, ended.stdout, ended.stderr), "olmo")


# The other commands


def test_help(run: Command) -> None:
    ended = run("--help")
    assert (ended.code, ended.err) == (0, "")
    for command in ("generate", "chat", "import", "host"):
        assert command in ended.out
        described = run(command, "--help")
        assert (described.code, described.err) == (0, "")
        assert "Usage" in described.out


def test_without_a_command_it_helps(run: Command) -> None:
    ended = run()
    assert ended.code == 2
    assert "generate" in ended.out + ended.err


def test_chat(target: Path, run: Command, generate: Command, tmp_path: Path,
              monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    answer = generate("--system", "be nice").out
    saved = tmp_path / "chat.json"
    lines = iter([PROMPT, "/nonsense", f"/save {saved}"])

    def read(prompt: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", read)
    ended = run("chat", "--target", target, "--system", "be nice", "--max-tokens", 24)
    assert (ended.code, ended.err) == (0, "")
    assert answer in ended.out
    assert "There is no command /nonsense" in ended.out
    roles = [message["role"] for message in json.loads(saved.read_text())["messages"]]
    assert roles == ["system", "user", "assistant"]


def read_until(terminal: int, *words: bytes, times: int = 1) -> None:
    """Read what comes from the terminal until each of `words` did, so often."""
    seen = b""
    while not all(seen.count(word) >= times for word in words):
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready, f"nothing more came after {seen[-300:]!r}"
        seen += os.read(terminal, 1 << 16)


@pytest.mark.slow
def test_chat_on_a_real_terminal_survives_an_interrupt(target: Path, tmp_path: Path) -> None:
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


def test_chat_refuses_before_it_begins(run: Command, tmp_path: Path) -> None:
    assert_refused(run("chat", "--target", tmp_path / "none"), "Check the path")
    assert_refused(run("chat", "--target", tmp_path, "--temperature", "-1"), "temperature")


def test_a_fault_of_our_own_is_not_taken_for_the_users(
    generate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(__main__, "open_session", broken)
    with pytest.raises(AssertionError, match="a bug"):
        main(["generate", "--prompt", "x"])
