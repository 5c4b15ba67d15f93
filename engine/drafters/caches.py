"""Drafts from the target's own keys and values, with none of its own.

Nothing has to be read before it drafts, and nothing taken back after: a round begins with what the
target's caches hold then. The network starts from the target's state of the last token in them, and
continues from its own.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import mlx.core as mx

from engine.core.cache import keys_and_values
from engine.core.decoder import Decoder
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.chain import draft_chain
from engine.drafters.rows import Rows
from engine.request import Sampling

Memory = Mapping[str, tuple[mx.array, mx.array]]
"""The keys and values that layers of each type attend to, (1, heads, positions, size) each."""


class CacheNetwork(Protocol):
    """A network that reads the target's caches. `width` is the target's."""

    @property
    def caches(self) -> Mapping[str, int]:
        """The place among the target's caches of those that layers of each type read."""

    def __call__(
        self, state: mx.array, token: mx.array, memory: Memory, position: int
    ) -> tuple[mx.array, mx.array]:
        """Return the next state, and the logits of the token after `token`: (1, vocabulary).

        `state`: (1, 1, width); `token`: (1,); `position`: of the last one in `memory`.
        """


class CacheDrafter(Drafter):
    """Drafts for `target`, whose states behind the final norm are recorded from now on."""

    def __init__(self, target: Decoder, network: CacheNetwork, *, name: str) -> None:
        self.name = name
        self._target = target
        self._network = network
        self._states = target.record(("norm",))

    def beside(self, target: Decoder) -> Drafter:
        return type(self)(target, self._network, name=self.name)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return (DraftCandidate(self.name, LONGEST),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        end = self._target.length
        if not self._states.first < end == self._states.end:
            return None
        state = self._states.between(end - 1, end)[None, :, 0]
        layers = self._target.timeline.layers
        memory = {
            kind: keys_and_values(layers[place]) for kind, place in self._network.caches.items()
        }

        def read(inputs: mx.array) -> mx.array:
            """Read all of `inputs`, each at the position of the last key."""
            nonlocal state
            for token in mx.split(inputs, inputs.size):
                state, logits = self._network(state, token, memory, end - 1)
            return logits

        return draft_chain(
            read,
            unread=tokens[end:],
            tokens=tokens,
            choice=choice,
            rows=Rows(self._target.vocabulary),
            sampling=sampling,
            key=key,
            drafter=self.name,
        )
