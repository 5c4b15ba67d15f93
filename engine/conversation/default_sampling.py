"""How a model's answers are sampled where the user chose nothing.

Its makers say so in generation_config.json, value by value. Where they do not, answers are
balanced; small models, which easily go round in circles, are penalized a little for repeating
themselves. Knows folders and numbers; loads nothing.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.request import BALANCED, Sampling
from models.errors import Problem
from models.memory.parameters import count_parameters
from models.model_folder import ModelFolder

SMALL = 1_000_000_000  # weights: a judgement, measured on none but the starter model
BALANCED_SMALL = replace(BALANCED, repetition_penalty=1.1)
_VALUES = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_GREEDY = 0.001  # makers write a temperature below this one, because transformers refuses 0
_OFF = -1  # how some makers switch top_k off


def default_sampling(folder: ModelFolder) -> tuple[Sampling, str]:
    """Return the sampling that generation_config.json asks for, or a balanced one; and a remark,
    mostly empty, that lists the values in the file that cannot be used."""
    stated, unusable = _stated(folder.generation_config)
    sampling = _joined(stated, folder)
    if not unusable:
        return sampling, ""
    return sampling, f"Ignored in the model's generation_config.json: {', '.join(unusable)}."


def _joined(stated: Mapping[str, Any], folder: ModelFolder) -> Sampling:
    """The makers' values, and ours for the rest."""
    samples = folder.generation_config.get("do_sample")
    penalty = {name: value for name, value in stated.items() if name == "repetition_penalty"}
    balanced = BALANCED_SMALL if _is_small(folder) else BALANCED
    if samples is False:  # which it also says where no one thought about it
        return replace(balanced, **penalty)
    if "temperature" in stated:
        return Sampling(**stated)
    if samples is True and len(stated) > len(penalty):
        return Sampling(**{"temperature": 1.0, **stated})  # as transformers reads it
    return replace(balanced, **stated)


def _stated(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values that can be used, and the others in words, such as "top_p 7"."""
    usable: dict[str, Any] = {}
    unusable = []
    alone: dict[str, Any]
    for name in _VALUES:
        value = config.get(name)
        if value is None or (name == "top_k" and value == _OFF):
            continue
        if name == "temperature" and type(value) is float and 0 < value < _GREEDY:
            value = 0.0
        if name == "top_k" and type(value) is float and value.is_integer():
            value = int(value)
        try:
            if type(value) not in (int, float):
                raise TypeError(value)
            alone = {name: value}
            Sampling(**alone)
        except (Problem, TypeError):
            unusable.append(f"{name} {reprlib.repr(value)}")
        else:
            usable |= alone
    return usable, unusable


def _is_small(folder: ModelFolder) -> bool:
    try:
        parameters = count_parameters(folder.config)
    except Problem:
        return False
    return parameters is not None and parameters.total < SMALL
