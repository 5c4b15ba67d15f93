"""How many tokens to draft next; 0 is an answer. Pure: told what happened, asked what to do.

`Automatic` weighs what was measured. Drafting n tokens is expected to commit
1 + a_1 + a_1 a_2 + ... tokens (a_i: acceptance at position i, given the ones before), and to
take n draft steps and one pass over n + 1 rows. It chooses the n with the most tokens a second.
"""

from dataclasses import dataclass
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


class Automatic:
    """Measures a few lengths, then drafts as many tokens as pay; parks where none do.

    Parked, it probes again after 8 rounds, then 16, ... up to 512.
    """

    _TRIALS = (3, 0, 6, 0, 3, 0)  # lengths for the first rounds, to have both costs measured
    _COST_MEMORY = 0.2
    _ACCEPTANCE_MEMORY = 0.05
    _MARGIN = 1.02  # what drafting must promise over plain decoding
    _FIRST_PARKING, _LONGEST_PARKING = 8, 512

    def __init__(self) -> None:
        self._trials = list(self._TRIALS)
        self._pass_seconds: dict[int, float] = {}  # by rows, moving averages
        self._step_seconds: float | None = None  # per drafted token
        self._acceptance = [0.7] * LONGEST  # by position, given the ones before
        self._parking = self._FIRST_PARKING
        self._probing = False

    def choose(self, most: int) -> Choice:
        if self._trials:
            return self._measure(min(self._trials[0], most), "measuring")
        best = max(range(LONGEST + 1), key=self._speed)
        gain = self._speed(best) / self._speed(0)
        if best > 0 and gain >= self._MARGIN:
            self._parking = self._FIRST_PARKING
            return Choice(min(best, most), f"{best} promises {gain:.2f}x plain")
        if self._probing:
            self._probing = False
            self._parking = min(2 * self._parking, self._LONGEST_PARKING)
            return self._measure(min(2, most), "probing")
        self._probing = True
        return Choice(0, "drafting does not pay", rounds=self._parking)

    def _measure(self, length: int, reason: str) -> Choice:
        return Choice(length, reason)

    def observe(self, measured: Measured) -> None:
        if self._trials:
            self._trials.pop(0)
        rows = measured.proposed + 1
        self._pass_seconds[rows] = _average(
            self._pass_seconds.get(rows), measured.verify_seconds, self._COST_MEMORY
        )
        if measured.proposed == 0:
            return
        self._step_seconds = _average(
            self._step_seconds, measured.draft_seconds / measured.proposed, self._COST_MEMORY
        )
        for i in range(min(measured.accepted + 1, measured.proposed, LONGEST)):
            stood = float(i < measured.accepted)
            self._acceptance[i] += self._ACCEPTANCE_MEMORY * (stood - self._acceptance[i])

    def _speed(self, length: int) -> float:
        """Expected committed tokens per expected second."""
        committed, alive = 1.0, 1.0
        for acceptance in self._acceptance[:length]:
            alive *= acceptance
            committed += alive
        seconds = self._pass_cost(length + 1) + length * (self._step_seconds or 0.0)
        return committed / max(seconds, 1e-9)

    def _pass_cost(self, rows: int) -> float:
        """Seconds for a pass: between measured row counts a line, beyond them the last slope."""
        known = sorted(self._pass_seconds.items())
        if not known:
            return 1.0
        if len(known) == 1:
            return known[0][1]
        below = [point for point in known[:-1] if point[0] <= rows] or known[:1]
        (r0, s0) = below[-1]
        (r1, s1) = known[known.index((r0, s0)) + 1]
        return s0 + max(s1 - s0, 0.0) / (r1 - r0) * (rows - r0)


def _average(old: float | None, new: float, weight: float) -> float:
    return new if old is None else old + weight * (new - old)
