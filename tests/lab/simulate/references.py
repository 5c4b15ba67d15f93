"""What a policy is measured against: plain decoding, and every fixed length.

The best of them is known only in hindsight: of all drafters and lengths the one that would have
been fastest. `tests.lab.simulate.oracle` is the other reference.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.draft_length import LONGEST
from engine.draft_length.policy import Fixed
from tests.lab.simulate.conditions import Conditions
from tests.lab.simulate.replay import Part, Round, replay, seconds


@dataclass(frozen=True, slots=True)
class FixedRun:
    """The rounds of a fixed `length`, with `drafters`; they are the same at any cost."""

    drafters: tuple[str, ...]
    length: int
    rounds: tuple[Round, ...]

    @property
    def name(self) -> str:
        """For people."""
        return f"{'+'.join(self.drafters)} {self.length}" if self.length else "plain"


def plain_run(part: Part, conditions: Conditions) -> FixedRun:
    """Every token by itself."""
    return _fixed(part, conditions, (), 0)


def fixed_runs(part: Part, conditions: Conditions) -> list[FixedRun]:
    """Every length with each drafter alone and with all of them; length 0 once."""
    names = tuple(part.answers[0].drafts)
    teams = [(name,) for name in names] + ([names] if len(names) > 1 else [])
    lengths = range(1, min(_longest(part), LONGEST) + 1)
    runs = [_fixed(part, conditions, team, length) for team in teams for length in lengths]
    return [plain_run(part, conditions), *runs]


def best_fixed(runs: Sequence[FixedRun], conditions: Conditions) -> tuple[FixedRun, float]:
    """The fastest of `runs`, and its seconds."""
    times = [seconds(run.rounds, conditions) for run in runs]
    best = min(range(len(runs)), key=times.__getitem__)
    return runs[best], times[best]


def _fixed(part: Part, conditions: Conditions, drafters: tuple[str, ...], length: int) -> FixedRun:
    rounds = replay(part, Fixed(length), conditions, drafters=drafters)
    return FixedRun(drafters, length, tuple(rounds))


def _longest(part: Part) -> int:
    """Tokens of the longest chain."""
    chains = (
        len(drafted.q)
        for answer in part.answers
        for places in answer.drafts.values()
        for drafted in places
        if drafted is not None
    )
    return max(chains, default=0)
