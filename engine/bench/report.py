"""What a benchmark measured: the runs, the findings made of them, and their JSON form."""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.bench.accepting import AcceptCost
from engine.bench.contestants import Measurement
from engine.bench.cooling import Cooling
from engine.bench.curve import Curve
from engine.bench.figures import (
    Timed,
    acceptance_by_position,
    first_difference,
    merge,
    ratio,
)
from engine.bench.findings import ALL, Course, Dot, Findings, Lowest, Part, Row
from engine.bench.machine import Machine
from engine.bench.roofline import Roofline
from engine.events import Stats
from models.files import write_text

PLAIN = "slipstream plain"
MLX_LM = "mlx-lm plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One contestant's answer to one prompt. `seed` depends on prompt and repeat alone."""

    contestant: str
    temperature: float
    prompt: str
    category: str
    repeat: int
    seed: int
    limit: int
    measured: Measurement
    peak_bytes: int | None = None

    @property
    def timed(self) -> Timed:
        """What ratios need."""
        stats = self.measured.stats
        return Timed(self.prompt, stats.committed, stats.decode_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that was measured so far; fields as in `Findings`."""

    date: str
    machine: Machine
    target: str
    precision: str
    drafters: tuple[tuple[str, str], ...]
    options: dict[str, Any]
    skipped: int
    refused: tuple[tuple[str, str], ...]
    partial: bool
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()
    roofline: Roofline | None = None
    accepting: tuple[AcceptCost, ...] = ()
    curve: Curve | None = None
    cooling: Cooling | None = None
    peak_rss_bytes: int | None = None

    @property
    def label(self) -> str:
        """What the figures are of, for a title: "CPU backend, float32 from 4-bit"."""
        backend = "CPU backend" if self.machine.device == "CPU" else self.machine.device
        return f"{backend}, {self.precision}"

    def rows(self) -> list[Row]:
        """Figures by temperature, category and contestant, all categories together first."""
        temperatures = dict.fromkeys(run.temperature for run in self.runs)
        categories = dict.fromkeys(run.category for run in self.runs)
        rows: list[Row] = []
        for temperature in temperatures:
            parts = [row for each in categories for row in self._rows(temperature, each)]
            rows += [_with_lowest(row, parts) for row in self._rows(temperature, ALL)]
            rows += parts
        return rows

    def findings(self) -> Findings:
        """What there is to show."""
        return Findings(
            date=self.date,
            machine=self.machine,
            target=self.target,
            precision=self.precision,
            label=self.label,
            drafters=self.drafters,
            options=self.options,
            skipped=self.skipped,
            refused=self.refused,
            partial=self.partial,
            rows=tuple(self.rows()),
            notes=self.notes,
            roofline=self.roofline,
            accepting=self.accepting,
            curve=self.curve,
            passes=passes_of(self.runs),
            courses=courses_of(self.runs),
            cooling=self.cooling,
            peak_rss_bytes=self.peak_rss_bytes,
        )

    def to_json(self) -> str:
        """The findings, and the runs; of each run's ids only whether they are `PLAIN`'s."""
        reference = _reference(self.runs)
        runs = [
            asdict(run)
            | {
                "measured": asdict(run.measured.stats),
                "phases": run.measured.phases,
                "differs_at": _difference(run, reference),
            }
            for run in self.runs
        ]
        return _by_lines(asdict(self.findings()) | {"runs": runs})

    def _rows(self, temperature: float, category: str) -> list[Row]:
        """One row for each contestant."""
        chosen = [
            run
            for run in self.runs
            if run.temperature == temperature and category in (ALL, run.category)
        ]
        by_contestant: dict[str, list[Run]] = {}
        for run in chosen:
            by_contestant.setdefault(run.contestant, []).append(run)
        return [self._row(category, runs, by_contestant) for runs in by_contestant.values()]

    def _row(self, category: str, runs: list[Run], others: dict[str, list[Run]]) -> Row:
        """The figures of one contestant's `runs`, of which there is one at least."""
        first = runs[0]
        stats = merge(run.measured.stats for run in runs)
        shares = self._shares(stats, first)
        passes = shares.passes_seconds
        timed = [run.timed for run in runs]
        plain, mlx_lm = ([run.timed for run in others.get(name, [])] for name in (PLAIN, MLX_LM))
        reference = _reference(others.get(PLAIN, []))
        greedy = [run for run in runs if run.temperature == 0.0 and _key(run) in reference]
        differences = [_difference(run, reference) for run in greedy]
        return Row(
            contestant=first.contestant,
            temperature=first.temperature,
            category=category,
            prompts=len({run.prompt for run in runs}),
            stats=stats,
            tokens_per_second=stats.tokens_per_second,
            to_plain=ratio(timed, plain),
            to_mlx_lm=ratio(timed, mlx_lm),
            acceptance_rate=stats.acceptance_rate,
            acceptance_length=stats.acceptance_length,
            acceptance_by_position=acceptance_by_position(stats),
            draft_share=shares.draft,
            verify_share=shares.verify,
            accept_share=shares.accept,
            own_share=shares.own,
            bandwidth_share=self._of_roofline(first, stats.rounds, stats.decode_seconds),
            pass_bandwidth_share=self._of_roofline(first, stats.rounds, passes),
            peak_bytes=max((run.peak_bytes for run in runs if run.peak_bytes), default=None),
            identical=differences.count(None),
            compared=len(differences),
            differs_at=tuple(at for at in differences if at is not None),
        )

    def _shares(self, stats: Stats, run: Run) -> "_Shares":
        """Where the time went, as far as such a run tells."""
        seconds = stats.decode_seconds
        if not run.measured.phases or seconds <= 0:
            return _Shares()
        cost = next((c for c in self.accepting if c.temperature == run.temperature), None)
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

    def _of_roofline(self, run: Run, passes: int, seconds: float) -> float | None:
        if self.roofline is None or not run.measured.same_weights:
            return None
        return self.roofline.share(passes=passes, seconds=seconds)


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


def write_json(report: Report, path: Path) -> None:
    """Replace the file at `path` by the report, all at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, report.to_json())


def courses_of(runs: Sequence[Run]) -> tuple[Course, ...]:
    """The draft lengths of everybody who drafts, in the order of the runs."""
    parts: dict[tuple[str, float], list[Part]] = {}
    for run in runs:
        steps = run.measured.steps
        part = Part(
            run.category,
            tuple(step.proposed for step in steps),
            tuple(step.accepted for step in steps),
        )
        parts.setdefault((run.contestant, run.temperature), []).append(part)
    return tuple(
        Course(*who, tuple(answers))
        for who, answers in parts.items()
        if any(any(part.proposed) for part in answers)
    )


def passes_of(runs: Sequence[Run]) -> tuple[Dot, ...]:
    """What our own passes took while answering, by rows."""
    seconds: dict[int, list[float]] = {}
    for run in runs:
        if run.measured.phases:
            for step in run.measured.steps:
                seconds.setdefault(step.proposed + 1, []).append(step.verify_seconds)
    return tuple(
        Dot(rows, statistics.median(times), len(times)) for rows, times in sorted(seconds.items())
    )


def _with_lowest(whole: Row, parts: Sequence[Row]) -> Row:
    """The row of all categories, with those where its contestant does worst."""
    own = [row for row in parts if row.contestant == whole.contestant]
    if len(own) < 2:
        return whole
    lengths = ((row.category, row.acceptance_length) for row in own if whole.stats.proposed)
    speeds = ((row.category, row.to_plain.prompts.median) for row in own if row.to_plain)
    return replace(
        whole,
        lowest_length=_lowest(lengths),
        lowest_to_plain=None if whole.contestant == PLAIN else _lowest(speeds),
    )


def _lowest(figures: Iterable[tuple[str, float | None]]) -> Lowest | None:
    known = [Lowest(category, value) for category, value in figures if value is not None]
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


def _key(run: Run) -> tuple[float, str, int]:
    return run.temperature, run.prompt, run.repeat


def _reference(runs: Sequence[Run]) -> dict[tuple[float, str, int], Run]:
    """`PLAIN`'s greedy runs."""
    return {_key(run): run for run in runs if run.contestant == PLAIN and run.temperature == 0.0}


def _difference(run: Run, reference: dict[tuple[float, str, int], Run]) -> int | None:
    """Where the run's tokens first differ from `PLAIN`'s; None too where there is no such run."""
    other = reference.get(_key(run))
    if other is None:
        return None
    return first_difference(run.measured.ids, other.measured.ids, limit=run.limit)
