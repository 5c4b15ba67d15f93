"""All drafts that can be drawn in a small world, each with its probability: for exact proofs.

A world has a few tokens, a target and a drafter whose distributions depend on all that was written
before. What a rule makes of every draft is added up, so that nothing is left to chance.
"""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.tree import COMMITTED, Tree
from tests.support.engine.acceptance import enumerated

Rows = NDArray[np.float64]
Guessing = Callable[["World", tuple[int, ...], tuple[int, ...]], Rows]
"""Of the tokens before and of the alternatives drawn before: what the next one is drawn from."""


@dataclass(frozen=True)
class World:
    """`p` and `q`: the target's and the drafter's rows after 0, 1, ... tokens: (vocabulary,),
    (vocabulary, vocabulary), ..."""

    p: tuple[Rows, ...]
    q: tuple[Rows, ...]

    @property
    def vocabulary(self):
        return self.p[0].size

    def texts(self):
        """The target's probability of all texts, one axis per token."""
        result = self.p[0]
        for rows in self.p[1:]:
            result = result[..., None] * rows
        return result


def world(vocabulary, height, *, seed=0, sharpness=1.5, zeros=False):
    """Return a random world, with texts of `height` + 1 tokens; `zeros`: some tokens are
    impossible, others each time."""
    random = np.random.default_rng(seed)

    def rows(size):
        weights = np.exp(sharpness * random.normal(size=(vocabulary,) * size))
        if zeros:
            impossible = random.integers(vocabulary, size=(*weights.shape[:-1], 1))
            np.put_along_axis(weights, impossible, 0.0, axis=-1)
        return weights / weights.sum(axis=-1, keepdims=True)

    sizes = range(1, height + 2)
    return World(tuple(map(rows, sizes)), tuple(map(rows, sizes)))


# --- Ways to draw alternatives


def with_replacement(world, path, drawn):
    return world.q[len(path)][path]


def without_replacement(world, path, drawn):
    left = world.q[len(path)][path].copy()
    left[list(drawn)] = 0.0
    return left / left.sum()


def first_certain(world, path, drawn):
    """A certain guess, then what is drawn from the rest."""
    if not drawn:
        return _certain(world, sum(path))
    return without_replacement(world, path, drawn)


def last_certain(world, path, drawn):
    """An alternative that is drawn, then a certain guess, which may be the same."""
    return _certain(world, 1 + sum(path)) if drawn else with_replacement(world, path, drawn)


def beside_a_copy(world, path, drawn):
    """A certain chain, and beside it what is drawn, which may begin with the same token."""
    if path[:1] == (0,) or not (path or drawn):
        return _certain(world, sum(path) + len(drawn))
    return without_replacement(world, path, drawn if path else drawn[1:])


def all_certain(world, path, drawn):
    return _certain(world, sum(path) + len(drawn))


def _certain(world, token):
    return np.eye(world.vocabulary)[token % world.vocabulary]


GUESSING = [
    with_replacement,
    without_replacement,
    first_certain,
    last_certain,
    beside_a_copy,
    all_certain,
]


# --- All drafts, and all that may come of them


@dataclass(frozen=True)
class Drafts:
    """All drafts of a shape in a world, (drafts, ...): their tokens, how likely each one is,
    and the rows that a rule is given."""

    world: World
    tree: Tree
    tokens: NDArray[np.int_]
    likely: Rows
    p: Rows
    q: Rows


def all_drafts(world, tree, guessing):
    """The drafter draws token by token, in their order."""
    drafts = [((), 1.0, ())]
    for i, parent in enumerate(tree.parents):
        before = [j for j in tree.children(parent) if j < i]
        longer = []
        for tokens, likely, rows in drafts:
            path = tuple(tokens[j] for j in tree.path(parent))
            row = guessing(world, path, tuple(tokens[j] for j in before))
            longer += [
                ((*tokens, token), likely * row[token], (*rows, row))
                for token in np.flatnonzero(row).tolist()
            ]
        drafts = longer
    tokens = np.array([each for each, _, _ in drafts])
    places = [tree.path(i) for i in range(COMMITTED, len(tree))]
    p = [world.p[len(path)][tuple(tokens[:, list(path)].T)] for path in places]
    p = [np.broadcast_to(rows, (len(tokens), world.vocabulary)) for rows in p]
    likely = np.array([chance for _, chance, _ in drafts])
    q = np.array([rows for _, _, rows in drafts])
    return Drafts(world, tree, tokens, likely, np.stack(p, axis=1), q)


@dataclass(frozen=True)
class Judged:
    """A rule's verdicts on drafts, (drafts, ...): `ends` of `AcceptanceRule`, and for each the row
    that the target's own token is drawn from."""

    ends: Rows
    own: Rows


def judged(rule, drafts):
    def judge(tokens, p, q):
        may_come = enumerated(rule, tokens, p, q, drafts.tree)
        return may_come.ends, may_come.own

    arrays = mx.vmap(judge)(
        mx.array(drafts.tokens, dtype=mx.int32),
        mx.array(drafts.p.astype(np.float32)),
        mx.array(drafts.q.astype(np.float32)),
    )
    ends, own = (np.array(each, dtype=np.float64) for each in arrays)
    return Judged(ends, own / own.sum(axis=-1, keepdims=True))


def written(drafts, outcome):
    """The probability of all texts, as `World.texts`: what a round leaves unwritten the target
    writes by itself."""
    world, tree = drafts.world, drafts.tree
    texts = np.array(1.0)
    for length in range(tree.height + 1):
        texts = texts[..., None] * world.p[length] if length else np.zeros(world.vocabulary)
        for i in range(COMMITTED, len(tree)):
            path = list(tree.path(i))
            if len(path) == length:
                ended = (drafts.likely * outcome.ends[:, i + 1])[:, None] * outcome.own[:, i + 1]
                places = tuple(drafts.tokens[:, path].T)
                if path:
                    np.add.at(texts, places, ended)
                else:
                    texts += ended.sum(axis=0)
    return texts
