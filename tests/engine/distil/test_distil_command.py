"""`slipstream distil` as it is typed: what it says, and one line for everything that is wrong."""

import pytest

from engine.cli.main import main
from engine.distil import run as module
from engine.distil.answering import Answerer
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.engine.ended import Run, assert_refused, contents
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
