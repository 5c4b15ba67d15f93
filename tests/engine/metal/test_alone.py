"""Rows one at a time: which layers compute so, and when; attention reads each row as if alone."""

from functools import partial
from types import SimpleNamespace
from unittest import mock

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models.dots1 import Dots1TopkRouter
from mlx_lm.models.switch_layers import SwitchGLU

from engine.core import split_attention
from engine.core.decoder import Decoder
from engine.core.split_attention import as_alone
from engine.device import GPU
from engine.metal import few_rows
from engine.metal.alone import cannot_be_exact, install, remove
from models.limits import FEW_ROWS
from tests.support.engine.backends import computing_as, rounded
from tests.support.engine.recurrent import build as recurrent
from tests.support.engine.tiny import build
from tests.support.metal import stock
from tests.support.metal.device import SHIM, model_of
from tests.support.metal.shim import needs_a_compiler


@pytest.fixture(autouse=True)
def _rounding(monkeypatch):
    """Products are rounded by their number of rows."""
    for kind, name in (
        (nn.Linear, "__call__"),
        (nn.QuantizedLinear, "__call__"),
        (nn.Embedding, "as_linear"),
        (nn.QuantizedEmbedding, "as_linear"),
    ):
        monkeypatch.setattr(kind, name, rounded(getattr(kind, name)))


