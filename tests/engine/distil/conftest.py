"""For the distiller's tests: the CPU, and a real model that is small enough to learn from here."""

import os
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from engine.conversation.loading import load
from engine.distil.answering import Answerer
from engine.distil.training import Trainer
from engine.drafters.head_network import shape_for
from models.model_folder import ModelFolder
from tests.support.engine.sessions import loaded, tiny_model
from tests.support.engine.story_samples import STORIES, asked_of, new_story_learner, openings


@pytest.fixture(scope="package", autouse=True)
def cpu():
    """Where figures are the same every time."""
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


@pytest.fixture(autouse=True)
def not_nicer(monkeypatch):
    """The distiller makes way for others; the test runner shall not."""
    monkeypatch.setattr(os, "nice", lambda _: 0)


@pytest.fixture(scope="package")
def stories():
    """A trained model of 260 thousand parameters, 512 tokens, 5 layers of width 64."""
    return load(ModelFolder(STORIES))


@pytest.fixture(scope="package")
def story_answers(stories):
    """Sixteen of its greedy answers, of 30 tokens, with the states that a head reads."""
    layers = shape_for(stories.model, rows=512).layers
    asked = asked_of(stories, openings(16))
    return Answerer(stories, layers).answer(asked, longest=30, seed=0)


@pytest.fixture(params=["tiny llama", pytest.param("stories260K", marks=pytest.mark.slow)])
def target(request, tokenizer, stories):
    """A random model whose text never ends, and a trained one."""
    if request.param == "stories260K":
        return stories
    return replace(loaded(tiny_model("llama"), tokenizer), folder=Path("tiny"))


@pytest.fixture(scope="package")
def trained(stories, story_answers):
    """A head that has learned from those for some seconds; some of the tokens it cannot say."""
    learner = new_story_learner(stories, rows=384)
    trainer = Trainer(learner, vocabulary=512)
    for step in range(26):  # of one step of prediction each
        trainer.learn(story_answers[step % 4 :: 4], share=0.05 + step / 140)
    return learner
