"""A pass for several decoders, or over a tree, gives each row what a pass of its own would, bit for
bit, and reads into each one's caches just what is accepted of it."""

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
from engine.core.cache import QuantizedCaches
from engine.device import BACKENDS, GPU
from engine.tree import COMMITTED, Tree
from tests.support.engine import gemma4, mtp, tiny
from tests.support.engine.helpers import (
    BLOCK,
    assert_as_fresh,
    build_wide,
    contents,
    decoder,
    having_read,
    next_logits,
)
from tests.support.engine.tiny import build
from tests.support.engine.trees import random_trees
from tests.support.mostly_slow import examples, mostly_slow

TOKENS = mx.random.randint(0, 64, (1_100,), key=mx.random.key(3)).tolist()
PRECISIONS = ("float32", "bfloat16", "float16", "4-bit")
LENGTHS = (5, 40, 140)
ROWS = ((1, 1, 1), (1, 2, 5), (5, 1, 3))
QUANTIZED = QuantizedCaches(bits=4, group_size=32, start=21)

_DENSE = tiny._CONFIGS["llama"]
FURTHER = tiny.configs("batch") | {
    "shared keys": {"model_type": "gemma4_text"}
    | gemma4.TARGETS["small"]
    | {"vocab_size_per_layer_input": 64}
}
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3_text")
SHARED = (*ARCHITECTURES, *FURTHER)
EXPERTS = ("experts", "sinks")  # which MLX computes on the CPU in float32, or quantized


@functools.lru_cache(maxsize=8)
def model_of(name, precision="float32", *, wide=False):
    options = {"bits": 4} if precision == "4-bit" else {"dtype": getattr(mx, precision)}
    if wide:
        return build_wide(name, **options)
    sizes = FURTHER.get(name)
    return build(sizes["model_type"] if sizes else name, sizes=sizes, **options)


def reader(model, length, **options):
    """One that has read the first `length` of `TOKENS`."""
    return having_read(TOKENS[:length], model, **options)


def behind(readers, rows):
    """The next so many of `TOKENS` for each."""
    return [
        mx.array(TOKENS[each.length : each.length + size])
        for each, size in zip(readers, rows, strict=True)
    ]


def assert_equal(one, other):
    """That both hold the same, and go on in the same way."""
    assert one.length == other.length
    ours, our_caches = next_logits(one, 7)
    theirs, their_caches = next_logits(other, 7)
    assert mx.array_equal(ours, theirs)
    for ours, theirs in zip(our_caches, their_caches, strict=True):
        assert type(ours) is type(theirs)
        for a, b in zip(contents(ours), contents(theirs), strict=True):
            assert mx.array_equal(a, b)


def assert_shared_as_alone(model, lengths, rows):
    """Three passes, with something taken back in between; but for the second, hidden states are
    recorded."""
    together = [reader(model, length, block=128) for length in lengths]
    alone = [reader(model, length, block=128) for length in lengths]
    recorded = [
        (one.record(taps), other.record(taps))
        for one, other in list(zip(together, alone, strict=True))[::2]
        for taps in ((1, 3), (0, "norm"))
    ]
    for back in (max(rows), 2, 0):
        tokens = behind(together, rows)
        expected = [each.read(own) for each, own in zip(alone, tokens, strict=True)]
        for ours, theirs in zip(read_together(together, tokens), expected, strict=True):
            assert ours.dtype == theirs.dtype
            assert mx.array_equal(ours, theirs)
        for one, other, size in zip(together, alone, rows, strict=True):
            one.rewind(one.length - min(size, back))
            other.rewind(other.length - min(size, back))
    for one, other in zip(together, alone, strict=True):
        assert_equal(one, other)
        assert_as_fresh(one, TOKENS, decoder(model, block=128))
    for ours, theirs in recorded:
        held = ours.first, ours.end
        assert held == (theirs.first, theirs.end)
        assert mx.array_equal(ours.between(*held), theirs.between(*held))


