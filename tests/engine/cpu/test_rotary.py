"""Rotary positions with shared angles: bit for bit MLX's own."""

import mlx.core as mx
import mlx.nn as nn
from hypothesis import given
from hypothesis import strategies as st

from engine.cpu.rotary import Rotary, with_rotary
from tests.support.engine.tiny import build


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
def test_it_is_mlxs(half, more, base, scale, offset, rows, seed):
    """Of all sequences of a batch at one position, or of each at its own."""
    x = mx.random.normal((2, 3, rows, 2 * half + more), key=mx.random.key(seed))
    ours, stock = (of(2 * half, base=base, scale=scale) for of in (Rotary, nn.RoPE))
    place = offset if isinstance(offset, int) else mx.array(offset)
    assert mx.array_equal(ours(x, place), stock(x, place))


def test_offsets_that_change_in_place():
    """As those of mlx-lm's batches do."""
    x, offset = mx.random.normal((2, 3, 1, 16), key=mx.random.key(3)), mx.array([4, 9])
    for _ in range(3):
        assert mx.array_equal(Rotary(16)(x, offset), nn.RoPE(16)(x, offset))
        offset += 1


def test_a_network_says_the_same_with_it():
    model, tokens = build("llama"), mx.arange(3, 9)[None]
    before = model(tokens)

    with_rotary(model)

    kinds = {type(layer.self_attn.rope) for layer in model.layers}
    assert kinds == {Rotary}
    assert mx.array_equal(model(tokens), before)
