"""A pass over a tree gives each token what its path alone would, bit for bit on the CPU, and what
is accepted of it stays in caches and recordings as if nothing else had been read."""

import functools
from dataclasses import replace
from itertools import product
from unittest import mock

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.core.batch
import engine.cpu.trees
from engine.core.batch import can_share, read_together
from engine.core.cache import AlignedCache, QuantizedCaches
from engine.device import BACKENDS, GPU
from engine.tree import COMMITTED, Tree
from tests.support.engine.helpers import assert_as_fresh, build_wide, decoder
from tests.support.engine.tiny import build
from tests.support.engine.trees import random_trees
from tests.support.mostly_slow import examples, mostly_slow

TOKENS = mx.random.randint(0, 64, (1_100,), key=mx.random.key(3)).tolist()
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3_text")
PRECISIONS = ("float32", "bfloat16", "float16", "4-bit")
QUANTIZED = QuantizedCaches(bits=4, group_size=32, start=21)
BLOCKS = (8, 16, 40, 128)
AT_ONCE = [False, True] if engine.cpu.trees._SUMS_IN_TURN else [False]  # else path by path
UNEVEN = Tree((COMMITTED, COMMITTED, 0, 1, 0, 2, 2, 3, 5, 8))


@functools.cache
def model_of(architecture, precision="float32", *, wide=False):
    make = build_wide if wide else build
    if precision == "4-bit":
        return make(architecture, bits=4)
    return make(architecture, dtype=getattr(mx, precision))


def reader(model, length, **options):
    """One that has read the first `length` of `TOKENS`."""
    made = decoder(model, **options)
    for _ in made.prefill(TOKENS[: length + 1]):
        pass
    return made


def ids_for(tree):
    return (17 * mx.arange(len(tree)) + 5) % 64


def read_tree(of, tree):
    (logits,) = read_together([of], [ids_for(tree)], [tree])
    return logits


def alone(of, tree):
    """The rows of each path, and its logits without the rest of the tree."""
    length = of.length
    for path in tree.paths:
        rows = list(path)
        yield rows, of.read(ids_for(tree)[mx.array(rows)])
        of.rewind(length)


def assert_as_alone(model, length, tree, **options):
    whole, single = reader(model, length, **options), reader(model, length, **options)
    tree = tree.first(whole.timeline.room())
    logits = read_tree(whole, tree)
    for rows, expected in alone(single, tree):
        assert logits.dtype == expected.dtype
        assert mx.array_equal(logits[mx.array(rows)], expected)


def apart(ones, others):
    """How far they are apart, as a share of their own deviation."""
    ones, others = ones.astype(mx.float32), others.astype(mx.float32)
    return float(mx.max(mx.abs(ones - others)) / mx.std(others))


# Each row as its path alone


CASES = [(a, precision, wide) for a in ARCHITECTURES for precision in PRECISIONS for wide in (0, 1)]
QUICK = [("llama", "float32", 0), ("llama", "4-bit", 0), ("gemma3_text", "bfloat16", 1)]


@pytest.mark.parametrize(("architecture", "precision", "wide"), mostly_slow(CASES, quick=QUICK))
@settings(max_examples=examples(25))
@given(tree=random_trees(), length=st.integers(0, 90), block=st.sampled_from(BLOCKS))
def test_each_token_gets_what_its_path_alone_would(
    architecture, precision, wide, tree, length, block
):
    """Wide models have quantized caches from their 21st token on."""
    model = model_of(architecture, precision, wide=bool(wide))
    quantized = QUANTIZED if wide else None
    assert_as_alone(model, length, tree, block=block, quantized=quantized)


@pytest.mark.cpu
@pytest.mark.parametrize("at_once", AT_ONCE)
@pytest.mark.parametrize(
    "length", mostly_slow([376, 383, 390, 505, 640, 763, 767, 890, 1_020], quick=[383])
)
def test_sums_over_many_keys(length, at_once, monkeypatch):
    """Beyond 384, a sum rounds by the places of what is summed."""
    monkeypatch.setattr(engine.cpu.trees, "_SUMS_IN_TURN", at_once)
    assert_as_alone(model_of("llama"), length, UNEVEN, block=128)


@pytest.mark.parametrize("at_once", AT_ONCE)
def test_a_tree_higher_than_the_window(at_once, monkeypatch):
    monkeypatch.setattr(engine.cpu.trees, "_SUMS_IN_TURN", at_once)
    tree = Tree((*range(-1, 22), 3, 23, 24))
    for length in (0, 9, 40):
        assert_as_alone(model_of("gemma3_text"), length, tree, block=40)


@pytest.mark.parametrize(
    ("architecture", "wide"),
    mostly_slow(
        product(["llama", "gemma3_text"], [False, True]),
        quick=[("llama", False), ("gemma3_text", True)],
    ),
)
@settings(max_examples=examples(20))
@given(tree=random_trees(), length=st.integers(0, 60), block=st.sampled_from(BLOCKS))
def test_one_masked_attention_comes_close(architecture, wide, tree, length, block):
    """As on a GPU, where kernels round by the number of rows in any case."""
    model, quantized = model_of(architecture, wide=wide), QUANTIZED if wide else None
    whole = reader(model, length, block=block, quantized=quantized)
    single = reader(model, length, block=block, quantized=quantized)
    tree = tree.first(whole.timeline.room())
    whole.device = replace(whole.device, exact_rows=False)
    logits = read_tree(whole, tree)
    for rows, expected in alone(single, tree):
        assert apart(logits[mx.array(rows)], expected) < (0.5 if wide else 1e-3)


