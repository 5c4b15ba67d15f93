"""What a policy is measured against: plain decoding, and every fixed length.

The best of them is known only in hindsight: of all drafters and lengths the one that would have
been fastest. `tests.lab.simulate.oracle` is the other reference.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.draft_length import LONGEST
from engine.draft_length.policy import Fixed
from tests.lab.simulate.conditions import Conditions
from tests.lab.simulate.replay import Phase, SimulatedRound, replay, seconds


@dataclass(frozen=True, slots=True)
class FixedRun:
    """The rounds of a fixed `length` with `drafters`, which do not depend on costs."""

    drafters: tuple[str, ...]
    length: int
    rounds: tuple[SimulatedRound, ...]

    @property
    def name(self) -> str:
        """A name for people."""
        return f"{'+'.join(self.drafters)} {self.length}" if self.length else "plain"


def plain_run(phase: Phase, conditions: Conditions) -> FixedRun:
    """Plain decoding: a round for every token."""
    return _fixed(phase, conditions, (), 0)


def fixed_runs(phase: Phase, conditions: Conditions) -> list[FixedRun]:
    """Every length with each drafter alone and with all of them; length 0 once."""
    names = tuple(phase.answers[0].drafts)
    teams = [(name,) for name in names] + ([names] if len(names) > 1 else [])
    lengths = range(1, min(_longest(phase), LONGEST) + 1)
    runs = [_fixed(phase, conditions, team, length) for team in teams for length in lengths]
    return [plain_run(phase, conditions), *runs]


def best_fixed(runs: Sequence[FixedRun], conditions: Conditions) -> tuple[FixedRun, float]:
    """The fastest of `runs`, and its seconds."""
    times = [seconds(run.rounds, conditions) for run in runs]
    best = min(range(len(runs)), key=times.__getitem__)
    return runs[best], times[best]


def _fixed(
    phase: Phase, conditions: Conditions, drafters: tuple[str, ...], length: int
) -> FixedRun:
    rounds = replay(phase, Fixed(length), conditions, drafters=drafters)
    return FixedRun(drafters, length, tuple(rounds))


def _longest(phase: Phase) -> int:
    """How many tokens the longest chain has."""
    chains = (
        len(drafted.q)
        for answer in phase.answers
        for places in answer.drafts.values()
        for drafted in places
        if drafted is not None
    )
    return max(chains, default=0)
