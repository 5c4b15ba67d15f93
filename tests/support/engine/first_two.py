"""The joint distribution of the first two tokens of a text: exact, and as a pair writes them."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from numpy.typing import NDArray

from engine.decoder import Decoder
from engine.draft_length.policy import Fixed
from engine.drafters import Drafter
from engine.request import Sampling
from engine.sampling import History, distribution, log_weights, scores
from engine.speculate import RoundDraft, Task, speculate


def exact_first_two(model: nn.Module, sampling: Sampling, prompt: list[int]) -> NDArray[np.float64]:
    """The probability of every pair, (vocabulary, vocabulary), by reading all of them."""

    def rows(texts: list[list[int]]) -> NDArray[np.float64]:
        logits = model(mx.array(texts))[:, -1]
        windows = [History(text, sampling).windows(mx.array([]), 0, 1) for text in texts]
        history = mx.concatenate([each for each in windows if each is not None] or [mx.array([])])
        scored = scores(logits, history if sampling.penalizes else None, sampling)
        return np.array(distribution(log_weights(scored, sampling)), dtype=np.float64)

    first = rows([prompt])[0]
    return first[:, None] * rows([[*prompt, token] for token in range(len(first))])


def counted_first_two(
    target: Decoder,
    drafter: Drafter,
    sampling: Sampling,
    prompt: list[int],
    *,
    texts: int,
    length: int = 2,
) -> tuple[NDArray[np.int_], int, int]:
    """How often each pair was written, with drafts of `length`; tokens accepted and proposed."""
    counts = np.zeros((target.vocabulary,) * 2, dtype=np.int_)
    accepted = proposed = 0
    for seed in range(texts):
        tokens = list(prompt)
        task = Task(sampling, seed=seed, max_tokens=length + 1, ends=frozenset())
        if seed == 0:
            list(target.prefill(tokens))
            target.timeline.bookmark()
            list(drafter.prepare(tokens))
        for item in speculate(target, drafter, Fixed(length), tokens, task):
            if isinstance(item, RoundDraft):
                proposed += len(item.tokens)
            else:
                accepted += item.accepted
        counts[tokens[len(prompt)], tokens[len(prompt) + 1]] += 1
    return counts, accepted, proposed
