"""Computes the acceptance length of a drafter from stored greedy answers alone.

A chain is drafted at every position of an answer at once; then the rounds are followed as in the
engine. The target's choices are known: they are the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.distil.head_learner import HeadLearner
from engine.distil.store import RecordedAnswer


@dataclass(frozen=True, slots=True)
class ChainAcceptance:
    """The result of greedy chains of a fixed length: committed tokens, and passes of the target."""

    committed: int
    passes: int

    @property
    def length(self) -> float:
        """The acceptance length; 1 if nothing was accepted."""
        return self.committed / self.passes if self.passes else 1.0


def measure(
    learner: HeadLearner, answers: Sequence[RecordedAnswer], *, chain: int = 5
) -> ChainAcceptance:
    """Measure on greedy `answers`, with `chain` tokens a pass, or as many as the learner drafts."""
    committed = passes = 0
    for answer in answers:
        accepted = _accepted(learner, answer, chain)
        place, last = max(answer.prompt - 2, 0), len(answer.tokens) - 3
        while place <= last:
            committed += min(int(accepted[place]) + 1, last - place + 1)
            passes += 1
            place += int(accepted[place]) + 1
    return ChainAcceptance(committed, passes)


def _accepted(learner: HeadLearner, answer: RecordedAnswer, chain: int) -> np.ndarray:
    """Return the number of accepted tokens of the chain at each position, (positions,)."""
    tokens = np.array(answer.tokens)
    length = len(tokens) - 2
    alive, count = np.ones(length, dtype=bool), np.zeros(length, dtype=int)
    for step, drafted in enumerate(learner.chains(answer, chain)):
        place = np.arange(length) + 2 + step
        alive &= (place < len(tokens)) & (drafted == tokens[np.minimum(place, len(tokens) - 1)])
        count += alive
    return count
