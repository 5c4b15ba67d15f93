"""Finds the tower of a model: its family, and whether its files hold the weights."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from engine.vision import Tower
from engine.vision.gemma3 import Gemma3Tower
from engine.vision.gemma4 import Gemma4Tower
from engine.vision.lfm2_vl import Lfm2Tower
from engine.vision.qwen3_vl import QwenTower
from engine.vision.weights import refused_if_damaged
from models.errors import Problem
from models.model_folder import ModelFolder

_FAMILIES: Mapping[str, Callable[[ModelFolder], Tower]] = MappingProxyType(
    {
        "gemma3": Gemma3Tower,
        "gemma4": Gemma4Tower,
        "gemma4_unified": Gemma4Tower,
        "lfm2-vl": Lfm2Tower,
        "lfm2_vl": Lfm2Tower,
        "qwen3_vl": QwenTower,
        "qwen3_vl_moe": QwenTower,
        "qwen3_5": QwenTower,
        "qwen3_5_moe": QwenTower,
        "prism_hadamard_qwen35": QwenTower,
    }
)
_PROBES = ((64, 64), (3072, 2048))  # pixels of a small picture, and of the largest that come
_MOST_PATCHES, _MOST_PIXELS = 1 << 16, 1 << 25
_OTHER = "Choose a vision model, such as Qwen3-VL, Gemma 3 or LFM2-VL, or ask without a picture."


def tower_of(folder: ModelFolder) -> Tower | None:
    """Return the tower of the model in `folder`, whose weights are not read yet; None if the model
    cannot see. Raises `Problem` for damaged files."""
    family = _FAMILIES.get(folder.model_type)
    if family is None or not isinstance(folder.config.get("vision_config"), Mapping):
        return None
    with refused_if_damaged(folder):
        tower = family(folder)
        for grid in (tower.size_of(*size) for size in _PROBES):
            if grid.patches > _MOST_PATCHES or grid.height * grid.width > _MOST_PIXELS:
                raise ValueError("pictures are read at an absurd size")
    return tower if tower.weights_bytes else None


def require_tower(folder: ModelFolder) -> Tower:
    """Return the tower as `tower_of` does. Raises `Problem` if there is none, with the reason."""
    tower = tower_of(folder)
    if tower is not None:
        return tower
    if folder.model_type in _FAMILIES:
        raise Problem(
            f"{folder.name} cannot see pictures: this conversion lacks the vision part.",
            "Download a model made by mlx-vlm, or the original.",
        )
    raise Problem(f"{folder.name} cannot see pictures: it reads text only.", _OTHER)
