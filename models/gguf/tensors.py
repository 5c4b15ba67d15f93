"""Which tensor of a GGUF file becomes which of the MLX model, and how its rows change.

Reads the rows of `architectures.py`; knows names and shapes, and no formats.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.errors import Problem
from models.gguf.architectures import HEAD, OTHER_MODEL, Architecture
from models.gguf.file import GgufFile, GgufTensor, shown
from models.gguf.positions import POSITION_TENSORS

# What no quantizer touches, so that it says nothing of the format of the model.
_SMALL = ("norm.weight", ".bias", "ffn_gate_inp.weight", "conv.weight", "attn_sinks.weight")


@dataclass(frozen=True)
class Piece:
    """A tensor of the source, its name and shape in MLX, and its changes.

    heads: the number of heads whose interleaved halves are put one after the other; 0 moves
    nothing. offset: subtracted from each weight.
    """

    source: GgufTensor
    name: str
    shape: tuple[int, ...]
    heads: int = 0
    offset: float = 0.0

    @property
    def module(self) -> str:
        return self.name.removesuffix(".weight")

    @property
    def is_small(self) -> bool:
        """Whether files keep it in float32, in any format."""
        return self.source.name.endswith(_SMALL)


def pieces(
    file: GgufFile, architecture: Architecture, config: Mapping[str, Any]
) -> dict[str, Piece]:
    """Return every tensor that the model needs, by its name in the file; the output layer if
    present.

    Raises Problem if one is missing or misshapen, or if the file has any that MLX has no place for.
    """
    lengths = {**sizes(config), "1": 1}
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    needed = {
        name: place
        for name, place in architecture.outside.items()
        if name != HEAD or architecture.head == "always" or HEAD in file.tensors
    }
    for layer in range(config["num_hidden_layers"]):
        own = architecture.kinds[config["layer_types"][layer]] if architecture.kinds else {}
        for part, (mlx_name, axes) in {**architecture.layer, **own}.items():
            needed[f"blk.{layer}.{part}"] = (f"model.layers.{layer}.{mlx_name}", axes)
    if unknown := sorted(file.tensors.keys() - needed.keys() - POSITION_TENSORS - {HEAD}):
        raise Problem(
            f"{file.path.name} has the unexpected tensor {shown(unknown[0])}.", OTHER_MODEL
        )
    return {
        name: Piece(
            _found(file, name, tuple(lengths[axis] for axis in axes.split() if axis != "1")),
            mlx_name,
            tuple(lengths[axis] for axis in axes.split()),
            heads.get(name.split(".")[-2], 0) if architecture.interleaved else 0,
            architecture.norm_offset if name.endswith("norm.weight") else 0.0,
        )
        for name, (mlx_name, axes) in needed.items()
    }


def _found(file: GgufFile, name: str, shape: tuple[int, ...]) -> GgufTensor:
    tensor = file.tensors.get(name)
    if tensor is None or tensor.shape != shape:
        found = "is missing" if tensor is None else f"has shape {list(tensor.shape)}"
        raise Problem(
            f"Tensor {name} {found} in {file.path.name}; shape {list(shape)} is needed.",
            "The file is incomplete: download it again or from another publisher.",
        )
    return tensor


def sizes(config: Mapping[str, Any]) -> dict[str, int]:
    """Return the lengths that the shapes of `architectures.py` are made of, by name."""
    width, head_width = config["hidden_size"], config["head_dim"]
    inner = config["intermediate_size"]
    queries = config["num_attention_heads"] * head_width
    keys = config["num_key_value_heads"] * head_width
    return {
        "width": width,
        "three_widths": 3 * width,
        "vocabulary": config["vocab_size"],
        "heads": config["num_attention_heads"],
        "head_width": head_width,
        "queries": queries,
        "keys": keys,
        "queries_keys_values": queries + 2 * keys,
        "inner": inner,
        "gate_and_up": 2 * inner,
        "experts": config.get("num_experts", config.get("num_local_experts", 0)),
        "expert_inner": config.get("moe_intermediate_size", inner),
        "kernel": config.get("conv_L_cache", 0),
    }
