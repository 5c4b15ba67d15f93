"""`slipstream distil` as it is typed, and one line for everything that is wrong; and as a process,
killed, killed again, interrupted, and then let be."""

import signal
import subprocess
import sys

import mlx.core as mx
import pytest

from engine.cli.main import main
from engine.distil import run as module
from engine.distil.answering import Answerer
from engine.drafters.head_network import load_head
from models.drafters.folders import describe_drafter
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.engine.ended import ROOT, Run, assert_refused, contents
from tests.support.engine.story_samples import STORIES, openings


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "openings.txt"
    path.write_text("\n".join(openings(40)))
    return path


@pytest.fixture
def out(tmp_path):
    return tmp_path / "drafter"


@pytest.fixture
def distil(prompts, out, capfd, monkeypatch):
    """The command, for stories260K; what is given replaces what stands here."""
    monkeypatch.setenv("COLUMNS", "300")

    def distil(*words, target=STORIES, prompts=prompts, out=out, tokens=1000):
        arguments = ["--target", target, "--out", out, "--prompts", prompts, *words]
        if tokens is not None:
            arguments += ["--tokens", tokens]
        with pytest.raises(SystemExit) as ended:
            main(["distil", *map(str, arguments)])
        said, errors = capfd.readouterr()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Run(code or 0, said, errors)

    return distil


def assert_refused_at_the_end(ended, *words):
    """As `assert_refused`, after lines about what was done before."""
    *before, last = ended.err.splitlines(keepends=True)
    assert all(line.startswith(("loading", "answering")) for line in before), ended.err
    assert_refused(Run(ended.code, ended.out, last), *words)


def test_files_may_follow_one_another(distil, out, prompts, tmp_path, monkeypatch):
    more = tmp_path / "more.json"
    more.write_text('["This prompt stands alone"]')
    seen = []

    def note(options, report):
        seen.append(options)
        report("working [bold]on[/bold] it")
        return options.out

    monkeypatch.setattr(module, "distil", note)
    ended = distil(more, "--vocabulary", 300, "--longest-answer", 20)
    assert (ended.code, ended.out) == (0, f"{out}\n")
    assert ended.err == "working [bold]on[/bold] it\n"
    assert seen == [
        module.DistilOptions(
            target=ModelFolder(STORIES),
            prompts=(prompts, more),
            out=out,
            tokens=1000,
            vocabulary=300,
            longest_answer=20,
        )
    ]


def test_how_long_is_not_clear(distil, tmp_path):
    before = contents(tmp_path)
    assert_refused(distil(target="nowhere", tokens=None), "--minutes and --tokens")
    assert_refused(distil("--minutes", 5, target="nowhere"), "--minutes and --tokens")
    assert contents(tmp_path) == before


