"""Exponentials by powers: against MLX's own and numpy's, and row by row."""

import math
from itertools import product
from unittest import mock

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models import activations, base, llama

from engine.core.decoder import Decoder
from engine.cpu.blas import choose_blas
from engine.cpu.exponentials import STAND_INS, attend, softmax
from tests.support.engine.tiny import build
from tests.support.mostly_slow import mostly_slow

SCORES = st.one_of(st.floats(-120, 120, width=32), st.just(-math.inf))


def refused(*_, **__):
    raise AssertionError("left to mlx-lm")


attention = STAND_INS["scaled_dot_product_attention"](refused)
swiglu = STAND_INS["swiglu"](refused)


def heads(rows, keys, *, seed, groups=3):
    """Queries of nine heads, keys, values, and what each of the last rows sees."""
    shapes = (1, 9, rows, 16), (1, groups, keys, 16), (1, groups, keys, 8)
    drawn = [
        mx.random.normal(s, key=k)
        for s, k in zip(shapes, mx.random.split(mx.random.key(seed), 3), strict=True)
    ]
    seen = mx.arange(keys)[None] <= mx.arange(keys - rows - 2, keys - 2)[:, None]
    return *drawn, seen


@given(st.lists(SCORES, min_size=1, max_size=40).filter(lambda row: max(row) > -math.inf))
def test_softmax_is_numpys(row):
    ours = np.array(softmax(mx.array([row, row])))

    exact = np.exp(np.array(row, np.float64) - max(row))
    np.testing.assert_allclose(ours, [exact / exact.sum()] * 2, rtol=3e-5, atol=1e-37)
    assert (ours[:, np.isneginf(row)] == 0.0).all()


def test_attention_is_mlx_lms():
    for rows, groups in product([1, 2, 7], [1, 3, 9]):
        queries, keys, values, seen = heads(rows, 40, seed=1, groups=groups)

        ours = attention(queries, keys, values, cache=None, scale=0.3, mask=seen)

        stock = base.scaled_dot_product_attention(
            queries, keys, values, cache=None, scale=0.3, mask=seen
        )
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-6)


def test_attention_of_a_row_does_not_depend_on_those_beside_it():
    for keys in (127, 255, 511):
        queries, *held, seen = heads(9, keys, seed=2)

        together = attention(queries, *held, cache=None, scale=0.3, mask=seen)

        for row in range(9):
            own = slice(row, row + 1)
            alone = attention(queries[:, :, own], *held, cache=None, scale=0.3, mask=seen[own])
            assert mx.array_equal(together[:, :, own], alone), (keys, row)


@pytest.mark.skipif(not choose_blas().sums_in_turn, reason="there, trees are read path by path")
@pytest.mark.parametrize("keys", mostly_slow([127, 383, 511, 767, 1023, 1151], quick=[767]))
def test_keys_that_are_not_seen_may_stand_between_the_others(keys):
    """Bit for bit: so the rows of a tree can be computed at once."""
    queries, *held, _ = heads(1, keys, seed=4)
    first = keys - 100  # all before it, and three more, are seen
    together, apart = (mx.arange(keys) < first + 3, mx.arange(keys) < first)
    places = [first, first + 4, first + 9]
    apart[mx.array(places)] = True
    spread = []
    for array in held:
        moved = mx.array(array)
        moved[:, :, mx.array(places)] = array[:, :, first : first + 3]
        spread.append(moved)

    ours = attend(queries, *spread, 0.3, apart[None])

    assert mx.array_equal(ours, attend(queries, *held, 0.3, together[None]))


def half(array):
    return array.astype(mx.float16)


def test_other_attention_is_left_to_mlx_lm():
    queries, keys, values, seen = heads(2, 5, seed=3)
    usual = queries, keys, values
    others = {
        "causal": (usual, "causal", {}),
        "no mask": (usual, None, {}),
        "by batch": (usual, seen[None, None], {}),
        "to be added": (usual, mx.zeros(seen.shape), {}),
        "half": (tuple(map(half, usual)), seen, {}),
        "quantized": ((queries, (keys,), (values,)), seen, {}),
        "sinks": (usual, seen, {"sinks": seen}),
    }
    for name, (parts, mask, more) in others.items():
        stock = mock.Mock(return_value=mx.array(7.0))
        stand_in = STAND_INS["scaled_dot_product_attention"](stock)
        assert stand_in(*parts, cache=None, scale=1.0, mask=mask, **more).item() == 7.0, name
        (asked,) = stock.call_args_list
        assert asked.args == parts, name
        assert asked.kwargs == {"cache": None, "scale": 1.0, "mask": mask, **more}, name


def test_swiglu_is_mlx_lms():
    gate = mx.array([-1e4, -300.0, -88.0, -20.0, -1.0, 0.0, 1e-3, 1.0, 20.0, 300.0])
    x = mx.array([2.0, -1.0, 3.0, 1e3, 0.5, 4.0, -2.0, 0.7, 1.0, -5.0])

    np.testing.assert_allclose(swiglu(gate, x), activations.swiglu(gate, x), rtol=1e-5, atol=1e-30)


def test_swiglu_in_other_numbers_is_left_to_mlx_lm():
    stand_in = STAND_INS["swiglu"](lambda gate, x: gate - x)
    assert stand_in(half(mx.array(3.0)), half(mx.array(1.0))).item() == 2.0


def test_passes_on_a_cpu_call_them_and_leave_mlx_lm_as_it_was(monkeypatch):
    decoder, tokens = Decoder(build("llama")), mx.arange(3, 8)
    stock = decoder.model(tokens[None], cache=None)[0]
    monkeypatch.setattr(llama, "scaled_dot_product_attention", refused)
    monkeypatch.setattr(llama, "swiglu", refused)

    logits = decoder.read(tokens)

    np.testing.assert_allclose(logits, stock, rtol=1e-4, atol=1e-5)
    assert llama.scaled_dot_product_attention is llama.swiglu is refused
    with pytest.raises(ValueError, match="integral"):
        decoder.read(tokens * 0.5)  # no ids
    assert llama.scaled_dot_product_attention is llama.swiglu is refused
