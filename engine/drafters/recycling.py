"""Drafts the tokens that the target found likeliest behind the same token earlier.

This is token recycling (arXiv 2408.08696). Every row of every pass gives the target's likeliest
next tokens, and all but one are usually thrown away. Here they are kept: for each token the
likeliest ones when the target last read it, and in front of them the token that followed it in the
text.

A draft is the tree that is asked for, filled from these: behind a token its first successor, and
its second beside it. Unknown places are left out. All guesses are certain (q = 1). No model and no
training, and a guess behind nearly every token: for texts in which nothing better has one. Pure
Python over token ids.
"""

from collections.abc import Sequence
from itertools import pairwise

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.lookup import copied
from engine.request import Sampling
from engine.tree import COMMITTED, Tree

_TOKENS = 8192  # whose successors are kept: those that were read last


class RecyclingDrafter(Drafter):
    """Proposes successors that were seen. They are kept when the text is taken back, as they are
    only guesses."""

    name = "recycling"
    learns = 8

    def __init__(self) -> None:
        self._successors: dict[int, tuple[int, ...]] = {}
        self._seen = 0  # committed tokens that were looked at

    def beside(self, target: Decoder) -> Drafter:
        return RecyclingDrafter()

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return (DraftCandidate(self.name, LONGEST, alternatives=self.learns),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        self._read(tokens)
        asked = choice.tree or Tree.chain(choice.length)
        filled: dict[int, int] = {COMMITTED: tokens[-1]}
        for number, (parent, rank) in enumerate(zip(asked.parents, asked.ranks, strict=True)):
            successors = self._successors.get(filled.get(parent, -1), ())
            if rank < len(successors):
                filled[number] = successors[rank]
        numbers = {number: i - 1 for i, number in enumerate(filled)}
        del filled[COMMITTED]
        if not filled:
            return None
        tree = Tree(tuple(numbers[asked.parents[number]] for number in filled))
        return copied([*filled.values()], tree, drafter=self.name, matched=0)

    def learn(self, tokens: list[int], likeliest: list[list[int]]) -> None:
        for token, successors in zip(tokens, likeliest, strict=True):
            self._keep(token, tuple(successors))

    def rewind(self, length: int) -> None:
        self._seen = min(self._seen, length)

    def _read(self, tokens: list[int]) -> None:
        """Keep the tokens that followed in the text, each as the first successor. This includes the
        prompt, of whose rows `learn` hears nothing."""
        for token, successor in pairwise(tokens[max(self._seen - 1, 0) :]):
            others = (each for each in self._successors.get(token, ()) if each != successor)
            self._keep(token, (successor, *others)[: self.learns])
        self._seen = len(tokens)

    def _keep(self, token: int, successors: tuple[int, ...]) -> None:
        self._successors.pop(token, None)
        self._successors[token] = successors
        if len(self._successors) > _TOKENS:
            del self._successors[next(iter(self._successors))]
