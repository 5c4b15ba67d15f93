"""What is measured from stored answers is what the engine does, to the token."""

from dataclasses import replace
from functools import partial

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


def test_the_engine_commits_as_much(stories, trained, story_answers):
    asked = asked_of(stories, ["A b", "The end.", "Then Tom"])
    short = Answerer(stories, trained.bound.shape.layers).answer(asked, longest=7, seed=0)
    assert short
    for learner, answers, chain in [
        (new_story_learner(stories), story_answers[:1], 5),
        (trained, story_answers[5:6], 3),
        (trained, short, 5),  # that end early, after short prompts
    ]:
        ours = measure(learner, answers, chain=chain)
        make = partial(head_drafter, bound=learner.bound)
        assert ours == by_the_engine(stories, make, answers, chain=chain)


def test_what_cannot_be_said_is_never_accepted(stories, story_answers):
    untrained = new_story_learner(stories, rows=16)
    del untrained.bound.head.moved  # else it would borrow rows
    said = {token for one in story_answers for token in one.tokens}
    unsaid = [token for token in range(512) if token not in said][:16]
    rare = replace(untrained.bound, kept=mx.array(unsaid))
    figures = measure(replace(untrained, bound=rare), story_answers)
    assert figures.length == 1
    assert figures.passes == sum(len(one.tokens) - one.prompt for one in story_answers)


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
