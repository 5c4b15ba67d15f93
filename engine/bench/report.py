"""What a benchmark found: the answers that were measured, and the report made of them.

A report is kept as JSON, from which tables can be made again, also by later versions.
Knows neither clock nor model.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.bench.cooling import Cooling
from engine.bench.figures import (
    Ratio,
    Timed,
    acceptance_by_position,
    comparable,
    first_difference,
    merge,
    ratio,
)
from engine.bench.machine import MachineDescription
from engine.bench.measure import AcceptCost, PassCurve, Roofline
from engine.bench.runners import MLX_LM, PLAIN, Measurement
from engine.events import Stats
from engine.near_ties import Fork
from models.errors import Problem
from models.files import write_text
from models.typed_json import decode

ALL = "all"
# How reports of before called what they hold.
_NAMES_BEFORE = {"contestant": "runner"}


@dataclass(frozen=True, slots=True)
class LowestCategory:
    """The category where a figure is lowest, and the figure there."""

    category: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """A runner's figures at one temperature, over one category or all of them.

    `to_plain` and `to_mlx_lm`: speed over our own plain decoding's, and over mlx-lm's.
    `identical` of `compared` answers have our plain decoding's tokens, greedy ones only;
    `differs_at` is where the others' first other token is, and `near_ties` how many of these
    rounding explains. Shares are of the decode time and add up to 1, `own` being what is none of
    the others; None where they are not known.
    `bandwidth_share`: what the target's passes read, of what the memory could have given in the
    same time; `pass_bandwidth_share`: in the time of the passes alone. `peak_bytes`: MLX's.
    `lowest_length`, of runners that draft, and `lowest_to_plain`, the medians, are over the
    categories: of all of them together, where there are several.
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
    accept_share: float | None = None
    own_share: float | None
    bandwidth_share: float | None = None
    pass_bandwidth_share: float | None = None
    peak_bytes: int | None = None
    identical: int
    compared: int
    differs_at: tuple[int, ...]
    near_ties: int = 0
    lowest_length: LowestCategory | None = None
    lowest_to_plain: LowestCategory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """All that is shown of a benchmark. `partial` until everything is measured.

    `precision` and `drafters`: what the weights are here. `skipped`: prompts too long for the
    context. `refused`: runners that cannot run this pair, and their reasons. `accepting`: judging,
    measured apart, one for each temperature. `curve`: what passes cost, measured
    apart. `peak_rss_bytes`: the most memory that the process has had, all runners' models and
    caches together.
    """

    date: str
    machine: MachineDescription
    target: str
    precision: str
    label: str
    drafters: tuple[tuple[str, str], ...]
    options: dict[str, Any]
    skipped: int
    refused: tuple[tuple[str, str], ...]
    partial: bool
    rows: tuple[ResultRow, ...] = ()
    roofline: Roofline | None = None
    accepting: tuple[AcceptCost, ...] = ()
    curve: PassCurve | None = None
    cooling: Cooling | None = None
    peak_rss_bytes: int | None = None

    @property
    def temperatures(self) -> tuple[float, ...]:
        """In the order of the benchmark."""
        return tuple(dict.fromkeys(row.temperature for row in self.rows))


