"""The size of a model: counted in a folder's headers, else estimated from the size of its files.

Knows configs and safetensors headers; nothing of machines, and nothing of how a model is used. No
weights are loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from models.drafters.folders import PUBLISHED, DrafterFolder
from models.drafters.kinds import DrafterDescription
from models.memory.shape import Shape, read_shape
from models.model_folder import ModelFolder
from models.safetensors_file import TensorLayout

# Tensors that mlx-lm does not load from a repository with more than a text model.
_NOT_LOADED = (
    "vision_tower",
    "visual",
    "multi_modal_projector",
    "mtp",
    "audio_tower",
    "vision_model",
)
_WIDTHS = {"F32": 4, "F16": 2, "BF16": 2}  # bytes of a number
_OF_GROUP = 0.5  # bits of a weight's part of the scale and the bias of its group


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The sizes of a model or a drafter.

    `size_bytes`: of its weight files. `weigh` counts `values`, the number of weights, and
    `value_bytes`, the size of an unquantized weight; both are 0 without a folder. `network`:
    the description of a network that reads the target's states; None for a whole model. `part`: the
    shape of a part of a model; None for all of it. `known`: the shape of the whole, if it was read
    before.
    """

    name: str
    size_bytes: int
    config: Mapping[str, Any]
    values: int = 0
    value_bytes: int = 0
    network: DrafterDescription | None = None
    part: Shape | None = None
    known: Shape | None = None

    @property
    def whole(self) -> Shape:
        """All its layers, and its widths. Raises Problem if the config is malformed."""
        return self.known or read_shape(self.config)

    @property
    def shape(self) -> Shape:
        """The layers that it has here, and its widths. Raises Problem likewise."""
        return self.part or self.whole


def weigh(folder: ModelFolder | DrafterFolder) -> ModelSize:
    """Return the size of a model or a drafter, from its config and headers. Raises Problem."""
    name, config = folder.name, folder.config
    if not isinstance(folder, DrafterFolder):
        return count(name, config, loaded_tensors(folder))
    network = None if folder.description.is_whole_model else folder.description
    tensors = folder.layouts if network else loaded_tensors(folder)
    held = sum(_held_bytes(layout, folder.held_bits) for layout in tensors.values())
    return replace(count(name, config, tensors), network=network, size_bytes=held)


def _held_bytes(layout: TensorLayout, bits: int) -> int:
    """The size of a drafter's tensor in memory: matrices of floats are held in these bits."""
    if bits == PUBLISHED or layout.dtype not in _WIDTHS or len(layout.shape) < 2:
        return layout.size_bytes
    return round(layout.size_bytes * (bits + _OF_GROUP) / (8 * _WIDTHS[layout.dtype]))


def loaded_tensors(folder: ModelFolder | DrafterFolder) -> dict[str, TensorLayout]:
    """Return the tensors of a model that are loaded. Raises Problem."""
    return {
        name: layout
        for name, layout in folder.layouts.items()
        if not any(part in _NOT_LOADED for part in name.split("."))
    }


def count(name: str, config: Mapping[str, Any], layouts: Mapping[str, TensorLayout]) -> ModelSize:
    """Return the size of a model with these tensors. Packed ones hold 32 bits of weights in each
    number."""
    values = 0
    floats: dict[int, int] = {}
    for tensor, layout in layouts.items():
        size = layout.size_bytes
        if layout.dtype == "U32":
            values += size * 8 // _bits(config, tensor.removesuffix(".weight"))
        elif not tensor.endswith((".scales", ".biases")):
            values += size // _WIDTHS.get(layout.dtype, 4)
        if layout.dtype in _WIDTHS:
            floats[_WIDTHS[layout.dtype]] = floats.get(_WIDTHS[layout.dtype], 0) + size
    return ModelSize(
        name,
        sum(layout.size_bytes for layout in layouts.values()),
        config,
        values,
        max(floats, key=floats.__getitem__, default=0),
    )


def _bits(config: Mapping[str, Any], layer: str = "") -> int:
    """Return the bits of a quantized layer's weights: its own, or the model's; 8 for a head."""
    settings = config.get("quantization") or config.get("quantization_config")
    if not isinstance(settings, Mapping):
        return 8
    own = settings.get(layer)
    for table in (own, settings):
        bits = table.get("bits") if isinstance(table, Mapping) else None
        if type(bits) is int and 1 <= bits <= 16:
            return bits
    return 8


def count_values(size: ModelSize) -> int:
    """Return the number of weights: counted, or estimated from the bits of each, with scales and
    biases."""
    if size.values:
        return size.values
    settings = size.config.get("quantization") or size.config.get("quantization_config")
    is_head = size.network is not None and size.network.kind == "head"
    if is_head or isinstance(settings, Mapping):
        group = settings.get("group_size") if isinstance(settings, Mapping) else None
        group = group if type(group) is int and group > 0 else 64
        return round(size.size_bytes * 8 / (_bits(size.config) + 32 / group))
    return size.size_bytes // float_bytes(size)


def float_bytes(size: ModelSize) -> int:
    """The size of a number that is not quantized, and so of the model's states."""
    named = size.config.get("torch_dtype") or size.config.get("dtype")
    return size.value_bytes or (4 if named == "float32" else 2)
