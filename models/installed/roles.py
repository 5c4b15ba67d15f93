"""What a model is for, as far as its config tells: to chat with, or only to draft for another.

Knows names of architectures; nothing of files.
"""

import re
from collections.abc import Mapping
from typing import Any

from models.architectures import known_to_mlx
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
    model_type = config.get("model_type")
    return isinstance(model_type, str) and known_to_mlx(model_type)


def _names(config: Mapping[str, Any]) -> list[str]:
    architectures = config.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    return [name for name in (config.get("model_type"), *names) if isinstance(name, str)]
