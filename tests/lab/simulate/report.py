"""The results of a simulation by curve, temperature and category, and their JSON form."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from models.errors import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """A policy on a curve, over the answers of a category at a temperature.

    Seconds are simulated. `length`: committed tokens a pass. `fixed`: the best fixed drafting
    known in hindsight, `drafted_share`: passes that verified a draft.
    """

    curve: str
    temperature: float
    category: str
    tokens: int
    seconds: float
    plain_seconds: float
    fixed_seconds: float
    oracle_seconds: float
    fixed: str
    length: float
    drafted_share: float

    @property
    def to_plain(self) -> float:
        """How many times as fast as plain decoding. The promise: never below 0.98."""
        return self.plain_seconds / self.seconds

    @property
    def fixed_regret(self) -> float:
        """The share of the best fixed length's speed that is missing; below 0 it is faster."""
        return 1.0 - self.fixed_seconds / self.seconds

    @property
    def oracle_regret(self) -> float:
        """The share of the oracle's speed that is missing."""
        return 1.0 - self.oracle_seconds / self.seconds


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """All rows, and in words what was simulated, and where the `acceptance` is from."""

    policy: str
    sources: tuple[tuple[str, str], ...]
    conditions: str
    acceptance: str
    rows: tuple[ResultRow, ...]


def save_report(report: SimulationReport, path: Path) -> None:
    """Write `path`. Raises `Problem`."""
    rows = [
        asdict(row)
        | {
            "to_plain": row.to_plain,
            "fixed_regret": row.fixed_regret,
            "oracle_regret": row.oracle_regret,
        }
        for row in report.rows
    ]
    form = {
        "simulated": True,
        "policy": report.policy,
        "conditions": report.conditions,
        "curves": dict(report.sources),
        "rows": rows,
    }
    try:
        path.write_text(json.dumps(form, indent=1) + "\n")
    except OSError as error:
        raise Problem(f"{path} cannot be written: {error}.", "Choose another --out.") from error


def total(rows: Sequence[ResultRow], category: str) -> ResultRow:
    """The sum of `rows`, which are of one curve and temperature."""
    tokens = sum(row.tokens for row in rows)
    passes = sum(row.tokens / row.length for row in rows)
    drafted = sum(row.drafted_share * row.tokens / row.length for row in rows)
    return ResultRow(
        curve=rows[0].curve,
        temperature=rows[0].temperature,
        category=category,
        tokens=tokens,
        seconds=sum(row.seconds for row in rows),
        plain_seconds=sum(row.plain_seconds for row in rows),
        fixed_seconds=sum(row.fixed_seconds for row in rows),
        oracle_seconds=sum(row.oracle_seconds for row in rows),
        fixed="",
        length=tokens / passes,
        drafted_share=drafted / passes,
    )
