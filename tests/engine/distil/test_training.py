"""Training makes a head better; a checkpoint is whole or refused; budgets are shared out."""

from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx.utils import tree_flatten

from engine.distil.budget import WorkBudget, left
from engine.distil.head_learner import measure
from engine.distil.store import RecordedAnswer
from engine.distil.training import Progress, Trainer, batches
from models.errors import Problem
from tests.support.engine.story_samples import new_story_learner

FULL = Path("/dev/full")  # a disk without any room; Linux has it
WIDTH = 500
POSITIONS = 2 * WIDTH  # in a batch


def trainer_of(stories, *, rows=512):
    return Trainer(new_story_learner(stories, rows=rows), vocabulary=512)


def weights(trainer):
    return dict(tree_flatten(trainer.network.parameters()))


def test_it_learns(stories, trained, story_answers):
    trainer, count = trainer_of(stories, rows=128), 8
    losses = [trainer.learn(story_answers[:2], share=0.1 + step / 100) for step in range(count)]
    assert losses[-1] < 0.8 * losses[0]
    assert trainer.progress.loss is not None
    assert losses[-1] < trainer.progress.loss < losses[0]
    untrained = measure(new_story_learner(stories, rows=384), story_answers)
    assert measure(trained, story_answers).length > 1.3 * untrained.length


def test_every_weight_learns(stories, story_answers):
    trainer = trainer_of(stories, rows=384)  # and others are borrowed
    before = weights(trainer_of(stories, rows=384))
    for share in (0.1, 0.15, 0.2):  # some wait for others, which begin at 0
        trainer.learn(story_answers[:2], share=share)
    after = weights(trainer)
    assert [name for name in after if mx.array_equal(before[name], after[name])] == [
        "carry.weight"  # of later steps
    ]
    single = trainer.progress.loss
    latest = trainer.learn(story_answers[:2], share=0.7)
    assert trainer.progress.loss == latest > single, "of more steps, and averaged again"
    trainer.learn(story_answers[:2], share=0.8)
    assert not mx.array_equal(before["carry.weight"], weights(trainer)["carry.weight"])


# Checkpoints


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, stories):
    path, trainer = tmp_path / "checkpoint.safetensors", trainer_of(stories)
    trainer.save(path)
    whole = path.read_bytes()
    (tmp_path / ".checkpoint.partial.safetensors").symlink_to(FULL)
    with pytest.raises(Problem) as caught:
        trainer.save(path)
    assert "--resume" in caught.value.remedy
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == whole


def rewritten(change):
    def damage(path):
        arrays, metadata = mx.load(str(path), return_metadata=True)
        mx.eval(arrays)
        change(arrays, metadata)
        mx.save_safetensors(str(path), arrays, metadata)

    return damage


NORM = "network.norm.weight"
DAMAGES = {
    "missing": lambda path: path.unlink(),
    "short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "without a weight": rewritten(lambda arrays, _: arrays.pop(NORM)),
    "a weight of another shape": rewritten(lambda arrays, _: arrays.update({NORM: mx.ones((7,))})),
    "without a momentum": rewritten(
        lambda arrays, _: arrays.pop(next(name for name in arrays if name.endswith("weight.m")))
    ),
    "with other rows": rewritten(lambda arrays, _: arrays.update(kept=arrays["kept"][::-1])),
    "without rows": rewritten(lambda arrays, _: arrays.pop("kept")),
    "without progress": rewritten(lambda _, metadata: metadata.pop("progress")),
    "strange progress": rewritten(lambda _, metadata: metadata.update(progress='{"lap": 3}')),
}


def test_a_damaged_checkpoint(tmp_path, stories, story_answers):
    path = tmp_path / "checkpoint.safetensors"
    trainer, fresh = trainer_of(stories), trainer_of(stories)
    trainer.learn(story_answers[:1], share=0.1)
    trainer.save(path)
    whole = path.read_bytes()
    for kind, damage in DAMAGES.items():
        path.write_bytes(whole)
        damage(path)
        with pytest.raises(Problem, match="damaged") as caught:
            fresh.restore(path)
        assert "Delete it" in caught.value.remedy, kind
        assert fresh.progress == Progress(), kind


# Batches


def of_length(length, number):
    states, nothing = mx.zeros((1, 1, WIDTH)), mx.zeros((1, 1))
    return RecordedAnswer([number] * length, 2, True, states, nothing, nothing)


@given(lengths=st.lists(st.integers(4, 700) | st.just(9000), max_size=60))
def test_batches_hold_everything_once_and_not_too_much(lengths):
    answers = [of_length(length, number) for number, length in enumerate(lengths)]
    found = list(batches(answers))
    numbers = sorted(one.tokens[0] for batch in found for one in batch)
    assert numbers == list(range(len(answers)))
    for batch in found:
        longest = max(len(one.tokens) for one in batch)
        assert len(batch) * longest <= POSITIONS or len(batch) == 1
        assert all(len(one.tokens) // 32 <= longest // 32 for one in batch)


# The budget


def test_what_is_answered_and_trained_of_a_budget():
    minutes, tokens = WorkBudget(minutes=30, tokens=None), WorkBudget(minutes=None, tokens=4000)
    for seconds, share in [(0, 0.0), (630, 0.5), (1260, 1.0)]:
        assert minutes.answered(tokens=123, seconds=seconds) == pytest.approx(share)
    for seconds, answering, share in [
        (270, 1260, 0.5),
        (540, 1260, 1.0),
        (1700, 100, 1.0),  # what answering left over
        (270, 1800, 0.5),  # where answering took too long, there is still time to learn
    ]:
        trained = minutes.trained(epochs=9, seconds=seconds, answering_seconds=answering)
        assert trained == pytest.approx(share), (seconds, answering)
    assert tokens.answered(tokens=1000, seconds=1e9) == 0.25
    assert tokens.trained(epochs=4, seconds=1e9, answering_seconds=1e9) == 0.5
    assert tokens.trained(epochs=8, seconds=0, answering_seconds=0) == 1


def test_times_in_words():
    assert left(60, 0.25) == "3 min left"
    assert left(60, 0.01) == "1 h 39 min left"
    assert left(60, 1.5) == left(0, 0.0) == "a few seconds left"
