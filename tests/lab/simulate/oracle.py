"""The oracle in expectation: the best that is possible without knowing the future.

It knows the acceptance rates by drafter, match and position over the very answers that it writes,
and the true costs of the moment. It maximises the tokens of the whole episode by its seconds: the
value of a round is its tokens less what its time is worth elsewhere (Dinkelbach's method: what
time is worth is found by playing again). It does not know which tokens will be accepted.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import mul

from engine.draft_length import DraftCandidate, DraftChoice, MeasuredRound
from tests.lab.simulate.conditions import Conditions
from tests.lab.simulate.replay import Phase, SimulatedRound, cost, replay, seconds
from tests.lab.simulate.traces import AnswerTrace, RecordedDraft

_LONGEST = 16
_PLAYED = 5  # times, each with what the one before found
_ELSEWHERE = 0.1  # weight of places where no round began: a bucket may have no other

Kind = tuple[str, int]  # a drafter, and how long its match is
Standing = Mapping[Kind, Sequence[float]]  # the chance that the first 1, 2, ... tokens all stand


def oracle(phase: Phase, conditions: Conditions) -> tuple[SimulatedRound, ...]:
    """The rounds of the fastest play."""
    everywhere = [
        (drafter, drafted)
        for answer in phase.answers
        for place in range(answer.places)
        for drafter, drafted in _at(answer, place)
    ]
    begun: list[tuple[str, RecordedDraft]] = []
    worth = (1.0, 1.0)
    plays = []
    for _ in range(_PLAYED):
        player = Oracle(_standing(begun, everywhere), worth, phase, conditions)
        rounds = tuple(replay(phase, player, conditions))
        plays.append(rounds)
        worth = (_worth(rounds, conditions, late=False), _worth(rounds, conditions, late=True))
        begun = [pair for round in rounds for pair in _at(phase.answers[round.answer], round.place)]
    return min(plays, key=lambda rounds: seconds(rounds, conditions))


class Oracle:
    """A policy that need not learn. `worth`: tokens that a plain pass's time is worth, by half."""

    def __init__(
        self, standing: Standing, worth: tuple[float, float], phase: Phase, conditions: Conditions
    ) -> None:
        self._standing = standing
        self._worth = worth
        self._phase = phase
        self._conditions = conditions
        self._written = 0

    def another(self) -> "Oracle":
        return self

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, others: int = 0
    ) -> DraftChoice:
        progress = self._phase.progress(self._written)
        worth = self._worth[progress >= 0.5]
        conditions = self._conditions
        verify = [
            conditions.verify_seconds(rows, context=context, progress=progress)
            for rows in range(1, min(most, _LONGEST) + 2)
        ]
        a_second = worth / verify[0]
        best, choice = 1.0 - worth, DraftChoice(0)
        for candidate in candidates:
            standing = self._standing[candidate.drafter, kind(candidate.match)]
            late, start, one = (
                conditions.draft_seconds(
                    candidate.drafter, n, context=context, progress=progress, behind=behind
                )
                for n, behind in ((0, candidate.behind), (0, 0), (1, 0))
            )
            tokens = 1.0
            for length in range(1, min(most, candidate.most, _LONGEST) + 1):
                tokens += standing[length - 1]
                value = tokens - a_second * (late + length * (one - start) + verify[length])
                if value > best:
                    best, choice = value, DraftChoice(length, drafter=candidate.drafter)
        return choice

    def observe(self, measured: MeasuredRound) -> None:
        self._written += measured.accepted + 1

    def restart(self) -> None:
        self._written = 0


def kind(match: int) -> int:
    """The class of a match length: those in it are about equally good."""
    return match if match <= 4 else min(match.bit_length() + 2, 8)


def _at(answer: AnswerTrace, place: int) -> list[tuple[str, RecordedDraft]]:
    """What each drafter would propose there."""
    found = ((name, places[place]) for name, places in answer.drafts.items())
    return [(name, drafted) for name, drafted in found if drafted is not None]


def _standing(
    begun: Iterable[tuple[str, RecordedDraft]], everywhere: Iterable[tuple[str, RecordedDraft]]
) -> Standing:
    """Acceptance by class. Places where rounds `begun` count most: drafts are made there alone."""
    reached: dict[Kind, list[float]] = {}
    stood: dict[Kind, list[float]] = {}
    for pairs, weight in ((begun, 1.0), (everywhere, _ELSEWHERE)):
        for drafter, drafted in pairs:
            key = (drafter, kind(drafted.match))
            tried = reached.setdefault(key, [0.0] * _LONGEST)
            held = stood.setdefault(key, [0.0] * _LONGEST)
            for i in range(min(drafted.accepted + 1, len(drafted.q), _LONGEST)):
                tried[i] += weight
            for i in range(min(drafted.accepted, _LONGEST)):
                held[i] += weight
    chances = {key: map(_share, stood[key], tried) for key, tried in reached.items()}
    return {key: tuple(accumulate(each, mul)) for key, each in chances.items()}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _worth(rounds: Sequence[SimulatedRound], conditions: Conditions, *, late: bool) -> float:
    """The speed-up of the rounds over plain decoding, in one half of the episode."""
    own = plain = 0.0
    for round in rounds:
        if (round.progress >= 0.5) == late:
            own += sum(cost(round, conditions))
            one_row = conditions.verify_seconds(1, context=round.context, progress=round.progress)
            plain += round.committed * one_row
    return max(plain / own, 1.0) if own else 1.0
