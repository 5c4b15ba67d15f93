"""Drafting in parallel: the masks give what one pass over them gives, and leave no trace."""

from functools import cache

import mlx.core as mx
import numpy as np
import pytest

from engine.core.decoder import Decoder
from engine.draft_length.policy import Fixed
from engine.drafters.model import ParallelDrafter
from engine.request import Sampling
from tests.support.engine.chi_square import excess
from tests.support.engine.helpers import proposed, task, up_to, write
from tests.support.engine.markov import decoder, exact, random_table
from tests.support.engine.tiny import build

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
MASK = 63
WARM = Sampling(temperature=0.8, top_p=0.95, repetition_penalty=1.2)


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


def test_each_token_is_drawn_from_what_is_reported_of_it():
    size, prompt = 4, [1, 2]
    drafter = ParallelDrafter(decoder(random_table(size, seed=5)), vocabulary=size, mask=3)
    sampling = Sampling(temperature=0.7, top_p=0.9)
    counts = np.zeros((2, size), dtype=np.int_)
    reported = None
    for seed in range(300):
        draft = drafter.propose(prompt, up_to(2), sampling, mx.random.key(seed))
        for slot, token in enumerate(draft.tokens.tolist()):
            counts[slot, token] += 1
        reported = np.array(draft.distributions, np.float64)
        drafter.accept(())
    possible = exact(random_table(size, seed=5), sampling)
    assert reported is not None
    np.testing.assert_allclose(reported, [possible[1, 2], possible[2, 3]], rtol=1e-4, atol=1e-6)
    assert all(excess(counts[slot], reported[slot]) < 1.0 for slot in range(2))


def test_it_drafts_with_filters_and_penalties():
    target = Decoder(model(seed=0))
    run = write(target, new(seed=0), Fixed(3), list(TOKENS), task(30, sampling=WARM))
    assert run.proposed > 20
