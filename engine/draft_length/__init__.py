"""How many tokens to draft next, and by which drafter: what is asked, answered and observed.

`policy.py` decides, from what passes and drafts cost (`costs.py`), how likely drafted tokens are to
be accepted (`acceptance.py`), and what was measured of the pair at its first use (`calibrate.py`,
kept by `calibrations.py`). 0 is an answer: then the target decodes plainly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

LONGEST = 16


@dataclass(frozen=True, slots=True)
class DraftCandidate:
    """What a drafter could propose now. Saying so is cheap: it asks nothing of the device.

    `most`: tokens at most. `match`: how many tokens matched, where the drafter copies; 0 where
    it does not. `behind`: committed tokens that it would have to read first, beyond the usual.
    """

    drafter: str
    most: int
    match: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """Draft up to `length` tokens with `drafter`, for a few words of `reason`.

    With length 0, `rounds` is how many tokens to write plainly before asking again; sooner, once
    a candidate matches `wake` tokens or more (0: never). `floor`: a drafter that drafts token by
    token stops where the chance that all it has drafted is accepted falls below this; 0: it never
    stops, and need not wait for its tokens. `chances`: by confidence, see `chance`.
    """

    length: int
    reason: str
    drafter: str = ""
    floor: float = 0.0
    rounds: int = 1
    wake: int = 0
    chances: tuple[float, ...] = ()

    def within(self, room: int) -> "DraftChoice":
        """The same with at most `room` tokens."""
        return self if self.length <= room else replace(self, length=max(room, 0))

    def chance(self, q: float) -> float:
        """How likely a token that was drafted with probability `q` is to be accepted.

        `chances` has one entry for each of as many equal parts of [0, 1]; without it, it is q.
        """
        parts = len(self.chances)
        return self.chances[min(int(q * parts), parts - 1)] if parts else q


@dataclass(frozen=True, slots=True)
class MeasuredRound:
    """What one round showed. Plain rounds have `proposed` 0 and no drafter.

    `context`: committed tokens before the round. `q`: the drafter's probability of each token.
    `asked`: the length that was chosen; where less was proposed, the drafter stopped or ran out.
    """

    proposed: int
    accepted: int
    draft_seconds: float
    verify_seconds: float
    context: int = 0
    drafter: str = ""
    match: int = 0
    q: tuple[float, ...] = ()
    asked: int = 0


class DraftLengthPolicy(Protocol):
    """A policy. Pure: told what happened, asked what to do."""

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int
    ) -> DraftChoice:
        """For the next round, behind `context` tokens: at most `most` tokens, of a candidate's."""

    def observe(self, measured: MeasuredRound) -> None:
        """The round is over."""

    def restart(self) -> None:
        """Another drafter from now on: forget what was measured."""
