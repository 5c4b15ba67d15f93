"""The best trees: for each number of tokens, the tree with the most expected accepted tokens.

A token's worth is the chance that it is accepted: its parent's worth, times its own chance given
that its parent is accepted and the alternatives before it are not. The expected accepted tokens of
a tree are the sum of its worths (Sequoia, arXiv 2402.12374; OPT-Tree, arXiv 2406.17276). A token's
worth is at most its parent's and its earlier alternative's, so the n worthiest tokens are a
tree, the best of n, and the best of n + 1 has them and one more. Pure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from engine.tree import COMMITTED, Tree
from models.limits import LARGEST_TREE

MOST = LARGEST_TREE
"""Tokens that a tree may have."""


@dataclass(frozen=True, slots=True)
class BestTrees:
    """The best trees of all sizes: the first n tokens of `tree` are the best tree of n, which is
    expected to commit `tokens[n]` tokens, the target's own included."""

    tree: Tree
    tokens: tuple[float, ...]


def best_trees(
    first: Sequence[float],
    others: Sequence[float],
    *,
    most: int,
    enough: Callable[[int, float], bool] = lambda tokens, worth: False,
) -> BestTrees:
    """Return the best trees of up to `most` tokens, at most as high as `first` has chances.

    `first`: by depth, the chance of the alternative that is tried first, given that its parent is
    accepted. `others`: by rank from 1, the chance of each later alternative, given that those
    before it are rejected. A later alternative is never taken to be likelier than the one before
    it. `enough(tokens, worth)`: whether a tree of that many tokens is large enough, given the worth
    of the next token.
    """
    shares: list[list[float]] = []  # by depth, as far as it was reached
    parents: list[int] = []
    tokens = [1.0]
    waiting: list[tuple[float, int, int, int, float]] = []  # the worthiest first

    def offer(parent: int, depth: int, rank: int, reached: float) -> None:
        """Add an alternative, whose parent is accepted with the chance `reached`, to the waiting
        ones."""
        if depth == len(shares) < len(first):
            shares.append(_shares(first[depth], others))
        if depth < len(shares) and rank < len(shares[depth]):
            worth = reached * shares[depth][rank]
            heappush(waiting, (-worth, depth, rank, parent, reached))

    offer(COMMITTED, 0, 0, 1.0)
    while waiting and len(parents) < most and not enough(len(parents), -waiting[0][0]):
        worth, depth, rank, parent, reached = heappop(waiting)
        tokens.append(tokens[-1] - worth)
        offer(parent, depth, rank + 1, reached)
        offer(len(parents), depth + 1, 0, -worth)
        parents.append(parent)
    return BestTrees(Tree(tuple(parents)), tuple(tokens))


def _shares(first: float, others: Sequence[float]) -> list[float]:
    """Return for each rank the chance that this alternative is accepted, given that its parent
    is."""
    shares, left = [first], 1.0 - first
    for chance in others:
        shares.append(min(left * chance, shares[-1]))
        left -= shares[-1]
    return shares
