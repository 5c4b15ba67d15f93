"""The chains and trees that a drafter could draft next, with expected tokens and costs.

A chain of n tokens is expected to commit 1 + a_1 + a_1 a_2 + ... tokens (a_i: acceptance rate at
position i, given the ones before), and takes n draft steps and one pass over n + 1 rows. Of trees
only the best one of each number of tokens is an option (`trees.py`). A drafter reads all inner
tokens of a level at once: the rows of such a step are expected to cost as much, against one row, as
rows of a pass of the target. Costs are counted in plain passes. Pure.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.draft_length.acceptance import expected_tokens
from engine.draft_length.costs import DraftCosts
from engine.draft_length.trees import BestTrees
from engine.tree import Tree


class DraftOption(NamedTuple):
    """A chain of `drafted` tokens by `drafter`, or the first ones of `trees`.

    `tokens`: how many the round is expected to commit; `cost`: its time, in plain passes; `gain`:
    the expected speed-up over plain decoding.
    """

    drafter: str
    drafted: int
    tokens: float
    cost: float
    gain: float
    trees: Tree | None = None

    @property
    def tree(self) -> Tree | None:
        """Its shape; None for a chain."""
        return self.trees and self.trees.first(self.drafted)

    def alike(self, other: "DraftOption") -> bool:
        """Whether both are of the same drafter, both chains or both trees, and of the same size."""
        return (
            self.drafted == other.drafted
            and self.drafter == other.drafter
            and (self.trees is None) == (other.trees is None)
        )


def chains(
    drafter: str, chances: Sequence[float], passes: Sequence[float], draft: DraftCosts
) -> list[DraftOption]:
    """Return the chains of one drafter, by length from 1.

    `passes`: seconds of passes over 1, 2, ... rows, one more than there are `chances`.
    """
    plain, start, step = passes[0], draft.start_seconds, draft.step_seconds
    options = []
    for drafted, tokens in enumerate(expected_tokens(chances)[1:], start=1):
        cost = (passes[drafted] + start + drafted * step) / plain
        options.append(DraftOption(drafter, drafted, tokens, cost, tokens / cost))
    return options


def trees(
    drafter: str, best: BestTrees, passes: Sequence[float], draft: DraftCosts, *, least: int = 1
) -> list[DraftOption]:
    """Return the best trees of one drafter, without chains, of `least` tokens or more.

    `passes`: as above, one more than the largest tree has tokens.
    """
    plain, start, step = passes[0], draft.start_seconds, draft.step_seconds
    options, tree = [], best.tree
    chain = next((i for i, parent in enumerate(tree.parents) if parent != i - 1), len(tree))
    for drafted, steps in enumerate(_steps(tree, passes), start=1):
        if drafted > chain and drafted >= least:
            cost = (passes[drafted] + start + steps * step) / plain
            tokens = best.tokens[drafted]
            options.append(DraftOption(drafter, drafted, tokens, cost, tokens / cost, tree))
    return options


def tree_steps(tree: Tree, passes: Sequence[float]) -> float:
    """Return the number of steps of a chain that take as long as drafting a tree."""
    return list(_steps(tree, passes))[-1]


def _steps(tree: Tree, passes: Sequence[float]) -> Iterator[float]:
    """The steps of its first token, of its first two, ..."""
    inner, rows, steps = set[int](), Counter[int](), 0.0
    for token, parent in enumerate(tree.parents):
        if parent not in inner:
            inner.add(parent)
            level = tree.depths[token]
            steps -= passes[rows[level] - 1] / passes[0] if rows[level] else 0.0
            rows[level] += 1
            steps += passes[rows[level] - 1] / passes[0]
        yield steps
