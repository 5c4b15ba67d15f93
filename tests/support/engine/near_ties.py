"""Whether two greedy texts are equal, equal up to a near tie, or different, by what was measured
along the whole of one."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.near_ties import Fork


@dataclass(frozen=True, slots=True)
class Rounding:
    """What passes over `rows` rows made of a text that passes over single ones wrote: the largest
    `difference` of a logit, and at how many of its `tokens` another token came first: `forks`."""

    rows: int
    tokens: int
    difference: float
    forks: int


def first_fork(
    plain: Sequence[int],
    written: Sequence[int],
    *,
    margins: Sequence[float],
    roundings: Sequence[Rounding],
) -> Fork | None:
    """Where `written` leaves the `plain` text, whose `margins` are given token by token; None where
    it is all of it. A text that only ends elsewhere has left it there: -1 stands for no token."""
    allowed = 2.0 * max((each.difference for each in roundings), default=0.0)
    for at in range(max(len(plain), len(written))):
        ours = plain[at] if at < len(plain) else -1
        theirs = written[at] if at < len(written) else -1
        if ours != theirs:
            ended = -1 in (ours, theirs)
            margin = float("inf") if ended else margins[at]
            return Fork(at, ours, theirs, margin, allowed)
    return None
