"""A policy and what it is measured against, category after category. Needs no MLX.

The references are plain decoding, every fixed length with every drafter, of which the best is known
only in hindsight, and `tests.lab.simulate.oracle`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from engine.draft_length import LONGEST, DraftLengthPolicy
from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from engine.draft_length.policy import Automatic, Fixed
from tests.lab.simulate.conditions import Conditions, Noise
from tests.lab.simulate.oracle import oracle
from tests.lab.simulate.replay import Phase, SimulatedRound, replay, seconds
from tests.lab.simulate.traces import AnswerTrace

MakePolicy = Callable[[Conditions], DraftLengthPolicy]

_DEPTH = 64  # tokens of context where a calibration measures
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
_BEFORE = -1  # where the noise of a calibration starts: no answer does there


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


@dataclass(frozen=True, kw_only=True)
class PlayedRow:
    """A policy on a curve, over the answers of a category at a temperature.

    Seconds are simulated. `length`: committed tokens a pass.
    """

    curve: str
    temperature: float
    category: str
    tokens: int
    seconds: float
    plain_seconds: float
    length: float

    @property
    def to_plain(self) -> float:
        """How many times as fast as plain decoding. The promise: never below 0.98."""
        return self.plain_seconds / self.seconds


@dataclass(frozen=True, kw_only=True)
class ResultRow(PlayedRow):
    """The same beside `fixed`, the best fixed drafting known in hindsight, and an oracle."""

    fixed_seconds: float
    oracle_seconds: float
    fixed: str

    @property
    def fixed_regret(self) -> float:
        """The share of the best fixed length's speed that is missing; below 0 it is faster."""
        return 1.0 - self.fixed_seconds / self.seconds

    @property
    def oracle_regret(self) -> float:
        """The share of the oracle's speed that is missing."""
        return 1.0 - self.oracle_seconds / self.seconds


def total(rows: Sequence[ResultRow]) -> ResultRow:
    """The sum of `rows`, which are of one curve and temperature."""
    tokens = sum(row.tokens for row in rows)
    return ResultRow(
        curve=rows[0].curve,
        temperature=rows[0].temperature,
        category="all",
        tokens=tokens,
        seconds=sum(row.seconds for row in rows),
        plain_seconds=sum(row.plain_seconds for row in rows),
        fixed_seconds=sum(row.fixed_seconds for row in rows),
        oracle_seconds=sum(row.oracle_seconds for row in rows),
        fixed="",
        length=tokens / sum(row.tokens / row.length for row in rows),
    )


def calibrated(conditions: Conditions) -> Automatic:
    """With what a calibration would have found before anything was written, and before any rows
    were dear, by a clock as noisy as all others there: the middle one of three of its readings."""
    conditions = replace(conditions, dear_from=0)
    noise = Noise(conditions, start=_BEFORE)

    def measured(seconds: float) -> float:
        return median(noise.reading(seconds) for _ in range(3))

    seconds = tuple(
        measured(conditions.verify_seconds(rows, context=_DEPTH, progress=0.0)) for rows in _ROWS
    )
    drafts = tuple(_drafting(conditions, name, measured) for name in conditions.steps)
    return Automatic(Calibration(PassCosts(_DEPTH, _ROWS, seconds), drafts))


def _drafting(
    conditions: Conditions, drafter: str, measured: Callable[[float], float]
) -> DraftCosts:
    one, two, behind = (
        conditions.draft_seconds(drafter, n, context=_DEPTH, progress=0.0, behind=b)
        for n, b in ((1, 0), (2, 0), (1, 1))
    )
    start = 2 * one - two
    return DraftCosts(
        drafter,
        start_seconds=measured(start) if start > 1e-9 else 0.0,
        step_seconds=measured(two - one),
        read_seconds=measured(behind - one),
    )


class Episode:
    """Answers, category after category: phases, through which a policy keeps what it learned."""

    def __init__(self, answers: Sequence[AnswerTrace]) -> None:
        whole, start = sum(answer.places for answer in answers), 0
        self._phases: list[Phase] = []
        for category in dict.fromkeys(answer.category for answer in answers):
            chosen = tuple(answer for answer in answers if answer.category == category)
            self._phases.append(Phase(chosen, start, whole))
            start += sum(answer.places for answer in chosen)
        self._fixed: list[list[FixedRun]] = []  # the same at any cost

    def play(self, make_policy: MakePolicy, conditions: Conditions) -> list[ResultRow]:
        """The results of every category."""
        if not self._fixed:
            self._fixed = [fixed_runs(phase, conditions) for phase in self._phases]
        rows = zip(self.play_alone(make_policy, conditions), self._phases, self._fixed, strict=True)
        return [_beside_references(row, phase, fixed, conditions) for row, phase, fixed in rows]

    def play_alone(self, make_policy: MakePolicy, conditions: Conditions) -> list[PlayedRow]:
        """The same without references, which take most of the time."""
        policy = make_policy(conditions)
        return [_play(phase, policy, conditions) for phase in self._phases]


def _play(phase: Phase, policy: DraftLengthPolicy, conditions: Conditions) -> PlayedRow:
    rounds = tuple(replay(phase, policy, conditions))
    return PlayedRow(
        curve=conditions.curve.name,
        temperature=phase.answers[0].temperature,
        category=phase.answers[0].category,
        tokens=phase.tokens,
        seconds=seconds(rounds, conditions),
        plain_seconds=seconds(plain_run(phase, conditions).rounds, conditions),
        length=phase.tokens / len(rounds),
    )


def _beside_references(
    row: PlayedRow, phase: Phase, fixed: Sequence[FixedRun], conditions: Conditions
) -> ResultRow:
    best, fixed_seconds = best_fixed(fixed, conditions)
    return ResultRow(
        **vars(row),
        fixed_seconds=fixed_seconds,
        oracle_seconds=seconds(oracle(phase, conditions), conditions),
        fixed=best.name,
    )
