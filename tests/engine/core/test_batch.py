"""A pass for several decoders gives each what a pass of its own would, bit for bit, and reads into
each one's caches just that."""

import functools
from itertools import product
from unittest import mock

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.core.batch
from engine.core.batch import can_share, read_together
from engine.core.cache import QuantizedCaches
from engine.device import BACKENDS, GPU
from tests.support.engine import gemma4, mtp, tiny
from tests.support.engine.helpers import (
    BLOCK,
    assert_as_fresh,
    build_wide,
    contents,
    decoder,
    next_logits,
)
from tests.support.engine.tiny import build
from tests.support.mostly_slow import examples, mostly_slow

TOKENS = mx.random.randint(0, 64, (400,), key=mx.random.key(3)).tolist()
PRECISIONS = ("float32", "bfloat16", "float16", "4-bit")
LENGTHS = (5, 40, 300)
ROWS = ((1, 1, 1), (1, 2, 5), (5, 1, 3))

_DENSE = tiny._CONFIGS["llama"]
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
FURTHER = {
    "experts": ("mixtral", _DENSE | _EXPERTS),
    "sinks": ("gpt_oss", _DENSE | _EXPERTS | {"sliding_window": 16}),
    "shared keys": ("gemma4_text", gemma4.TARGETS["small"] | {"vocab_size_per_layer_input": 64}),
    "learned positions": (
        "gpt2",
        {
            "n_ctx": 512,
            "n_embd": 64,
            "n_head": 4,
            "n_layer": 4,
            "n_positions": 512,
            "layer_norm_epsilon": 1e-5,
        },
    ),
    "scaled by position": (
        "ministral3",
        _DENSE
        | {
            "rope_parameters": {
                "rope_theta": 1e4,
                "llama_4_scaling_beta": 0.1,
                "original_max_position_embeddings": 4,
            }
        },
    ),
    "yarn": (
        "llama",
        _DENSE
        | {
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
}
SHARED = ("llama", "qwen2", "qwen3", "gemma3_text", *FURTHER)
EXPERTS = ("experts", "sinks")  # which MLX computes on the CPU in float32, or quantized


def made(name, **options):
    architecture, sizes = FURTHER.get(name, (name, None))
    return build(architecture, sizes=sizes, **options)


@functools.lru_cache(maxsize=4)
def model_of(name, precision="float32"):
    if precision == "4-bit":
        return made(name, bits=4)
    return made(name, dtype=getattr(mx, precision))


def reader(model, length, **options):
    """One that has read the first `length` of `TOKENS`."""
    made = decoder(model, **options)
    for _ in made.prefill(TOKENS[: length + 1]):
        pass
    return made


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
    """Three passes, with something taken back in between."""
    together = [reader(model, length, block=128) for length in lengths]
    alone = [reader(model, length, block=128) for length in lengths]
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


CASES = [
    (name, precision)
    for name in SHARED
    for precision in PRECISIONS
    if name not in EXPERTS or precision in ("float32", "4-bit")
]
QUICK = [("llama", "4-bit"), ("gemma3_text", "float32")]


@pytest.mark.quick(1)
@pytest.mark.parametrize(("name", "precision"), mostly_slow(CASES, quick=QUICK))
def test_each_gets_what_it_would_have_got_alone(name, precision):
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


@pytest.mark.parametrize("name", mostly_slow(["llama", "gemma3_text"], quick=["gemma3_text"]))
@settings(max_examples=examples(25))
@given(data=st.data())
def test_whoever_reads_whatever_with_whom(name, data):
    """Windows move and caches become quantized, each at its own time."""
    quantized = QuantizedCaches(bits=4, group_size=32, start=21)
    model = wide(name)
    pairs = [[decoder(model, quantized=quantized, block=BLOCK) for _ in range(2)] for _ in range(3)]
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
        fresh = decoder(model, quantized=quantized, block=BLOCK)
        assert_as_fresh(one, TOKENS, fresh)


@functools.lru_cache
def wide(name):
    return build_wide(name)


# Hidden states


def test_each_records_its_own_states():
    model = model_of("gemma3_text")
    together = [reader(model, length) for length in (5, 12, 33)]
    alone = [reader(model, length) for length in (5, 12, 33)]
    taps = [[(1, 3), (0, "norm")], [], [(1, 3)]]
    recordings = [
        [(one.record(each), other.record(each)) for each in wanted]
        for one, other, wanted in zip(together, alone, taps, strict=True)
    ]
    for rows in ((2, 1, 3), (1, 4, 2)):
        tokens = behind(together, rows)
        read_together(together, tokens)
        for one, other, own in zip(together, alone, tokens, strict=True):
            other.read(own)
            one.rewind(one.length - 1)
            other.rewind(other.length - 1)
    compared = [pair for each in recordings for pair in each]
    assert len(compared) == 3
    for ours, theirs in compared:
        assert (ours.first, ours.end) == (theirs.first, theirs.end)
        states = ours.between(ours.first, ours.end)
        assert mx.array_equal(states, theirs.between(theirs.first, theirs.end))


# Errors


@pytest.mark.parametrize(
    ("layer", "quantized"),
    mostly_slow(
        product(range(4), [None, QuantizedCaches(group_size=32, start=13)]),
        quick=[(0, None), (3, QuantizedCaches(group_size=32, start=13))],
    ),
)
def test_an_error_in_a_pass_leaves_all_as_they_were(layer, quantized):
    model = wide("gemma3_text")
    lengths = (0, 13, 41)
    readers = [reader(model, length, quantized=quantized) for length in lengths]
    states = readers[1].record((1,))
    failing = model.layers[layer].mlp
    kind = type(failing)
    whole = kind.__call__

    def call(module, inputs):
        if module is failing:
            raise RuntimeError("out of memory")
        return whole(module, inputs)

    with (
        mock.patch.object(kind, "__call__", call),
        pytest.raises(RuntimeError, match="out of memory"),
    ):
        read_together(readers, behind(readers, (2, 1, 3)))

    assert [each.length for each in readers] == list(lengths)
    assert states.end == 13
    for each in readers:
        assert_as_fresh(each, TOKENS, decoder(model, quantized=quantized))


# What can be shared


@pytest.mark.parametrize(
    ("name", "precision"),
    mostly_slow(CASES, quick=[("shared keys", "float32"), ("sinks", "4-bit")]),
)
def test_what_can_be_shared(name, precision):
    assert can_share(model_of(name, precision))


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


def test_what_cannot():
    assert [kind for kind, make in ALONE.items() if can_share(make())] == []


def offsets_of_a_neighbour():
    whole = engine.core.batch._Layer.__init__

    def broken(layer, caches, parts, offset):
        whole(layer, caches, parts, mx.roll(offset, parts[0].rows.stop))

    return mock.patch.object(engine.core.batch._Layer, "__init__", broken)


def test_as_on_a_gpu(monkeypatch):
    """There, mlx-lm's own caches give masks of three kinds, and rounding is allowed."""
    monkeypatch.setitem(BACKENDS, mx.cpu, GPU)
    for name in ("llama", "gemma3_text"):
        assert_shared_as_alone(model_of(name), LENGTHS[:2], (4, 2))
        assert can_share(model_of(name))
    assert not can_share(build("mamba"))
    with offsets_of_a_neighbour():
        assert not can_share(model_of("llama"))
