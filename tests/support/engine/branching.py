"""A drafter of trees with known distributions."""

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.core.sampling import History, distribution, scores
from engine.draft_length import DraftCandidate
from engine.drafters import DraftArrays, Drafter
from engine.tree import COMMITTED, Tree

Row = NDArray[np.float64]


class Branching(Drafter):
    """Draws alternatives without replacement from a table, as for `markov.Markov`.

    Where no token is left for an alternative it is not proposed, nor what should stand after it.
    `guesses`: the first alternative is not drawn, but a guess that it is certain of.
    """

    name = "branching"

    def __init__(self, table, *, alternatives=3, guesses=False):
        self._table = table
        self._alternatives = alternatives
        self._guesses = guesses

    def candidates(self, tokens):
        return (DraftCandidate(self.name, 16, alternatives=self._alternatives),)

    def propose(self, tokens, choice, sampling, key):
        tree = choice.tree or Tree.chain(choice.length)
        random = np.random.default_rng(np.array(key).tolist())
        drafted = {}
        drawn_from = {}
        for depth in range(tree.height):
            at_depth = [i for i, each in enumerate(tree.depths) if each == depth]
            parents = sorted({tree.parents[i] for i in at_depth} & {COMMITTED, *drafted})
            rows = self._rows(tokens, [tree.path(each) for each in parents], drafted, sampling)
            for parent, row in zip(parents, rows, strict=True):
                before = []
                for child in tree.children(parent):
                    left = self._left(row, before, greedy=sampling.greedy)
                    if not left.sum():
                        break
                    drafted[child] = int(random.choice(len(left), p=left / left.sum()))
                    drawn_from[child] = left
                    before.append(drafted[child])
        order = sorted(drafted)
        places = {COMMITTED: COMMITTED} | {token: i for i, token in enumerate(order)}
        distributions = np.array([drawn_from[i] for i in order])
        q = [drawn_from[i][drafted[i]] for i in order]
        return DraftArrays(
            tokens=mx.array([drafted[i] for i in order], dtype=mx.int32),
            q=mx.array(q, dtype=mx.float32),
            distributions=None if sampling.greedy else mx.array(distributions.astype(np.float32)),
            drafter=self.name,
            tree=Tree(tuple(places[tree.parents[i]] for i in order)),
        )

    def _rows(self, tokens, paths, drafted, sampling):
        """Return the table's distribution after each path of drafted tokens."""
        texts = [[*tokens, *(drafted[i] for i in path)] for path in paths]
        last_but_one, last = zip(*(text[-2:] for text in texts), strict=True)
        ids = mx.array([drafted.get(i, 0) for i in range(max(drafted, default=-1) + 1)] or [0])
        history = History(tokens, sampling).behind(ids, paths)
        logits = self._table[mx.array(last_but_one), mx.array(last)]
        rows = distribution(scores(logits, history, sampling), sampling)
        return list(np.array(rows, dtype=np.float64))

    def _left(self, row, before, *, greedy):
        """Return the distribution of an alternative after those `before` it."""
        left = row.copy()
        left[before] = 0.0
        if greedy and left.any():
            return self._certain(int(left.argmax()))
        if self._guesses and not before:
            return self._certain(int(row.argmin()))
        return left / left.sum() if left.any() else left

    def _certain(self, token):
        return np.eye(self._table.shape[-1])[token]
