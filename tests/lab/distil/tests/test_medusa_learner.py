"""Medusa's heads learn what lies as far ahead as each of them predicts, and draft as the engine
does with them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.conversation.loading import LoadedModel
from engine.core.decoder import Decoder
from engine.distil.loss import make_batch
from engine.distil.measure import measure
from engine.distil.store import RecordedAnswer
from engine.distil.training import Trainer
from engine.drafters.medusa import MedusaDrafter, load_medusa
from engine.drafters.rows import Rows
from models.drafters.folders import describe_drafter
from tests.lab.distil.medusa_learner import MedusaLearner
from tests.support.engine.lively import KEPT, VOCABULARY, WIDTH, answer, cross_entropy, row_of
from tests.support.engine.medusas import medusa_network
from tests.support.engine.story_samples import by_the_engine
from tests.support.mostly_slow import mostly_slow

WEIGHT = 0.8  # of a head, against the one before it
HEADS = 3


@pytest.fixture(scope="module")
def learner() -> MedusaLearner:
    network = medusa_network(WIDTH, heads=HEADS, rows=len(KEPT))
    norm = nn.RMSNorm(WIDTH)
    norm.weight = mx.random.uniform(0.5, 2, (WIDTH,), key=mx.random.key(1))
    return MedusaLearner(network, mx.array(KEPT), norm, VOCABULARY)


def by_definition(learner: MedusaLearner, answers: Sequence[RecordedAnswer]) -> float:
    """Head k reads the normed state of x[j] and predicts x[j + 2 + k], wherever x[j + 2] and that
    are tokens of the answer; the sum of the heads' means."""
    entropies: list[list[float]] = [[] for _ in learner.network.heads]
    for one in answers:
        for k, head in enumerate(learner.network.heads):
            for predicted in range(max(one.prompt, 2) + k, len(one.tokens)):
                state = one.states[predicted - 2 - k, -1].astype(mx.float32)
                entropies[k].append(
                    cross_entropy(head(learner.norm(state)), one, predicted, kept=KEPT)
                )
    return sum(WEIGHT**k * float(np.mean(each)) for k, each in enumerate(entropies) if each)


MIXTURES = {
    "one": [(5, 6)],
    "many": [(3, 9), (7, 4), (2, 2), (5, 12)],
    "a prompt of a token": [(1, 5), (4, 5)],
    "answers of two tokens": [(6, 2), (3, 2)],
}


@pytest.mark.parametrize("mixture", MIXTURES)
def test_the_loss_is_that_of_the_definition(learner: MedusaLearner, mixture: str) -> None:
    answers = [answer(*lengths) for lengths in MIXTURES[mixture]]
    ours = learner.loss(make_batch(answers, row_of()), HEADS).item()
    assert ours == pytest.approx(by_definition(learner, answers), rel=1e-4)


def test_a_loss_of_heads_shifted_by_one_is_another(learner: MedusaLearner) -> None:
    answers = [answer(*lengths) for lengths in MIXTURES["many"]]
    batch = make_batch(answers, row_of())
    shifted = replace(batch, rows=mx.roll(batch.rows, 1, axis=0))
    expected = by_definition(learner, answers)
    assert learner.loss(shifted, HEADS).item() != pytest.approx(expected, rel=1e-2)


def test_gradients_reach_every_weight(learner: MedusaLearner) -> None:
    batch = make_batch([answer(3, 9), answer(5, 4)], row_of())
    value, gradients = nn.value_and_grad(learner.network, learner.loss)(batch, HEADS)
    named = dict(tree_flatten(gradients))
    assert named.keys() == dict(tree_flatten(learner.network.parameters())).keys()
    assert np.isfinite(value.item())
    for name, gradient in named.items():
        assert float(mx.abs(gradient).max()) > 1e-6, name
        assert bool(mx.isfinite(gradient).all()), name


# On a real model


@pytest.fixture(scope="module")
def begun(stories: LoadedModel) -> MedusaLearner:
    return MedusaLearner.begin(stories, mx.arange(384))


