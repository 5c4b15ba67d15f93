"""How many tokens to draft next; 0 is an answer. Pure: told what happened, asked what to do.

`Automatic` weighs what was measured. Drafting n tokens is expected to commit
1 + a_1 + a_1 a_2 + ... tokens (a_i: acceptance at position i, given the ones before), and to
take n draft steps and one pass over n + 1 rows. It chooses the n with the most tokens a second.
"""

from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Protocol

LONGEST = 16


@dataclass(frozen=True, slots=True)
class Choice:
    """Draft up to `length` tokens, for a few words of `reason`.

    With length 0, `rounds` is how many tokens to write plainly before asking again.
    """

    length: int
    reason: str
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """What one round showed. Plain rounds have `proposed` 0."""

    proposed: int
    accepted: int
    draft_seconds: float
    verify_seconds: float


class DraftLength(Protocol):
    """A policy."""

    def choose(self, most: int) -> Choice:
        """For the next round, at most `most` tokens."""

    def observe(self, measured: Measured) -> None:
        """The round is over."""

    def restart(self) -> None:
        """Another drafter from now on: forget what was measured."""


class Fixed:
    """Always the same length, as far as there is room."""

    def __init__(self, length: int) -> None:
        self._length = length

    def choose(self, most: int) -> Choice:
        if self._length == 0:
            return Choice(0, "drafting is off", rounds=64)
        return Choice(min(self._length, most), f"fixed at {self._length}")

    def observe(self, measured: Measured) -> None:
        pass

    def restart(self) -> None:
        pass


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
        self._trials = list(self._TRIALS)
        self._pass_seconds: dict[int, deque[float]] = {}  # by rows
        self._step_seconds = deque[float](maxlen=self._RECENT)  # per drafted token
        self._acceptance = [0.7] * LONGEST  # by position, given the ones before
        self._parking = self._FIRST_PARKING
        self._probing = False
        self._drafting_rounds = 0

    def choose(self, most: int) -> Choice:
        most = min(most, LONGEST)
        if most == 0:
            return Choice(0, "no room for a draft")
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
