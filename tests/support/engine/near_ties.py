"""Whether two greedy texts are equal, equal up to a near tie, or different, by what was measured
along the whole of one."""

from dataclasses import dataclass

from engine.near_ties import Fork


@dataclass(frozen=True, slots=True)
class Rounding:
    """The rounding of passes over `rows` rows along a text of `tokens` tokens that single rows
    wrote: the largest `difference` of a logit, and the number of places where another token came
    first (`forks`)."""

    rows: int
    tokens: int
    difference: float
    forks: int


def first_fork(plain, written, *, margins, roundings):
    """Return the first difference of `written` from the `plain` text, whose `margins` are given
    token by token; None if there is none. The end of a text counts as the token -1."""
    allowed = 2.0 * max((each.difference for each in roundings), default=0.0)
    for at in range(max(len(plain), len(written))):
        ours = plain[at] if at < len(plain) else -1
        theirs = written[at] if at < len(written) else -1
        if ours != theirs:
            ended = -1 in (ours, theirs)
            margin = float("inf") if ended else margins[at]
            return Fork(at, ours, theirs, margin, allowed)
    return None
