"""One pass of a model for several decoders, each with caches of its own."""

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn

from engine.decoder import Decoder


def read_together(decoders: Sequence[Decoder], tokens: Sequence[mx.array]) -> list[mx.array]:
    """For each decoder the logits of its tokens."""
    return [decoder.read(own) for decoder, own in zip(decoders, tokens, strict=True)]


def can_share(model: nn.Module) -> bool:
    """Whether passes over this model can be shared."""
    return False
