"""The kernel's text on the CPU: each row has the bits that MLX's own kernel gives it alone.

Both are compiled from Metal, MLX's from the installed package, and compared in any order in which
lanes may be summed, with and without fused multiplication and addition. So the text that is drafted
by whole passes is plain decoding's, although every rounding shows in it. With MLX's own kernels for
several rows the same comparisons fail.
"""

from itertools import product as combined

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.core.decoder import Decoder
from engine.drafters import NoDrafter
from engine.metal.few_rows import Shape, install, product, remove, shapes_of
from models.limits import FEW_ROWS
from tests.support.engine.helpers import PROMPT, Known, now_and_then, run_greedily
from tests.support.metal.device import MODELS, exactly, model_of, on_metal
from tests.support.metal.shim import ORDERS, Shim, needs_a_compiler
from tests.support.metal.stock import quantized_matmul
from tests.support.mostly_slow import mostly_slow

pytestmark = needs_a_compiler

BITS, GROUPS = (2, 3, 4, 5, 6, 8), (32, 64, 128)
TYPES = (mx.float32, mx.bfloat16, mx.float16)
WHOLE = (1536, 21)  # inputs and outputs
WITH_TAIL = {32: (672, 20), 64: (576, 13), 128: (640, 7)}


def layer_of(inputs, outputs, bits, group, dtype):
    """A layer whose groups differ in scale, as a model's do."""
    mx.random.seed(bits * group + inputs)
    layer = nn.QuantizedLinear(inputs, outputs, False, group, bits)
    spread = mx.exp(mx.random.normal(layer.scales.shape))
    layer.scales, layer.biases = layer.scales * spread, layer.biases * spread
    layer.set_dtype(dtype)
    mx.eval(layer.parameters())
    return layer


def rows_for(layer, count):
    """Rows with a few large numbers, as a model's have, in the layer's type."""
    inputs = layer.scales.shape[1] * layer.group_size
    keys = mx.random.split(mx.random.key(count), 2)
    large = mx.where(mx.random.uniform(shape=(inputs,), key=keys[0]) < 0.02, 30.0, 1.0)
    return (mx.random.normal((count, inputs), key=keys[1]) * large).astype(layer.scales.dtype)


def stock(layer, x, shim):
    """MLX's own result."""
    given = layer.weight, layer.scales, layer.biases
    return quantized_matmul(x, *given, group_size=layer.group_size, bits=layer.bits, shim=shim)


def different(one, other):
    """How many numbers differ in a bit."""
    assert one.shape == other.shape
    kind = mx.uint32 if one.dtype == mx.float32 else mx.uint16
    return int(mx.sum(one.view(kind) != other.view(kind)).item())


def compare(layer, counts, *, shim):
    """Compare passes of so many rows with their rows alone; returns how many numbers."""
    x, compared = rows_for(layer, max(counts)), 0
    alone = mx.concatenate([stock(layer, row, shim) for row in mx.split(x, max(counts))])
    for rows in counts:
        together = product(layer, x[-rows:], run=shim.metal_kernel)
        assert different(together, alone[-rows:]) == 0, (Shape.of(layer), rows, shim)
        compared += together.size
    return compared


@pytest.mark.parametrize(
    ("bits", "group", "dtype", "whole"),
    [
        (2, 32, mx.float32, False),
        (3, 64, mx.float32, True),
        (4, 32, mx.float32, True),
        (4, 64, mx.bfloat16, False),
        (5, 128, mx.float32, False),
        (6, 64, mx.float32, False),
        (8, 128, mx.float16, True),
    ],
)
def test_rows_have_the_bits_of_rows_alone(bits, group, dtype, whole):
    layer = layer_of(*(WHOLE if whole else WITH_TAIL[group]), bits, group, dtype)
    assert compare(layer, (9,), shim=Shim(1 + 3 * whole)) > 0  # a tile of 5, and one of 4


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_shape_has_the_bits_of_rows_alone(dtype, bits, group):
    for sizes, contract in combined((WHOLE, WITH_TAIL[group]), (False, True)):
        layer = layer_of(*sizes, bits, group, dtype)
        counts = (2, 5, 8, 16) if contract else (*range(2, 10), 16, FEW_ROWS)
        for order in range(ORDERS):
            assert compare(layer, counts, shim=Shim(order, contract)) > 0


def test_numbers_are_those_of_the_wider_type():
    """As `mx.quantized_matmul` has them: the trial on a Mac compares 16-bit layers in float32."""
    layer = layer_of(*WITH_TAIL[32], 4, 32, mx.bfloat16)
    x, shim = rows_for(layer, 3).astype(mx.float32), Shim()
    alone = mx.concatenate([stock(layer, row, shim) for row in mx.split(x, 3)])
    together = product(layer, x[None], run=shim.metal_kernel)
    assert together.dtype == mx.float32
    assert different(together[0], alone) == 0


