"""The parts of a model are found by what they do: together they are the model."""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models.cache import make_prompt_cache

from engine.anatomy import embedding, final_norm, output_rows, trunk
from models.errors import Problem
from tests.support.engine import tiny

TOKENS = mx.array([[5, 9, 61, 0, 33]])
ROWS = mx.array([3, 60, 7])


def tied(architecture: str) -> nn.Module:
    """One whose output layer is its embedding."""
    with pytest.MonkeyPatch.context() as patch:
        config = tiny._CONFIGS[architecture] | {"tie_word_embeddings": True}
        patch.setitem(tiny._CONFIGS, architecture, config)
        return tiny.build(architecture)


MODELS = {name: lambda name=name: tiny.build(name) for name in tiny.ARCHITECTURES}
MODELS |= {f"{name}, tied": lambda name=name: tied(name) for name in ("llama", "qwen2", "qwen3")}
MODELS |= {
    f"{name}, 4-bit": lambda name=name: tiny.build(name, bits=4) for name in tiny.ARCHITECTURES
}
MODELS |= {"llama, tied, 8-bit": lambda: _quantized(tied("llama"))}


def _quantized(model: nn.Module) -> nn.Module:
    nn.quantize(model, group_size=32, bits=8)
    return model


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    return MODELS[request.param]()


def last_state(model: nn.Module, tokens: mx.array) -> mx.array:
    """What the last norm put out: (n, width)."""
    return trunk(model)(tokens, cache=make_prompt_cache(model))[0]


def test_the_trunk_holds_the_layers(model: nn.Module) -> None:
    layers = trunk(model)["layers"]
    assert len(layers) == len(model.layers)
    assert all(ours is theirs for ours, theirs in zip(layers, model.layers, strict=True))


def test_the_embedding_is_what_the_model_reads(model: nn.Module) -> None:
    table = embedding(model)
    before = table(TOKENS)
    assert before.shape[:2] == TOKENS.shape
    logits = model(TOKENS)
    seen: list[mx.array] = []

    class Watched(type(table)):  # type: ignore[misc]
        def __call__(self, tokens: mx.array) -> mx.array:
            seen.append(tokens)
            return super().__call__(tokens)

    table.__class__ = Watched
    assert mx.array_equal(model(TOKENS), logits)
    assert len(seen) == 1
    assert mx.array_equal(seen[0], TOKENS)


def test_output_rows_give_their_tokens_logits(model: nn.Module) -> None:
    rows = output_rows(model, ROWS)
    assert rows.shape == (ROWS.size, embedding(model)(ROWS).shape[-1])
    assert mx.issubdtype(rows.dtype, mx.floating)
    logits = model(TOKENS)[0][:, ROWS]
    assert float(mx.std(logits)) > 0.5  # else nearly anything would be close to them
    assert mx.allclose(last_state(model, TOKENS) @ rows.T, logits, atol=1e-3)


def test_the_final_norm_is_the_one_before_the_output(model: nn.Module, request: Any) -> None:
    weight = final_norm(model)
    if "gemma" in request.node.callspec.id:
        assert weight is None  # it multiplies by 1 + weight: not a plain one
        return
    assert weight is not None
    before = last_state(model, TOKENS)
    weight[:] = 3 * weight
    assert mx.allclose(last_state(model, TOKENS), 3 * before, rtol=1e-4)


class Odd(nn.Module):
    """A model whose layers have a name that nobody knows."""

    def __init__(self, **parts: Any) -> None:
        super().__init__()
        self.model = nn.Module()
        for name, part in parts.items():
            self.model[name] = part


def test_an_anatomy_that_nobody_knows() -> None:
    with pytest.raises(Problem, match="layers are not in one list"):
        trunk(Odd(stages=[nn.Identity()]))
    with pytest.raises(Problem, match="embedding was not found"):
        embedding(Odd(layers=[nn.Identity()], tokens=nn.Embedding(4, 4)))
    assert final_norm(Odd(layers=[nn.Identity()], norm=nn.LayerNorm(4))) is None
    assert final_norm(Odd(layers=[nn.Identity()])) is None
