"""The tiny models are what the other tests take them for."""

from itertools import pairwise, product
from statistics import median

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

from tests.support.engine.tiny import ARCHITECTURES, build
from tests.support.mostly_slow import mostly_slow

PROMPT = [1, 2, 3, 4, 5]


def greedy(model, *, count):
    """The tokens that plain decoding writes after `PROMPT`, and their probabilities."""
    cache = make_prompt_cache(model)
    tokens = []
    probabilities = []
    unread = PROMPT
    for _ in range(count):
        logits = model(mx.array([unread]), cache=cache)[0, -1].astype(mx.float32)
        token = int(mx.argmax(logits))
        tokens.append(token)
        probabilities.append(float(mx.softmax(logits)[token]))
        unread = [token]
    return tokens, probabilities


@pytest.mark.parametrize(
    ("architecture", "dtype"),
    mostly_slow(product(ARCHITECTURES, [mx.float32, mx.bfloat16]), quick=[("qwen3_5", mx.float32)]),
)
def test_greedy_text_is_varied(architecture, dtype):
    tokens, probabilities = greedy(build(architecture, dtype=dtype), count=100)

    assert len(set(tokens)) >= 25
    repeated = sum(first == second for first, second in pairwise(tokens))
    assert repeated <= 30
    assert 0.2 < median(probabilities) < 0.9
