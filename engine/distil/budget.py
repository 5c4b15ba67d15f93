"""How much a distillation works: minutes, or tokens of answers; which share of it is done.

Pure: from what was done it computes the share of the whole.
"""

from collections.abc import Callable
from dataclasses import dataclass

Reporter = Callable[[str], None]  # gets a line now and then

_ANSWERING = 0.7  # share of the minutes: more answers teach more than more epochs of fewer
_EPOCHS = 8  # where tokens are given


@dataclass(frozen=True, slots=True)
class WorkBudget:
    """Either `minutes` or `tokens` is given."""

    minutes: float | None
    tokens: int | None

    def answered(self, *, tokens: int, seconds: float) -> float:
        """The share of the answering that is done; 1 is all of it."""
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
        assert self.minutes is not None
        return 60 * self.minutes


def in_words(seconds: float) -> str:
    """A time as people say it."""
    if seconds > 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


def left(seconds: float, share: float) -> str:
    """How long the rest will take, if `share` of it took `seconds`."""
    return f"{in_words(max(0.0, seconds * (1 / max(share, 1e-3) - 1)))} left"
