"""What a draft is worth: expected tokens against expected seconds. Pure.

A round that drafts n tokens is expected to commit 1 + a_1 + a_1 a_2 + ... of them (a_i: the chance
that token i stands, given the ones before) and takes n draft steps and a pass over n + 1 rows.
Seconds are counted in plain passes here, so that a gain over plain decoding is tokens a pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.acceptance import expected_tokens
from engine.costs import DraftCosts

_FARTHER = 3  # times as far


@dataclass(frozen=True, slots=True)
class Offer:
    """A draft of `length` tokens by `drafter`: `tokens` to be expected, for `cost` plain passes."""

    drafter: str
    length: int
    tokens: float
    cost: float

    @property
    def gain(self) -> float:
        """How many times as fast as plain decoding."""
        return self.tokens / self.cost

    def alike(self, other: "Offer") -> bool:
        """Whether it is the same draft, whatever it is worth."""
        return (self.drafter, self.length) == (other.drafter, other.length)

    def value(self, speed: float) -> float:
        """Tokens, less what could be had elsewhere in the same time, at `speed` tokens a pass."""
        return self.tokens - speed * self.cost


def offers(
    drafter: str, chances: Sequence[float], passes: Sequence[float], draft: DraftCosts
) -> list[Offer]:
    """By length, from 1. `passes`: seconds of passes over 1, 2, ... rows, one more than chances."""
    plain = passes[0]
    made = []
    for length, tokens in enumerate(expected_tokens(chances)):
        if length:
            seconds = passes[length] + draft.start_seconds + length * draft.step_seconds
            made.append(Offer(drafter, length, tokens, seconds / plain))
    return made


def with_stops(
    best: Offer, offered: Sequence[Offer], *, speed: float, watch: float
) -> tuple[int, float]:
    """How far to go, and the chance below which to stop, where looking at each drafted token costs
    `watch` plain passes.

    One more token is worth drafting while the chance that it stands, that of all before it times
    its own, brings more than its time would elsewhere. A drafter that stops where it is unsure may
    set out for more than one that cannot.
    """
    longest = min(_FARTHER * best.length, len(offered))
    cost = (offered[longest - 1].cost - offered[0].cost) / max(longest - 1, 1) + watch
    gains = [1.0, *(offer.tokens for offer in offered[:longest])]
    last = (gains[-1] - gains[-2]) / (gains[-2] - gains[-3]) if longest > 1 else gains[-1] - 1.0
    return longest, min(speed * cost / max(last, 0.05), 1.0)


class Pace:
    """How many tokens a plain pass's time brings lately. What a round's time is worth elsewhere:
    where a rich match comes now and then, it is worth a longer draft than its own best rate."""

    _MEMORY = 0.95  # in each round
    _ASSUMED = 8.0  # passes' worth of what is on offer

    def __init__(self) -> None:
        self._tokens = self._passes = 0.0

    def count(self, tokens: int, passes: float) -> None:
        """A round brought `tokens`, for as much time as so many plain passes."""
        self._tokens = self._MEMORY * self._tokens + tokens
        self._passes = self._MEMORY * self._passes + passes

    def speed(self, offered: float) -> float:
        """Tokens a pass, where the best on offer now brings `offered`; plain decoding brings 1."""
        brought = self._tokens + self._ASSUMED * offered
        return max(brought / (self._passes + self._ASSUMED), 1.0)
