"""What a benchmark found: raw runs, the figures made of them, and their JSON form."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.bench.contestants import Measurement
from engine.bench.figures import (
    Ratio,
    Timed,
    acceptance_by_position,
    first_difference,
    merge,
    ratio,
)
from engine.bench.machine import Machine
from engine.events import Stats

PLAIN = "slipstream plain"
MLX_LM = "mlx-lm plain"
ALL = "all"


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

    @property
    def timed(self) -> Timed:
        """What ratios need."""
        stats = self.measured.stats
        return Timed(self.prompt, stats.committed, stats.decode_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A contestant's figures at one temperature, over one category or all of them.

    `to_plain` and `to_mlx_lm`: speed over `PLAIN`'s and `MLX_LM`'s. `identical` of `compared`
    answers have `PLAIN`'s tokens, greedy runs only; `differs_at` is where the others' first other
    token is. Shares are of the decode time, `own` being what is neither drafting nor verifying;
    None where they are not known.
    """

    contestant: str
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
    identical: int
    compared: int
    differs_at: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that was measured so far; `partial` until all of it is.

    `precision` and `drafters`: what the weights are here. `skipped`: prompts too long for the
    context. `refused`: contestants that cannot run this pair, and what they said.
    """

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

    @property
    def label(self) -> str:
        """What the figures are of, for a title: "CPU backend, float32 from 4-bit"."""
        backend = "CPU backend" if self.machine.device == "CPU" else self.machine.device
        return f"{backend}, {self.precision}"

    def rows(self) -> list[Row]:
        """Figures by temperature, category and contestant, all categories together first."""
        temperatures = dict.fromkeys(run.temperature for run in self.runs)
        categories = [ALL, *dict.fromkeys(run.category for run in self.runs)]
        return [
            row
            for temperature in temperatures
            for category in categories
            for row in _rows(
                [
                    run
                    for run in self.runs
                    if run.temperature == temperature and category in (ALL, run.category)
                ],
                category,
            )
        ]

    def to_json(self) -> str:
        """All of it, the rows included; of each run's ids only whether they are `PLAIN`'s."""
        fields = asdict(self)
        reference = _reference(self.runs)
        fields["runs"] = [
            asdict(run)
            | {
                "measured": asdict(run.measured.stats),
                "phases": run.measured.phases,
                "differs_at": _difference(run, reference),
            }
            for run in self.runs
        ]
        fields["label"] = self.label
        fields["rows"] = [asdict(row) for row in self.rows()]
        return json.dumps(fields, indent=1)


def now() -> str:
    """The date for a report, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_json(report: Report, path: Path) -> None:
    """Replace the file at `path` by the report, all at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".partial")
    temporary.write_text(report.to_json(), encoding="utf-8")
    os.replace(temporary, path)


def _rows(runs: Sequence[Run], category: str) -> list[Row]:
    """One row for each contestant of `runs`, which are of one temperature."""
    by_contestant: dict[str, list[Run]] = {}
    for run in runs:
        by_contestant.setdefault(run.contestant, []).append(run)
    reference = _reference(runs)
    plain, mlx_lm = ([run.timed for run in by_contestant.get(name, [])] for name in (PLAIN, MLX_LM))
    rows = []
    for contestant, own in by_contestant.items():
        stats = merge(run.measured.stats for run in own)
        seconds = stats.decode_seconds if own[0].measured.phases else 0.0
        greedy = [run for run in own if run.temperature == 0.0 and _key(run) in reference]
        differences = [_difference(run, reference) for run in greedy]
        rows.append(
            Row(
                contestant=contestant,
                temperature=own[0].temperature,
                category=category,
                prompts=len({run.prompt for run in own}),
                stats=stats,
                tokens_per_second=stats.tokens_per_second,
                to_plain=ratio([run.timed for run in own], plain),
                to_mlx_lm=ratio([run.timed for run in own], mlx_lm),
                acceptance_rate=stats.acceptance_rate,
                acceptance_length=stats.acceptance_length,
                acceptance_by_position=acceptance_by_position(stats),
                draft_share=stats.draft_seconds / seconds if seconds else None,
                verify_share=stats.verify_seconds / seconds if seconds else None,
                own_share=stats.own_seconds / seconds if seconds else None,
                identical=differences.count(None),
                compared=len(differences),
                differs_at=tuple(at for at in differences if at is not None),
            )
        )
    return rows


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
