"""A block drafter learns what it will draft: each block by itself, with what it then sees."""

import json
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map

from engine.conversation.loading import LoadedModel
from engine.core.decoder import Decoder
from engine.distil.loss import make_batch
from engine.distil.measure import measure
from engine.distil.store import RecordedAnswer
from engine.distil.training import Trainer
from engine.drafters.block import BlockDrafter
from engine.drafters.block_folders import block_network
from engine.drafters.dflash import BoundNetwork, DFlash
from engine.drafters.rows import Rows
from models.drafters.folders import describe_drafter
from tests.lab.distil.block_learner import BlockLearner
from tests.support.engine.lively import cross_entropy
from tests.support.engine.story_samples import by_the_engine
from tests.support.mostly_slow import mostly_slow

ROWS = 384
WEIGHT = 0.8  # of a place, against the one before it
PLACES = 4


@pytest.fixture(scope="module")
def begun(stories: LoadedModel) -> BlockLearner:
    mx.random.seed(0)
    return BlockLearner.begin(stories, mx.arange(ROWS))


@pytest.fixture(scope="module")
def lively(stories: LoadedModel) -> BlockLearner:
    """One whose every part changes what it says."""
    mx.random.seed(1)
    learner = BlockLearner.begin(stories, mx.arange(ROWS))
    learner.network.update(
        tree_map(lambda w: w + 0.1 * mx.random.normal(w.shape), learner.network.parameters())
    )
    mx.eval(learner.network.parameters())
    return learner


@pytest.fixture(scope="module")
def taught(stories: LoadedModel, story_answers: list[RecordedAnswer]) -> BlockLearner:
    mx.random.seed(0)
    learner = BlockLearner.begin(stories, mx.arange(ROWS))
    trainer = Trainer(learner, vocabulary=512)
    for step in range(40):
        trainer.learn(story_answers[step % 4 :: 4], share=0.05 + step / 80)
    return learner


def drafting(learner: BlockLearner) -> BoundNetwork:
    """The same weights in the network that drafts."""
    network = DFlash(learner.shape)
    network.lm_head = nn.Linear(learner.shape.hidden_size, ROWS, bias=False)
    network.load_weights(list(dict(tree_flatten(learner.network.parameters())).items()))
    return BoundNetwork(
        network, learner.shape, embed=learner.embedding, read_out=lambda x: network.lm_head(x)
    )


def block_at(network: BoundNetwork, one: RecordedAnswer, place: int) -> mx.array:
    """The logits (places, rows) of the block behind x[place + 1], as it is drafted."""
    cache = network.make_cache()
    network.extend(one.states[None, : place + 1].astype(mx.float32), 0, cache)
    block = network.block(one.tokens[place + 1], PLACES, place + 1, cache)
    nothing = mx.zeros((1,), dtype=mx.int32)
    return mx.concatenate([block.read(nothing) for _ in range(PLACES)])


def by_definition(learner: BlockLearner, answers: Sequence[RecordedAnswer], every: int) -> float:
    """Blocks begin `every` so many predictions, by their rank in each answer."""
    network, count = drafting(learner), sum(len(one.tokens) - one.prompt for one in answers)
    entropies: list[list[float]] = [[] for _ in range(PLACES)]
    for one in answers:
        for rank in range(len(one.tokens) - one.prompt):
            if rank % every != count % every:
                continue
            logits = block_at(network, one, one.prompt - 2 + rank)
            for k in range(min(PLACES, len(one.tokens) - one.prompt - rank)):
                entropies[k].append(
                    cross_entropy(logits[k], one, one.prompt + rank + k, kept=range(ROWS))
                )
    return sum(WEIGHT**k * float(np.mean(each)) for k, each in enumerate(entropies))


@pytest.mark.parametrize("count", mostly_slow([1, 3, 4], quick=[3]))
def test_the_loss_is_that_of_one_block_after_another(
    lively: BlockLearner, story_answers: list[RecordedAnswer], count: int
) -> None:
    answers = story_answers[:count]
    batch = make_batch(answers, _row_of())
    expected = by_definition(lively, answers, PLACES)
    assert lively.loss(batch, PLACES).item() == pytest.approx(expected, rel=1e-4)


