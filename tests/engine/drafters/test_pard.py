"""Drafting in parallel: the masks give what one pass over them gives, and leave no trace."""

from functools import cache

import mlx.core as mx
import pytest

from engine.core.decoder import Decoder
from engine.drafters.model import ParallelDrafter
from tests.support.engine.helpers import proposed
from tests.support.engine.tiny import build

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
MASK = 63


@cache
def model(architecture="llama", *, seed=1):
    return build(architecture, seed=seed, layers=2)


def new(*, seed=1):
    return ParallelDrafter(Decoder(model(seed=seed)), vocabulary=64, mask=MASK)


def by_hand(tokens, length):
    """The same, of one pass over everything without a cache."""
    logits = model()(mx.array([[*tokens, *[MASK] * (length - 1)]]))[0]
    ids = mx.argmax(logits[-length:], axis=-1).tolist()
    return ids


@pytest.mark.parametrize("length", [1, 2, 6])
def test_a_mask_gives_the_token_behind_it(length):
    drafter = new()
    assert list(drafter.prepare(TOKENS))
    assert proposed(drafter, TOKENS, length) == by_hand(TOKENS, length)
