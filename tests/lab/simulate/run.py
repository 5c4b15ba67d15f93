"""`make simulate`, from files to a report. The front door of this package; needs no MLX."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.draft_length import LONGEST, DraftLengthPolicy
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.draft_length.trees import MOST
from models.errors import Problem
from tests.lab.simulate.calibrated import calibrated
from tests.lab.simulate.conditions import STEPS, Conditions, find_scenario
from tests.lab.simulate.curves import find_curves
from tests.lab.simulate.oracle import oracle
from tests.lab.simulate.published import PUBLISHED_DRAFTERS
from tests.lab.simulate.references import FixedRun, best_fixed, fixed_runs, plain_run
from tests.lab.simulate.replay import Phase, replay, seconds
from tests.lab.simulate.report import ResultRow, SimulationReport, save_report
from tests.lab.simulate.traces import AnswerTrace, load_trace, without_acceptance, without_trees

_RECORDED = Path(__file__).parents[2] / "data" / "traces"
_MADE_UP = 3000  # tokens of an answer

MakePolicy = Callable[[Conditions], DraftLengthPolicy]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """What to simulate. `steps`: what a drafted token costs, as shares of a pass.

    `fresh`: a policy forgets what it learned between categories. `rejecting`: every drafted token
    is rejected. `chains`: drafters propose no trees.
    `calibrated`: it knows what the machine's curve was before it grew hot or loaded. `published`:
    answers made up with the acceptance of drafters that others trained, in place of `traces`.
    """

    traces: tuple[Path, ...] = ()
    published: bool = False
    curves: tuple[str, ...] = ()
    scenario: str = "steady"
    steps: Mapping[str, float] = field(default_factory=dict)
    policy: str = "auto"
    fresh: bool = False
    rejecting: bool = False
    chains: bool = False
    calibrated: bool = True
    seed: int = 0
    out: Path | None = None


def run_simulation(
    options: SimulateOptions, progress: Callable[[str], None] = lambda line: None
) -> SimulationReport:
    """Raises `Problem`."""
    make_policy = policy_maker(options.policy, calibrated=options.calibrated)
    curves = find_curves(options.curves)
    scenario = find_scenario(options.scenario)
    answers = [answer for path in options.traces for answer in load_trace(path).answers]
    if options.published:
        answers = [each.answers(tokens=_MADE_UP, seed=options.seed) for each in PUBLISHED_DRAFTERS]
    if options.rejecting:
        answers = [without_acceptance(answer) for answer in answers]
    if options.chains:
        answers = [without_trees(answer) for answer in answers]
    machines = [
        Conditions(
            curve=curve,
            steps={
                **STEPS,
                **{each.name: each.step for each in PUBLISHED_DRAFTERS},
                **options.steps,
            },
            starts={each.name: each.start for each in PUBLISHED_DRAFTERS},
            seed=options.seed,
            **scenario.changes,
        )
        for curve in curves
    ]
    rows: list[ResultRow] = []
    for temperature in sorted({answer.temperature for answer in answers}):
        same = [answer for answer in answers if answer.temperature == temperature]
        episode = Episode(same, fresh=options.fresh or options.published)
        for conditions in machines:
            progress(f"{conditions.curve.name}, temperature {temperature:g}")
            rows += episode.play(make_policy, conditions)
    report = SimulationReport(
        policy=options.policy,
        sources=tuple((curve.name, curve.source) for curve in curves),
        conditions=scenario.described + ", every drafted token rejected" * options.rejecting,
        acceptance=_acceptance(options),
        rows=tuple(rows),
    )
    if options.out is not None:
        save_report(report, options.out)
    return report


def _acceptance(options: SimulateOptions) -> str:
    if not options.published:
        return "acceptance is recorded"
    sources = "; ".join(f"{each.name}: {each.source}" for each in PUBLISHED_DRAFTERS)
    return f"acceptance is published ({sources}), drafting costs are reckoned from bytes"


def policy_maker(name: str, *, calibrated: bool = True) -> MakePolicy:
    """From what a person wrote: `auto`, a number from 0 to 16, or `tree:` with a number up to 64.
    Raises `Problem`."""
    if name == "auto":
        return _calibrated if calibrated else lambda conditions: Automatic()
    if name.isdecimal() and int(name) <= LONGEST:
        return lambda conditions: Fixed(int(name))
    shape, _, tokens = name.partition(":")
    if shape == "tree" and tokens.isdecimal() and 1 <= int(tokens) <= MOST:
        return lambda conditions: FixedTree(int(tokens))
    raise Problem(
        f"There is no policy {name!r}.",
        f"Choose auto, a number from 0 to {LONGEST}, or a tree of 1 to {MOST} tokens: tree:8, say.",
    )


def _calibrated(conditions: Conditions) -> Automatic:
    return Automatic(calibrated(conditions, conditions.steps))


def draft_steps(words: Sequence[str]) -> dict[str, float]:
    """From what a person wrote: `head=0.08`, or `0.08` for all but lookup. Raises `Problem`."""
    steps: dict[str, float] = {}
    for word in words:
        drafter, _, number = word.rpartition("=")
        try:
            step = float(number)
        except ValueError:
            step = -1.0
        if not 0.0 <= step <= 1000.0 or (drafter and drafter not in STEPS):
            raise Problem(
                f"A draft step cannot be {word!r}.",
                f"Write head=0.08, say: one of {', '.join(STEPS)}, and passes from 0 up.",
            )
        steps |= {drafter: step} if drafter else {name: step for name in STEPS if STEPS[name] > 0}
    return steps


def recorded_traces() -> list[Path]:
    """The traces in the source tree. Raises `Problem` where there are none."""
    return _traces_in(_RECORDED)


def _traces_in(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.jsonl.gz"))
    if not found:
        raise Problem(
            "The source tree has no trace.",
            "Make one (make record --out FILE), and name it: --traces.",
        )
    return found


class Episode:
    """Answers, category after category: phases, through which a policy keeps what it learned.

    Where `fresh`, each category is an episode of its own, and the policy knows nothing.
    """

    def __init__(self, answers: Sequence[AnswerTrace], *, fresh: bool = False) -> None:
        self._fresh = fresh
        categories = dict.fromkeys(answer.category for answer in answers)
        total, start = sum(answer.places for answer in answers), 0
        self.phases: list[Phase] = []
        for category in categories:
            chosen = tuple(answer for answer in answers if answer.category == category)
            size = sum(answer.places for answer in chosen)
            self.phases.append(Phase(chosen, 0, size) if fresh else Phase(chosen, start, total))
            start += size
        self._fixed: list[list[FixedRun]] = []  # the same at any cost

    def play(self, make_policy: MakePolicy, conditions: Conditions) -> list[ResultRow]:
        """The results of every category."""
        if not self._fixed:
            self._fixed = [fixed_runs(phase, conditions) for phase in self.phases]
        policy, rows = make_policy(conditions), []
        for phase, fixed in zip(self.phases, self._fixed, strict=True):
            policy = make_policy(conditions) if self._fresh else policy
            rows.append(play(phase, policy, conditions, fixed))
        return rows


def play(
    phase: Phase, policy: DraftLengthPolicy, conditions: Conditions, fixed: Sequence[FixedRun]
) -> ResultRow:
    """The result of the policy in a phase, beside its references."""
    rounds = tuple(replay(phase, policy, conditions))
    best, fixed_seconds = best_fixed(fixed, conditions)
    return ResultRow(
        curve=conditions.curve.name,
        temperature=phase.answers[0].temperature,
        category=phase.answers[0].category,
        tokens=phase.tokens,
        seconds=seconds(rounds, conditions),
        plain_seconds=seconds(plain_run(phase, conditions).rounds, conditions),
        fixed_seconds=fixed_seconds,
        oracle_seconds=seconds(oracle(phase, conditions), conditions),
        fixed=best.name,
        length=phase.tokens / len(rounds),
        drafted_share=sum(round.proposed > 0 for round in rounds) / len(rounds),
    )
