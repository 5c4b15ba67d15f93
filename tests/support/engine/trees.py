"""Random trees, and a drafter that proposes them: partly right, with wrong alternatives."""

import random
from collections.abc import Container, Sequence

import mlx.core as mx
from hypothesis import strategies as st

from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.request import Sampling
from engine.tree import COMMITTED, Tree
from tests.support.engine.helpers import Known


@st.composite
def random_trees(draw: st.DrawFn, *, most: int = 24) -> Tree:
    """Tall ones and broad ones, their tokens in any order that a tree allows."""
    count = draw(st.integers(1, most))
    tall = draw(st.booleans())
    parents = []
    for i in range(count):
        anywhere = st.integers(COMMITTED, i - 1)
        parents.append(draw(st.integers(max(COMMITTED, i - 3), i - 1) if tall else anywhere))
    return Tree(tuple(parents))


def a_tree(rng: random.Random, size: int) -> Tree:
    return Tree(tuple(rng.randint(max(COMMITTED, i - 4), i - 1) for i in range(size)))


class Guessing(Known):
    """As `Known`, but what it proposes is a random tree of as many tokens, of which one path is
    the script, as far as it goes on; whatever else is in it is wrong.

    Where `branching` is not true it proposes chains.
    """

    def __init__(
        self,
        script: Sequence[int],
        *,
        branching: bool = True,
        seed: int = 0,
        vocabulary: int = 64,
        wrong: Container[int] = (),
        silent: Container[int] = (),
    ) -> None:
        super().__init__(script, vocabulary=vocabulary, wrong=wrong, silent=silent)
        self._branching, self._seed, self._vocabulary = branching, seed, vocabulary
        self.paths: list[tuple[int, ...]] = []

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return (DraftCandidate(self.name, 1 << 30, alternatives=4 if self._branching else 1),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        if not self._branching:
            return super().propose(tokens, choice, sampling, key)
        if len(tokens) in self._silent or len(tokens) >= len(self._script):
            return None
        rng = random.Random(1000 * self._seed + len(tokens))
        tree = a_tree(rng, len(choice.tree) if choice.tree else choice.length)
        right, parent = set[int](), COMMITTED
        while children := tree.children(parent):
            parent = rng.choice(children)
            right.add(parent)
        guesses = []
        for i, (depth, rank) in enumerate(zip(tree.depths, tree.ranks, strict=True)):
            place = min(len(tokens) + depth, len(self._script) - 1)
            shift = 0 if i in right else rank + 2
            guesses.append((self._script[place] + shift) % self._vocabulary)
        ids = mx.array(guesses, dtype=mx.int32)
        return DraftArrays(ids, mx.ones((len(tree),)), None, self.name, tree=tree)

    def accept(self, path: Sequence[int]) -> None:
        super().accept(path)
        self.paths.append(tuple(path))

    def beside(self, target: object) -> Drafter:
        return Guessing(
            self._script,
            branching=self._branching,
            seed=self._seed,
            vocabulary=self._vocabulary,
            silent=self._silent,
        )
