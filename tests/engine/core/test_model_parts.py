"""The parts of a model are found by what they do; watching its layers changes nothing.

What is seen of layers is what they make, and it is bounded.
"""

import weakref
from types import SimpleNamespace

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import llama
from mlx_lm.models.cache import make_prompt_cache

import engine.core.model_parts
from engine.core.decoder import Decoder
from engine.core.model_parts import (
    HiddenStates,
    TapHook,
    calling,
    embedding,
    embedding_scale,
    final_norm,
    new_layer,
    output_layer,
    output_rows,
    standing_in,
    trunk,
)
from models.errors import Problem
from tests.support.engine import tiny
from tests.support.engine.tiny import ARCHITECTURES, build
from tests.support.mostly_slow import mostly_slow

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
LAYERS = (1, 2)
BATCH = mx.array([[5, 9, 61, 0, 33]])
ROWS = mx.array([3, 60, 7])


def made(kind):
    """Of two layers; one that is tied has its embedding for its output layer."""
    architecture, *how = kind.split(", ")
    bits = next((int(each[0]) for each in how if each.endswith("-bit")), None)
    sizes = tiny._CONFIGS[architecture] | {"tie_word_embeddings": True} if "tied" in how else None
    return build(architecture, bits=bits, sizes=sizes, layers=2)


KINDS = [
    *ARCHITECTURES,
    *(f"{name}, 4-bit" for name in ARCHITECTURES),
    *(f"{name}, tied" for name in ("llama", "qwen2", "qwen3")),
    "llama, tied, 8-bit",
]
QUICK = ["llama", "gemma3_text, 4-bit", "qwen3_5", "lfm2", "mamba", "llama, tied, 8-bit"]


def last_state(model, tokens):
    """What the last norm put out: (n, width)."""
    return trunk(model)(tokens, cache=make_prompt_cache(model))[0]


@pytest.mark.parametrize("kind", mostly_slow(KINDS, quick=QUICK))
def test_a_model_computes_with_the_parts_that_are_found(kind):
    model, seen = made(kind), []
    table, names = embedding(model), list(dict(model.named_modules()))
    embedded, logits, state = table(BATCH), model(BATCH), last_state(model, BATCH)
    assert embedded.shape[:2] == BATCH.shape
    assert float(mx.std(logits)) > 0.5  # else nearly anything would be close to them

    class Watched(type(table)):
        def __call__(self, tokens):
            seen.append(tokens)
            return super().__call__(tokens)

    watched, table.__class__ = type(table), Watched
    assert mx.array_equal(model(BATCH), logits)
    table.__class__ = watched
    assert len(seen) == 1
    assert mx.array_equal(seen[0], BATCH)

    rows = output_rows(model, ROWS)
    assert rows.shape == (ROWS.size, embedded.shape[-1])
    assert mx.issubdtype(rows.dtype, mx.floating)
    assert mx.allclose(state @ rows.T, logits[0][:, ROWS], atol=1e-3)
    assert mx.allclose(output_layer(model, ROWS)(state[None]), logits[..., ROWS], atol=1e-4)
    assert mx.allclose(output_layer(model)(state[None]), logits, atol=1e-5)

    hook = TapHook(model, (0, 1, "norm"))
    with hook.open():
        assert mx.array_equal(model(BATCH), logits)
    scaled = embedding_scale(model) * embedded
    assert mx.allclose(hook.seen[0], scaled, rtol=0.01, atol=1e-4)
    assert not mx.allclose(hook.seen[1], scaled, rtol=0.01, atol=1e-4)
    assert mx.array_equal(hook.seen["norm"], state[None])
    assert list(dict(model.named_modules())) == names

    weight, added = final_norm(model).weight, int("gemma" in kind)  # to what it multiplies by
    weight[:] = 3 * (weight + added) - added
    assert mx.allclose(last_state(model, BATCH), 3 * state, rtol=1e-4)


class Odd(nn.Module):
    """A model whose layers have a name that no one knows."""

    def __init__(self, **parts):
        super().__init__()
        self.model = nn.Module()
        for name, part in parts.items():
            self.model[name] = part


