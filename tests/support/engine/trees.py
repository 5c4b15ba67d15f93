"""Random trees, a drafter of them that is partly right, and a policy that asks for their shapes."""

import random
from itertools import cycle

import mlx.core as mx
from hypothesis import strategies as st

from engine.draft_length import DraftCandidate, DraftChoice
from engine.draft_length.policy import Fixed
from engine.drafters import DraftArrays
from engine.tree import COMMITTED, Tree
from tests.support.engine.helpers import Known


@st.composite
def random_trees(draw, *, most=24):
    """Tall ones and broad ones, their tokens in any order that a tree allows."""
    count = draw(st.integers(1, most))
    tall = draw(st.booleans())
    parents = []
    for i in range(count):
        anywhere = st.integers(COMMITTED, i - 1)
        parents.append(draw(st.integers(max(COMMITTED, i - 3), i - 1) if tall else anywhere))
    return Tree(tuple(parents))


def a_tree(rng, size):
    return Tree(tuple(rng.randint(max(COMMITTED, i - 4), i - 1) for i in range(size)))


class Guessing(Known):
    """A `Known` that proposes random trees of as many tokens as are asked for. One path is the
    script, as far as it goes on; all other tokens are wrong."""

    def __init__(self, script, *, seed=0, vocabulary=64, wrong=(), silent=()):
        super().__init__(script, vocabulary=vocabulary, wrong=wrong, silent=silent)
        self._seed, self._vocabulary = seed, vocabulary
        self.paths = []

    def candidates(self, tokens):
        return (DraftCandidate(self.name, 1 << 30, alternatives=4),)

    def propose(self, tokens, choice, sampling, key):
        if choice.tree is None:
            return super().propose(tokens, choice, sampling, key)
        if len(tokens) in self._silent or len(tokens) >= len(self._script):
            return None
        rng = random.Random(1000 * self._seed + len(tokens))
        tree = a_tree(rng, len(choice.tree))
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

    def accept(self, path):
        super().accept(path)
        self.paths.append(tuple(path))


class Foreseeing(Guessing):
    """Its script is what `model` would write, which reads all of the text for every draft."""

    def __init__(self, model, *, vocabulary):
        super().__init__((), vocabulary=vocabulary)
        self._model = model

    def propose(self, tokens, choice, sampling, key):
        self._script = list(tokens)
        for _ in range(choice.length):
            logits = self._model(mx.array([self._script]))[0, -1]
            self._script.append(int(mx.argmax(logits)))
        return super().propose(tokens, choice, sampling, key)


class Shaped(Fixed):
    """A policy that asks the first drafter that can branch for one of `shapes` after the other."""

    def __init__(self, *shapes):
        super().__init__(0)
        self._shapes = shapes
        self._next = cycle(shapes)

    def choose(self, candidates, *, most, context, others=0):
        for each in candidates:
            if each.alternatives > 1:
                shape = next(self._next).no_higher(each.most)
                return DraftChoice(shape.height, drafter=each.drafter, tree=shape)
        return DraftChoice(0)

    def another(self):
        return Shaped(*self._shapes)