def read_report(path: Path) -> BenchReport:
    """What a benchmark wrote to the JSON file at `path`. Raises `Problem`."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"), object_hook=_named_as_now)
        return decode(BenchReport, fields, place="report", ignore_unknown=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Problem(f"{path} cannot be read: {reason}.", "Check the path.") from error
    except (ValueError, RecursionError) as error:
        reason = "it is no JSON" if isinstance(error, json.JSONDecodeError) else str(error)
        raise Problem(
            f"{path} is no report of a benchmark: {reason}.",
            "Give a file that slipstream bench --out has written.",
        ) from error


def _named_as_now(fields: dict[str, Any]) -> dict[str, Any]:
    return {_NAMES_BEFORE.get(name, name): value for name, value in fields.items()}


def temperature_words(temperature: float) -> str:
    """ "greedy", or the temperature."""
    return "greedy" if temperature == 0.0 else f"temperature {temperature:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredAnswer:
    """One runner's answer to one prompt. `seed` depends on prompt and repeat alone. `fork`: how a
    greedy one leaves `PLAIN`'s, `at` a token of the answer; None where it does not, or where that
    was not measured."""

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
        """What ratios need."""
        stats = self.measured.stats
        rounds = stats if self.measured.phases else None
        return Timed(self.prompt, stats.committed, stats.decode_seconds, rounds)


@dataclass(frozen=True, slots=True)
class Measurements:
    """Everything that was measured so far. `setup`: the report without what the answers tell."""

    setup: BenchReport
    answers: tuple[MeasuredAnswer, ...] = ()

    def report(self) -> BenchReport:
        """What there is to show."""
        return replace(self.setup, rows=tuple(self._rows()))

    def to_json(self) -> str:
        """The report, and each answer's figures; of its ids only whether they are `PLAIN`'s."""
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
        """Replace the file at `path`, all at once."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.to_json())

    def _rows(self) -> list[ResultRow]:
        """Figures by temperature, category and runner, all categories together first."""
        temperatures = dict.fromkeys(answer.temperature for answer in self.answers)
        categories = dict.fromkeys(answer.category for answer in self.answers)
        rows: list[ResultRow] = []
        for temperature in temperatures:
            parts = [row for each in categories for row in self._rows_of(temperature, each)]
            rows += [_with_lowest(row, parts) for row in self._rows_of(temperature, ALL)]
            rows += parts
        return rows

    def _rows_of(self, temperature: float, category: str) -> list[ResultRow]:
        """One row for each runner."""
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
        """The figures of one runner's `answers`, of which there is at least one."""
        first = answers[0]
        stats = merge(answer.measured.stats for answer in answers)
        shares = self._shares(stats, first)
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
            draft_share=shares.draft,
            verify_share=shares.verify,
            accept_share=shares.accept,
            own_share=shares.own,
            bandwidth_share=self._of_roofline(stats.rounds, stats.decode_seconds),
            pass_bandwidth_share=self._of_roofline(stats.rounds, shares.passes_seconds),
            peak_bytes=max((each.peak_bytes for each in answers if each.peak_bytes), default=None),
            identical=differences.count(None),
            compared=len(differences),
            differs_at=tuple(at for at in differences if at is not None),
            near_ties=sum(1 for each in greedy if each.fork and each.fork.near_tie),
        )

    def _shares(self, stats: Stats, answer: MeasuredAnswer) -> "_Shares":
        """Where the time went, as far as it is known of an answer of this runner."""
        seconds = stats.decode_seconds
        if not answer.measured.phases or seconds <= 0:
            return _Shares()
        temperature = answer.temperature
        cost = next((c for c in self.setup.accepting if c.temperature == temperature), None)
        accept = 0.0
        if cost is not None:
            rows = stats.proposed + stats.rounds
            accept = min(cost.seconds(rounds=stats.rounds, rows=rows), stats.verify_seconds)
        return _Shares(
            draft=stats.draft_seconds / seconds,
            verify=(stats.verify_seconds - accept) / seconds,
            accept=None if cost is None else accept / seconds,
            own=stats.own_seconds / seconds,
            passes_seconds=stats.verify_seconds - accept,
        )

    def _of_roofline(self, passes: int, seconds: float) -> float | None:
        roofline = self.setup.roofline
        return None if roofline is None else roofline.share(passes=passes, seconds=seconds)


@dataclass(frozen=True, slots=True)
class _Shares:
    draft: float | None = None
    verify: float | None = None
    accept: float | None = None
    own: float | None = None
    passes_seconds: float = 0.0


def now() -> str:
    """The date for a report, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _with_lowest(whole: ResultRow, parts: Sequence[ResultRow]) -> ResultRow:
    """The row of all categories, with those where its runner does worst."""
    own = [row for row in parts if row.runner == whole.runner]
    if len(own) < 2:
        return whole
    lengths = ((row.category, row.acceptance_length) for row in own if whole.stats.proposed)
    speeds = ((row.category, row.to_plain.prompts.median) for row in own if row.to_plain)
    return replace(
        whole,
        lowest_length=_lowest(lengths),
        lowest_to_plain=None if whole.runner == PLAIN else _lowest(speeds),
    )


def _lowest(figures: Iterable[tuple[str, float | None]]) -> LowestCategory | None:
    known = [LowestCategory(category, value) for category, value in figures if value is not None]
    return min(known, key=lambda each: each.value, default=None)


def _by_lines(fields: dict[str, Any]) -> str:
    """JSON for people and for git: a line for each field, and for each item of a long list."""
    lines = []
    for name, value in fields.items():
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
    """The answers, those that leave `PLAIN`'s with what `first_fork` says of both texts."""
    reference = _reference(answers)

    def explained(answer: MeasuredAnswer) -> MeasuredAnswer:
        if _difference(answer, reference) is None:
            return answer
        plain, written = reference[_key(answer)].measured.ids, answer.measured.ids
        return replace(answer, fork=first_fork(plain[: answer.limit], written[: answer.limit]))

    return list(map(explained, answers))


def _difference(answer: MeasuredAnswer, reference: _Reference) -> int | None:
    """Where its tokens first differ from `PLAIN`'s; None too where there is no such answer."""
    other = reference.get(_key(answer))
    if other is None:
        return None
    return first_difference(answer.measured.ids, other.measured.ids, limit=answer.limit)
