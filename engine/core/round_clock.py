"""Times a round: its draft, then its pass. Knows moments only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RoundClock:
    """Times a round from now on: a draft until it is known, then a pass until its verdict is.

    Building a pass on the host counts as the pass's time, even if a device computes the draft
    meanwhile: a plain pass takes it, too. Attribute: `draft_seconds`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.draft_seconds = 0.0
        self._now, self._since = now, now()
        self._building, self._drafting = 0.0, True

    @contextmanager
    def building(self) -> Iterator[None]:
        """Build the pass inside the block."""
        began = self._now()
        yield
        self._building = self._now() - began

    def drafted(self) -> None:
        """The draft is known. Later calls change nothing."""
        if self._drafting:
            began, self._since = self._since, self._now() - self._building
            self.draft_seconds, self._drafting = self._since - began, False

    def resume(self, spent_seconds: float = 0.0) -> None:
        """Go on with the pass after an interruption: `spent_seconds` of the pass are over."""
        self._since = self._now() - spent_seconds

    def verified(self) -> float:
        """Return the seconds of the pass, whose verdict is known. The next pass has begun."""
        began, self._since = self._since, self._now()
        return self._since - began
