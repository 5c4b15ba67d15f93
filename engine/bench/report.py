"""The results of a benchmark: the measured answers, and the report that is computed from them.

A ratio of speeds is taken prompt by prompt, between answers that were written at most minutes
apart, so that a machine that slows down affects both. Median and quartiles are over prompts;
`total` weighs every token alike: all tokens / all seconds. A report is kept as JSON, from which
later versions can make tables again. Knows no clock and no model.
"""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from engine.bench.machine import MachineDescription
from engine.bench.measure import Roofline
from engine.bench.runners import MLX_LM, PLAIN, Measurement
from engine.conversation.stats import NoRatio, against_plain
from engine.events import Stats
from engine.exactness import Exactness
from engine.near_ties import Fork
from models.errors import Problem
from models.files import write_text
from models.typed_json import decode

ALL = "all"
_OF_ONE_ANSWER = ("plain_round_seconds", "reference_seconds")


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the first and third quartile (`low`, `high`) of `count` values."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """A speed / the baseline's: its spread over `prompts`, and the `total` over all tokens."""

    prompts: Spread
    total: float


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


@dataclass(frozen=True, slots=True)
class Cooling:
    """The largest loss of speed, a share of the first speed, in a report of an earlier version."""

    fall: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """A runner's figures at one temperature, over one category or all of them.

    `to_plain` and `to_mlx_lm`: the speed / the speed of our own plain decoding, and of mlx-lm's.
    `identical` of `compared` greedy answers have our plain decoding's tokens; `differs_at` has the
    place of the first other token of the rest, and rounding explains `near_ties` of them. Shares
    are of the decode time and add up to 1, `own_share` being the rest; None if not known.
    `bandwidth_share`: bytes read by the target's passes / bytes that the memory could give in the
    same time; `pass_bandwidth_share`: in the time of the passes alone. `peak_bytes`: MLX's.
    """

    runner: str
    temperature: float
    category: str
    prompts: int
    stats: Stats
    tokens_per_second: float | None
    to_plain: Ratio | None
    to_mlx_lm: Ratio | None
    acceptance_rate: float | None
    acceptance_length: float | None
    acceptance_by_position: tuple[float, ...]
    draft_share: float | None
    verify_share: float | None
    own_share: float | None
    bandwidth_share: float | None = None
    pass_bandwidth_share: float | None = None
    peak_bytes: int | None = None
    identical: int
    compared: int
    differs_at: tuple[int, ...]
    near_ties: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """The content of a report. `partial` until everything is measured.

    `precision`: of the target's weights; `exact`: of its passes; `drafters`: (name, precision).
    `skipped`: prompts too long for the context. `refused`: (name, reason) of runners that cannot
    run this pair.
    `peak_rss_bytes`: the process's peak memory, with all runners' models and caches.
    `buffers`: sizes of MLX's command buffers in words, each with the tokens a second of plain
    decoding.
    """

    date: str
    machine: MachineDescription
    target: str
    precision: str
    label: str
    exact: Exactness | None = None
    drafters: tuple[tuple[str, str], ...]
    options: dict[str, Any]
    skipped: int
    refused: tuple[tuple[str, str], ...]
    partial: bool
    rows: tuple[ResultRow, ...] = ()
    roofline: Roofline | None = None
    cooling: Cooling | None = None
    peak_rss_bytes: int | None = None
    buffers: tuple[tuple[str, float], ...] = ()

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The temperatures in the order of the benchmark."""
        return tuple(dict.fromkeys(row.temperature for row in self.rows))


def read_report(path: Path) -> BenchReport:
    """Read a report from the JSON file at `path`. Raises `Problem`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return decode(BenchReport, value, place="report", ignore_unknown=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Problem(f"{path} cannot be read: {reason}.", "Check the path.") from error
    except (ValueError, RecursionError) as error:
        reason = "it is not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
        raise Problem(
            f"{path} is not a benchmark report: {reason}.",
            "Give a file that slipstream bench --out has written.",
        ) from error


def temperature_words(temperature: float) -> str:
    """ "greedy", or the temperature."""
    return "greedy" if temperature == 0.0 else f"temperature {temperature:g}"


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
        return _by_lines(asdict(self.report()) | {"measured_answers": answers})

    def write_json(self, path: Path) -> None:
        """Replace the file at `path` atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.to_json())

    def _rows(self) -> list[ResultRow]:
        """Return the rows by temperature, category and runner; first all categories together."""
        temperatures = dict.fromkeys(answer.temperature for answer in self.answers)
        categories = dict.fromkeys(answer.category for answer in self.answers)
        rows: list[ResultRow] = []
        for temperature in temperatures:
            parts = [row for each in categories for row in self._rows_of(temperature, each)]
            rows += [*self._rows_of(temperature, ALL), *parts]
        return rows

    def _rows_of(self, temperature: float, category: str) -> list[ResultRow]:
        """Return a row for each runner."""
        by_runner: dict[str, list[MeasuredAnswer]] = {}
        for answer in self.answers:
            if answer.temperature == temperature and category in (ALL, answer.category):
                by_runner.setdefault(answer.runner, []).append(answer)
        return [self._row(category, answers, by_runner) for answers in by_runner.values()]

    def _row(
        self,
        category: str,
        answers: list[MeasuredAnswer],
        by_runner: dict[str, list[MeasuredAnswer]],
    ) -> ResultRow:
        """Return the figures of one runner's `answers`, at least one."""
        first = answers[0]
        stats = merge(answer.measured.stats for answer in answers)
        timed = [answer.timed for answer in answers]
        plain, mlx_lm = (
            [answer.timed for answer in by_runner.get(name, [])] for name in (PLAIN, MLX_LM)
        )
        reference = _reference(by_runner.get(PLAIN, []))
        greedy = [each for each in answers if each.temperature == 0.0 and _key(each) in reference]
        differences = [_difference(answer, reference) for answer in greedy]
        return ResultRow(
            runner=first.runner,
            temperature=first.temperature,
            category=category,
            prompts=len({answer.prompt for answer in answers}),
            stats=stats,
            tokens_per_second=stats.tokens_per_second,
            to_plain=ratio(comparable(timed, plain), plain),
            to_mlx_lm=ratio(timed, mlx_lm),
            acceptance_rate=stats.acceptance_rate,
            acceptance_length=stats.acceptance_length,
            acceptance_by_position=acceptance_by_position(stats),
            bandwidth_share=self._of_roofline(stats.rounds, stats.decode_seconds),
            peak_bytes=max((each.peak_bytes for each in answers if each.peak_bytes), default=None),
            identical=differences.count(None),
            compared=len(differences),
            differs_at=tuple(at for at in differences if at is not None),
            near_ties=sum(1 for each in greedy if each.fork and each.fork.near_tie),
            **self._shares(stats, first),
        )

    def _shares(self, stats: Stats, answer: MeasuredAnswer) -> dict[str, Any]:
        """The shares of the time, by their fields; none if this runner's rounds are not timed."""
        seconds = stats.decode_seconds
        if not answer.measured.phases or seconds <= 0:
            return {"draft_share": None, "verify_share": None, "own_share": None}
        return {
            "draft_share": stats.draft_seconds / seconds,
            "verify_share": stats.verify_seconds / seconds,
            "own_share": stats.own_seconds / seconds,
            "pass_bandwidth_share": self._of_roofline(stats.rounds, stats.verify_seconds),
        }

    def _of_roofline(self, passes: int, seconds: float) -> float | None:
        roofline = self.setup.roofline
        return None if roofline is None else roofline.share(passes=passes, seconds=seconds)


def now() -> str:
    """Return the date for a report, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _by_lines(values: dict[str, Any]) -> str:
    """JSON for people and for git: a line for each field, and for each item of a long list."""
    lines = []
    for name, value in values.items():
        if isinstance(value, (list, tuple)) and value and not isinstance(value[0], str):
            items = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f" {json.dumps(name)}: [\n  {items}\n ]")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _key(answer: MeasuredAnswer) -> tuple[float, str, int]:
    return answer.temperature, answer.prompt, answer.repeat


type _Reference = dict[tuple[float, str, int], MeasuredAnswer]


def _reference(answers: Sequence[MeasuredAnswer]) -> _Reference:
    """`PLAIN`'s greedy answers."""
    return {
        _key(answer): answer
        for answer in answers
        if answer.runner == PLAIN and answer.temperature == 0.0
    }


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
    pairs = zip_longest(ids[:limit], reference[:limit])
    return next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
