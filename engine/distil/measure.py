"""The acceptance length of a head, computed from stored greedy answers alone.

A chain is drafted at every place of an answer at once; then the rounds are walked through as the
engine would do. The tokens that the target would choose are known: they are the answer.
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
class ChainAcceptance:
    """Greedy drafting of chains of a fixed length: committed tokens, and passes of the target."""

    committed: int
    passes: int

    @property
    def length(self) -> float:
        """The acceptance length; 1 means that nothing was accepted."""
        return self.committed / self.passes if self.passes else 1.0


def measure(
    bound: BoundHead, answers: Sequence[RecordedAnswer], embedding: nn.Module, *, chain: int = 5
) -> ChainAcceptance:
    """`embedding` is the target's; `answers` are greedy ones. Drafts `chain` tokens a pass."""
    committed = passes = 0
    for answer in answers:
        accepted = _accepted(bound, answer, embedding, chain)
        place, last = max(answer.prompt - 2, 0), len(answer.tokens) - 3
        while place <= last:
            committed += min(int(accepted[place]) + 1, last - place + 1)
            passes += 1
            place += int(accepted[place]) + 1
    return ChainAcceptance(committed, passes)


def _accepted(
    bound: BoundHead, answer: RecordedAnswer, embedding: nn.Module, chain: int
) -> np.ndarray:
    """For each place, how many tokens of the chain drafted there are the answer's."""
    tokens = np.array(answer.tokens)
    length = len(tokens) - 2
    alive, count = np.ones(length, dtype=bool), np.zeros(length, dtype=int)
    for step, drafted in enumerate(_chains(bound, answer, embedding, chain)):
        place = np.arange(length) + 2 + step
        alive &= (place < len(tokens)) & (drafted == tokens[np.minimum(place, len(tokens) - 1)])
        count += alive
    return count


def _chains(
    bound: BoundHead, answer: RecordedAnswer, embedding: nn.Module, chain: int
) -> Iterator[np.ndarray]:
    """The first, second, ... token drafted at every place."""
    head, length = bound.head, len(answer.tokens) - 2
    unrolled = _Deepening()
    begun = head.begin(answer.states[None, :length].astype(mx.float32))
    after = mx.array(answer.tokens[1:-1])
    own = mx.eye(length).astype(mx.bool_)
    mask = mask_after(0, length)
    for step in range(chain):
        unrolled.offset = step
        embedded = embedding(after).astype(mx.float32)[None]
        state = head(begun, embedded, mask=mask, cache=unrolled)
        after = bound.kept[mx.argmax(head.logits(state)[0], axis=-1)]
        yield np.array(fetch(after)[0])
        begun = head.go_on(state)
        mask = mx.concatenate([mask, own], axis=1)


class _Deepening(Unrolled):
    """Each step is one position behind the step before: `offset` says how far."""

    offset = 0
