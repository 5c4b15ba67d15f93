"""How many tokens to draft next, and by whom; 0 is an answer. Pure: told what happened, asked
what to do.

`Automatic` weighs what was measured. Drafting n tokens is expected to commit
1 + a_1 + a_1 a_2 + ... tokens (a_i: acceptance at position i, given the ones before), and to
take n draft steps and one pass over n + 1 rows. It chooses the n with the most tokens a second.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

LONGEST = 16


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a drafter could propose now. Saying so is cheap: it asks nothing of the device.

    `most`: tokens at most. `match`: how many tokens matched, where the drafter copies; 0 where
    it does not. `behind`: committed tokens that it would have to read first, beyond the usual.
    """

    drafter: str
    most: int
    match: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """Draft up to `length` tokens with `drafter`, for a few words of `reason`.

    With length 0, `rounds` is how many tokens to write plainly before asking again; sooner, once
    a prospect matches `wake` tokens or more (0: never). `floor`: a drafter that drafts token by
    token stops where the chance that all it has drafted stands falls below this; 0: it never
    stops, and need not wait for its tokens. `chances`: by confidence, see `chance`.
    """

    length: int
    reason: str
    drafter: str = ""
    floor: float = 0.0
    rounds: int = 1
    wake: int = 0
    chances: tuple[float, ...] = ()

    def within(self, room: int) -> "Choice":
        """The same with at most `room` tokens."""
        return self if self.length <= room else replace(self, length=max(room, 0))

    def chance(self, q: float) -> float:
        """How likely a token that was drafted with probability `q` is to stand.

        `chances` has one entry for each of as many equal parts of [0, 1]; without it, it is q.
        """
        parts = len(self.chances)
        return self.chances[min(int(q * parts), parts - 1)] if parts else q


@dataclass(frozen=True, slots=True)
class Measured:
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


class DraftLength(Protocol):
    """A policy."""

    def choose(self, prospects: Sequence[Prospect], *, most: int, context: int) -> Choice:
        """For the next round, behind `context` tokens: at most `most` tokens, of a prospect's."""

    def observe(self, measured: Measured) -> None:
        """The round is over."""

    def restart(self) -> None:
        """Another drafter from now on: forget what was measured."""


class Gate:
    """Which matches are worth copying from: the longer the less of the copies has stood lately."""

    SHORTEST = 2
    _DRAFTED_PER_MATCHED = 2
    _MEMORY = 0.1  # weight of the latest proposal in the acceptance average

    def __init__(self) -> None:
        self._acceptance = 0.5  # moving average over proposals

    @property
    def required(self) -> int:
        """How many tokens must match now: 2 while most guesses stand, up to 8 while few do."""
        if self._acceptance >= 0.5:
            return self.SHORTEST
        return 4 if self._acceptance >= 0.2 else 8

    def most(self, prospect: Prospect) -> int:
        """How many tokens to take of it."""
        if prospect.match == 0:
            return prospect.most  # not a copy
        allowed = prospect.match * self._DRAFTED_PER_MATCHED
        return min(prospect.most, allowed) if prospect.match >= self.required else 0

    def observe(self, measured: Measured) -> None:
        if measured.match:
            rate = measured.accepted / max(measured.proposed, 1)
            self._acceptance += self._MEMORY * (rate - self._acceptance)


