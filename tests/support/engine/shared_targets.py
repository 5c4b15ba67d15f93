"""Tiny targets of every architecture that several Macs can hold together: six layers, and heads
that two and three ranks can divide."""

from mlx_lm.utils import _get_classes

from tests.support.engine.tiny import build, configs

SHARED_TARGETS = configs("shared")


def config_of(name):
    """The config.json of one of them, but for its vocabulary."""
    return SHARED_TARGETS[name] | {"model_type": name.split()[0], "vocab_size": 64}


def shared_target(name):
    """Build the target `name` of `SHARED_TARGETS`, alike in every process."""
    return build(name.split()[0], sizes=SHARED_TARGETS[name])


def without_weights(name):
    """The target `name` as it is made: its weights are never computed."""
    model, arguments = _get_classes(config_of(name))
    made = model(arguments.from_dict(config_of(name)))
    return made
