"""What is measured from stored answers is what the engine does, to the token."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from engine.distil.answering import Answerer
from engine.distil.head_learner import HeadLearner, measure
from engine.drafters.head_network import BoundHead, head_drafter
from tests.support.engine.lively import (
    KEPT,
    SHAPE,
    answer,
    embeddings,
    lively_head,
    logits_behind,
    sayable,
)
from tests.support.engine.story_samples import asked_of, by_the_engine, new_story_learner


def by_head(stories, learner, answers, *, chain=5):
    """What drafting with it does for the same answers."""
    return by_the_engine(
        stories, lambda target: head_drafter(target, learner.bound), answers, chain=chain
    )


@pytest.mark.slow
def test_the_engine_commits_as_much(stories, trained, story_answers):
    some, chain = story_answers[::5], 3
    assert measure(trained, some, chain=chain) == by_head(stories, trained, some, chain=chain)


def test_an_untrained_head_is_measured_alike(stories, story_answers):
    learner, some = new_story_learner(stories), story_answers[:1]
    ours = measure(learner, some)
    assert ours == by_head(stories, learner, some)


def test_answers_that_end_early_and_short_prompts(stories, trained):
    asked = asked_of(stories, ["A b", "The end.", "Then Tom"])
    answers = Answerer(stories, trained.bound.shape.layers).answer(asked, longest=7, seed=0)
    assert answers
    ours = measure(trained, answers)
    assert ours == by_head(stories, trained, answers)


def test_what_cannot_be_said_is_never_accepted(stories, story_answers):
    untrained = new_story_learner(stories, rows=16)
    del untrained.bound.head.moved  # else it would borrow rows
    rare = replace(untrained.bound, kept=mx.array(_unsaid(story_answers, 16)))
    figures = measure(replace(untrained, bound=rare), story_answers)
    assert figures.length == 1
    assert figures.passes == sum(len(one.tokens) - one.prompt for one in story_answers)


def _unsaid(answers, count):
    said = {token for one in answers for token in one.tokens}
    return [token for token in range(512) if token not in said][:count]


@pytest.mark.parametrize("chain", [1, 4])
def test_chains_from_all_places_are_chains_from_each(chain):
    head, table, one = lively_head(), embeddings(), answer(4, 12)
    bound = BoundHead(head, SHAPE, mx.array(KEPT))
    ours = np.stack(list(HeadLearner(bound, table, table).chains(one, chain)))
    for place in range(len(one.tokens) - 2):
        cache = KVCache()
        begun = head.begin(one.states[None, : place + 1].astype(mx.float32))
        state = head(begun, table(mx.array([one.tokens[1 : place + 2]])), "causal", cache)[:, -1:]
        text, drafted = one.tokens[: place + 2], []
        while True:
            logits = logits_behind(text, head, table, state)
            drafted.append(sayable(text)[mx.argmax(logits).item()])
            if len(drafted) == chain:
                break
            state = head(head.go_on(state), table(mx.array([drafted[-1:]])), None, cache)
        assert ours[:, place].tolist() == drafted
