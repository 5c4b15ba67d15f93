"""Tiny targets with MTP modules, and modules for them, untrained: as published and in memory."""

from functools import cache

import mlx.core as mx
from mlx.utils import tree_flatten

from engine.core.model_parts import new_layer
from engine.drafters.mtp import MtpModule, MtpNetwork
from engine.drafters.states import StateDrafter
from tests.support.engine.tiny import GAIN, build, configs

TARGETS = configs("mtp")

# How the names of Qwen's tensors begin, by our parts.
PUBLISHED = {
    "fuse": "fc.",
    "token_norm": "pre_fc_norm_embedding.",
    "state_norm": "pre_fc_norm_hidden.",
    "norm": "norm.",
    "layer": "layers.0.",
}


@cache
def build_target(architecture, *, vocabulary=64):
    """Build the target `architecture` of `TARGETS`."""
    return build(architecture, vocabulary=vocabulary, sizes=TARGETS[architecture])


def untrained(model, *, seed=0):
    """A module for a target, whose states vary."""
    mx.random.seed(seed)
    module = MtpModule(new_layer(model), state_first=model.model_type == "mimo")
    matrices = {n: GAIN * a for n, a in tree_flatten(module.parameters()) if a.ndim > 1}
    module.load_weights(list(matrices.items()), strict=False)
    module.eval()
    mx.eval(module.parameters())
    return module


def drafter_by(module, target, *, kept=None):
    return StateDrafter(target, MtpNetwork(module, target, kept=kept), name="MTP")


def mtp_drafter(target, *, seed=0):
    """Return a drafter with an untrained module."""
    return drafter_by(untrained(target.model, seed=seed), target)
