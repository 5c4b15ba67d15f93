"""Drafter heads for tests: as they begin, untrained, for any tiny model."""

import mlx.core as mx
import mlx.nn as nn

from engine.decoder import Decoder
from engine.drafters.head import HeadDrafter
from engine.drafters.head_network import BoundHead, new_head, shape_for


def untrained(model: nn.Module, *, every: int = 2) -> BoundHead:
    """One that can say `every` second token, or third, ..."""
    vocabulary: int = model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
    kept = mx.arange(0, vocabulary, every, dtype=mx.int32)
    mx.random.seed(0)
    return new_head(model, shape_for(model, rows=kept.size), kept)


def head_drafter(target: Decoder) -> HeadDrafter:
    """An untrained one."""
    return HeadDrafter(target, untrained(target.model))
