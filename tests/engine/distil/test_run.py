"""The whole of `slipstream distil`, stopped anywhere and taken up again."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

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
    """What no one handles: as far as that is possible in a process, an end as by kill -9."""


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


def watched(patch):
    """All that is done from now on: the prompts that are asked, the batches that are learned."""
    done, answer, learn = SimpleNamespace(asked=[], learned=[]), Answerer.answer, Trainer.learn

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


@pytest.fixture(scope="module")
def straight(tmp_path_factory, prompts):
    """The drafter that is made without stopping, and the work that it takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.nice", lambda _: 0)
        options = options_of(tmp_path_factory.mktemp("straight"), prompts, patch)
        work = watched(patch)
        distil(options, quiet)
        assert len(work.learned) >= 12
        return SimpleNamespace(drafter=contents(options.out), work=work)


def quiet(_):
    pass


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# What it makes


@pytest.mark.slow
def test_its_head_beats_an_untrained_one_and_the_engine_drafts(options, stories, monkeypatch):
    monkeypatch.setattr(training, "_POSITIONS_BY_WIDTH", 2)
    monkeypatch.setattr(budget, "_EPOCHS", 6)
    options = replace(options, tokens=800)
    assert distil(options, quiet) == options.out
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
    with pytest.raises(Problem) as caught:
        distil(options, on_line("training: ", KeyboardInterrupt))
    assert "--resume" in caught.value.remedy


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
    with pytest.raises(Problem, match="--longest-answer") as caught:
        distil(other, quiet)
    assert "--answers" in caught.value.remedy
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "a file").touch()
    with pytest.raises(Problem):
        distil(replace(other, answers=strange), quiet)
    assert contents(answers) == before
    assert not other.out.exists()


@pytest.mark.slow
def test_it_is_resumed_with_the_answers_that_it_began_with(options, straight, tmp_path):
    options = replace(options, answers=tmp_path / "answers")
    distil(options, on_line("training: ", KeyboardInterrupt, nth=6))
    with pytest.raises(Problem, match="--answers"):
        distil(replace(options, answers=None, resume=True), quiet)
    with pytest.raises(Problem, match="--vocabulary"):
        distil(replace(options, vocabulary=200, resume=True), quiet)
    distil(replace(options, resume=True), quiet)
    assert contents(options.out) == straight.drafter


def test_two_do_not_work_in_one_folder(options, work, monkeypatch):
    """Nor one that has begun while another loaded."""
    real = run.load

    def resumed_beside(line):
        if line.startswith("training: "):
            with pytest.raises(Problem):
                distil(replace(options, resume=True), quiet)
            raise KeyboardInterrupt

    def begun_meanwhile(folder):
        monkeypatch.setattr(run, "load", real)
        with pytest.raises(Problem):
            distil(options, resumed_beside)
        return real(folder)

    monkeypatch.setattr(run, "load", begun_meanwhile)
    with pytest.raises(Problem):
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


def in_call(monkeypatch, owner, name, nth, before):
    """Kill in the nth call of a function: before it does anything, or after."""
    real, calls = getattr(owner, name), itertools.count(1)

    def killing(*arguments, **options):
        killed = next(calls) == nth
        if killed and before:
            raise Killed
        result = real(*arguments, **options)
        if killed:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, killing)


KILLS = {  # in a call: in the nth one, and before it does anything
    "in the first answers": (Answerer, "answer", 1, True),
    "in later answers": (Answerer, "answer", 2, True),
    "with answers that are not stored": (mx, "save_safetensors", 2, True),
    "with answers half stored": (mx, "save_safetensors", 2, False),
    "when all is answered": (run, "split", 1, True),
    "in the first batch": (Trainer, "learn", 1, True),
    "after a batch": (Trainer, "learn", 4, False),
    "in a later epoch": (Trainer, "learn", 14, True),
    "in a checkpoint": (Trainer, "save", 5, True),
    "while measuring": (training, "measure", 2, True),
    "while exporting": (HeadLearner, "save", 1, True),
    "when exported": (HeadLearner, "save", 1, False),
    "when all is learned": (run.WorkFolder, "remove", 1, True),
}


@pytest.mark.slow
@pytest.mark.parametrize("kill", mostly_slow(KILLS, quick=["in a checkpoint"]))
def test_killed_and_taken_up_again(options, straight, work, kill):
    with pytest.MonkeyPatch.context() as patch:
        in_call(patch, *KILLS[kill])
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
    measured, saved, epochs, save = list(lengths), [], [], HeadLearner.save
    monkeypatch.setattr(
        training, "measure", lambda *_: ChainAcceptance(round(1000 * measured.pop(0)), 1000)
    )

    def saving(self, folder, **options):
        saved.append(folder)
        save(self, folder, **options)

    monkeypatch.setattr(HeadLearner, "save", saving)

    def report(line):
        epochs.extend([line] * line.startswith("epoch"))
        if epochs and line.startswith("training: "):
            raise KeyboardInterrupt

    distil(options, report)
    assert measured == []
    assert saved == [options.out] * kept


@pytest.fixture
def clock(monkeypatch):
    """Every look at it takes a second."""
    clock = SimpleNamespace(now=0.0)

    def look():
        clock.now += 1
        return clock.now

    monkeypatch.setattr(answering, "monotonic", look)
    monkeypatch.setattr(training, "monotonic", look)
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
    in_call(monkeypatch, Trainer, "save", 3, before=False)
    with pytest.raises(Killed):
        distil(options, quiet)
    assert max(b - a for a, b in itertools.pairwise(saved)) <= 120


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
        with pytest.raises(Problem) as caught:
            distil(options, quiet)
    assert "--resume" in caught.value.remedy
    assert {path.name for path in options.out.iterdir()} == {"work"}
    distil(replace(options, resume=True), quiet)
    assert contents(options.out) == straight.drafter
