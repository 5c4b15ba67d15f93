"""The loss of all places at once is that of one guess after another, as the head will draft."""

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from engine.distil.head_learner import embed, loss
from engine.distil.loss import make_batch, soft_cross_entropy
from tests.support.engine.lively import (
    answer,
    cross_entropy,
    embeddings,
    lively_head,
    logits_behind,
    row_of,
    sayable,
)

WEIGHT = 0.8  # of a step, against the one before


@pytest.fixture(scope="module")
def head():
    return lively_head()


@pytest.fixture(scope="module")
def table():
    return embeddings()


# One guess after another


def drafted(head, table, one, *, start, steps):
    """The head's logits in `steps` guesses: the first with the target's states up to `start`,
    the others with its own, while the tokens are the answer's."""
    cache = KVCache()
    after = mx.array([one.tokens[1 : start + 2]])
    begun = head.begin(one.states[None, : start + 1].astype(mx.float32))
    state = head(begun, table(after), "causal", cache)[:, -1:]
    guesses = [logits_behind(one.tokens[: start + 2], head, table, state)]
    for step in range(1, steps):
        after = mx.array([[one.tokens[start + step + 1]]])
        state = head(head.go_on(state), table(after), None, cache)
        guesses.append(logits_behind(one.tokens[: start + step + 2], head, table, state))
    return guesses


def slowly(head, table, answers, *, steps):
    """The definition: of each step the mean over all guesses so deep, a step weighing 0.8 of the
    one before. A chain may begin wherever it guesses a token of the answer."""
    entropies = [[] for _ in range(steps)]
    for one in answers:
        # What is read at `start` stands for x[start], and guesses x[start + 2].
        for start in range(max(one.prompt - 2, 0), len(one.tokens) - 2):
            room = min(steps, len(one.tokens) - 2 - start)
            for step, logits in enumerate(drafted(head, table, one, start=start, steps=room)):
                predicted = start + step + 2
                said = sayable(one.tokens[:predicted])
                entropies[step].append(cross_entropy(logits, one, predicted, kept=said))
    return sum(WEIGHT**step * float(np.mean(each)) for step, each in enumerate(entropies) if each)


def at_once(head, table, answers, *, steps=3):
    batch = make_batch(answers, row_of(), borrows=True)
    return loss(head, batch, embed(table, batch), table(batch.borrowed), steps=steps)


MIXTURES = {
    "one": [(5, 6)],
    "many": [(3, 9), (7, 4), (2, 2), (5, 12)],
    "a prompt of a token": [(1, 5), (4, 5)],
    "short answers": [(6, 2), (3, 3)],
    "answers of two tokens": [(6, 2), (3, 2)],
    "an answer of a token": [(4, 1)],
}


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_all_at_once_is_one_after_another(head, table, steps):
    for mixture, lengths in MIXTURES.items():
        answers = [answer(*each) for each in lengths]
        expected = slowly(head, table, answers, steps=steps)
        found = at_once(head, table, answers, steps=steps).item()
        assert found == pytest.approx(expected, rel=1e-4), mixture


# Gradients, which are computed together with the loss


def made_entropy():
    """States, weight, rows and chances; one state leaves nothing to chance."""
    random = np.random.default_rng(0)
    states, weight = random.standard_normal((7, 12)), 2 * random.standard_normal((50, 12))
    rows = np.stack([random.choice(50, 8, replace=False) for _ in range(7)])
    chances = random.dirichlet([0.3] * 8, 7) * random.uniform(0, 1, (7, 1))
    chances[2] = 0
    as_float = [mx.array(array.astype(np.float32)) for array in (states, weight, chances)]
    return as_float[0], as_float[1], mx.array(rows), as_float[2]


def test_its_gradients_are_those_of_its_definition():
    states, weight, rows, chances = made_entropy()

    def defined(states, weight):
        logits = states @ weight.T
        likeliest = mx.take_along_axis(logits, rows, axis=-1)
        entropies = chances.sum(axis=-1) * mx.logsumexp(logits, axis=-1)
        return 3 * mx.mean(entropies - (chances * likeliest).sum(axis=-1))

    def ours(states, weight):
        return 3 * soft_cross_entropy(states, weight, rows, chances)

    expected = mx.grad(defined, argnums=(0, 1))(states, weight)
    found = mx.grad(ours, argnums=(0, 1))(states, weight)
    for one, other in zip(found, expected, strict=True):
        assert float(mx.abs(other).max()) > 0.01
        assert mx.allclose(one, other, rtol=1e-4, atol=1e-6)