UNKNOWN = {
    "layers": lambda: trunk(Odd(stages=[nn.Identity()])),
    "embedding": lambda: embedding(Odd(layers=[nn.Identity()], tokens=nn.Embedding(4, 4))),
    "final norm": lambda: final_norm(Odd(layers=[nn.Identity()])),
    "attention": lambda: new_layer(build("mamba")),
    "no taps": lambda: Decoder(build("llama")).record(()),
    "taps after the last layer": lambda: Decoder(build("llama")).record((1, 5)),
    "taps before the embedding": lambda: Decoder(build("llama")).record((-1,)),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_a_model_does_not_have_is_refused(what):
    with pytest.raises(Problem):
        UNKNOWN[what]()


def straight(model, tokens):
    """The states after `LAYERS`, of one pass: (tokens, layers, width)."""
    hook = TapHook(model, LAYERS)
    with hook.open():
        model(mx.array([tokens]))
    return mx.stack([hook.seen[tap][0] for tap in LAYERS], axis=1)


def test_soft_caps_and_multipliers_are_the_targets_own():
    """The embedding of padding may be zero."""
    sizes = tiny._CONFIGS["llama"] | {"query_pre_attn_scalar": 16, "final_logit_softcapping": 3.0}
    model = build("gemma2", sizes=sizes, layers=2)
    state = last_state(model, BATCH)[None]
    assert float(mx.max(mx.abs(output_layer(model)(40 * state)))) <= 3.0
    assert float(mx.max(mx.abs(output_layer(model, ROWS)(40 * state)))) <= 3.0
    assert mx.allclose(output_layer(model)(state), model(BATCH), atol=1e-5)
    for scaled in (model, build("gemma3_text")):
        embed = embedding(scaled)
        embed.weight = mx.where(mx.arange(64)[:, None] > 0, embed.weight, 0.0)
        assert embedding_scale(scaled) == pytest.approx(8.0, rel=1e-3)


@pytest.mark.parametrize(
    "architecture", mostly_slow(ARCHITECTURES, quick=["gemma3_text", "qwen3_5"])
)
def test_a_decoder_records_what_it_reads(architecture):
    model = build(architecture)
    decoder = Decoder(model)
    states = decoder.record(LAYERS)
    decoder.read(mx.array(TOKENS[:6]))
    decoder.read(mx.array(TOKENS[6:]))
    assert (states.first, states.end) == (0, len(TOKENS))
    assert mx.allclose(states.between(0, len(TOKENS)), straight(model, TOKENS), atol=1e-4)
    assert mx.array_equal(states.between(4, 8), states.between(0, len(TOKENS))[4:8])


def test_the_states_are_the_layers_own_and_layers_stay_as_they_were():
    model = build("llama")
    kinds = [type(layer) for layer in model.layers]
    states = straight(model, TOKENS)
    hidden = model.model.layers[0](model.model.embed_tokens(mx.array([TOKENS])), "causal")
    assert mx.allclose(states[:, 0], hidden[0], atol=1e-5)
    with pytest.raises(InterruptedError), TapHook(model, (0, 1, "norm")).open():
        raise InterruptedError
    assert [type(layer) for layer in model.layers] == kinds


def test_recording_may_begin_late_and_holds_a_bounded_number(monkeypatch):
    monkeypatch.setattr(engine.core.model_parts, "RECORDED", 16)
    decoder = Decoder(build("llama"))
    decoder.read(mx.array(TOKENS))
    states = decoder.record(LAYERS)
    assert states.first == states.end == len(TOKENS)
    for round_ in range(20):
        decoder.read(mx.array(TOKENS[:3]))
        assert states.end == decoder.length == len(TOKENS) + 3 * (round_ + 1)
        assert states.end - states.first < 16 + 3
    decoder.rewind(states.first - 2)
    assert states.first == states.end == decoder.length


def test_a_recording_lasts_as_long_as_somebody_holds_it():
    decoder = Decoder(build("llama"))
    states = decoder.record(LAYERS)
    decoder.read(mx.array(TOKENS))
    assert decoder.record(LAYERS) is states
    other = decoder.record((1, "norm"))
    decoder.read(mx.array(TOKENS[:1]))
    assert states.end == other.end == len(TOKENS) + 1
    assert (states.first, other.first) == (0, len(TOKENS))
    last = len(TOKENS)
    assert mx.array_equal(states.between(last, last + 1)[:, 0], other.between(last, last + 1)[:, 0])
    gone = weakref.ref(states)
    del states
    assert gone() is None
    decoder.read(mx.array(TOKENS[:1]))
    assert other.end == len(TOKENS) + 2


@pytest.mark.parametrize(
    "architecture",
    mostly_slow([name for name in ARCHITECTURES if name != "mamba"], quick=["llama", "qwen3_5"]),
)
def test_a_new_layer_is_as_the_last_one_with_attention(architecture):
    model = build(architecture)
    last = [layer for layer in model.layers if "self_attn" in layer][-1]
    made = new_layer(model)
    assert type(made) is type(last)
    shapes, others = (dict(tree_flatten(layer.parameters())) for layer in (made, last))
    assert {n: a.shape for n, a in shapes.items()} == {n: a.shape for n, a in others.items()}
    assert not mx.array_equal(made.self_attn.q_proj.weight, last.self_attn.q_proj.weight)


def test_a_new_layer_for_a_target_of_which_the_last_layers_are_here():
    model = build("qwen3_5")  # layers 1 and 3 have attention
    inner = trunk(model)
    inner.layers = inner.layers[1:]
    last = inner.layers[-1]
    kind = type(last)
    last.__class__ = calling(kind, lambda *_: None)
    made = new_layer(model, before=1)
    assert type(made) is kind
    assert "self_attn" in made


def test_layers_call_what_stands_in_and_then_what_they_did(monkeypatch):
    monkeypatch.setattr(llama, "swiglu", lambda gate, x: gate + x)
    mlp, row = build("llama").layers[0].mlp, mx.ones((1, 1, 64))
    model = SimpleNamespace(layers=[{"mlp": mlp}])
    before = mlp(row)

    with standing_in(model, {"swiglu": lambda stock: lambda gate, x: 3.0 * stock(gate, x)}):
        meanwhile = mlp(row)

    np.testing.assert_allclose(meanwhile, 3.0 * before, rtol=1e-5)
    assert mx.array_equal(mlp(row), before)
    # A layer whose module is not imported is left alone.
    part, made = type("Part", (), {"__module__": "loaded.from.a.file"})(), []
    with standing_in(SimpleNamespace(layers=[{"part": part}]), {"swiglu": made.append}):
        assert not made


def test_states_that_are_moved_to_the_first_held_position_stay():
    """As those of a drafter's first round are, where it came when a text had begun; after a gap
    nothing before it is held."""
    states, rows = HiddenStates((1,), length=20), mx.arange(15.0).reshape(1, 5, 3)
    states.append(20, [rows])
    states.move([21, 23], 20)
    assert (states.first, states.end) == (20, 22)
    assert mx.array_equal(states.between(20, 22)[:, 0], rows[0, mx.array([1, 3])])
    states.move([20, 21], 19)  # which no one has seen
    assert states.first == states.end == 19
    states.append(19, [rows])
    states.append(27, [rows])
    assert (states.first, states.end) == (27, 32)


def test_what_was_recorded_row_by_row_is_joined_in_blocks(monkeypatch):
    """As much is read while a drafter is parked. A copy of each row would be a kernel for each."""
    states, rows = HiddenStates((1,)), mx.random.normal((1, 700, 3))
    for position in range(700):
        states.append(position, [rows[:, position : position + 1]])
    joined, concatenate = list[int](), mx.concatenate
    monkeypatch.setattr(
        mx, "concatenate", lambda parts, **more: joined.append(len(parts)) or concatenate(parts)
    )
    assert mx.array_equal(states.between(0, 700)[:, 0], rows[0])
    assert joined[0] < 90
    states.cut(321)
    assert mx.array_equal(states.between(100, 321)[:, 0], rows[0, 100:321])
