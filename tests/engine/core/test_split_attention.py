"""Attention of a draft's rows in parts: the same numbers, and only where it is quicker."""

from itertools import product
from unittest import mock

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.base import scaled_dot_product_attention as stock
from mlx_lm.models.cache import QuantizedKVCache

import engine.core.split_attention
from engine.conversation.loading import load
from engine.core.decoder import Decoder
from engine.core.split_attention import _pays as PAYS
from engine.core.split_attention import attend, in_parts, measuring, split
from engine.device import CPU, GPU
from engine.tree import Tree
from models.model_folder import inspect
from models.speed import load_chips
from tests.support.engine.backends import computing_as
from tests.support.engine.tiny import build, write_folder

PLACES, LEAST = 40, 4096


def heads(queries, groups, rows, places=PLACES):
    """Queries, keys and values of so many heads and key heads."""
    shapes = (1, queries, rows, 16), (1, groups, places, 16), (1, groups, places, 8)
    keys = mx.random.split(mx.random.key(rows), 3)
    return tuple(mx.random.normal(s, key=key) for s, key in zip(shapes, keys, strict=True))


def masks(rows):
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
def test_parts_give_what_a_whole_gives(rows):
    for (queries, groups), mask in product([(4, 4), (6, 1)], masks(rows)):
        given = heads(queries, groups, rows)
        parts = split(stock, 4, *given, cache=None, scale=0.3, mask=mask)
        whole = stock(*given, cache=None, scale=0.3, mask=mask)
        np.testing.assert_allclose(np.array(parts), np.array(whole), rtol=1e-5, atol=1e-6)


class Counted:
    """mlx-lm's attention. Attribute: `rows`, those of each call."""

    def __init__(self):
        self.rows = list[int]()

    def __call__(self, queries, *arrays, **options):
        self.rows.append(queries.shape[2])
        return stock(queries, *arrays, **options)


@pytest.fixture
def measured(monkeypatch):
    """Measures 8 heads and 2 key heads, over up to `longest` keys, on a chip of this name, where
    parts take this share of the time of a whole."""
    module = engine.core.split_attention

    def measure_as(share, longest=LEAST, chip="M4", pays=PAYS):
        def clock():
            now = 0.0
            for number in range(1 << 20):
                yield now
                yield now + (share if number % 2 else 1.0)
                now += 10.0

        ticks, found = clock(), load_chips().find(chip, 64 << 30)
        monkeypatch.setattr(module, "perf_counter", lambda: next(ticks))
        monkeypatch.setattr(module, "this_chip", lambda: found)
        monkeypatch.setattr(module, "_PAYS", {})
        monkeypatch.setattr(module, "_pays", pays)
        monkeypatch.setattr(module, "wait", lambda *arrays: None)
        with measuring(longest):
            attend(stock, *heads(8, 2, 2), cache=None, scale=0.3, mask="causal")

    return measure_as


def rows_of_calls(rows, places):
    """The rows of each call that a draft of `rows` makes over `places` keys."""
    counted = Counted()
    with mock.patch.object(engine.core.split_attention, "_pays", side_effect=AssertionError):
        in_parts(counted)(*heads(8, 2, rows, places), cache=None, scale=0.3, mask="causal")
    return counted.rows


@pytest.mark.parametrize(
    ("chip", "share", "places", "rows", "calls"),
    [
        ("M4", 0.5, LEAST, 9, [8, 1]),
        ("M4", 0.97, LEAST, 9, [9]),
        ("M4", 1.5, LEAST, 9, [9]),
        ("M4", 0.5, LEAST - 1, 9, [9]),
        ("M4", 0.5, LEAST, 8, [8]),
        ("M4", 0.5, LEAST, 64, [64]),  # of a prompt
        ("M5", 0.5, LEAST, 9, [8, 1]),
        ("M5", 0.5, LEAST - 1, 9, [9]),
        *((chip, 0.5, 1024, 9, [8, 1]) for chip in ("M1 Pro", "M3 Ultra")),  # which gain sooner
        *((chip, 0.5, 1023, 9, [9]) for chip in ("M1 Pro", "M3 Ultra")),
    ],
)
def test_rows_are_split_where_that_is_quicker(measured, chip, share, places, rows, calls):
    measured(share, longest=4200, chip=chip)
    assert rows_of_calls(rows, places) == calls


def test_quantized_keys_are_not_split(measured):
    measured(0.5)
    cache, (queries, keys, values) = QuantizedKVCache(), heads(8, 2, 9, LEAST)
    held = cache.update_and_fetch(mx.tile(keys, (1, 1, 1, 4)), mx.tile(values, (1, 1, 1, 8)))
    counted = Counted()
    in_parts(counted)(mx.tile(queries, (1, 1, 1, 4)), *held, cache=cache, scale=0.3, mask="causal")
    assert counted.rows == [9]


def test_it_is_measured_once_and_over_few_keys(measured):
    timed = list[tuple[int, int]]()

    def pays(shape, places, parts):
        timed.append((places, parts))
        return True

    measured(0.5, longest=200_000, pays=pays)
    assert timed == [*product([4096, 16384], [2, 3, 4])]
    with measuring(200_000):
        rows_of_calls(9, 50)
    assert len(timed) == 6, "once"
    assert rows_of_calls(9, 70_000) == [8, 1], "as with the most that were measured"


def test_a_long_context_is_read_in_parts(monkeypatch):
    tokens = mx.arange(40) % 30
    with computing_as(GPU):
        model = build("llama")
        decoder = Decoder(model)
        decoder.read(tokens[:20])
        whole = decoder.read(tokens[20:])
        decoder.rewind(20)
        monkeypatch.setattr("engine.core.decoder.LEAST_KEYS", 24)
        monkeypatch.setattr(engine.core.split_attention, "_MEASURED", (24,))
        every = mock.MagicMock(get=lambda key: key[1:] == (24, 3))
        monkeypatch.setattr(engine.core.split_attention, "_PAYS", every)
        with mock.patch.object(engine.core.split_attention, "split", wraps=split) as splits:
            parts = decoder.read(tokens[20:])
    assert splits.call_count
    np.testing.assert_allclose(np.array(parts), np.array(whole), rtol=1e-4, atol=1e-5)


def test_a_models_attention_is_measured_while_it_is_loaded(tmp_path, monkeypatch):
    write_folder("llama", tmp_path / "tiny")
    folder, found = inspect(tmp_path / "tiny"), {}
    monkeypatch.setattr(engine.core.split_attention, "_PAYS", found)
    with computing_as(CPU):
        load(folder)
    assert found == {}, "there nothing is split"
    with computing_as(GPU):
        load(folder)
    assert [key[1:] for key in found] == [(4096, 2), (4096, 3), (4096, 4)]
