"""How many tokens a pass commits with a head, found from stored greedy answers alone.

From every place of an answer a chain is drafted at once; then the rounds are walked through as
the engine would have gone. What the target would say is known: it is the answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.device import fetch
from engine.distil.loss import Unrolled, mask_after
from engine.distil.store import RecordedAnswer
from engine.drafters.head_network import BoundHead


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Of greedy drafting with a fixed chain: tokens committed, and passes of the target."""

    committed: int
    passes: int

    @property
    def length(self) -> float:
        """The acceptance length; 1 means that nothing stood."""
        return self.committed / self.passes if self.passes else 1.0


def measure(
    fitted: BoundHead, answers: Sequence[RecordedAnswer], embedding: nn.Module, *, chain: int = 5
) -> Acceptance:
    """`embedding` is the target's; `answers` are greedy ones. Drafts `chain` tokens a pass."""
    committed = passes = 0
    for one in answers:
        stood = _stood(fitted, one, embedding, chain)
        place, last = max(one.prompt - 2, 0), len(one.tokens) - 3
        while place <= last:
            committed += min(int(stood[place]) + 1, last - place + 1)
            passes += 1
            place += int(stood[place]) + 1
    return Acceptance(committed, passes)


def _stood(fitted: BoundHead, one: RecordedAnswer, embedding: nn.Module, chain: int) -> np.ndarray:
    """For each place, how many tokens of a chain drafted there are the answer's."""
    tokens = np.array(one.tokens)
    length = len(tokens) - 2
    alive, count = np.ones(length, dtype=bool), np.zeros(length, dtype=int)
    for step, drafted in enumerate(_chains(fitted, one, embedding, chain)):
        place = np.arange(length) + 2 + step
        alive &= (place < len(tokens)) & (drafted == tokens[np.minimum(place, len(tokens) - 1)])
        count += alive
    return count


def _chains(
    fitted: BoundHead, one: RecordedAnswer, embedding: nn.Module, chain: int
) -> Iterator[np.ndarray]:
    """The first, second, ... token drafted at every place."""
    head, length = fitted.head, len(one.tokens) - 2
    unrolled = _Deepening()
    begun = head.begin(one.states[None, :length].astype(mx.float32))
    after = mx.array(one.tokens[1:-1])
    own = mx.eye(length).astype(mx.bool_)
    mask = mask_after(0, length)
    for step in range(chain):
        unrolled.offset = step
        embedded = embedding(after).astype(mx.float32)[None]
        state = head(begun, embedded, mask=mask, cache=unrolled)
        after = fitted.kept[mx.argmax(head.logits(state)[0], axis=-1)]
        yield np.array(fetch(after)[0])
        begun = head.go_on(state)
        mask = mx.concatenate([mask, own], axis=1)


class _Deepening(Unrolled):
    """Each step stands one position later than the one before: `offset` says how far."""

    offset = 0
