"""Several drafters as one, in turn: each names its candidates, and the choice names a drafter."""

from collections.abc import Callable, Iterator, Sequence

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.request import Sampling


class Cascade(Drafter):
    """Drafts with the drafter that the choice names, or with the first that proposes anything.

    A cascade in it is replaced by its drafters.
    """

    def __init__(self, *drafters: Drafter) -> None:
        self._drafters: list[Drafter] = []
        for drafter in drafters:
            self._drafters += drafter._drafters if isinstance(drafter, Cascade) else [drafter]
        self.name = "+".join(drafter.name for drafter in self._drafters)
        self.learns = max(drafter.learns for drafter in self._drafters)
        self.dropped = frozenset[str]().union(*(drafter.dropped for drafter in drafters))
        self._proposed = self._drafters[0]  # the last draft

    def fork(self, target: Decoder) -> Drafter:
        return Cascade(*(drafter.fork(target) for drafter in self._drafters))

    def leave_out(self, skippable: Callable[[], Sequence[range]]) -> None:
        for drafter in self._drafters:
            drafter.leave_out(skippable)

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        for drafter in self._drafters:
            yield from drafter.prepare(tokens)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return [each for drafter in self._drafters for each in drafter.candidates(tokens)]

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        named = [drafter for drafter in self._drafters if drafter.name == choice.drafter]
        for drafter in named or self._drafters:
            draft = drafter.propose(tokens, choice, sampling, key)
            if draft is not None:
                self._proposed = drafter
                return draft
        return None

    def learn(self, tokens: list[int], likeliest: list[list[int]]) -> None:
        for drafter in self._drafters:
            if drafter.learns:
                drafter.learn(tokens, [each[: drafter.learns] for each in likeliest])

    def accept(self, path: Sequence[int]) -> None:
        self._proposed.accept(path)

    def rewind(self, length: int) -> None:
        for drafter in self._drafters:
            drafter.rewind(length)
