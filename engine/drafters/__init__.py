"""Ways of guessing what the target will write: one file each, behind one small protocol.

A drafter sees the committed tokens, proposes a few, and is told how many stood. It may be
as wrong as it likes: acceptance makes the text the target's own. To be exactly so, it must
give each proposed token together with the distribution that it was drawn from.

A draft is a chain. A tree would add the parent of each token, and a drafter fed by the
target's hidden states would get them in `accept`; neither changes what is here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from engine.draft_length import DraftCandidate, DraftChoice
from engine.request import Sampling


@dataclass(frozen=True, slots=True)
class DraftArrays:
    """Drafted tokens, arrays still on the device.

    `tokens`: (n,) int32, n >= 1. `q`: (n,) float32, the probability of each, to be shown.
    `distributions`: (n, target's vocabulary), what each was drawn from, after the sampler chain;
    None where the drafter was certain (q = 1). At temperature 0 it is not looked at.
    `drafter`: who proposed. `match`: how many tokens matched, where it copies.
    """

    tokens: mx.array
    q: mx.array
    distributions: mx.array | None
    drafter: str
    match: int = 0


class Drafter(Protocol):
    """A way of guessing. Calls come in the order prepare, (candidates, propose, accept)*, ..."""

    @property
    def name(self) -> str:
        """One word, shown to people."""

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        """Read a prompt, in steps short enough to cancel between; yields tokens read so far."""

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        """What could follow the committed `tokens`, without asking the device."""

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        """Up to `choice.length` tokens that may follow `tokens`; None for no idea after all."""

    def accept(self, accepted: int) -> None:
        """The first `accepted` tokens of the last draft stand."""

    def rewind(self, length: int) -> None:
        """All but the first `length` committed tokens are no more."""


class NoDrafter:
    """Proposes nothing: plain decoding, the baseline."""

    name = "none"

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        return iter(())

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return ()

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        return None

    def accept(self, accepted: int) -> None:
        pass

    def rewind(self, length: int) -> None:
        pass
