"""Where two texts part, and whether rounding alone parts a greedy one from plain decoding's. Pure.

A GPU's kernels round by the number of rows, so a pass over a draft may put another token first than
passes over single rows do, where the two are close. Rounding explains it where they are closer
than twice what the same logits differ by between those kernels; anything else is a fault.
"""

from collections.abc import Sequence
from dataclasses import dataclass


def alike[T](first: Sequence[T], second: Sequence[T]) -> int:
    """Return how many items two sequences, such as texts or their tokens, begin with alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))


@dataclass(frozen=True, slots=True)
class Fork:
    """The first difference of two texts: token number `at` was `written` in place of the `plain`
    one.

    `margin`: between the logits of the two, read alone; better ones may be of tokens that a grammar
    forbids. `allowed`: twice the measured difference of logits there between reading alone and
    reading several rows at once. A smaller margin is a near tie.
    """

    at: int
    plain: int
    written: int
    margin: float
    allowed: float

    @property
    def near_tie(self) -> bool:
        """Whether rounding explains the difference."""
        return self.margin < self.allowed
