"""Builds the model of a folder from its config.json, whichever release of transformers wrote it.

transformers 5 states positions in `rope_parameters` (for each kind of layer, where kinds differ),
the kind of each layer in `layer_types`, and some numbers under names of its own. Where mlx-lm finds
no key it takes a default without a word, and the model writes another text.
"""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import mlx.nn as nn
from mlx_lm.utils import load_model
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from models.architectures import spelled

_FULL, _SLIDING = "full_attention", "sliding_attention"
_GRANITE = {
    "linear_attention": "mamba",
    _FULL: "attention",
}  # its makers' words for kinds of layers


def build_model(folder: Path, config: Mapping[str, Any]) -> nn.Module:
    """Return the model in a folder with that `config`. Its tensors are read when they are used.

    Raises any error of mlx-lm, which checks little.
    """
    model, _ = load_model(folder, lazy=True, model_config=as_mlx_lm_reads(config))
    return model


def as_mlx_lm_reads(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a config.json that mlx-lm looks for under other names than `config`'s.

    `rope_parameters` overrides older keys, as in transformers; no other key is overridden.
    """
    text = config.get("text_config")
    nested = {"text_config": {**text, **_older(text)}} if isinstance(text, Mapping) else {}
    return _older(config) | nested | {"model_type": spelled(str(config.get("model_type")))}


def _older(config: Mapping[str, Any]) -> dict[str, Any]:
    family = str(config.get("model_type"))
    names = CONFIG_MAPPING[family].attribute_map if family in CONFIG_MAPPING else {}
    types = config.get("layer_types") or []
    layers = _layers(config, types) if _FULL in types else {}
    renamed = {old: config.get(new) for old, new in names.items()} | layers
    added = {key: value for key, value in renamed.items() if config.get(key) is None}
    if family == "granitemoehybrid" and layers:
        added["layer_types"] = [_GRANITE.get(kind, kind) for kind in types]
    added |= _positions(config)
    known = {key: value for key, value in added.items() if value is not None}
    return {"rope_scaling": None, **known} if "rope_scaling" not in config else known


def _positions(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return how positions are rotated, under the names of all families."""
    rope = config.get("rope_parameters")
    if not isinstance(rope, Mapping):
        return {}
    kinds = [kind for kind in (rope.get(_FULL), rope.get(_SLIDING)) if isinstance(kind, Mapping)]
    full, sliding = kinds[0] if kinds else rope, kinds[-1] if kinds else rope
    base, part = full.get("rope_theta"), full.get("partial_rotary_factor")
    same_part = part == sliding.get("partial_rotary_factor")
    kind = full.get("rope_type", full.get("type", "default"))
    scaled = kind not in ("default", "proportional") and config.get("rope_scaling") is None
    return {
        **dict.fromkeys(("rope_theta", "rotary_emb_base"), base),
        **dict.fromkeys(("rope_local_base_freq", "swa_rope_theta"), sliding.get("rope_theta")),
        **dict.fromkeys(("partial_rotary_factor", "rotary_pct"), part if same_part else None),
        "rope_scaling": {**full, "type": kind, "rope_type": kind} if scaled else None,
    }


def _layers(config: Mapping[str, Any], types: list[str]) -> dict[str, Any]:
    """Return which layers attend to all tokens, as a period, and what differs in them."""
    period = types.index(_FULL) + 1
    regular = all((kind == _FULL) == (i % period == 0) for i, kind in zip(count(1), types))
    differs = (config.get("per_layer_config") or {}).get(str(period - 1), {})
    return {
        **dict.fromkeys(
            ("sliding_window_pattern", "full_attention_interval"), period if regular else None
        ),
        "global_head_dim": differs.get("head_dim"),
        "num_global_key_value_heads": differs.get("num_key_value_heads"),
    }
