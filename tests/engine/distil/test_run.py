"""The whole of `slipstream distil`, stopped anywhere and taken up again."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import mlx.core as mx
import pytest

from engine.conversation.session import Session
from engine.distil import answering, budget, run, training
from engine.distil.answering import Answerer
from engine.distil.head_learner import ChainAcceptance, HeadLearner, measure
from engine.distil.run import DistilOptions, distil
from engine.distil.training import Trainer
from engine.drafters.head_network import load_head, save_head
from engine.events import Done
from engine.request import Request
from models.drafters.folders import describe_drafter
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine.story_samples import (
    STORIES,
    asked_of,
    new_story_head,
    openings,
    story_learner,
)
from tests.support.mostly_slow import mostly_slow


class Killed(BaseException):
    """What nobody handles: as far as that is possible in a process, an end as by kill -9."""


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "openings.txt"
    path.write_text("\n".join(openings(100)))
    return path


def options_of(out, prompts, patch):
    """A second of work: three epochs of five batches, a checkpoint after each batch."""
    patch.setattr(budget, "_EPOCHS", 3)
    patch.setattr(training, "_POSITIONS_BY_WIDTH", 1)
    patch.setattr(training, "_CHECKPOINT_SECONDS", -1.0)
    patch.setattr(training, "_REPORT_SECONDS", -1.0)
    return DistilOptions(
        target=ModelFolder(STORIES),
        prompts=(prompts,),
        out=out,
        tokens=300,
        vocabulary=300,
        longest_answer=12,
    )


@dataclass(frozen=True)
class Work:
    """What was done: the prompts asked, and the batches learned from."""

    asked: list[tuple[int, ...]] = field(default_factory=list)
    learned: list[list[tuple[int, ...]]] = field(default_factory=list)


def watched(patch):
    """All that is done from now on."""
    done, answer, learn = Work(), Answerer.answer, Trainer.learn

    def asking(self, asked, **options):
        answers = answer(self, asked, **options)
        done.asked.extend(tuple(one.tokens) for one in asked)
        return answers

    def learning_from(self, answers, **options):
        loss = learn(self, answers, **options)
        done.learned.append([tuple(one.tokens) for one in answers])
        return loss

    patch.setattr(Answerer, "answer", asking)
    patch.setattr(Trainer, "learn", learning_from)
    return done


@pytest.fixture
def options(tmp_path, prompts, monkeypatch):
    return options_of(tmp_path / "drafter", prompts, monkeypatch)


@pytest.fixture
def work(monkeypatch):
    return watched(monkeypatch)


@dataclass(frozen=True)
class Straight:
    """The drafter that is made without stopping, and the work that it takes."""

    drafter: dict[str, bytes]
    work: Work


@pytest.fixture(scope="module")
def straight(tmp_path_factory, prompts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.nice", lambda _: 0)
        options = options_of(tmp_path_factory.mktemp("straight"), prompts, patch)
        work = watched(patch)
        distil(options, quiet)
        assert len(work.learned) >= 12
        return Straight(contents(options.out), work)


def quiet(_):
    pass


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# What it makes


@pytest.mark.slow
def test_its_head_beats_an_untrained_one_and_the_engine_drafts(options, stories, monkeypatch):
    lines = []
    monkeypatch.setattr(training, "_POSITIONS_BY_WIDTH", 2)
    monkeypatch.setattr(budget, "_EPOCHS", 6)
    options = replace(options, tokens=800)
    assert distil(options, lines.append) == options.out
    assert set(contents(options.out)) == {"config.json", "head.safetensors"}

    others = asked_of(stories, openings(120)[100:])
    held = Answerer(stories, (1, 3, 5)).answer(others, longest=20, seed=0)
    weights = ModelFolder(STORIES).fingerprint
    untrained = options.out.with_name("untrained")
    save_head(new_story_head(stories, rows=300), untrained, target="x", fingerprint=weights)
    heads = [
        load_head(describe_drafter(f), fingerprint=weights, vocabulary=512, like=mx.float32)
        for f in (options.out, untrained)
    ]
    ours, theirs = (measure(story_learner(stories, head), held).length for head in heads)
    assert ours > 1.2 > 1.1 > theirs
    assert lines[0] == "loading stories260K, and 100 prompts"
    for phase, parts in {
        "answering: ": ("%", "tokens", "/s", "left"),
        "training: ": ("%", "epoch", "tokens", "/s", "loss", "left"),
        "epoch 6: ": ("tokens a pass on held-out prompts",),
    }.items():
        told = [line for line in lines if line.startswith(phase)]
        assert told, phase
        assert all(part in told[-1] for part in parts), told

    session = Session(stories, drafter=str(options.out))
    (one,) = asked_of(stories, openings(1))
    *_, done = session.complete(one.tokens, Request(max_tokens=20))
    assert isinstance(done, Done)
    assert done.stats.proposed > 0


def test_it_makes_way_for_others(options, monkeypatch):
    by = []
    monkeypatch.setattr("os.nice", by.append)
    with pytest.raises(Problem):
        distil(replace(options, prompts=(STORIES / "none",)), quiet)
    assert by == [10]


# Answers that are kept


def answered_only(options):
    """Stop before anything is learned."""
    with pytest.raises(Problem, match="Stopped before anything was learned"):
        distil(options, on_line("training: ", KeyboardInterrupt))


@pytest.mark.slow
def test_a_second_drafter_learns_from_the_answers_that_were_kept(options, work, tmp_path):
    options = replace(options, answers=tmp_path / "answers")
    distil(options, quiet)
    asked, learned = list(work.asked), list(work.learned)
    assert asked
    assert learned
    second = replace(options, vocabulary=200, out=tmp_path / "second")
    work.learned.clear()
    distil(second, quiet)
    assert work.asked == asked, "something was asked again"
    assert work.learned == learned, "they learn from the same batches"
    more = replace(options, tokens=600, out=tmp_path / "third")
    answered_only(more)
    assert work.asked[: len(asked)] == asked
    assert len(set(work.asked)) == len(work.asked) > len(asked), "more tokens are more answers"


def test_answers_to_something_else_are_refused(options, work, tmp_path):
    answers = tmp_path / "answers"
    for empty in (answers, options.out):
        empty.mkdir()
        (empty / ".DS_Store").touch()  # as a Mac's Finder makes it
    answered_only(replace(options, answers=answers))
    before = contents(answers)
    other = replace(options, out=tmp_path / "other", answers=answers, longest_answer=13)
    with pytest.raises(Problem, match="started with different --longest-answer") as caught:
        distil(other, quiet)
    assert "--answers" in caught.value.remedy
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "a file").touch()
    with pytest.raises(Problem, match="contains other files"):
        distil(replace(other, answers=strange), quiet)
    assert contents(answers) == before
    assert not other.out.exists()


@pytest.mark.slow
def test_it_is_resumed_with_the_answers_that_it_began_with(options, straight, tmp_path):
    options = replace(options, answers=tmp_path / "answers")
    distil(options, on_line("training: ", KeyboardInterrupt, nth=6))
    with pytest.raises(Problem, match="started with different --answers"):
        distil(replace(options, answers=None, resume=True), quiet)
    with pytest.raises(Problem, match="started with different --vocabulary"):
        distil(replace(options, vocabulary=200, resume=True), quiet)
    distil(replace(options, resume=True), quiet)
    assert contents(options.out) == straight.drafter


# Two at once


def test_two_do_not_work_in_one_folder(options):
    def resumed_beside(line):
        if line.startswith("training: "):
            with pytest.raises(Problem, match="Another distillation"):
                distil(replace(options, resume=True), quiet)
            raise KeyboardInterrupt

    with pytest.raises(Problem, match="Stopped before anything was learned"):
        distil(options, resumed_beside)


def test_one_that_has_begun_while_another_loaded_is_not_mixed_with_it(options, work, monkeypatch):
    real = run.load

    def begun_meanwhile(folder):
        monkeypatch.setattr(run, "load", real)
        answered_only(options)
        return real(folder)

    monkeypatch.setattr(run, "load", begun_meanwhile)
    with pytest.raises(Problem, match="is not empty"):
        distil(options, quiet)
    assert work.learned == []


# Stopped, and taken up again


def on_line(start, error, *, nth=1):
    """A report that raises at the nth line that begins so."""
    seen = []

    def report(line):
        seen.extend([line] * line.startswith(start))
        if len(seen) == nth:
            seen.append("once")
            raise error

    return report


def in_call(monkeypatch, owner, name, *, nth, before):
    """Kill in the nth call of a function: before it does anything, or after."""
    real, calls = getattr(owner, name), list[int]()

    def killing(*arguments, **options):
        calls.append(1)
        if before and len(calls) == nth:
            raise Killed
        result = real(*arguments, **options)
        if len(calls) == nth:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, killing)


Kill = Callable[[pytest.MonkeyPatch], object]
KILLS = {
    "in the first answers": lambda patch: in_call(patch, Answerer, "answer", nth=1, before=True),
    "in later answers": lambda patch: in_call(patch, Answerer, "answer", nth=2, before=True),
    "with answers that are not stored": lambda patch: in_call(
        patch, mx, "save_safetensors", nth=2, before=True
    ),
    "with answers half stored": lambda patch: in_call(
        patch, mx, "save_safetensors", nth=2, before=False
    ),
    "when all is answered": lambda patch: in_call(patch, run, "split", nth=1, before=True),
    "in the first batch": lambda patch: in_call(patch, Trainer, "learn", nth=1, before=True),
    "after a batch": lambda patch: in_call(patch, Trainer, "learn", nth=4, before=False),
    "in a later epoch": lambda patch: in_call(patch, Trainer, "learn", nth=14, before=True),
    "in a checkpoint": lambda patch: in_call(patch, Trainer, "save", nth=5, before=True),
    "while measuring": lambda patch: in_call(patch, training, "measure", nth=2, before=True),
    "while exporting": lambda patch: in_call(patch, HeadLearner, "save", nth=1, before=True),
    "when exported": lambda patch: in_call(patch, HeadLearner, "save", nth=1, before=False),
    "when all is learned": lambda patch: in_call(
        patch, run.WorkFolder, "remove", nth=1, before=True
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kill", mostly_slow(KILLS, quick=["in a checkpoint"]))
def test_killed_and_taken_up_again(options, straight, work, kill):
    with pytest.MonkeyPatch.context() as patch:
        KILLS[kill](patch)
        with pytest.raises(Killed):
            distil(options, quiet)
    distil(replace(options, resume=True), quiet)
    # To the byte the drafter that would have been made without the kill,
    assert contents(options.out) == straight.drafter
    # and nothing was done twice but the last shard, the last batch, and a measurement.
    assert work.learned[-1] == straight.work.learned[-1]
    repeated = len(work.learned) - len(straight.work.learned)
    assert 0 <= repeated <= 1
    twice = [tokens for tokens in set(work.asked) if work.asked.count(tokens) > 1]
    assert len(twice) <= 16
    assert set(work.asked) == set(straight.work.asked)


@pytest.mark.parametrize(
    ("line", "nth"),
    mostly_slow([("training: ", 6), ("training: ", 15), ("epoch 2", 1)], quick=[("training: ", 6)]),
)
def test_interrupted_while_learning(options, straight, work, line, nth):
    lines = []
    interrupt = on_line(line, KeyboardInterrupt, nth=nth)

    def report(line):
        lines.append(line)
        interrupt(line)

    assert distil(options, report) == options.out
    assert "can be used" in lines[-1]
    assert "--resume" in lines[-1]
    weights = ModelFolder(STORIES).fingerprint
    load_head(describe_drafter(options.out), fingerprint=weights, vocabulary=512, like=mx.float32)
    assert 0 < len(work.learned) < len(straight.work.learned)
    distil(replace(options, resume=True), quiet)
    assert work.learned == straight.work.learned, "something was repeated, or left out"
    assert set(contents(options.out)) == {"config.json", "head.safetensors"}


@pytest.mark.parametrize(
    ("lengths", "kept"), mostly_slow([((1.5, 1.6), 2), ((1.5, 1.5), 1)], quick=[((1.5, 1.6), 2)])
)
def test_an_interrupt_keeps_the_better_one(options, monkeypatch, lengths, kept):
    measured, saved = list(lengths), list[Path]()
    monkeypatch.setattr(
        training, "measure", lambda *_: ChainAcceptance(round(1000 * measured.pop(0)), 1000)
    )

    save = HeadLearner.save

    def saving(self, folder, **options):
        saved.append(folder)
        save(self, folder, **options)

    monkeypatch.setattr(HeadLearner, "save", saving)
    epochs = []

    def report(line):
        epochs.extend([line] * line.startswith("epoch"))
        if epochs and line.startswith("training: "):
            raise KeyboardInterrupt

    distil(options, report)
    assert measured == []
    assert saved == [options.out] * kept


class Clock:
    """Every look at it takes a second."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(answering, "monotonic", clock)
    monkeypatch.setattr(training, "monotonic", clock)
    return clock


