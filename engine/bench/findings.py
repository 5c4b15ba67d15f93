"""What a benchmark found, as it is shown: figures, and what they were measured on.

Made by `engine.bench.report` from the runs themselves; kept as JSON, from which tables and the
plot can be made again. Knows neither clock nor model.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.bench.accepting import AcceptCost
from engine.bench.cooling import Cooling
from engine.bench.curve import Curve
from engine.bench.figures import Ratio
from engine.bench.machine import Machine
from engine.bench.roofline import Roofline
from engine.events import Stats
from models.errors import Problem
from models.typed_json import decode

ALL = "all"


@dataclass(frozen=True, slots=True)
class Lowest:
    """The category where a figure is lowest, and the figure there."""

    category: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A contestant's figures at one temperature, over one category or all of them.

    `to_plain` and `to_mlx_lm`: speed over our own plain decoding's, and over mlx-lm's.
    `identical` of `compared` answers have our plain decoding's tokens, greedy runs only;
    `differs_at` is where the others' first other token is. Shares are of the decode time and add
    up to 1, `own` being what is none of the others; None where they are not known.
    `bandwidth_share`: what the target's passes read, of what the memory could have given in the
    same time; `pass_bandwidth_share`: in the time of the passes alone. `peak_bytes`: MLX's.
    `lowest_length`, of those who draft, and `lowest_to_plain`, the medians, are over the
    categories: of all of them together, where there are several.
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
    accept_share: float | None = None
    own_share: float | None
    bandwidth_share: float | None = None
    pass_bandwidth_share: float | None = None
    peak_bytes: int | None = None
    identical: int
    compared: int
    differs_at: tuple[int, ...]
    lowest_length: Lowest | None = None
    lowest_to_plain: Lowest | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The rounds of one answer: what was proposed in each, and how much of it stood."""

    category: str
    proposed: tuple[int, ...]
    accepted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Course:
    """How far ahead one contestant drafted, answer after answer, in the order of the run."""

    contestant: str
    temperature: float
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """What passes over `rows` rows took while answering: the median of `count`."""

    rows: int
    seconds: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All of it. `partial` until everything is measured.

    `precision` and `drafters`: what the weights are here. `skipped`: prompts too long for the
    context. `refused`: contestants that cannot run this pair, and what they said. `notes`: about
    other engines. `accepting`: judging measured apart, one for each temperature. `curve`: what
    passes cost, measured apart; `passes`: the same while answering. `peak_rss_bytes`: the most
    memory that the process has had, everybody's models and caches together.
    """

    date: str
    machine: Machine
    target: str
    precision: str
    label: str
    drafters: tuple[tuple[str, str], ...]
    options: dict[str, Any]
    skipped: int
    refused: tuple[tuple[str, str], ...]
    partial: bool
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    roofline: Roofline | None = None
    accepting: tuple[AcceptCost, ...] = ()
    curve: Curve | None = None
    passes: tuple[Dot, ...] = ()
    courses: tuple[Course, ...] = ()
    cooling: Cooling | None = None
    peak_rss_bytes: int | None = None

    @property
    def temperatures(self) -> tuple[float, ...]:
        """In the order of the run."""
        return tuple(dict.fromkeys(row.temperature for row in self.rows))


def read_findings(path: Path) -> Findings:
    """What a benchmark wrote to the JSON file at `path`. Raises `Problem`."""
    try:
        return decode(
            Findings,
            json.loads(path.read_text(encoding="utf-8")),
            place="report",
            ignore_unknown=True,
        )
    except OSError as error:
        reason = error.strerror or str(error)
        raise Problem(f"{path} cannot be read: {reason}.", "Check the path.") from error
    except (ValueError, RecursionError) as error:
        reason = "it is no JSON" if isinstance(error, json.JSONDecodeError) else str(error)
        raise Problem(
            f"{path} is no report of a benchmark: {reason}.",
            "Give a file that slipstream bench --out has written.",
        ) from error


def how(temperature: float) -> str:
    """In words."""
    return "greedy" if temperature == 0.0 else f"temperature {temperature:g}"
