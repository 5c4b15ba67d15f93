"""The measured answers of a benchmark, and the figures that are computed from them.

A ratio of speeds is taken prompt by prompt, between answers that were written at most minutes
apart, so that a machine that slows down affects both. Median and quartiles are over prompts;
`total` weighs every token alike: all tokens / all seconds. Knows no clock and no model.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import zip_longest
from typing import Any

from engine.bench.report import ALL, BenchReport, Ratio, ResultRow, Spread, by_lines
from engine.bench.runners import MLX_LM, PLAIN, Measurement
from engine.conversation.stats import NoRatio, against_plain
from engine.events import Stats
from engine.near_ties import Fork, alike

_OF_ONE_ANSWER = ("plain_round_seconds", "reference_seconds")


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer for a ratio: its prompt's name, its tokens and seconds. `stats`: its other figures,
    if its rounds were timed."""

    prompt: str
    tokens: int
    seconds: float
    stats: Stats | None = None


def spread_of(values: Sequence[float]) -> Spread | None:
    """Return median and quartiles, interpolated within the values; None without values."""
    if not values:
        return None
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, len(values))


def ratio(runs: Iterable[Timed], baseline: Iterable[Timed]) -> Ratio | None:
    """Return the ratio over the prompts of both; a prompt's speed is the median of its repeats."""
    ours, theirs = _by_prompt(runs), _by_prompt(baseline)
    common = [prompt for prompt in ours if prompt in theirs]
    over_prompts = spread_of([_median_speed(ours[p]) / _median_speed(theirs[p]) for p in common])
    if over_prompts is None:
        return None
    total = _total_speed(ours, common) / _total_speed(theirs, common)
    return Ratio(over_prompts, total)


def comparable(runs: Iterable[Timed], plain: Iterable[Timed]) -> list[Timed]:
    """Drop runs during which the machine was less busy than during the plain answers to the same
    prompt: see `engine.conversation.stats.against_plain`."""
    passes = {prompt: 1 / _median_speed(of) for prompt, of in _by_prompt(plain).items()}
    return [
        run
        for run in runs
        if run.stats is None
        or run.prompt not in passes
        or against_plain(run.stats, passes[run.prompt]) is not NoRatio.NOT_COMPARABLE
    ]


def _by_prompt(runs: Iterable[Timed]) -> dict[str, list[Timed]]:
    by_prompt: dict[str, list[Timed]] = {}
    for run in runs:
        if run.tokens and run.seconds > 0:
            by_prompt.setdefault(run.prompt, []).append(run)
    return by_prompt


def _median_speed(runs: list[Timed]) -> float:
    return statistics.median(run.tokens / run.seconds for run in runs)


def _total_speed(runs: dict[str, list[Timed]], prompts: list[str]) -> float:
    chosen = [run for prompt in prompts for run in runs[prompt]]
    return sum(run.tokens for run in chosen) / sum(run.seconds for run in chosen)


def merge(many: Iterable[Stats]) -> Stats:
    """Add the stats of several runs: counts, seconds, and positions one by one; without the seconds
    of single rounds."""
    merged = Stats()
    for stats in many:
        sums = {
            field.name: _sum(getattr(merged, field.name), getattr(stats, field.name))
            for field in fields(Stats)
            if field.name not in _OF_ONE_ANSWER
        }
        merged = Stats(**sums)
    return merged


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))
    return left + right


def acceptance_by_position(stats: Stats) -> tuple[float, ...]:
    """Accepted / proposed tokens at each position of a draft.

    A token falls with the tokens before it, so this sinks along the draft even if all guesses are
    equally good.
    """
    pairs = zip_longest(stats.accepted_by_position, stats.proposed_by_position, fillvalue=0)
    return tuple(accepted / proposed for accepted, proposed in pairs if proposed)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredAnswer:
    """A runner's answer to a prompt. `seed` depends on prompt and repeat alone.

    `fork`: the first difference of a greedy answer from `PLAIN`'s, `at` a token of the answer; None
    if there is none, or if it was not measured.
    """

    runner: str
    temperature: float
    prompt: str
    category: str
    repeat: int
    seed: int
    limit: int
    measured: Measurement
    peak_bytes: int | None = None
    fork: Fork | None = None

    @property
    def timed(self) -> Timed:
        """The answer in the form for ratios."""
        stats = self.measured.stats
        rounds = stats if self.measured.phases else None
        return Timed(self.prompt, stats.committed, stats.decode_seconds, rounds)


type _Reference = dict[tuple[float, str, int], MeasuredAnswer]


def _key(answer: MeasuredAnswer) -> tuple[float, str, int]:
    return answer.temperature, answer.prompt, answer.repeat


def _reference(answers: Sequence[MeasuredAnswer]) -> _Reference:
    """`PLAIN`'s greedy answers."""
    plain = (each for each in answers if each.runner == PLAIN and each.temperature == 0.0)
    return {_key(answer): answer for answer in plain}


