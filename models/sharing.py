"""Which models several Macs can hold together, and how, by their configs alone.

In a pipeline each Mac has some layers; with tensor parallelism each has a part of every layer.
Knows architectures and counts; nothing of memory, and nothing of how the Macs are joined.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from models.architectures import number
from models.errors import Problem
from models.memory.shape import read_shape

Mode = Literal["pipeline", "tensor"]
MODES: tuple[Mode, ...] = ("pipeline", "tensor")  # the first that fits is taken

# Only architectures that were compared with one process, by tests/engine/cluster.
_PIPELINES = frozenset({
    "deepseek_v2", "deepseek_v3", "glm4_moe", "gpt_oss", "kimi_k2", "llama", "ministral3",
    "mistral", "qwen2", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next",
})  # fmt: skip
_DIVIDED = _PIPELINES - {"qwen3_next"}
_BY_MODE: dict[Mode, frozenset[str]] = {"pipeline": _PIPELINES, "tensor": _DIVIDED}

_REPEATED_HEADS = ("qwen3_5", "qwen3_5_moe")  # key and value heads, where there are too few
_WITHOUT_KEY_HEADS = ("deepseek_v2", "deepseek_v3", "kimi_k2")
_ONE_VECTOR = ("deepseek_v3", "kimi_k2")  # in the caches, for the keys and values of all heads
_HEADS = {
    "num_attention_heads": "attention heads",
    "num_key_value_heads": "key and value heads",
    "linear_num_key_heads": "key heads of linear attention",
    "linear_num_value_heads": "value heads of linear attention",
}
_WIDTHS = ("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size")


def architectures(mode: Mode) -> frozenset[str]:
    """Return the model types that can be held in this mode."""
    return _BY_MODE[mode]


def check(config: Mapping[str, Any], *, mode: Mode, ranks: int, split: Sequence[int] = ()) -> None:
    """Raise `Problem` if `ranks` Macs cannot hold the model with this config in this mode.

    `split`: the number of layers of each rank in a pipeline, rank 0's first, which are the model's
    last.
    """
    _check_architecture(config, mode)
    if mode == "tensor":
        _check_counts(config, ranks)
    else:
        _check_split(config, ranks, split)


def cache_parts(config: Mapping[str, Any], *, ranks: int) -> int:
    """Return the number of parts into which attention's caches are divided with tensor parallelism.
    A rank keeps its own heads, and at least one head, or the latent vector that replaces all heads.
    """
    kind = str(config.get("model_type"))
    if kind in _ONE_VECTOR:
        return 1
    heads = number(config, "num_key_value_heads") if kind in _REPEATED_HEADS else None
    return min(ranks, heads or ranks)


def _check_architecture(config: Mapping[str, Any], mode: Mode) -> None:
    kind = str(config.get("model_type"))
    if kind in architectures(mode):
        return
    if kind in _PIPELINES:
        raise Problem(
            f"{kind} cannot be divided between Macs with tensor parallelism.", "Use a pipeline."
        )
    raise Problem(
        f"Several Macs cannot hold a model of the architecture {kind[:80]!r} together.",
        f"These work: {', '.join(sorted(_PIPELINES))}.",
    )


def _check_counts(config: Mapping[str, Any], ranks: int) -> None:
    """Raise `Problem` unless every Mac gets the same number of heads, and as much of each
    matrix."""
    kind = str(config.get("model_type"))
    for name, words in _HEADS.items():
        count = number(config, name)
        if name == "num_key_value_heads":
            if kind in _WITHOUT_KEY_HEADS:
                continue
            if kind in _REPEATED_HEADS and count and ranks % count == 0:
                continue
        if count and count % ranks:
            raise _undivided(f"its {count} {words} cannot be divided by {ranks}")
    heads, width = number(config, "num_attention_heads"), number(config, "head_dim")
    widths = {name: number(config, name) for name in _WIDTHS}
    if heads and width and kind not in _WITHOUT_KEY_HEADS:
        widths["width of attention"] = heads * width
    settings = config.get("quantization") or config.get("quantization_config")
    group = (number(settings, "group_size") or 1) if isinstance(settings, Mapping) else 1
    for name, inner in widths.items():
        if inner and inner % (ranks * group):
            quantized = f", in groups of {group}" if group > 1 else ""
            raise _undivided(f"its {name} of {inner} cannot be divided by {ranks}{quantized}")


def _undivided(reason: str) -> Problem:
    return Problem(
        f"Tensor parallelism is not possible with this model: {reason}.",
        "Use a pipeline, or another number of Macs.",
    )


def _check_split(config: Mapping[str, Any], ranks: int, split: Sequence[int]) -> None:
    layers = [layer.kind for layer in read_shape(config).layers]
    if ranks > len(layers):
        raise Problem(
            f"{ranks} Macs cannot share the {len(layers)} layers of this model.",
            "Use fewer Macs.",
        )
    if not split:
        return
    if len(split) != ranks or min(split) < 1 or sum(split) != len(layers):
        raise Problem(
            f"{len(layers)} layers cannot be split into {list(split)} among {ranks} Macs.",
            "Give each Mac at least one layer.",
        )
    end = len(layers)
    for rank, count in enumerate(split):
        missing = set(layers) - set(layers[end - count : end])
        if missing:
            raise Problem(
                f"Rank {rank} would have no {sorted(missing)[0]} attention among its layers, "
                "and each Mac needs every kind of layer that the model has.",
                "Use fewer Macs, or a more even split.",
            )
        end -= count