class Fixed:
    """Always the same length, as far as there is room; copies only what passes the gate."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._gate = Gate()

    def choose(self, prospects: Sequence[Prospect], *, most: int, context: int) -> Choice:
        if self._length == 0:
            return Choice(0, "drafting is off", rounds=64)
        for prospect in prospects:
            length = min(self._length, most, self._gate.most(prospect))
            if length:
                return Choice(length, f"fixed at {self._length}", prospect.drafter)
        if most == 0:
            return Choice(0, "no room for a draft")
        return Choice(0, "nothing to draft from", rounds=16, wake=self._gate.required)

    def observe(self, measured: Measured) -> None:
        self._gate.observe(measured)

    def restart(self) -> None:
        self._gate = Gate()


class Automatic:
    """Measures a few lengths, then drafts as many tokens as pay; parks where none do.

    Parked, it probes again after 8 rounds, then 16, ... up to 512. Drafting, it now and then
    takes a plain round or a neighbouring length: what is not measured again would stay what it
    was when the machine was cold, or busy with something else.
    """

    _TRIALS = (0, 3, 0, 6, 0, 3, 0)  # the first rounds, so that both costs are measured
    _REFRESH = 16  # drafting rounds between two of those
    _RECENT = 5  # a cost is the median of so many
    _ACCEPTANCE_MEMORY = 0.05
    _MARGIN = 1.02  # what drafting must promise over plain decoding
    _FIRST_PARKING, _LONGEST_PARKING = 8, 512

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._gate = Gate()
        self._trials = list(self._TRIALS)
        self._pass_seconds: dict[int, deque[float]] = {}  # by rows
        self._step_seconds = deque[float](maxlen=self._RECENT)  # per drafted token
        self._acceptance = [0.7] * LONGEST  # by position, given the ones before
        self._parking = self._FIRST_PARKING
        self._probing = False
        self._drafting_rounds = 0

    def choose(self, prospects: Sequence[Prospect], *, most: int, context: int) -> Choice:
        if most <= 0:
            return Choice(0, "no room for a draft")
        usable = [(prospect, self._gate.most(prospect)) for prospect in prospects]
        prospect, allowed = next((each for each in usable if each[1]), (None, 0))
        if prospect is None:
            return Choice(0, "nothing to draft from", rounds=16, wake=self._gate.required)
        choice = self._weigh(min(most, allowed, LONGEST))
        return replace(choice, drafter=prospect.drafter) if choice.length else choice

    def _weigh(self, most: int) -> Choice:
        if self._trials:
            return Choice(min(self._trials[0], most), "measuring")
        speeds = self._speeds()
        best = max(range(most + 1), key=lambda length: speeds[length])
        gain = speeds[best] / speeds[0]
        if best > 0 and gain >= self._MARGIN:
            self._parking = self._FIRST_PARKING
            self._drafting_rounds += 1
            turn, rest = divmod(self._drafting_rounds, self._REFRESH)
            if rest == 0:
                return Choice(min((0, best + 1, best - 1)[turn % 3], most), "measuring again")
            return Choice(best, f"{best} promises {gain:.2f}x plain")
        if self._probing:
            self._probing = False
            self._parking = min(2 * self._parking, self._LONGEST_PARKING)
            return Choice(min(2, most), "probing")
        self._probing = True
        return Choice(0, "drafting does not pay", rounds=self._parking)

    def observe(self, measured: Measured) -> None:
        self._gate.observe(measured)
        if self._trials:
            self._trials.pop(0)
        passes = self._pass_seconds.setdefault(measured.proposed + 1, deque(maxlen=self._RECENT))
        passes.append(measured.verify_seconds)
        if measured.proposed == 0:
            return
        self._step_seconds.append(measured.draft_seconds / measured.proposed)
        for i in range(min(measured.accepted + 1, measured.proposed, LONGEST)):
            stood = float(i < measured.accepted)
            self._acceptance[i] += self._ACCEPTANCE_MEMORY * (stood - self._acceptance[i])

    def _speeds(self) -> list[float]:
        """Expected committed tokens per expected second, by draft length from 0."""
        passes = self._pass_costs()
        step = median(self._step_seconds) if self._step_seconds else 0.0
        committed = alive = 1.0
        speeds = [committed / passes[0]]
        for length in range(1, LONGEST + 1):
            alive *= self._acceptance[length - 1]
            committed += alive
            speeds.append(committed / (passes[length] + length * step))
        return speeds

    def _pass_costs(self) -> list[float]:
        """Seconds for a pass over 1, 2, ... rows: lines between and beyond what was measured."""
        known = [(rows, median(times)) for rows, times in sorted(self._pass_seconds.items())]
        known = known or [(1, 1.0)]
        costs = []
        for rows in range(1, LONGEST + 2):
            left = max((i for i, (r, _) in enumerate(known[:-1]) if r <= rows), default=0)
            (r0, s0), (r1, s1) = known[left], known[min(left + 1, len(known) - 1)]
            slope = max(s1 - s0, 0.0) / (r1 - r0) if r1 > r0 else 0.0
            costs.append(max(s0 + slope * (rows - r0), 1e-9))
        return costs
