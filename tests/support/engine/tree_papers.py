"""Acceptance of trees as the papers tell it, token after token; and with mistakes easily made.

Plain NumPy, and slow. Instead of drawing, every step goes both ways, with its probability.
"""

from enum import Enum, auto

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.tree import COMMITTED, Tree
from tests.support.engine.acceptance import Verdict, as_rule
from tests.support.engine.small_worlds import Judged

Rows = NDArray[np.float64]


class Mistake(Enum):
    TAKEN_FOR_REPLACED = auto()  # a later alternative's q does not depend on those before it
    RESIDUAL_FORGOTTEN = auto()  # behind a rejected alternative, all of p is to be covered again
    COUNTED_TWICE = auto()  # a path's chance goes into that of the next token once more
    OWN_FROM_P = auto()  # the target's own token is drawn from p
    BACKWARDS = auto()  # alternatives are tried in another order than they were drawn in


Told = tuple[Rows, Rows]
"""How likely each token is to be the last accepted one, (n + 1,), and what the target's own token
is drawn from then, (n + 1, vocabulary)."""


def recursive_rejection(tokens, p, q, tree, mistake=None):
    """Miao et al., arXiv 2305.09781, algorithm 2; each alternative with its own q."""
    ends, own = np.zeros(len(p)), p.copy()

    def reach(parent, likely, path):
        rest = p[parent + 1]
        for child, drawn_from in _tried(parent, q, tree, mistake):
            again = path if mistake is Mistake.COUNTED_TWICE else 1.0
            chance = min(1.0, again * rest[tokens[child]] / drawn_from[tokens[child]])
            reach(child, likely * chance, path * chance)
            likely *= 1.0 - chance
            if mistake is not Mistake.RESIDUAL_FORGOTTEN:
                rest = _normalized(np.maximum(rest - drawn_from, 0.0), rest)
        ends[parent + 1] = likely
        if mistake is not Mistake.OWN_FROM_P:
            own[parent + 1] = rest

    reach(COMMITTED, 1.0, 1.0)
    return ends, own


def traversal_verification(tokens, p, q, tree, mistake=None):
    """Weng et al., arXiv 2505.12398: from the leaves, in depth-first order."""
    ends, own = np.zeros(len(p)), p.copy()
    undecided = 1.0

    def leave(parent, weight):
        nonlocal undecided
        rest = p[parent + 1]
        for child, drawn_from in _tried(parent, q, tree, mistake):
            again = weight if mistake is Mistake.COUNTED_TWICE else 1.0
            ratio = rest[tokens[child]] / drawn_from[tokens[child]]
            leave(child, min(1.0, again * weight * ratio))
            if mistake is Mistake.RESIDUAL_FORGOTTEN:
                continue
            left = np.maximum(weight * rest - drawn_from, 0.0)
            mass = left.sum()
            if weight < 1.0:
                weight = mass / (mass + 1.0 - weight)
            rest = _normalized(left, rest)
        ends[parent + 1] = undecided * weight
        undecided *= 1.0 - weight
        if mistake is not Mistake.OWN_FROM_P:
            own[parent + 1] = rest

    leave(COMMITTED, 1.0)
    return ends, own


def _tried(parent, q, tree, mistake):
    """The alternatives behind a token in the order of trial, with what each was drawn from."""
    children = tree.children(parent)
    if mistake is Mistake.BACKWARDS:
        children = children[::-1]
    if mistake is Mistake.TAKEN_FOR_REPLACED:
        return [(child, q[children[0]]) for child in children]
    return [(child, q[child]) for child in children]


def _normalized(left, otherwise):
    return left / left.sum() if left.any() else otherwise


def told(paper, drafts, mistake=None):
    """Return verdicts as `small_worlds.judged` does."""
    rounds = zip(drafts.tokens, drafts.p, drafts.q, strict=True)
    all_told = [paper(*each, drafts.tree, mistake) for each in rounds]
    ends, own = (np.array(each) for each in zip(*all_told, strict=True))
    return Judged(ends, own)


def mistaken(paper, mistake):
    """An acceptance rule that waits for the device."""

    def rule(drafted, p, q, key, tree=None):
        random = np.random.default_rng(np.array(key).tolist())
        rows = (np.array(each, dtype=np.float64) for each in (p, q))
        ends, own = paper(drafted.tolist(), *rows, tree or Tree.chain(drafted.size), mistake)
        accepted = random.choice(len(ends), p=ends / ends.sum())
        chosen = random.choice(own.shape[1], p=own[accepted] / own[accepted].sum())
        return Verdict(mx.array(accepted), mx.array(chosen), mx.zeros((drafted.size,)))

    return as_rule(rule)
