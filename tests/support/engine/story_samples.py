"""Questions and answers for the distiller's tests."""

import itertools
from functools import partial
from pathlib import Path

import mlx.core as mx

from engine.core.model_parts import embedding, output_rows
from engine.distil.answering import TokenizedPrompt
from engine.distil.head_learner import HeadLearner
from engine.drafters.head_network import new_head, shape_for

STORIES = Path(__file__).parents[2] / "data" / "stories260K"

_WHO = ("Tom", "Lily", "A little dog", "The big red ball", "Mom and Dad", "Ben", "A bird")
_WHAT = ("went to the park", "was very sad", "saw a tree", "wanted to play", "had a nice toy")
_WHEN = ("One day,", "Once upon a time,", "Then", "It was late and")


def openings(count):
    """Beginnings of stories, all different."""
    parts = itertools.product(_WHAT, _WHO, _WHEN)
    texts = [f"{when} {who} {what}" for what, who, when in parts]
    assert count <= len(texts)
    return texts[:count]


def asked_of(target, texts, temperatures=(0.0,)):
    """The texts in tokens, to be answered with the temperatures in turn."""
    return [
        TokenizedPrompt(target.tokenizer.encode(text, add_special_tokens=False), temperature)
        for text, temperature in zip(texts, itertools.cycle(temperatures), strict=False)
    ]


def new_story_head(stories, *, rows=512):
    """An untrained one, which can say the last `rows` tokens, and borrows the others."""
    mx.random.seed(0)
    shape = shape_for(stories.model, rows=rows)
    return new_head(stories.model, shape, mx.arange(512 - rows, 512, dtype=mx.int32))


def new_story_learner(stories, *, rows=512):
    """Such a head, as it learns."""
    return story_learner(stories, new_story_head(stories, rows=rows))


def story_learner(stories, head):
    """Return a learner with that head."""
    model = stories.model
    return HeadLearner(head, embedding(model), partial(output_rows, model))