@pytest.mark.parametrize(
    ("architecture", "length"),
    mostly_slow(
        product(["llama", "gemma3_text"], [0, 13, 41]), quick=[("llama", 13), ("gemma3_text", 41)]
    ),
)
def test_with_the_caches_of_a_gpu(architecture, length, monkeypatch):
    """Full attention has mlx-lm's own there, and a pass may cross the steps of a window."""
    monkeypatch.setitem(BACKENDS, mx.cpu, GPU)
    model, tree = model_of(architecture), Tree((*UNEVEN.parents, *range(9, 22)))
    whole, single = reader(model, length), reader(model, length)
    logits = read_tree(whole, tree)
    for rows, expected in alone(single, tree):
        assert apart(logits[mx.array(rows)], expected) < 1e-3
    path = tree.paths[-1]
    whole.keep(length, [length + row for row in path])
    single.read(ids_for(tree)[mx.array(list(path))])
    assert whole.length == single.length == length + len(path)
    following = mx.array([3, 4])
    assert apart(whole.read(following), single.read(following)) < 1e-3


def test_trees_beside_chains_and_other_trees():
    model, trees = model_of("gemma3_text"), [UNEVEN, None, Tree((COMMITTED, 0, 0)), None]
    lengths = (5, 12, 33, 40)
    together = [reader(model, length, block=40) for length in lengths]
    shapes = [tree or Tree.chain(3) for tree in trees]
    given_back = read_together(together, [ids_for(shape) for shape in shapes], trees)
    for length, shape, logits in zip(lengths, shapes, given_back, strict=True):
        for rows, expected in alone(reader(model, length, block=40), shape):
            assert mx.array_equal(logits[mx.array(rows)], expected)


# What is accepted stays


def assert_kept(model, rounds, *, length=0, quantized=None, block=16):
    """Of each round: the tree, the last token that is accepted of it, and how many committed tokens
    are unread in front of it."""
    reads = reader(model, length, quantized=quantized, block=block)
    tokens = TOKENS[:length]
    states = reads.record((1, "norm"))
    for tree, last, unread in rounds:
        room = reads.timeline.room()
        rows = min(unread, room - 1)
        tokens = [*tokens, *(TOKENS[100 + i] for i in range(rows))]
        tree = tree.first(room - rows)
        path = tree.path(last % (len(tree) + 1) - 1)
        if len(tree):
            ids = ids_for(tree).tolist()
            whole = [*tokens[len(tokens) - rows :], *ids]
            read_together([reads], [mx.array(whole)], [tree.behind(rows)])
            reads.keep(len(tokens), [len(tokens) + row for row in path])
            tokens = [*tokens, *(ids[row] for row in path)]
        tokens = tokens[: reads.length]
        assert reads.length == len(tokens)
        assert_as_fresh(reads, tokens, decoder(model, quantized=quantized, block=block))
        assert_recorded(states, model, tokens, quantized=quantized, block=block)


def assert_recorded(states, model, tokens, **options):
    fresh = decoder(model, **options)
    expected = fresh.record(states.taps)
    for _ in fresh.prefill([*tokens, 0]):
        pass
    assert states.end == len(tokens)
    if states.first < states.end:
        ours = states.between(states.first, states.end)
        assert mx.array_equal(ours, expected.between(states.first, states.end))


ROUNDS = st.lists(
    st.tuples(random_trees(), st.integers(0, 24), st.integers(0, 4)), min_size=1, max_size=5
)


@pytest.mark.parametrize(
    ("architecture", "precision", "wide"),
    mostly_slow(CASES, quick=[("llama", "float32", 1), ("gemma3_text", "float32", 0)]),
)
@settings(max_examples=examples(20))
@given(rounds=ROUNDS, length=st.integers(0, 50), block=st.sampled_from(BLOCKS[1:]))
def test_after_any_tree_and_any_path_caches_are_as_fresh(
    architecture, precision, wide, rounds, length, block
):
    model = model_of(architecture, precision, wide=bool(wide))
    quantized = QUANTIZED if wide else None
    assert_kept(model, rounds, length=length, quantized=quantized, block=block)


def test_the_trial_notices_a_tree_that_is_read_as_a_chain():
    by_row = property(lambda tree: tuple(range(len(tree))))
    with mock.patch.object(Tree, "depths", by_row):
        assert not can_share(model_of("llama"))


@pytest.mark.cpu
def test_room_counts_all_rows_of_a_tree():
    """Whose steps come by rows, not by depth: the rows are behind each other in the caches."""
    reads = reader(model_of("gemma3_text"), 20, block=16)
    room = reads.timeline.room()
    broad = Tree((COMMITTED,) * room)
    shapes = [(layer.base, layer.span(1)) for layer in reads.timeline.layers]
    read_tree(reads, broad)
    for layer, (_, span) in zip(reads.timeline.layers, shapes, strict=True):
        assert isinstance(layer, AlignedCache)
        assert (layer.base, layer.base + layer.keys_and_values()[0].shape[2]) == span
    reads.keep(20, [20 + room - 1])
    assert reads.timeline.room() == room - 1 or reads.timeline.room() > room