CASES = [
    (name, precision)
    for name in SHARED
    for precision in PRECISIONS
    if name not in EXPERTS or precision in ("float32", "4-bit")
]


@pytest.mark.parametrize(("name", "precision"), mostly_slow(CASES, quick=[("llama", "4-bit")]))
def test_each_gets_what_it_would_have_got_alone(name, precision):
    assert can_share(model_of(name, precision))
    for rows in ROWS:
        assert_shared_as_alone(model_of(name, precision), LENGTHS, rows)


def test_an_id_that_the_model_does_not_have_is_read_as_its_last_one():
    model = model_of("llama")
    readers = [reader(model, 5), reader(model, 9)]
    strange = read_together(readers, [mx.array([3, 999]), mx.array([64])])
    for each, length in zip(readers, (5, 9), strict=True):
        each.rewind(length)
    usual = read_together(readers, [mx.array([3, 63]), mx.array([63])])
    assert all(mx.array_equal(*logits) for logits in zip(strange, usual, strict=True))
    assert mx.array_equal(reader(model, 5).read(mx.array([3, 999])), usual[0])


@pytest.mark.parametrize("name", mostly_slow(["llama", "gemma3_text"], quick=["gemma3_text"]))
@settings(max_examples=examples(25))
@given(data=st.data())
def test_whoever_reads_whatever_with_whom(name, data):
    """Windows move and caches become quantized, each at its own time."""
    model, options = model_of(name, wide=True), {"quantized": QUANTIZED, "block": BLOCK}
    pairs = [[decoder(model, **options) for _ in range(2)] for _ in range(3)]
    for _ in range(data.draw(st.integers(1, 8))):
        members = data.draw(st.lists(st.sampled_from(pairs), min_size=1, unique_by=id))
        rows = [data.draw(st.integers(1, min(6, one.timeline.room()))) for one, _ in members]
        tokens = behind([one for one, _ in members], rows)
        expected = [other.read(own) for (_, other), own in zip(members, tokens, strict=True)]
        given_back = read_together([one for one, _ in members], tokens)
        for ours, theirs in zip(given_back, expected, strict=True):
            assert mx.array_equal(ours, theirs)
        for (one, other), size in zip(members, rows, strict=True):
            kept = one.length - data.draw(st.integers(0, size))
            one.rewind(kept)
            other.rewind(kept)
    for one, other in pairs:
        assert_equal(one, other)
        assert_as_fresh(one, TOKENS, decoder(model, **options))


@pytest.mark.parametrize(
    ("layer", "quantized"),
    mostly_slow(
        product(range(4), [None, QuantizedCaches(group_size=32, start=13)]),
        quick=[(0, None), (3, QuantizedCaches(group_size=32, start=13))],
    ),
)
def test_an_error_in_a_pass_leaves_all_as_they_were(layer, quantized):
    model = model_of("gemma3_text", wide=True)
    lengths = (0, 13, 41)
    readers = [reader(model, length, quantized=quantized) for length in lengths]
    states = readers[1].record((1,))
    failing = model.layers[layer].mlp
    kind, whole = type(failing), type(failing).__call__

    def call(module, inputs):
        if module is failing:
            raise InterruptedError
        return whole(module, inputs)

    with mock.patch.object(kind, "__call__", call), pytest.raises(InterruptedError):
        read_together(readers, behind(readers, (2, 1, 3)))

    assert [each.length for each in readers] == list(lengths)
    assert states.end == 13
    for each in readers:
        assert_as_fresh(each, TOKENS, decoder(model, quantized=quantized))


