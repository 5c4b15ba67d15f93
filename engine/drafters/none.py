"""No drafting: plain decoding, the baseline."""

from collections.abc import Iterator, Sequence

import mlx.core as mx

from engine.draft_length import Choice, Prospect
from engine.drafters import Proposal
from engine.request import Sampling


class NoDrafter:
    """Never proposes anything."""

    name = "none"

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        return iter(())

    def prospects(self, tokens: list[int]) -> Sequence[Prospect]:
        return ()

    def propose(
        self, tokens: list[int], choice: Choice, sampling: Sampling, key: mx.array
    ) -> Proposal | None:
        return None

    def settle(self, accepted: int) -> None:
        pass

    def rewind(self, length: int) -> None:
        pass
