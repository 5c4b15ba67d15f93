"""The loss of all places at once is that of one guess after another, as the head will draft."""

import itertools

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache

from engine.distil.head_learner import embed, loss, mask_after
from engine.distil.loss import make_batch
from engine.drafters.head_network import Head
from tests.support.engine.lively import (
    SHAPE,
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


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_all_at_once_is_one_after_another(head, table, steps):
    for mixture, lengths in MIXTURES.items():
        answers = [answer(*each) for each in lengths]
        expected = slowly(head, table, answers, steps=steps)
        found = at_once(head, table, answers, steps=steps).item()
        assert found == pytest.approx(expected, rel=1e-4), mixture


def test_each_step_counts(head, table):
    # Else the test above would say nothing about the later ones.
    totals = [at_once(head, table, [answer(3, 9)], steps=n).item() for n in (1, 2, 3, 4)]
    steps = [later - earlier for earlier, later in itertools.pairwise(totals)]
    assert min(steps) > 0.1
    own = [step / WEIGHT**n for n, step in enumerate(steps, start=1)]
    assert len({round(value, 3) for value in (totals[0], *own)}) == 4


def test_padding_changes_nothing(head, table):
    def of(answers):
        count = len(make_batch(answers, row_of()).rank)
        return at_once(head, table, answers, steps=1).item(), count

    long, short = answer(4, 30), answer(3, 4)
    (both, count), (alone, few), (other, many) = of([long, short]), of([short]), of([long])
    assert count == few + many
    assert both * count == pytest.approx(alone * few + other * many, rel=1e-4)


def test_gradients_reach_every_weight(head, table):
    answers = [answer(3, 9), answer(5, 4)]
    value, gradients = nn.value_and_grad(head, at_once)(head, table, answers)
    named = dict(tree_flatten(gradients))
    assert named.keys() == dict(tree_flatten(head.parameters())).keys()
    assert np.isfinite(value.item())
    for name, gradient in named.items():
        assert float(mx.abs(gradient).max()) > 1e-6, name
        assert bool(mx.isfinite(gradient).all()), name


def test_gradients_go_down(head, table):
    # A small step against them lowers the loss by as much as they say.
    answers = [answer(3, 9), answer(5, 4)]
    value, gradients = nn.value_and_grad(head, at_once)(head, table, answers)
    norm = sum(float((gradient**2).sum()) for _, gradient in tree_flatten(gradients))
    rate = 1e-3 / norm
    other = Head(SHAPE)
    other.update(nn.utils.tree_map(lambda w, g: w - rate * g, head.parameters(), gradients))
    assert (value - at_once(other, table, answers)).item() == pytest.approx(1e-3, rel=0.1)


# The parts


def test_a_guess_sees_where_it_began_and_what_came_after():
    for length, step in itertools.product((1, 2, 6), range(4)):
        mask = mask_after(step, length).tolist()
        assert len(mask) == length
        for place in range(length):
            began = place - step
            for earlier, seen in itertools.product(range(step + 1), range(length)):
                expected = seen == began + earlier if earlier else seen <= began
                assert mask[place][earlier * length + seen] == expected, (place, earlier, seen)