ALONE = {
    "gated delta nets": lambda: build("qwen3_5"),
    "short convolutions": lambda: build("lfm2"),
    "state spaces": lambda: build("mamba"),
    "latent attention": lambda: build("deepseek_v3", sizes=mtp.TARGETS["deepseek_v3"]),
    "attention of its own": lambda: build("gemma2", sizes=_DENSE | {"query_pre_attn_scalar": 16}),
    "a rotation that depends on the length": lambda: build(
        "llama", sizes=_DENSE | {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    ),
}


def test_what_can_be_shared():
    assert [kind for kind, make in ALONE.items() if can_share(make())] == []
    assert can_share(model_of("shared keys"))
    assert can_share(model_of("sinks", "4-bit"))


def test_as_on_a_gpu(monkeypatch):
    """There, mlx-lm's own caches give masks of three kinds, and rounding is allowed."""
    whole = engine.core.batch._Layer.__init__

    def with_offsets_of_a_neighbour(layer, caches, parts, offset):
        whole(layer, caches, parts, mx.roll(offset, parts[0].rows.stop))

    monkeypatch.setitem(BACKENDS, mx.cpu, GPU)
    for name in ("llama", "gemma3_text"):
        assert_shared_as_alone(model_of(name), LENGTHS[:2], (4, 2))
        assert can_share(model_of(name))
    assert not can_share(build("mamba"))
    monkeypatch.setattr(engine.core.batch._Layer, "__init__", with_offsets_of_a_neighbour)
    assert not can_share(model_of("llama"))


# --- Trees

BLOCKS = (8, 16, 40, 128)
AT_ONCE = [False, True] if engine.cpu.trees._SUMS_IN_TURN else [False]  # else path by path
UNEVEN = Tree((COMMITTED, COMMITTED, 0, 1, 0, 2, 2, 3, 5, 8))


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


TREES = [(a, precision, wide) for a in ARCHITECTURES for precision in PRECISIONS for wide in (0, 1)]
QUICK = [("llama", "4-bit", 0), ("gemma3_text", "bfloat16", 1)]


@pytest.mark.parametrize(("architecture", "precision", "wide"), mostly_slow(TREES, quick=QUICK))
@settings(max_examples=examples(25))
@given(tree=random_trees(), length=st.integers(0, 90), block=st.sampled_from(BLOCKS))
def test_each_token_gets_what_its_path_alone_would(
    architecture, precision, wide, tree, length, block
):
    """Wide models have quantized caches from their 21st token on."""
    model = model_of(architecture, precision, wide=bool(wide))
    quantized = QUANTIZED if wide else None
    assert_as_alone(model, length, tree, block=block, quantized=quantized)


HIGH = [("gemma3_text", length, Tree((*range(-1, 22), 3, 23, 24)), 40) for length in (0, 9, 40)]
MANY = (376, 383, 390, 505, 640, 763, 767, 890, 1_020)  # beyond 384 sums round by the places


@pytest.mark.cpu
@pytest.mark.parametrize("at_once", AT_ONCE)
@pytest.mark.parametrize(
    ("architecture", "length", "tree", "block"),
    mostly_slow(
        [*HIGH, *(("llama", length, UNEVEN, 128) for length in MANY)],
        quick=[*HIGH, ("llama", 383, UNEVEN, 128)],
    ),
)
def test_many_keys_and_trees_higher_than_the_window(
    architecture, length, tree, block, at_once, monkeypatch
):
    monkeypatch.setattr(engine.cpu.trees, "_SUMS_IN_TURN", at_once)
    assert_as_alone(model_of(architecture), length, tree, block=block)


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
        fresh = decoder(model, quantized=quantized, block=block)
        expected = fresh.record(states.taps)
        list(fresh.prefill([*tokens, 0]))
        assert states.end == len(tokens)
        if states.first < states.end:
            held = states.first, states.end
            assert mx.array_equal(states.between(*held), expected.between(*held))


ROUNDS = st.lists(
    st.tuples(random_trees(), st.integers(0, 24), st.integers(0, 4)), min_size=1, max_size=5
)


@pytest.mark.parametrize(
    ("architecture", "precision", "wide"),
    mostly_slow(TREES, quick=[("llama", "float32", 1), ("gemma3_text", "float32", 0)]),
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
