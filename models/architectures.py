"""What a config.json says, and the architectures that mlx-lm can build, without importing it."""

import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

# The keys of mlx_lm.utils.MODEL_REMAPPING; a test compares them.
BUILT_AS_ANOTHER = frozenset({
    "deepseek_v41_text", "falcon_mamba", "gemma4_unified", "iquestcoder", "joyai_llm_flash",
    "kimi_k2", "llava", "minimax_m2", "mistral", "phi-msft", "qwen2_5_vl", "xverse",
})  # fmt: skip


def spelled(model_type: str) -> str:
    """Return a model type as mlx-lm spells it: LFM2-VL's makers have changed theirs."""
    return "lfm2-vl" if model_type == "lfm2_vl" else model_type


@cache
def known_to_mlx(model_type: str) -> bool:
    """Whether mlx-lm has a module for that model type."""
    model_type = spelled(model_type)
    if model_type in BUILT_AS_ANOTHER:
        return True
    found = importlib.util.find_spec("mlx_lm")
    if found is None or re.fullmatch(r"[\w-]{1,100}", model_type, re.ASCII) is None:
        return False
    return any(
        (Path(place) / "models" / f"{model_type}.py").is_file()
        for place in found.submodule_search_locations or ()
    )


def text_fields(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a config.json; its text model's count before the others."""
    nested = config.get("text_config")
    return {**config, **nested} if isinstance(nested, Mapping) else config


def number(config: Mapping[str, Any], *keys: str) -> int | None:
    """Return the first positive whole number under `keys`, of the text model or of the whole; None
    without one."""
    values = (table.get(key) for table in (text_fields(config), config) for key in keys)
    return next((value for value in values if type(value) is int and value > 0), None)