def _row_of() -> mx.array:
    rows = mx.full((512,), -1, dtype=mx.int32)
    rows[mx.arange(ROWS)] = mx.arange(ROWS, dtype=mx.int32)
    return rows


def test_gradients_reach_every_weight(
    lively: BlockLearner, story_answers: list[RecordedAnswer]
) -> None:
    batch = make_batch(story_answers[:3], _row_of())
    value, gradients = nn.value_and_grad(lively.network, lively.loss)(batch, PLACES)
    named = dict(tree_flatten(gradients))
    assert named.keys() == dict(tree_flatten(lively.network.parameters())).keys()
    assert np.isfinite(value.item())
    for name, gradient in named.items():
        assert float(mx.abs(gradient).max()) > 1e-6, name
        assert bool(mx.isfinite(gradient).all()), name


def test_short_answers_have_a_loss(
    lively: BlockLearner, story_answers: list[RecordedAnswer]
) -> None:
    whole = story_answers[0]
    for answered in (1, 2, 3, 5):
        length = whole.prompt + answered
        one = RecordedAnswer(
            whole.tokens[:length],
            whole.prompt,
            True,
            whole.states[: length - 1],
            whole.top_tokens[:answered],
            whole.top_log_probs[:answered],
        )
        assert lively.loss(make_batch([one], _row_of()), PLACES).item() > 0


def test_blocks_from_all_places_are_blocks_from_each(
    lively: BlockLearner, story_answers: list[RecordedAnswer]
) -> None:
    network, one = drafting(lively), story_answers[0]
    ours = np.stack(list(lively.chains(one, 9)))
    assert len(ours) == PLACES
    for place in range(len(one.tokens) - 2):
        drafted = mx.argmax(block_at(network, one, place), axis=-1).tolist()
        assert ours[:, place].tolist() == drafted


# The engine


@pytest.mark.slow
@pytest.mark.parametrize("chain", mostly_slow([1, 2, 4], quick=[4]))
def test_the_engine_commits_as_much(
    stories: LoadedModel, taught: BlockLearner, story_answers: list[RecordedAnswer], chain: int
) -> None:
    def drafter(target: Decoder) -> BlockDrafter:
        return BlockDrafter(target, _bound(taught), name="DFlash")

    some = story_answers[::5]
    expected = by_the_engine(stories, drafter, some, chain=chain)
    assert measure(taught, some, chain=chain) == expected


def _bound(learner: BlockLearner) -> BoundNetwork:
    network = drafting(learner)
    return BoundNetwork(
        network.weights,
        learner.shape,
        embed=learner.embedding,
        read_out=lambda x: network.weights.lm_head(x),
        rows=Rows(512, range(ROWS)),
    )


def test_it_learns(
    begun: BlockLearner, taught: BlockLearner, story_answers: list[RecordedAnswer]
) -> None:
    ours, theirs = (measure(each, story_answers).length for each in (taught, begun))
    assert ours > 1.2 > 1.1 > theirs


def test_what_was_saved_is_read_again(
    stories: LoadedModel,
    lively: BlockLearner,
    story_answers: list[RecordedAnswer],
    tmp_path: Path,
) -> None:
    lively.save(tmp_path, target="stories", fingerprint="0f")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["target_fingerprint"] == "0f"
    network = block_network(describe_drafter(tmp_path), Decoder(stories.model))
    assert (network.taps, network.most) == (lively.shape.taps, PLACES)
    assert network.rows is not None
    assert network.rows.tokens(mx.arange(ROWS)).tolist() == list(range(ROWS))
    for place in (3, 11):
        ours = block_at(network, story_answers[0], place)
        exact = block_at(drafting(lively), story_answers[0], place)
        assert ours.shape == (PLACES, ROWS)
        error = mx.abs(ours - exact).max() / mx.std(exact)
        assert float(error) < 0.2  # 8-bit