@pytest.fixture(scope="module")
def taught(stories: LoadedModel, story_answers: list[RecordedAnswer]) -> MedusaLearner:
    learner = MedusaLearner.begin(stories, mx.arange(384))
    trainer = Trainer(learner, vocabulary=512)
    for step in range(60):
        trainer.learn(story_answers[step % 4 :: 4], share=0.05 + step / 120)
    return learner


def test_it_begins_as_the_target_itself(
    stories: LoadedModel, begun: MedusaLearner, story_answers: list[RecordedAnswer]
) -> None:
    one = story_answers[0]
    logits = stories.model(mx.array([one.tokens[:-2]]))[0, :, :384]
    expected = mx.argmax(logits, axis=-1).tolist()
    for drafted in begun.chains(one, 2):
        assert np.mean(drafted == expected) > 0.9  # but for the rounding of the stored states


@pytest.mark.slow
@pytest.mark.parametrize("chain", mostly_slow([1, 2, 4, 8], quick=[4]))
def test_the_engine_commits_as_much(
    stories: LoadedModel, taught: MedusaLearner, story_answers: list[RecordedAnswer], chain: int
) -> None:
    some = story_answers[::5]
    ours = measure(taught, some, chain=chain)
    rows = Rows(512, taught.kept.tolist())

    def drafter(target: Decoder) -> MedusaDrafter:
        return MedusaDrafter(target, taught.network, rows=rows)

    assert ours == by_the_engine(stories, drafter, some, chain=chain)


def test_it_learns(
    begun: MedusaLearner, taught: MedusaLearner, story_answers: list[RecordedAnswer]
) -> None:
    assert (
        measure(taught, story_answers).length > 1.12 > 1.02 > measure(begun, story_answers).length
    )


def test_every_weight_learns(stories: LoadedModel, story_answers: list[RecordedAnswer]) -> None:
    learner = MedusaLearner.begin(stories, mx.arange(384))
    before = dict(tree_flatten(learner.network.parameters()))
    trainer = Trainer(learner, vocabulary=512)
    for share in (0.1, 0.2):
        trainer.learn(story_answers[:4], share=share)
    after = dict(tree_flatten(learner.network.parameters()))
    assert [name for name in after if mx.array_equal(before[name], after[name])] == []


def test_a_checkpoint_is_taken_up_again(
    stories: LoadedModel, story_answers: list[RecordedAnswer], tmp_path: Path
) -> None:
    def new() -> Trainer:
        return Trainer(MedusaLearner.begin(stories, mx.arange(100)), vocabulary=512)

    straight, stopped, resumed = new(), new(), new()
    for step in range(4):
        straight.learn(story_answers[step : step + 2], share=step / 6)
    for step in range(2):
        stopped.learn(story_answers[step : step + 2], share=step / 6)
    stopped.save(tmp_path / "checkpoint.safetensors")
    resumed.restore(tmp_path / "checkpoint.safetensors")
    for step in range(2, 4):
        resumed.learn(story_answers[step : step + 2], share=step / 6)
    ours = dict(tree_flatten(resumed.network.parameters()))
    theirs = dict(tree_flatten(straight.network.parameters()))
    assert all(mx.array_equal(ours[name], theirs[name]) for name in theirs)


def test_what_was_saved_is_read_again(
    stories: LoadedModel, taught: MedusaLearner, story_answers: list[RecordedAnswer], tmp_path: Path
) -> None:
    taught.save(tmp_path, target="stories", fingerprint="0f")
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["target_fingerprint"], config["vocab_size"]) == ("0f", 512)

    def drafter(target: Decoder) -> MedusaDrafter:
        return load_medusa(describe_drafter(tmp_path), target)

    some = story_answers[::5]
    exact = measure(taught, some, chain=4).length
    assert by_the_engine(stories, drafter, some, chain=4).length == pytest.approx(exact, rel=0.1)
