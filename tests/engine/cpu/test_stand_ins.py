"""What computes on a CPU in the place of MLX's own: exponentials by powers, against MLX's and
numpy's, and row by row; rotary positions."""

import math
from itertools import product
from unittest import mock

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models import activations, base, llama

from engine.core.decoder import Decoder
from engine.cpu.blas import choose_blas
from engine.cpu.exponentials import STAND_INS, attend, softmax
from engine.cpu.rotary import Rotary, with_rotary
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


@pytest.mark.parametrize(
    ("rows", "keys", "groups"),
    [*product([1, 2, 7], [40], [1, 3, 9]), *product([9], [127, 255, 511], [3])],
)
def test_attention_is_mlx_lms_and_that_of_a_row_depends_on_none_beside_it(rows, keys, groups):
    queries, *held, seen = heads(rows, keys, seed=1, groups=groups)

    ours = attention(queries, *held, cache=None, scale=0.3, mask=seen)

    stock = base.scaled_dot_product_attention(queries, *held, cache=None, scale=0.3, mask=seen)
    np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-6)
    for row in range(rows):
        own = slice(row, row + 1)
        alone = attention(queries[:, :, own], *held, cache=None, scale=0.3, mask=seen[own])
        assert mx.array_equal(ours[:, :, own], alone), row


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


def test_swiglu_is_mlx_lms_to_which_other_numbers_are_left():
    gate = mx.array([-1e4, -300.0, -88.0, -20.0, -1.0, 0.0, 1e-3, 1.0, 20.0, 300.0])
    x = mx.array([2.0, -1.0, 3.0, 1e3, 0.5, 4.0, -2.0, 0.7, 1.0, -5.0])

    np.testing.assert_allclose(swiglu(gate, x), activations.swiglu(gate, x), rtol=1e-5, atol=1e-30)
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


# --- Rotary positions with shared angles: bit for bit MLX's own


@given(
    half=st.integers(1, 40),
    more=st.integers(0, 9),
    base=st.sampled_from([10_000.0, 100_000.0, 500_000, 1.5]),
    scale=st.sampled_from([1.0, 0.25, 3.0]),
    offset=st.one_of(
        st.integers(0, 100_000), st.lists(st.integers(0, 9_000), min_size=2, max_size=2)
    ),
    rows=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_rotary_positions_are_mlxs(half, more, base, scale, offset, rows, seed):
    """Of all sequences of a batch at one position, or of each at its own."""
    x = mx.random.normal((2, 3, rows, 2 * half + more), key=mx.random.key(seed))
    ours, stock = (of(2 * half, base=base, scale=scale) for of in (Rotary, nn.RoPE))
    place = offset if isinstance(offset, int) else mx.array(offset)
    for _ in range(2):
        assert mx.array_equal(ours(x, place), stock(x, place))
        place += 1  # in place, as mlx-lm's batches do


def test_a_network_says_the_same_with_shared_angles():
    model, tokens = build("llama"), mx.arange(3, 9)[None]
    before = model(tokens)

    with_rotary(model)

    kinds = {type(layer.self_attn.rope) for layer in model.layers}
    assert kinds == {Rotary}
    assert mx.array_equal(model(tokens), before)
