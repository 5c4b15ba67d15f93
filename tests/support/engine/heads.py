"""Drafter heads for tests: as they begin, untrained, for any tiny model."""

import mlx.core as mx
from mlx.utils import tree_map

from engine.drafters.head_network import head_drafter, new_head, shape_for


def untrained(model, *, every=2):
    """Return a head with rows for `every` second token, or third, ..., which borrows the others."""
    vocabulary = model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
    kept = mx.arange(0, vocabulary, every, dtype=mx.int32)
    mx.random.seed(0)
    return new_head(model, shape_for(model, rows=kept.size), kept)


def untrained_drafter(target):
    """Return a drafter with an untrained head."""
    return head_drafter(target, untrained(target.model))


def lively_drafter(target, *, seed=5):
    """Drafts with a head in which everything makes a difference; a new one's layer does nothing."""
    bound = untrained(target.model, every=1)
    mx.random.seed(seed)
    bound.head.update(
        tree_map(
            lambda weight: (
                weight + 2.0 * mx.random.normal(weight.shape) / weight.shape[-1] ** 0.5
                if weight.ndim == 2
                else weight
            ),
            bound.head.parameters(),
        )
    )
    return head_drafter(target, bound)
