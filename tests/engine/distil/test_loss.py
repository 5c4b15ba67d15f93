"""Batches hold what the answers do, and predictions are compared as the definition says."""

import itertools

import mlx.core as mx
import numpy as np
import pytest

from engine.distil.loss import make_batch, soft_cross_entropy
from tests.support.engine.lively import KEPT, LAYERS, WIDTH, answer, row_of


def made_entropy():
    """States, weight, rows and chances; of one state there is no chance at all."""
    random = np.random.default_rng(0)
    states, weight = random.standard_normal((7, 12)), 2 * random.standard_normal((50, 12))
    rows = np.stack([random.choice(50, 8, replace=False) for _ in range(7)])
    chances = random.dirichlet([0.3] * 8, 7) * random.uniform(0, 1, (7, 1))
    chances[2] = 0
    as_float = [mx.array(array.astype(np.float32)) for array in (states, weight, chances)]
    return as_float[0], as_float[1], mx.array(rows), as_float[2]


def test_cross_entropy_of_a_part_of_the_mass():
    made = made_entropy()
    states, weight, rows, chances = (np.array(array, dtype=np.float64) for array in made)
    logits = states @ weight.T
    log_probs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    picked = np.take_along_axis(log_probs, rows.astype(int), axis=-1)
    expected = -(chances * picked).sum(axis=-1).mean()
    assert soft_cross_entropy(*made).item() == pytest.approx(expected, rel=1e-5)


def test_rows_that_are_impossible_are_as_if_they_were_not_there():
    states, weight, rows, chances = made_entropy()
    rows = mx.minimum(rows, 39)
    unmet = mx.ones((len(states), 10), dtype=mx.bool_)
    expected = soft_cross_entropy(states, weight[:40], rows, chances)
    assert soft_cross_entropy(states, weight, rows, chances, unmet).item() == expected.item()


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


def test_a_batch():
    answers = [answer(3, 4), answer(1, 3)]
    batch = make_batch(answers, row_of())
    assert batch.lead == 1
    assert batch.padding.tolist() == [0, 1]
    assert batch.after.tolist() == [answers[0].tokens[1:-1], [0, *answers[1].tokens[1:-1], 0, 0]]
    assert batch.predicting.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.rank.tolist() == [0, 1, 2, 3, 0, 1]
    assert batch.states.shape == (2, 5, len(LAYERS), WIDTH)
    assert batch.states.dtype == mx.float32
    assert mx.array_equal(batch.states[1, 1:3], answers[1].states[:2].astype(mx.float32))
    assert not batch.states[1, :1].any()
    assert not batch.states[1, 3:].any()


def test_a_token_without_a_row_has_no_chance():
    one = answer(2, 5)
    batch = make_batch([one], row_of())
    tokens, chances = one.top_tokens.tolist(), mx.exp(one.top_log_probs.astype(mx.float32)).tolist()
    kept = 0
    for place, rank in itertools.product(range(5), range(6)):
        token = tokens[place][rank]
        if token in KEPT:
            kept += 1
            assert batch.rows[place, rank].item() == KEPT.index(token)
            assert batch.chances[place, rank].item() == chances[place][rank]
        else:
            assert batch.chances[place, rank].item() == 0
            assert 0 <= batch.rows[place, rank].item() < len(KEPT)
    assert 0 < kept < 30


def test_a_row_is_borrowed_where_the_token_is_in_the_text():
    answers = [answer(2, 25), answer(3, 4)]
    batch = make_batch(answers, row_of(), borrows=True)
    borrowed = batch.borrowed.tolist()
    said = {token for one in answers for token in one.tokens}
    assert borrowed == sorted(said - {*KEPT})
    tops = [tokens for one in answers for tokens in one.top_tokens.tolist()]
    texts = [one.tokens[:end] for one in answers for end in range(one.prompt, len(one.tokens))]
    lent = 0
    for place, (tokens, text) in enumerate(zip(tops, texts, strict=True)):
        assert batch.unmet[place].tolist() == [token not in text for token in borrowed]
        for rank, token in enumerate(tokens):
            row, chance = batch.rows[place, rank].item(), batch.chances[place, rank].item()
            if token in KEPT:
                assert row == KEPT.index(token)
            elif token in text:
                lent += chance > 0
                assert row == len(KEPT) + borrowed.index(token)
            else:
                assert chance == 0
    assert lent