@dataclass(frozen=True, slots=True)
class Measurements:
    """All measurements so far. `setup`: the report without the figures of the answers."""

    setup: BenchReport
    answers: tuple[MeasuredAnswer, ...] = ()

    def report(self) -> BenchReport:
        """Return the report of the measurements so far."""
        return replace(self.setup, rows=tuple(self._rows()))

    def to_json(self) -> str:
        """Return the report and each answer's figures, and where its ids differ from `PLAIN`'s."""
        reference = _reference(self.answers)
        answers = [
            asdict(answer)
            | {
                "measured": asdict(answer.measured.stats),
                "phases": answer.measured.phases,
                "differs_at": _difference(answer, reference),
            }
            for answer in self.answers
        ]
        return by_lines(asdict(self.report()) | {"measured_answers": answers})

    def _rows(self) -> Iterator[ResultRow]:
        """Yield the rows by temperature, category and runner; first all categories together."""
        reference = _reference(self.answers)
        for temperature in dict.fromkeys(answer.temperature for answer in self.answers):
            for category in (ALL, *dict.fromkeys(answer.category for answer in self.answers)):
                by_runner: dict[str, list[MeasuredAnswer]] = {}
                for answer in self.answers:
                    if answer.temperature == temperature and category in (ALL, answer.category):
                        by_runner.setdefault(answer.runner, []).append(answer)
                timed = {
                    name: [answer.timed for answer in answers]
                    for name, answers in by_runner.items()
                }
                for answers in by_runner.values():
                    yield self._row(category, answers, timed, reference)

    def _row(
        self,
        category: str,
        answers: Sequence[MeasuredAnswer],
        timed: Mapping[str, Sequence[Timed]],
        reference: _Reference,
    ) -> ResultRow:
        """Return the figures of one runner's `answers`, at least one; `timed`: of all runners."""
        first = answers[0]
        stats = merge(answer.measured.stats for answer in answers)
        own, plain, mlx_lm = (timed.get(name, ()) for name in (first.runner, PLAIN, MLX_LM))
        greedy = [each for each in answers if _key(each) in reference]
        differences = [_difference(answer, reference) for answer in greedy]
        seconds = stats.decode_seconds
        phases = first.measured.phases and seconds > 0
        return ResultRow(
            runner=first.runner,
            temperature=first.temperature,
            category=category,
            prompts=len({answer.prompt for answer in answers}),
            stats=stats,
            tokens_per_second=stats.tokens_per_second,
            to_plain=ratio(comparable(own, plain), plain),
            to_mlx_lm=ratio(own, mlx_lm),
            acceptance_rate=stats.acceptance_rate,
            acceptance_length=stats.acceptance_length,
            acceptance_by_position=acceptance_by_position(stats),
            draft_share=stats.draft_seconds / seconds if phases else None,
            verify_share=stats.verify_seconds / seconds if phases else None,
            own_share=stats.own_seconds / seconds if phases else None,
            bandwidth_share=self._of_roofline(stats.rounds, seconds),
            pass_bandwidth_share=self._of_roofline(stats.rounds, phases and stats.verify_seconds),
            peak_bytes=max((each.peak_bytes for each in answers if each.peak_bytes), default=None),
            identical=differences.count(None),
            compared=len(differences),
            differs_at=tuple(at for at in differences if at is not None),
            near_ties=sum(1 for each in greedy if each.fork and each.fork.near_tie),
        )

    def _of_roofline(self, passes: int, seconds: float) -> float | None:
        roofline = self.setup.roofline
        return None if roofline is None else roofline.share(passes=passes, seconds=seconds)


def with_forks(
    answers: Sequence[MeasuredAnswer],
    first_fork: Callable[[Sequence[int], Sequence[int]], Fork | None],
) -> list[MeasuredAnswer]:
    """Add to each answer that differs from `PLAIN`'s the fork that `first_fork` finds."""
    reference = _reference(answers)

    def explained(answer: MeasuredAnswer) -> MeasuredAnswer:
        if _difference(answer, reference) is None:
            return answer
        plain, written = reference[_key(answer)].measured.ids, answer.measured.ids
        return replace(answer, fork=first_fork(plain[: answer.limit], written[: answer.limit]))

    return list(map(explained, answers))


def _difference(answer: MeasuredAnswer, reference: _Reference) -> int | None:
    """Return the first place that differs from `PLAIN`'s answer; None if there is none."""
    other = reference.get(_key(answer))
    if other is None:
        return None
    return first_difference(answer.measured.ids, other.measured.ids, limit=answer.limit)


def first_difference(ids: Sequence[int], reference: Sequence[int], *, limit: int) -> int | None:
    """Return the first of `limit` places where the tokens differ, or one text ends; None if
    equal."""
    ours, theirs = ids[:limit], reference[:limit]
    at = alike(ours, theirs)
    return None if at == max(len(ours), len(theirs)) else at