@pytest.mark.slow
def test_minutes_go_on_with_the_time_that_is_left(options, work, clock):
    options = replace(options, tokens=None, minutes=1)
    distil(replace(options, out=options.out.with_name("straight")), quiet)
    whole = len(work.learned)
    assert 10 < whole < 30
    work.learned.clear()
    for resume, nth in ((False, 3), (True, 3)):
        distil(replace(options, resume=resume), on_line("training: ", KeyboardInterrupt, nth=nth))
    part = len(work.learned)
    assert part < whole / 2
    clock.now += 10_000  # time that passed in between does not count
    distil(replace(options, resume=True), quiet)
    assert whole - 4 <= len(work.learned) <= whole


def test_checkpoints_are_never_more_than_two_minutes_apart(options, clock, monkeypatch):
    monkeypatch.setattr(training, "_CHECKPOINT_SECONDS", 100.0)
    monkeypatch.setattr(training, "_POSITIONS_BY_WIDTH", 0.5)
    saved, save, learn = [], Trainer.save, Trainer.learn

    def saving(self, path):
        saved.append(clock.now)
        save(self, path)

    monkeypatch.setattr(Trainer, "save", saving)

    def slowly(self, *arguments, **options):
        clock.now += 15
        return learn(self, *arguments, **options)

    monkeypatch.setattr(Trainer, "learn", slowly)
    in_call(monkeypatch, Trainer, "save", nth=5, before=False)
    with pytest.raises(Killed):
        distil(options, quiet)
    assert max(b - a for a, b in pairwise(saved)) <= 120


# What goes wrong on the way


def test_no_room_for_the_drafter(options, straight, monkeypatch):
    real = mx.save_safetensors

    def full(path, *arguments):
        real(path, *arguments)
        if path.endswith(".head.partial.safetensors"):
            Path(path).write_bytes(b"half of it")
            raise RuntimeError("[save_safetensors] no space")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mx, "save_safetensors", full)
        with pytest.raises(Problem, match="drafter cannot be written") as caught:
            distil(options, quiet)
    assert "--resume" in caught.value.remedy
    assert {path.name for path in options.out.iterdir()} == {"work"}
    distil(replace(options, resume=True), quiet)
    assert contents(options.out) == straight.drafter
