"""A policy that asks for one shape in every round, and laws of drafts that are trees."""

from collections.abc import Sequence

from engine.draft_length import DraftCandidate, DraftChoice, MeasuredRound
from engine.tree import Tree


class Shaped:
    """Asks the first drafter that can branch for `shape`, and any other for a chain as high."""

    def __init__(self, shape: Tree) -> None:
        self._shape = shape

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, beside: int = 0
    ) -> DraftChoice:
        for each in candidates:
            shape = self._shape.no_higher(each.most)
            if each.alternatives > 1:
                return DraftChoice(shape.height, drafter=each.drafter, tree=shape)
        return DraftChoice(min(self._shape.height, most) if candidates else 0)

    def observe(self, measured: MeasuredRound) -> None:
        pass

    def restart(self) -> None:
        pass

    def another(self) -> "Shaped":
        return self
