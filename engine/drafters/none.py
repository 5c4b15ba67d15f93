"""No drafting: plain decoding, the baseline."""

from collections.abc import Iterator

import mlx.core as mx

from engine.drafters import Proposal
from engine.request import Sampling


class NoDrafter:
    """Never proposes anything."""

    name = "none"

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        return iter(())

    def propose(
        self, tokens: list[int], limit: int, sampling: Sampling, key: mx.array
    ) -> Proposal | None:
        return None

    def settle(self, accepted: int) -> None:
        pass

    def rewind(self, length: int) -> None:
        pass
