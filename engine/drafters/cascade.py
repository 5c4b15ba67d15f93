"""Several drafters as one: each names its candidates, and the choice names a drafter."""

from collections.abc import Iterator, Sequence

import mlx.core as mx

from engine.decoder import Decoder
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.request import Sampling


class Cascade:
    """Drafts with the drafter that the choice names, else with the first that proposes anything."""

    def __init__(self, *drafters: Drafter) -> None:
        self._drafters = drafters
        self._proposer = drafters[0]

    def beside(self, target: Decoder) -> Drafter:
        return Cascade(*(drafter.beside(target) for drafter in self._drafters))

    @property
    def name(self) -> str:
        return "+".join(drafter.name for drafter in self._drafters)

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
                self._proposer = drafter
                return draft
        return None

    @property
    def learns(self) -> int:
        return max(drafter.learns for drafter in self._drafters)

    def learn(self, tokens: list[int], likeliest: list[list[int]]) -> None:
        for drafter in self._drafters:
            if drafter.learns:
                drafter.learn(tokens, [ids[: drafter.learns] for ids in likeliest])

    def accept(self, path: Sequence[int]) -> None:
        self._proposer.accept(path)

    def rewind(self, length: int) -> None:
        for drafter in self._drafters:
            drafter.rewind(length)
