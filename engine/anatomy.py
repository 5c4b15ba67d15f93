"""Where a model that mlx-lm loaded keeps its parts: architectures name them differently."""

from collections.abc import Iterator

import mlx.core as mx
import mlx.nn as nn

from models.errors import Problem

_TRUNKS = ("model", "language_model", "backbone", "transformer")
_EMBEDDINGS = ("embed_tokens", "embeddings", "wte", "word_embeddings", "tok_embeddings")
_NORMS = ("norm", "ln_f", "norm_f", "final_layernorm", "embedding_norm")


def trunk(model: nn.Module) -> nn.Module:
    """The module that holds the list of layers."""
    *_, inner = _downwards(model)
    return inner


def embedding(model: nn.Module) -> nn.Module:
    """What turns token ids into vectors."""
    inner = trunk(model)
    name = next((name for name in _EMBEDDINGS if name in inner), None)
    if name is None:
        raise Problem("This target's embedding was not found.", "Choose another drafter.")
    return inner[name]


def output_rows(model: nn.Module, rows: mx.array) -> mx.array:
    """The output layer's vectors for the token ids `rows`: (rows, width), floats."""
    head = next((inner["lm_head"] for inner in _downwards(model) if "lm_head" in inner), None)
    if head is None:
        return embedding(model)(rows)
    if not isinstance(head, nn.QuantizedLinear):
        return head.weight[rows]
    biases = None if head.biases is None else head.biases[rows]
    return mx.dequantize(
        head.weight[rows], head.scales[rows], biases, head.group_size, head.bits, head.mode
    )


def final_norm(model: nn.Module) -> mx.array | None:
    """The weight of the norm before the output layer, where it is a plain one."""
    inner = trunk(model)
    norm = next((inner[name] for name in _NORMS if name in inner), None)
    return norm.weight if isinstance(norm, nn.RMSNorm) else None


def _downwards(model: nn.Module) -> Iterator[nn.Module]:
    """The model, what is in it, ... down to the module that holds the list of layers."""
    inner = model
    yield inner
    while "layers" not in inner and "h" not in inner:
        name = next((name for name in _TRUNKS if name in inner), None)
        if name is None:
            raise Problem("This target's layers are not in one list.", "Choose another drafter.")
        inner = inner[name]
        yield inner