def test_an_out_that_is_taken(distil, out):
    out.mkdir()
    (out / "letters.txt").write_text("dear")
    assert_refused(distil(), str(out), "not empty", "--resume", "another --out")
    assert_refused(distil("--resume"), "nothing to resume", "Leave out --resume")
    assert_refused(distil(out=out / "letters.txt"), "cannot be used", "another --out")
    assert [path.name for path in out.iterdir()] == ["letters.txt"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_damaged_plan(out, text):
    plan = {"--tokens": "1000"}
    (out / "work").mkdir(parents=True)
    (out / "work" / ".plan.partial.json").write_text("{")  # as a begin that was killed leaves it
    module.WorkFolder(out).check(plan, resume=False)
    module.WorkFolder(out).begin(plan)
    (out / "work" / "plan.json").write_text(text)
    with pytest.raises(Problem):
        module.WorkFolder(out).check(plan, resume=True)


def test_prompts_that_will_not_do(distil, out, tmp_path):
    path = tmp_path / "prompts.txt"
    assert_refused(distil(prompts=path), str(path), "cannot be read")
    path.write_text("\n\n")
    assert_refused(distil(prompts=path), str(path), "contains no prompts")
    path.write_text("\n".join(openings(15)))
    assert_refused_at_the_end(distil(prompts=path), "Only 15 of the 15 prompts", "at least 16")
    path.write_text("\n".join(text * 60 for text in openings(30)))
    assert_refused_at_the_end(
        distil(prompts=path), "Only 0 of the 30 prompts", "at most 256 tokens"
    )
    assert_refused_at_the_end(distil("--longest-answer", 600), "Only 0 of the 40", "at most 0")
    assert not out.exists()


def test_targets_that_will_not_do(distil, out, tmp_path):
    assert_refused(distil(target=tmp_path / "none"), "Check the path")
    sliding = tmp_path / "sliding"
    tiny.write_folder("gemma3_text", sliding)
    assert_refused_at_the_end(distil(target=sliding), "other than full attention", "lookup")
    refusing = tmp_path / "refusing"
    tiny.write_folder("llama", refusing)
    path = refusing / "tokenizer_config.json"
    template = "{{ raise_exception('not today') }}"
    path.write_text(path.read_text().replace('"chat_template": "', f'"chat_template": "{template}'))
    assert_refused_at_the_end(distil(target=refusing), "chat template rejects", "not today")
    assert not out.exists()


def test_going_on_with_something_else(distil, prompts, out, tmp_path, monkeypatch):
    def interrupted(*_, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Answerer, "answer", interrupted)
    stopped = ("Stopped before anything was learned", "0 tokens of answers", "--resume")
    assert_refused_at_the_end(distil(), *stopped)
    before = contents(out)
    assert_refused(distil(), "not empty", "--resume")
    for words in (["--vocabulary", 300], ["--longest-answer", 20]):
        assert_refused(distil("--resume", *words), f"with different {words[0]}", "as it was")
    assert_refused(distil("--resume", tokens=2000), "started with different --tokens")
    minutes = distil("--resume", "--minutes", 2, tokens=None)
    assert_refused(minutes, "started with different --minutes and --tokens")
    fewer = tmp_path / "fewer.txt"
    fewer.write_text("\n".join(openings(30)))
    assert_refused(distil("--resume", prompts=fewer), "started with different prompts")
    other = tmp_path / "other"
    tiny.write_folder("llama", other)
    assert_refused(distil("--resume", target=other), "started with different target")
    assert contents(out) == before
    # Where the files lie does not matter, only what is in them.
    moved = prompts.rename(tmp_path / "moved.txt")
    assert_refused_at_the_end(distil("--resume", prompts=moved), *stopped)


# As a process of its own


def begun(prompts, out, *words):
    """A distillation of eight epochs, however long they take."""
    command = ["distil", "--target", STORIES, "--prompts", prompts, "--out", out]
    command += ["--tokens", "3000", "--vocabulary", "300", "--longest-answer", "40", *words]
    return subprocess.Popen(
        [sys.executable, "-m", "engine", *map(str, command)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def lines_until(start, process):
    """What it says, up to a line that begins so."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith(start):
            return lines
    raise AssertionError(f"it ended: {lines}")


@pytest.mark.slow
def test_killed_interrupted_and_let_be(tmp_path, out):
    prompts, weights = tmp_path / "openings.txt", ModelFolder(STORIES).fingerprint
    prompts.write_text("\n".join(openings(120)))

    def answers():
        folder = out / "work" / "answers"
        return {path: path.stat().st_mtime_ns for path in folder.glob("[0-9]*")}

    def kill_at(line, *words):
        process = begun(prompts, out, *words)
        lines_until(line, process)
        process.kill()
        process.communicate()

    kill_at("answering: ")
    stored = answers()
    assert stored
    assert not (out / "config.json").exists()

    kill_at("epoch 3: ", "--resume")
    answered = answers()
    assert answered.items() >= stored.items(), "answered again"
    load_head(describe_drafter(out), fingerprint=weights, vocabulary=512, like=mx.float32)

    third = begun(prompts, out, "--resume")
    lines = lines_until("epoch ", third)
    assert lines[-1].startswith(("epoch 3: ", "epoch 4: "))
    assert not any(line.startswith("answering") for line in lines)
    third.send_signal(signal.SIGINT)
    said, errors = third.communicate(timeout=120)
    assert (third.returncode, said) == (0, f"{out}\n")
    assert "--resume" in errors.splitlines()[-1]

    fourth = begun(prompts, out, "--resume")
    assert lines_until("epoch ", fourth)[-1].startswith(("epoch 4: ", "epoch 5: ", "epoch 6: "))
    assert answers() == answered
    assert fourth.communicate(timeout=120)[0] == f"{out}\n"
    assert {path.name for path in out.iterdir()} == {"config.json", "head.safetensors"}
    load_head(describe_drafter(out), fingerprint=weights, vocabulary=512, like=mx.float32)