LAYERS = {
    "float": lambda: nn.Linear(96, 40),
    "affine": lambda: nn.QuantizedLinear(64, 40, group_size=32, bits=4),
    "microscaled": lambda: nn.QuantizedLinear(96, 40, mode="mxfp4"),
    "head": lambda: nn.Embedding(40, 96),
    "quantized head": lambda: nn.QuantizedEmbedding(40, 96, mode="mxfp8"),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_each_row_is_computed_alone(kind):
    layer = LAYERS[kind]()
    model = nn.Sequential(layer)
    call = partial(getattr(type(layer), "as_linear", type(layer).__call__), layer)
    x = mx.random.normal((1, FEW_ROWS + 1, 64 if kind == "affine" else 96))
    alone = [call(row) for row in mx.split(x, x.shape[1], axis=1)]
    before = {rows: call(x[:, :rows]) for rows in (1, 2, 5, FEW_ROWS, FEW_ROWS + 1)}
    install(model)
    install(model)  # once more changes nothing
    call = layer.as_linear if hasattr(layer, "as_linear") else layer
    for rows, stock_result in before.items():
        expected = mx.concatenate(alone[:rows], axis=1)
        assert mx.array_equal(call(x[:, :rows]), expected) == (rows <= FEW_ROWS)
        assert mx.array_equal(stock_result, expected) == (rows == 1), "it does not round"
        if rows <= FEW_ROWS:  # the rows of a tree, or of several answers
            assert mx.array_equal(call(x[:, :rows].swapaxes(0, 1)), expected.swapaxes(0, 1))
    assert mx.array_equal(call(x), before[FEW_ROWS + 1])
    remove(model)
    assert type(layer).__module__.startswith("mlx.")


def test_what_picks_experts_by_a_matrix_is_computed_alone():
    sizes = {"n_routed_experts": 6, "num_experts_per_tok": 2, "hidden_size": 32, "n_group": 1}
    sizes |= {"topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.0}
    router = Dots1TopkRouter(SimpleNamespace(**sizes))
    router.weight = mx.random.normal(router.weight.shape)
    x, called = mx.random.normal((1, 5, 32)), list[int]()
    expected, product = router(x), mx.array.__matmul__

    def counted(one, other):
        called.append(one.shape[1])
        return product(one, other)

    install(nn.Sequential(router))
    with mock.patch.object(mx.array, "__matmul__", counted):
        picked = router(x)
    assert called == [1] * 5
    for one, other in zip(picked, expected, strict=True):
        assert one.shape == other.shape == (1, 5, 2)
    assert mx.array_equal(picked[0], expected[0])


@pytest.mark.parametrize(("count", "calls"), [(2, 9), (40, 1)])
def test_experts_are_split_only_where_mlx_would_make_tiles_of_them(count, calls):
    experts = SwitchGLU(32, 32, count)
    x, indices = mx.random.normal((1, 9, 32)), mx.random.randint(0, count, (1, 9, 8))
    expected = experts(x, indices)
    install(nn.Sequential(experts))
    with mock.patch.object(
        SwitchGLU, "__call__", autospec=True, side_effect=SwitchGLU.__call__
    ) as made:
        given = experts(x, indices)
    assert made.call_count == calls
    assert given.shape == expected.shape
    assert mx.allclose(given, expected, atol=1e-5)


def test_a_kernel_stands_in_before_rows_alone():
    model, runs = model_of("llama"), list[str]()

    def run(**_):
        def call(*, output_shapes, **_):
            runs.append("kernel")
            return [mx.zeros(shape) for shape in output_shapes]

        return call

    few_rows.install(model, few_rows.shapes_of(model), run=run)
    install(model)  # either one may come first
    model.lm_head(mx.zeros((1, 3, 96)))
    assert runs == ["kernel"]
    remove(model)
    assert type(model.lm_head) is nn.QuantizedLinear
    model.lm_head(mx.zeros((1, 3, 96)))
    assert runs == ["kernel"]


def test_which_models_cannot_be_exact():
    assert cannot_be_exact(model_of("llama")) is None
    assert cannot_be_exact(model_of("qwen3_moe")) is None
    assert cannot_be_exact(build("llama", dtype=mx.bfloat16))
    assert cannot_be_exact(recurrent("kimi_linear", bits=4))  # which reads a row in another way


@needs_a_compiler
@pytest.mark.parametrize("places", [700, 1025])
def test_attention_reads_each_row_as_alone(places):
    """With MLX's own kernels, whose blocks depend on the rows once they need two passes."""
    attention = partial(stock.attention, shim=SHIM)
    queries, keys, values = (
        mx.random.normal((1, heads, count, 64), key=mx.random.key(heads + count))
        for heads, count in ((4, 4), (2, places), (2, places + 1))
    )
    values, rows = values[:, :, :places], 4
    options = {"cache": None, "scale": 0.125}
    alone = mx.concatenate(
        [
            attention(
                queries[:, :, row : row + 1],
                keys[:, :, :seen],
                values[:, :, :seen],
                **options,
                mask=None,
            )
            for row, seen in enumerate(range(places - rows + 1, places + 1))
        ],
        axis=2,
    )
    given = queries, keys, values
    assert mx.array_equal(as_alone(attention)(*given, **options, mask="causal"), alone)
    together = attention(*given, **options, mask="causal")
    assert mx.array_equal(together, alone) == (places < 1024)
    exact = mx.fast.scaled_dot_product_attention(*given, scale=0.125, mask="causal")
    assert mx.allclose(together, exact, atol=1e-5), "not MLX's attention"


def test_a_model_attends_so_while_stand_ins_are_installed():
    model = build("llama")
    with computing_as(GPU):
        decoder = Decoder(model)
    for put in (install, remove):
        put(model)
        with (
            computing_as(GPU),
            mock.patch.object(split_attention, "split", wraps=split_attention.split) as splits,
        ):
            decoder.read(mx.arange(5))
        assert splits.call_count == (len(model.layers) if put is install else 0)


def test_attention_goes_row_by_row_only_where_it_must():
    def rows_of_calls(heads, rows, places, width=64):
        calls = list[int]()

        def counted(queries, *_, **more):
            calls.append(queries.shape[2])
            return queries

        shapes = (1, heads, rows, width), *[(1, 2, places, width)] * 2
        as_alone(counted)(*map(mx.zeros, shapes), cache=None, scale=1.0, mask="causal")
        return calls

    assert rows_of_calls(4, 4, 1023) == [4]
    assert rows_of_calls(16, 6, 1023) == [4, 2]
    assert rows_of_calls(4, 3, 1024) == [1, 1, 1]
    assert rows_of_calls(4, 3, 40, width=80) == [1, 1, 1], "no kernel for this width"
    assert rows_of_calls(4, FEW_ROWS + 1, 1024) == [FEW_ROWS + 1], "the rows of a prompt"
