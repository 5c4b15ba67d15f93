"""One line for everything that goes wrong, exit code 2, and nothing left behind."""

import json
import os
import shutil
from pathlib import Path

from tests.support.engine.ended import (
    assert_refused,
    change_json,
    committed,
    contents,
    events_of,
    unlike_refusal,
)


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
}


def test_a_broken_model(target, tmp_path, run):
    for name, (break_it, _) in BROKEN.items():
        break_it(Path(shutil.copytree(target, tmp_path / name)))
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
    assert after == before, "something was left behind"


def failures(ended):
    """What was not refused with these words, by its name."""
    told = {name: unlike_refusal(run, *words) for name, run, words in ended}
    return {name: fault for name, fault in told.items() if fault}


def test_no_model_at_all(tmp_path, run):
    ended = run("generate", "--target", tmp_path / "none", "--prompt", "x")
    assert_refused(ended, str(tmp_path / "none"), "Check the path")
    hostile = tmp_path / "a\x1b[2J\nb"
    assert_refused(run("generate", "--target", hostile, "--prompt", "x"), "was not found")
    assert_refused(run("chat", "--target", tmp_path / "none"), "Check the path")
    assert_refused(run("chat", "--target", tmp_path, "--temperature", "-1"), "temperature")


def test_a_gguf_file_that_is_none(tmp_path, run):
    source, made = tmp_path / "model.gguf", tmp_path / "imported"
    for size_bytes in (0, 50):
        source.write_bytes((b"GGUF\x03\0\0\0" + b"\x05" * 50)[:size_bytes])
        for words in (("generate", "--prompt", "x", "--target", source), ("convert", source, made)):
            assert_refused(run(*words), "model.gguf", "again")
    assert [path for path, data in contents(tmp_path).items() if data is not None] == [source]


def test_a_starter_file_that_is_another(tmp_path, monkeypatch, run):
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    monkeypatch.setenv("SLIPSTREAM_STARTER_GGUF", str(other))
    assert_refused(run("generate", "--prompt", "x"), "SLIPSTREAM_STARTER_GGUF", "sha256")


CODE = {
    "config of a known model": ("config.json", {"model_file": "evil.py", "model_type": "llama"}),
    "tokenizer": (
        "tokenizer_config.json",
        {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}},
    ),
}


def test_a_model_that_wants_to_run_code(target, tmp_path, run):
    canary = tmp_path / "it ran"
    for kind, (name, changes) in CODE.items():
        folder = Path(shutil.copytree(target, tmp_path / kind))
        (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w').close()\n")
        change_json(folder / name, **changes)
    assert (
        failures(
            (kind, run("generate", "--target", tmp_path / kind, "--prompt", "x"), ["code"])
            for kind in CODE
        )
        == {}
    )
    assert not canary.exists()


# Requests that cannot be met


def test_a_prompt_longer_than_the_model_can_look_at(folder, run):
    change_json(folder / "config.json", max_position_embeddings=16)

    def answer(prompt):
        return run("generate", "--target", folder, "--prompt", prompt, "--json")

    # The template adds two tokens: 16 leave no room for an answer, 15 leave room for one token.
    assert_refused(answer("x" * 14), "16", "Shorten")
    assert len(committed(events_of(answer("x" * 13)))) == 1


OUT_OF_RANGE = {
    "temperature": "nan",
    "top-p": "1.1",
    "seed": str(1 << 80),
}
NO_LENGTHS = ("17", "AUTO")
NO_DRAFTERS = ("", "lookup+", "no/such/folder")


def test_options_that_cannot_be(generate):
    sampling = [
        (f"--{option}", value, (option.replace("-", "_"), "Choose", "from"))
        for option, value in OUT_OF_RANGE.items()
    ]
    lengths = [("--draft-length", each, (repr(each), "0 to 16")) for each in NO_LENGTHS]
    words = ("no drafter", "Choose auto, none, lookup")
    drafters = [("--drafter", each, words) for each in NO_DRAFTERS]
    drafters.append(("--drafter", "early-exit:2", ("after 2", "Choose from 1 to 1")))
    assert (
        failures(
            ((option, value), generate(option, value), words)
            for option, value, words in (*sampling, *lengths, *drafters)
        )
        == {}
    )


def test_a_runner_that_is_no_drafter_with_a_length(run, target):
    for runner in ("suffix", "suffix/"):
        ended = run("bench", "--target", target, "--runner", runner)
        assert_refused(ended, repr(runner), "slash", "head/tree:8")


def test_a_drafter_that_shares_no_token(folder, generate):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    model = tokenizer["model"]
    model["vocab"] = {2 * token: id for token, id in model["vocab"].items()}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert_refused(generate("--drafter", folder), "cannot draft", "in model", "same model")


def test_texts_that_cannot_be(generate, tmp_path):
    none, unknown = tmp_path / "none.json", tmp_path / "schema.json"
    unknown.write_text('{"type": "string", "not": {}}')
    assert failures((each, generate(*each), words) for each, *words in (
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


def test_wrong_usage(run):
    for arguments in (["generate"], ["generate", "--prompt", "x", "--no-such-option"]):
        ended = run(*arguments)
        assert (ended.code, ended.out) == (2, ""), arguments
        assert "Usage" in ended.err, arguments
