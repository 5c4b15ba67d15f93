"""Whether a greedy text that is not plain decoding's differs by rounding alone. Pure.

A GPU's kernels round by the number of rows, so a pass over a draft may put another token first than
passes over single rows do, where the two best are close. Rounding explains it where they are closer
than twice what the same logits differ by between those kernels; anything else is a fault.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fork:
    """The first token, number `at` of a text, that was `written` and is not the `plain` one.

    `margin`: by how much the plain token's logit is above the second best, read alone. `allowed`:
    twice what logits there differ by where several rows are read at once.
    """

    at: int
    plain: int
    written: int
    margin: float
    allowed: float

    @property
    def near_tie(self) -> bool:
        """Whether rounding explains it."""
        return self.margin < self.allowed
