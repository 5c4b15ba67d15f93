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
from operator import truediv

from engine.draft_length.acceptance import expected_tokens
from engine.draft_length.costs import DraftCosts
from engine.draft_length.trees import BestTrees
from engine.tree import Tree


@dataclass(frozen=True, slots=True)
class DraftOption:
    """A chain of `drafted` tokens by `drafter`, or the first ones of `trees`.

    `tokens`: how many the round is expected to commit; `cost`: its time, in plain passes.
    """

    drafter: str
    drafted: int
    tokens: float
    cost: float
    trees: Tree | None = None

    @property
    def gain(self) -> float:
        """The expected speed-up over plain decoding."""
        return self.tokens / self.cost

    @property
    def length(self) -> int:
        """How high it is."""
        return self.tree.height if self.tree else self.drafted

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


class DraftOptions:
    """The chains of one drafter, or its `trees`, of `first`, `first` + 1, ... tokens.

    As lists, as hardly any is looked at: `tokens`, `costs` and `gains` of each.
    """

    def __init__(
        self,
        drafter: str,
        tokens: list[float],
        costs: list[float],
        *,
        first: int = 1,
        trees: Tree | None = None,
    ) -> None:
        self.drafter, self.trees = drafter, trees
        self.tokens, self.costs = tokens, costs
        self.gains = list(map(truediv, tokens, costs))
        self._first = first

    def __len__(self) -> int:
        return len(self.gains)

    def __getitem__(self, place: int) -> DraftOption:
        drafted = self._first + place
        return DraftOption(self.drafter, drafted, self.tokens[place], self.costs[place], self.trees)

    def __iter__(self) -> Iterator[DraftOption]:
        return map(self.__getitem__, range(len(self)))

    def of(self, drafted: int) -> DraftOption | None:
        """The one of so many tokens."""
        place = drafted - self._first
        return self[place] if 0 <= place < len(self) else None

    @property
    def best(self) -> DraftOption | None:
        """The one with the most gain."""
        return self[self.gains.index(max(self.gains))] if self.gains else None


def draft_options(
    drafter: str, chances: Sequence[float], passes: Sequence[float], draft: DraftCosts
) -> DraftOptions:
    """The chains of one drafter, by length from 1.

    `passes`: seconds of passes over 1, 2, ... rows, one more than there are `chances`.
    """
    plain, start, step = passes[0], draft.start_seconds, draft.step_seconds
    costs = [(passes[n] + start + n * step) / plain for n in range(1, len(chances) + 1)]
    return DraftOptions(drafter, expected_tokens(chances)[1:], costs)


def tree_options(
    drafter: str,
    best: BestTrees,
    passes: Sequence[float],
    draft: DraftCosts,
    *,
    least: int = 1,
) -> DraftOptions:
    """The best trees of one drafter that are no chains, of `least` tokens or more.

    `passes`: as above, one more than the largest tree has tokens.
    """
    chain = next(
        (i for i, parent in enumerate(best.tree.parents) if parent != i - 1), len(best.tree)
    )
    first = max(chain + 1, least)
    plain, start, step = passes[0], draft.start_seconds, draft.step_seconds
    costs = [
        (passes[drafted] + start + steps * step) / plain
        for drafted, steps in enumerate(_steps(best.tree, passes), start=1)
        if drafted >= first
    ]
    return DraftOptions(drafter, list(best.tokens[first:]), costs, first=first, trees=best.tree)


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


def with_stops(best: DraftOption, chains: DraftOptions, *, watch: float) -> tuple[int, float]:
    """The longest chain and the chance below which to stop, where looking at each drafted token
    costs `watch` plain passes.

    One more token is worth drafting while the chance that it is accepted (that of all before it
    times its own) yields more tokens than its time yields elsewhere. A drafter that stops where it
    is not confident may plan for three times as many tokens as one that cannot.
    """
    longest = min(3 * best.drafted, len(chains))
    cost = (chains.costs[longest - 1] - chains.costs[0]) / max(longest - 1, 1) + watch
    tokens = [1.0, *chains.tokens[:longest]]
    last = (tokens[-1] - tokens[-2]) / (tokens[-2] - tokens[-3]) if longest > 1 else tokens[-1] - 1
    return longest, min(max(best.gain, 1.0) * cost / max(last, 0.05), 1.0)
