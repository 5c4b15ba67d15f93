"""The shape of a draft: which token follows which.

A chain is the tree in which every token follows the one before it. Tokens have numbers from
0 on; each comes later than its parent, and alternatives, which have the same parent, come in the
order in which they are tried. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

COMMITTED = -1
"""The parent of a token that follows the committed ones."""


@dataclass(frozen=True)
class Tree:
    """`parents` has the number of each token's parent, or COMMITTED."""

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not all(COMMITTED <= parent < i for i, parent in enumerate(self.parents)):
            raise ValueError(f"a token comes before its parent: {self.parents}")

    @staticmethod
    @cache
    def chain(length: int) -> "Tree":
        return Tree(tuple(range(-1, length - 1)))

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def is_chain(self) -> bool:
        return all(parent == i - 1 for i, parent in enumerate(self.parents))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The number of drafted tokens before each token, on its path."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent == COMMITTED else depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def height(self) -> int:
        """The number of tokens on the longest path."""
        return max(self.depths, default=-1) + 1

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The number of alternatives that are tried before each token."""
        return tuple(self.parents[:i].count(parent) for i, parent in enumerate(self.parents))

    def children(self, parent: int) -> tuple[int, ...]:
        """The tokens after `parent`, which may be COMMITTED."""
        return tuple(i for i, other in enumerate(self.parents) if other == parent)

    @cached_property
    def judges(self) -> tuple[int, ...]:
        """The row of the pass that judges each token: the row after its parent."""
        return tuple(parent + 1 for parent in self.parents)

    @cached_property
    def generations(self) -> tuple[tuple[int, ...], ...]:
        """The tokens of each depth that may have children, COMMITTED first."""
        depths = (-1, *self.depths)
        return tuple(
            tuple(i - 1 for i, depth in enumerate(depths) if depth == parents)
            for parents in range(-1, self.height - 1)
        )

    @cached_property
    def leaves_first(self) -> tuple[int, ...]:
        """The tokens, each after all its descendants and after the alternatives before it;
        COMMITTED is the last."""
        order, waiting = [], [COMMITTED]
        while waiting:
            order.append(waiting.pop())
            waiting += self.children(order[-1])
        return tuple(reversed(order))

    def path(self, token: int) -> tuple[int, ...]:
        """The drafted tokens up to this one, in their order; none up to COMMITTED."""
        reversed_path = []
        while token != COMMITTED:
            reversed_path.append(token)
            token = self.parents[token]
        return tuple(reversed(reversed_path))

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """The paths to each last token, in the order of these tokens."""
        inner = set(self.parents)
        return tuple(self.path(token) for token in range(len(self)) if token not in inner)

    @cached_property
    def before(self) -> tuple[tuple[bool, ...], ...]:
        """(n, n): whether token j is token i, or is on the path to it."""
        return tuple(
            tuple(j in path for j in range(len(self))) for path in map(self.path, range(len(self)))
        )

    def rejected(self, path: Sequence[int], *, ended: bool = False) -> tuple[int, ...]:
        """The tokens that were judged and not accepted, once those on `path` are: the others
        after an accepted or a committed token. After a token that `ended` the text none is judged.
        """
        judging = {COMMITTED, *path} - ({path[-1]} if ended and path else set())
        return tuple(
            token
            for token, parent in enumerate(self.parents)
            if parent in judging and token not in path
        )

    def first(self, count: int) -> "Tree":
        """The tree of the first `count` tokens."""
        return self if count >= len(self) else Tree(self.parents[:count])

    def only(self, tokens: Sequence[int]) -> "Tree":
        """The tree of these tokens, whose parents are among them, in this order."""
        number = {token: i for i, token in enumerate(tokens)} | {COMMITTED: COMMITTED}
        return Tree(tuple(number[self.parents[token]] for token in tokens))

    def no_higher(self, height: int) -> "Tree":
        """The tree of the tokens whose paths have at most `height`."""
        return self.only([token for token, depth in enumerate(self.depths) if depth < height])

    def behind(self, count: int) -> "Tree":
        """The same after a chain of `count` tokens."""
        return Tree((*range(-1, count - 1), *(count + parent for parent in self.parents)))
