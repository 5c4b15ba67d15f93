"""Drafter heads for tests: as they begin, untrained, for any tiny model."""

import mlx.core as mx
import mlx.nn as nn

from engine.core.decoder import Decoder
from engine.drafters.head_network import BoundHead, head_drafter, new_head, shape_for
from engine.drafters.states import StateDrafter


def untrained(model: nn.Module, *, every: int = 2) -> BoundHead:
    """One that has rows for `every` second token, or third, ..., and borrows the others'."""
    vocabulary: int = model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
    kept = mx.arange(0, vocabulary, every, dtype=mx.int32)
    mx.random.seed(0)
    return new_head(model, shape_for(model, rows=kept.size), kept)


def untrained_drafter(target: Decoder) -> StateDrafter:
    """Drafts with an untrained one."""
    return head_drafter(target, untrained(target.model))
