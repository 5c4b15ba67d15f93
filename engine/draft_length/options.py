"""What a drafter could draft next: chains and trees, each with its expected tokens and its cost.

A chain of n tokens is expected to commit 1 + a_1 + a_1 a_2 + ... tokens (a_i: acceptance rate at
position i, given the ones before), and takes n draft steps and one pass over n + 1 rows. Of trees
only the best one of each number of tokens is an option (`trees.py`). A drafter reads all tokens of
a level at once that have others behind them: the rows of such a step are taken to cost as much as
those of a pass of the target do, against one row. Costs are counted in plain passes. Pure.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.draft_length.acceptance import expected_tokens
from engine.draft_length.costs import DraftCosts
from engine.draft_length.trees import BestTrees
from engine.tree import Tree

_SIZES = frozenset((*range(1, 17), 20, 24, 28, 32, 40, 48, 56))
"""Of trees: among larger ones the next size is hardly better or worse."""


@dataclass(frozen=True, slots=True)
class DraftOption:
    """A chain of `drafted` tokens by `drafter`, or the first ones of `trees`.

    `length`: how high it is. `tokens`: how many the round is expected to commit; `cost`: its time,
    in plain passes.
    """

    drafter: str
    length: int
    drafted: int
    tokens: float
    cost: float
    trees: Tree | None = None

    @property
    def gain(self) -> float:
        """The expected speed-up over plain decoding."""
        return self.tokens / self.cost

    @property
    def tree(self) -> Tree | None:
        """None: a chain."""
        return self.trees and self.trees.first(self.drafted)

    @property
    def branches(self) -> bool:
        """Whether it is a tree."""
        return self.trees is not None

    def alike(self, other: "DraftOption | None") -> bool:
        """Whether both are chains, or trees, of as many tokens by the same drafter."""
        return (
            other is not None
            and (self.drafter, self.drafted) == (other.drafter, other.drafted)
            and self.branches == other.branches
        )


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """Those of one drafter: `chains` by length from 1, and `trees` that are no chains."""

    chains: list[DraftOption]
    trees: list[DraftOption]

    def __iter__(self) -> Iterator[DraftOption]:
        yield from self.chains
        yield from self.trees


def draft_options(
    drafter: str, chances: Sequence[float], passes: Sequence[float], draft: DraftCosts
) -> list[DraftOption]:
    """The chains of one drafter, by length from 1.

    `passes`: seconds of passes over 1, 2, ... rows, one more than there are `chances`.
    """
    made = []
    for length, tokens in enumerate(expected_tokens(chances)):
        if length:
            drafting = draft.start_seconds + length * draft.step_seconds
            made.append(
                DraftOption(
                    drafter,
                    length,
                    length,
                    tokens,
                    cost=(passes[length] + drafting) / passes[0],
                )
            )
    return made


def tree_options(
    drafter: str, best: BestTrees, passes: Sequence[float], draft: DraftCosts
) -> list[DraftOption]:
    """The best trees of one drafter that are no chains; of the large ones some.

    `passes`: as above, one more than the largest tree has tokens.
    """
    made, height, chain = [], 0, True
    for drafted, steps in enumerate(_steps(best.tree, passes), start=1):
        height = max(height, best.tree.depths[drafted - 1] + 1)
        chain = chain and height == drafted
        if not chain and (drafted in _SIZES or drafted == len(best.tree)):
            drafting = draft.start_seconds + steps * draft.step_seconds
            made.append(
                DraftOption(
                    drafter,
                    height,
                    drafted,
                    best.tokens[drafted],
                    cost=(passes[drafted] + drafting) / passes[0],
                    trees=best.tree,
                )
            )
    return made


def tree_steps(tree: Tree, passes: Sequence[float]) -> float:
    """As many steps of a chain as it takes to draft a tree."""
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


def with_stops(
    best: DraftOption, options: Sequence[DraftOption], *, watch: float
) -> tuple[int, float]:
    """The longest chain and the chance below which to stop, where looking at each drafted token
    costs `watch` plain passes.

    One more token is worth drafting while the chance that it is accepted (that of all before it
    times its own) yields more tokens than its time yields elsewhere. A drafter that stops where it
    is not confident may plan for three times as many tokens as one that cannot.
    """
    longest = min(3 * best.length, len(options))
    cost = (options[longest - 1].cost - options[0].cost) / max(longest - 1, 1) + watch
    tokens = [1.0, *(option.tokens for option in options[:longest])]
    last = (tokens[-1] - tokens[-2]) / (tokens[-2] - tokens[-3]) if longest > 1 else tokens[-1] - 1
    return longest, min(max(best.gain, 1.0) * cost / max(last, 0.05), 1.0)
