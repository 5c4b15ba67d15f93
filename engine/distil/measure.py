"""The acceptance length of a drafter, computed from stored greedy answers alone.

A chain is drafted at every place of an answer at once; then the rounds are walked through as the
engine would do. The tokens that the target would choose are known: they are the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.distil.learner import Learner
from engine.distil.store import RecordedAnswer


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
    learner: Learner, answers: Sequence[RecordedAnswer], *, chain: int = 5
) -> ChainAcceptance:
    """`answers` are greedy ones. Drafts `chain` tokens a pass, or as many as the learner can."""
    committed = passes = 0
    for answer in answers:
        accepted = _accepted(learner, answer, chain)
        place, last = max(answer.prompt - 2, 0), len(answer.tokens) - 3
        while place <= last:
            committed += min(int(accepted[place]) + 1, last - place + 1)
            passes += 1
            place += int(accepted[place]) + 1
    return ChainAcceptance(committed, passes)


def _accepted(learner: Learner, answer: RecordedAnswer, chain: int) -> np.ndarray:
    """For each place, how many tokens of the chain drafted there are the answer's."""
    tokens = np.array(answer.tokens)
    length = len(tokens) - 2
    alive, count = np.ones(length, dtype=bool), np.zeros(length, dtype=int)
    for step, drafted in enumerate(learner.chains(answer, chain)):
        place = np.arange(length) + 2 + step
        alive &= (place < len(tokens)) & (drafted == tokens[np.minimum(place, len(tokens) - 1)])
        count += alive
    return count
