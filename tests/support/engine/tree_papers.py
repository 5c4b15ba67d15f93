"""Acceptance of trees as the papers tell it, token after token.

Plain NumPy, and slow. Instead of drawing, every step goes both ways, with its probability.
"""

import numpy as np
from numpy.typing import NDArray

from engine.tree import COMMITTED

Rows = NDArray[np.float64]


Told = tuple[Rows, Rows]
"""How likely each token is to be the last accepted one, (n + 1,), and what the target's own token
is drawn from then, (n + 1, vocabulary)."""


def traversal_verification(tokens, p, q, tree):
    """Weng et al., arXiv 2505.12398: from the leaves, in depth-first order."""
    ends, own = np.zeros(len(p)), p.copy()
    undecided = 1.0

    def leave(parent, weight):
        nonlocal undecided
        rest = p[parent + 1]
        for child in tree.children(parent):
            leave(child, min(1.0, weight * rest[tokens[child]] / q[child][tokens[child]]))
            left = np.maximum(weight * rest - q[child], 0.0)
            mass = left.sum()
            if weight < 1.0:
                weight = mass / (mass + 1.0 - weight)
            rest = _normalized(left, rest)
        ends[parent + 1] = undecided * weight
        undecided *= 1.0 - weight
        own[parent + 1] = rest

    leave(COMMITTED, 1.0)
    return ends, own


def _normalized(left, otherwise):
    return left / left.sum() if left.any() else otherwise
