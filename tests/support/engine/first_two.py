"""The joint distribution of the first two tokens of a text: exact, and as a pair writes them."""

import copy

import mlx.core as mx
import numpy as np

from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.core.model_parts import trunk
from engine.core.rounds import RoundDraft, Task
from engine.core.sampling import History, distribution, scores
from engine.draft_length.policy import Fixed
from engine.request import Sampling
from tests.support.engine.chi_square import excess

SAMPLINGS = {
    "warm": Sampling(temperature=1.3),
    "top-p": Sampling(temperature=0.8, top_p=0.9),
    "penalty": Sampling(temperature=0.9, top_p=0.95, repetition_penalty=1.4, penalty_window=4),
}
_TEXT = [1, 2, 3, 4, 5, 0]


def flat(model):
    """A copy with less sure logits, so that every pair of tokens is written now and then."""
    model = copy.deepcopy(model)
    norm = trunk(model).norm
    norm.weight = 0.3 * norm.weight
    return model


def exact_first_two(model, sampling, prompt):
    """The probability of every pair, (vocabulary, vocabulary), by reading all of them."""

    def rows(texts):
        logits = model(mx.array(texts))[:, -1]
        windows = [History(text, sampling).windows(mx.array([]), 0, 1) for text in texts]
        history = mx.concatenate([each for each in windows if each is not None] or [mx.array([])])
        scored = scores(logits, history if sampling.penalizes else None, sampling)
        return np.array(distribution(scored, sampling), dtype=np.float64)

    first = rows([prompt])[0]
    return first[:, None] * rows([[*prompt, token] for token in range(len(first))])


def counted_first_two(target, drafter, sampling, prompt, *, texts):
    """Count how often each pair was written, with drafts of two tokens. Returns the counts, and the
    numbers of tokens accepted and proposed."""
    counts = np.zeros((target.vocabulary,) * 2, dtype=np.int_)
    accepted = proposed = 0
    for seed in range(texts):
        tokens = list(prompt)
        task = Task(sampling, seed=seed, max_tokens=3, ends=frozenset())
        if seed == 0:
            list(target.prefill(tokens))
            target.timeline.bookmark()
            list(drafter.prepare(tokens))
        for item in speculate(target, drafter, Fixed(2), tokens, task):
            if isinstance(item, RoundDraft):
                proposed += len(item.tokens)
            else:
                accepted += item.accepted
        counts[tokens[len(prompt)], tokens[len(prompt) + 1]] += 1
    return counts, accepted, proposed


def assert_the_targets(model, make_drafter, sampling):
    """Assert that `model` with a drafter writes pairs of tokens as often as it does alone."""
    model = flat(model)
    target = Decoder(model)
    counts, accepted, proposed = counted_first_two(
        target, make_drafter(target), sampling, _TEXT, texts=250
    )
    assert excess(counts.ravel(), exact_first_two(model, sampling, _TEXT).ravel()) < 1.0
    assert 25 < accepted < proposed - 25
