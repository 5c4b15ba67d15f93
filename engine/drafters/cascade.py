"""One drafter after another: the first that has an idea proposes."""

from collections.abc import Iterator

import mlx.core as mx

from engine.drafters import Drafter, Proposal
from engine.request import Sampling


class Cascade:
    """Asks `drafters` in order, cheapest first."""

    def __init__(self, *drafters: Drafter) -> None:
        self._drafters = drafters
        self._proposer = drafters[0]

    @property
    def name(self) -> str:
        return "+".join(drafter.name for drafter in self._drafters)

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        for drafter in self._drafters:
            yield from drafter.prepare(tokens)

    def propose(
        self, tokens: list[int], limit: int, sampling: Sampling, key: mx.array
    ) -> Proposal | None:
        for drafter in self._drafters:
            proposal = drafter.propose(tokens, limit, sampling, key)
            if proposal is not None:
                self._proposer = drafter
                return proposal
        return None

    def settle(self, accepted: int) -> None:
        self._proposer.settle(accepted)

    def rewind(self, length: int) -> None:
        for drafter in self._drafters:
            drafter.rewind(length)
