"""How a model's answers are sampled where a person chose nothing.

Its makers say so in generation_config.json. Where they do not, answers are balanced, and those of
small models, which easily go round in circles, are penalized a little for repeating themselves.
Knows folders and numbers; loads nothing.
"""

from dataclasses import replace

from engine.request import BALANCED, Sampling
from models.errors import Problem
from models.memory.parameters import count_parameters
from models.model_folder import ModelFolder

SMALL = 1_000_000_000  # weights: a judgement, measured on none but the starter model
BALANCED_SMALL = replace(BALANCED, repetition_penalty=1.1)


def default_sampling(folder: ModelFolder) -> Sampling:
    """The sampling that generation_config.json asks for, else a balanced one."""
    return _stated(folder) or (BALANCED_SMALL if _is_small(folder) else BALANCED)


def _stated(folder: ModelFolder) -> Sampling | None:
    """What the file says; None where it says to decode greedily, which is also what it says where
    nobody thought about it, or says nothing that can be used."""
    config = folder.generation_config
    if config.get("do_sample") is False:
        return None
    values = {
        key: config[key]
        for key in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        if type(config.get(key)) in (int, float)
    }
    if config.get("do_sample") is True and len(values) > ("repetition_penalty" in values):
        values.setdefault("temperature", 1.0)  # as transformers reads it
    if not values.get("temperature"):
        return None
    try:
        return Sampling(**values)
    except (Problem, TypeError):
        return None


def _is_small(folder: ModelFolder) -> bool:
    try:
        parameters = count_parameters(folder.config)
    except Problem:
        return False
    return parameters is not None and parameters.total < SMALL
