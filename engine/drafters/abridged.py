"""The part of a text that a drafting model reads: all but pictures, which only the target sees.

Knows places in a text; neither who chose the parts nor who reads the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True, slots=True)
class Abridged:
    """A text without `gaps`, which are ranges of token numbers: ascending, apart, and not empty."""

    gaps: tuple[range, ...] = ()

    def of(self, tokens: list[int]) -> list[int]:
        """Return the part of these committed tokens that is read."""
        read: list[int] = []
        place = 0
        for gap in self.gaps:
            read += tokens[place : gap.start]
            place = gap.stop
        return read + tokens[place:]

    def ends_in_gap(self, tokens: list[int]) -> bool:
        """Whether the last token is not read, so that no draft can begin after it."""
        return any(len(tokens) - 1 in gap for gap in self.gaps)

    def length(self, length: int) -> int:
        """Return how many of the first `length` tokens of a text are read."""
        return length - sum(len(range(gap.start, min(gap.stop, length))) for gap in self.gaps)

    def changed(self, gaps: Sequence[range], *, rewind: Callable[[int], None]) -> "Abridged":
        """Return the text with other gaps. Tokens before the first difference of the gaps stay
        read; `rewind` takes back the rest."""
        pairs = zip_longest(self.gaps, gaps)
        differing = next((pair for pair in pairs if pair[0] != pair[1]), None)
        if differing is None:
            return self
        rewind(min(gap.start for gap in differing if gap is not None))
        return Abridged(tuple(gaps))
