"""What a model is for, as far as its config tells: to chat with, or only to draft for another.

Knows names of architectures, and which of them mlx-lm has; nothing of files, and never imports
mlx-lm.
"""

import ast
import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from models.drafter_folders import HEAD_MODEL_TYPE
from models.records import Role

# Parts of the names that drafting networks go by: EAGLE, Medusa, Hydra, multi-token prediction,
# IBM's and vLLM's speculators, DFlash, Gemma 4's assistants.
_DRAFTS = re.compile(r"eagle|medusa|hydra(?!te)|mtp|nextn|specul|draft|dflash|assistant", re.I)
_DRAFTER_KEYS = ("draft_vocab_size", "eagle_config", "medusa_num_heads", "speculators_config")
_WRITES_TEXT = re.compile(r"(ForCausalLM|LMHeadModel)")


def role_of(config: Mapping[str, Any]) -> Role:
    """What the model with this config.json is for. What cannot be told is a model to chat with."""
    if config.get("model_type") == HEAD_MODEL_TYPE:
        return "head"
    if any(key in config for key in _DRAFTER_KEYS):
        return "drafter"
    return "drafter" if any(_DRAFTS.search(name) for name in _names(config)) else "chat"


def writes_text(config: Mapping[str, Any]) -> bool:
    """Whether this is a language model, and not one that embeds, hears or draws."""
    return (
        is_known(config)
        or role_of(config) != "chat"
        or any(_WRITES_TEXT.search(name) for name in _names(config))
    )


def is_known(config: Mapping[str, Any]) -> bool:
    """Whether mlx-lm has the config's architecture."""
    return config.get("model_type") in _known_to_mlx()


def _names(config: Mapping[str, Any]) -> list[str]:
    architectures = config.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    return [name for name in (config.get("model_type"), *names) if isinstance(name, str)]


@cache
def _known_to_mlx() -> frozenset[str]:
    """The architectures of the installed mlx-lm, and their other names, read off its sources."""
    found = importlib.util.find_spec("mlx_lm")
    known: set[str] = set()
    for place in map(Path, (found and found.submodule_search_locations) or ()):
        known |= {path.stem for path in place.glob("models/*.py")}
        for statement in ast.parse((place / "utils.py").read_text(encoding="utf-8")).body:
            match statement:
                case ast.Assign(targets=[ast.Name("MODEL_REMAPPING")], value=ast.Dict(keys)):
                    known |= {key.value for key in keys if isinstance(key, ast.Constant)}  # type: ignore[misc]
    return frozenset(known)
