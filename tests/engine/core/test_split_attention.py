"""Attention of a draft's rows in parts: the same numbers, and only where it is quicker."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from unittest import mock

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.base import scaled_dot_product_attention as stock
from mlx_lm.models.cache import QuantizedKVCache

import engine.core.split_attention
from engine.core.decoder import Decoder
from engine.core.split_attention import LEAST_KEYS, in_parts, most_rows, split
from engine.device import GPU
from engine.tree import Tree
from tests.support.engine.backends import computing_as
from tests.support.engine.tiny import build

PLACES = 40


def heads(queries: int, groups: int, rows: int, places: int = PLACES) -> tuple[mx.array, ...]:
    """Queries, keys and values of so many heads and key heads."""
    shapes = (1, queries, rows, 16), (1, groups, places, 16), (1, groups, places, 8)
    keys = mx.random.split(mx.random.key(rows), 3)
    return tuple(mx.random.normal(s, key=key) for s, key in zip(shapes, keys, strict=True))


def masks(rows: int) -> Iterator[Any]:
    """No mask, that of a chain, and those of a tree: truth values, and what is added."""
    yield None
    yield "causal"
    tree = Tree((*range(-1, rows - 2), -1))
    seen = mx.concatenate(
        [mx.ones((rows, PLACES - rows), dtype=mx.bool_), mx.array(tree.before)], axis=1
    )
    yield seen
    yield mx.where(seen, 0.0, -mx.inf)[None, None]


@pytest.mark.parametrize("rows", [2, 8, 9, 17])
def test_parts_give_what_a_whole_gives(rows: int) -> None:
    for (queries, groups), mask in product([(4, 4), (6, 1)], masks(rows)):
        given = heads(queries, groups, rows)
        parts = split(stock, 4, *given, cache=None, scale=0.3, mask=mask)
        whole = stock(*given, cache=None, scale=0.3, mask=mask)
        np.testing.assert_allclose(np.array(parts), np.array(whole), rtol=1e-5, atol=1e-6)


def test_a_part_has_as_many_rows_as_mlx_takes_at_once() -> None:
    cases = {(8, 8): 8, (8, 2): 8, (40, 8): 6, (28, 4): 4, (64, 8): 4, (64, 1): 1}
    assert {case: most_rows(*heads(*case, rows=1)[:2]) for case in cases} == cases


class Counted:
    """mlx-lm's attention. Attribute: `rows`, those of each call."""

    def __init__(self) -> None:
        self.rows = list[int]()

    def __call__(self, queries: mx.array, *arrays: Any, **options: Any) -> mx.array:
        self.rows.append(queries.shape[2])
        return stock(queries, *arrays, **options)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets what two parts take, as a share of a whole; clears what was measured before."""

    def take(share: float) -> None:
        def clock() -> Iterator[float]:
            now = 0.0
            for number in range(1 << 20):
                yield now
                yield now + (share if number % 2 else 1.0)
                now += 10.0

        ticks = clock()
        monkeypatch.setattr(engine.core.split_attention, "perf_counter", lambda: next(ticks))
        engine.core.split_attention._pays.cache_clear()

    return take


def test_rows_are_split_where_that_is_quicker(measured: Callable[[float], None]) -> None:
    given = heads(8, 2, 9, LEAST_KEYS)
    for share, rows in {0.5: [8, 1], 0.97: [9], 1.5: [9]}.items():
        measured(share)
        counted = Counted()
        in_parts(counted)(*given, cache=None, scale=0.3, mask="causal")
        assert counted.rows == rows


def test_nothing_else_is_split(measured: Callable[[float], None]) -> None:
    """Few keys, few rows, and the many rows of a prompt."""
    measured(0.5)
    for rows, places in [(9, LEAST_KEYS - 1), (8, LEAST_KEYS), (64, LEAST_KEYS)]:
        counted = Counted()
        in_parts(counted)(*heads(8, 2, rows, places), cache=None, scale=0.3, mask="causal")
        assert counted.rows == [rows]
    cache, (queries, keys, values) = QuantizedKVCache(), heads(8, 2, 9, LEAST_KEYS)
    held = cache.update_and_fetch(mx.tile(keys, (1, 1, 1, 4)), mx.tile(values, (1, 1, 1, 8)))
    counted = Counted()
    in_parts(counted)(mx.tile(queries, (1, 1, 1, 4)), *held, cache=cache, scale=0.3, mask="causal")
    assert counted.rows == [9]


def test_it_is_measured_once_for_each_doubling(measured: Callable[[float], None]) -> None:
    measured(0.5)
    with mock.patch.object(engine.core.split_attention, "wait") as waits:
        for places in (LEAST_KEYS, LEAST_KEYS + 700, 2 * LEAST_KEYS - 1):
            in_parts(stock)(*heads(8, 2, 9, places), cache=None, scale=0.3, mask="causal")
        once = waits.call_count
        in_parts(stock)(*heads(8, 2, 9, 2 * LEAST_KEYS), cache=None, scale=0.3, mask="causal")
    assert once > 0
    assert waits.call_count == 2 * once


def test_a_long_context_is_read_in_parts(
    measured: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(0.5)
    tokens = mx.arange(40) % 30
    with computing_as(GPU):
        decoder = Decoder(build("llama"))
        decoder.read(tokens[:20])
        whole = decoder.read(tokens[20:])
        decoder.rewind(20)
        monkeypatch.setattr("engine.core.decoder.LEAST_KEYS", 24)
        monkeypatch.setattr(engine.core.split_attention, "LEAST_KEYS", 24)
        with mock.patch.object(engine.core.split_attention, "split", wraps=split) as splits:
            parts = decoder.read(tokens[20:])
    assert splits.call_count
    np.testing.assert_allclose(np.array(parts), np.array(whole), rtol=1e-4, atol=1e-5)