def test_shapes_are_those_that_the_kernel_serves():
    shapes = shapes_of(model_of("llama"))
    assert sum(map(len, shapes.values())) == 2 * 7 + 2
    assert Shape(96, 512, 4, 32, "float32", "affine") in shapes
    layer = nn.QuantizedLinear
    served = [layer(96, 8, bits=4, group_size=32), layer(64, 8, bits=6, group_size=32)]
    others = [layer(64, 8, bits=4, group_size=32), layer(96, 8, mode="mxfp4"), nn.Linear(96, 8)]
    others += [layer(96, 2, bits=4, group_size=32), layer(128, 8, bits=2, group_size=64)]
    found = [one for each in shapes_of(nn.Sequential(*served, *others)).values() for one in each]
    assert {id(layer) for layer in found} == {id(layer) for layer in served}


def test_a_layer_adds_its_bias_as_it_does_for_a_row():
    layer, shim = layer_of(*WITH_TAIL[32], 4, 32, mx.float32), Shim()
    layer.bias = mx.random.normal((len(layer.weight),))
    x, model = rows_for(layer, 4), nn.Sequential(layer)
    alone = mx.concatenate([stock(layer, row, shim) + layer.bias for row in mx.split(x, 4)])
    install(model, shapes_of(model), run=shim.metal_kernel)
    assert different(model(x[None])[0], alone) == 0
    assert different(model(x[:, None])[:, 0], alone) == 0, "rows of several answers"


def test_only_layers_of_these_shapes_change():
    model, shim = model_of("llama"), Shim()
    x = mx.random.normal((1, 5, 96))
    attention = model.layers[0].self_attn
    before = attention.q_proj(x), attention.k_proj(x)
    install(model, {Shape.of(attention.k_proj)}, run=shim.metal_kernel)
    try:
        assert different(attention.q_proj(x), before[0]) == 0
        assert different(attention.k_proj(x), before[1]) > 0
        assert different(attention.k_proj(x[:, :1]), before[1][:, :1]) == 0, "a single row"
        many = mx.concatenate([x] * 4, axis=1)
        assert different(attention.k_proj(many)[:, :5], before[1]) == 0, "the rows of a prompt"
    finally:
        remove(model)
    assert type(attention.k_proj) is nn.QuantizedLinear
    assert different(attention.k_proj(x), before[1]) == 0


# --- Whole passes

BLOCK = 64  # larger than a pass
KINDS = ("llama", "qwen3_moe", "qwen3_5")  # dense, with experts, with recurrent layers
RUNS, PARTS, TOKENS = 68, 4, 16  # of each kind; parts, as a test may not take minutes


def logits_of(model, passes):
    """The logits of tokens after a prompt that are read in passes of so many rows."""
    decoder, tokens = Decoder(model, block=BLOCK), mx.arange(sum(passes)) * 37 % 64
    list(decoder.prefill([3, 0]))
    logits, first = list[mx.array](), 0
    for rows in passes:
        decoder.begin_round([0] * (1 + first))
        logits.append(decoder.read(tokens[first : first + rows]))
        first += rows
    return mx.concatenate(logits)


def other_tokens(model, seed, count):
    """How many drafted tokens differ from plain decoding's."""

    def text(length):
        drafter = Known([*prompt, *plain], wrong=now_and_then(seed)) if length else NoDrafter()
        return run_greedily(
            model,
            lambda _: drafter,
            length,
            count=count,
            prompt=prompt,
            block=BLOCK,
            check_caches=False,
        ).tokens

    prompt, plain = [(token + seed) % 64 for token in PROMPT], list[int]()
    plain = text(0)
    return sum(one != other for one, other in zip(plain, text(2 + seed % 6), strict=True))


PASSES = ((3, 2), *((rows, 1, rows) for rows in (*range(2, 10), 16, FEW_ROWS)))


@pytest.mark.parametrize(
    ("kind", "passes"),
    mostly_slow(combined(MODELS, PASSES), quick=[(kind, (3, 2)) for kind in [*MODELS][2:]]),
)
def test_rows_of_a_pass_have_the_logits_of_rows_alone(kind, passes):
    model = model_of(kind)
    with on_metal():
        alone = logits_of(model, [1] * sum(passes))
        with exactly(model):
            assert different(logits_of(model, passes), alone) == 0
        assert different(logits_of(model, passes), alone) > 0, "MLX's wide kernel is not noticed"


FEW = [(kind, 0, 6, (3,)) for kind in KINDS]
MANY = [(kind, 1, TOKENS, range(part, RUNS, PARTS)) for kind in KINDS for part in range(PARTS)]


@pytest.mark.parametrize(
    ("kind", "seed", "count", "texts"), mostly_slow([*FEW, *MANY], quick=FEW[:1])
)
def test_drafted_text_is_plain_text(kind, seed, count, texts):
    model = model_of(kind, seed)
    with on_metal():
        with exactly(model):
            assert [text for text in texts if other_tokens(model, text, count)] == []
        assert any(other_tokens(model, text, count) for text in texts[:3]), "nothing is noticed"
