"""The budget of a distillation, in minutes or in tokens of answers, and the share that is done.

Pure.
"""

from collections.abc import Callable
from dataclasses import dataclass

from models import in_words
from models.errors import Problem

Reporter = Callable[[str], None]  # gets a line now and then

_ANSWERING = 0.7  # share of the minutes: more answers teach more than more epochs over fewer
_EPOCHS = 8  # if the budget is in tokens


@dataclass(frozen=True, slots=True)
class WorkBudget:
    """A budget of either `minutes` or `tokens`; the other is None. Raises `Problem`."""

    minutes: float | None
    tokens: int | None

    def __post_init__(self) -> None:
        if (self.minutes is None) == (self.tokens is None):
            raise Problem("Of --minutes and --tokens one is required.", "Give one of them.")

    def answered(self, *, tokens: int, seconds: float) -> float:
        """The share of the answering that is done, from 0; 1 and more is all of it."""
        if self.tokens is not None:
            return tokens / self.tokens
        return seconds / (self._seconds * _ANSWERING)

    def trained(self, *, epochs: float, seconds: float, answering_seconds: float) -> float:
        """The share of the training that is done; answering took `answering_seconds`."""
        if self.tokens is not None:
            return epochs / _EPOCHS
        return seconds / max(self._seconds - answering_seconds, self._seconds * (1 - _ANSWERING))

    @property
    def _seconds(self) -> float:
        return 60 * (self.minutes or 0.0)


def left(seconds: float, share: float) -> str:
    """Format the time that is left, if `share` of the work took `seconds`: "12 min left"."""
    return in_words.left(max(0.0, seconds * (1 / max(share, 1e-9) - 1)))
