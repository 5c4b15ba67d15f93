"""A benchmark's report: its figures, its JSON file, and its tables for the console and Markdown.

A report is kept as JSON, from which later versions can make tables again. `engine.bench.answers`
computes the figures; knows nothing of the measuring.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import batched
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from rich.console import Console
from rich.table import Table

from engine.bench.machine import MachineDescription
from engine.bench.measure import Roofline
from engine.bench.runners import PLAIN
from engine.events import Stats
from engine.exactness import Exactness
from models.errors import Problem
from models.files import writing
from models.typed_json import decode

ALL = "all"
_POSITIONS = 8  # of a draft; the JSON file has them all
_RUNNERS = 4  # side by side
_GIB = 2**30
_NAME_WIDTH = 18

LEGEND = (
    "× is the ratio of two speeds: its median and quartiles over prompts, and Σ, all tokens by "
    "all seconds. Length: tokens per target pass. Draft, verify (with the acceptance rule) and "
    "other are shares of the decode time. Bandwidth: what the target's passes read, of what this "
    "machine's memory gave a probe, in all the time and in the time of the passes alone. Peak: "
    "MLX's memory, all runners' models included. Identical: greedy answers with the tokens of "
    "slipstream plain, and @ where the first of the others differs. By category, under the name "
    "of a way of decoding: × plain, the share of drafted tokens that was accepted, and length."
)


# The options of a report, also of an earlier version, and their flags on the command line.
_FLAGS = {
    "target": "target",
    "drafters": "drafter",
    "drafter_bits": "drafter-bits",
    "lengths": "draft-length",
    "runners": "runner",
    "exact": "exact",
    "prompts": "prompts",
    "sets": "set",
    "per_category": "per-category",
    "max_tokens": "max-tokens",
    "temperatures": "temperature",
    "rules": "rule",
    "seed": "seed",
    "repeats": "repeats",
}


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

    @property
    def headline(self) -> str:
        """The target and the precision that were measured."""
        return f"{self.target}: {self.label}"


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


def by_lines(values: dict[str, Any]) -> str:
    """JSON for people and for git: a line for each field, and for each item of a long list."""
    lines = []
    for name, value in values.items():
        if isinstance(value, (list, tuple)) and value and not isinstance(value[0], str):
            items = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f" {json.dumps(name)}: [\n  {items}\n ]")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table; the first column holds names and has no heading. Cells may have several lines."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _machine_line(report: BenchReport) -> str:
    """The machine of the measurements, and its software."""
    machine = report.machine
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_bytes / _GIB:.0f} GiB, "
        f"{machine.matrix_library}, mlx {machine.mlx}, mlx-lm {machine.mlx_lm}, "
        f"slipstream {machine.slipstream}"
    )


def remarks(report: BenchReport) -> list[str]:
    """Remarks that readers of the tables need, a line each."""
    lines = [f"Drafter {name}: {precision}." for name, precision in report.drafters]
    if report.partial:
        lines.append("Partial: stopped before all prompts were done.")
    if report.skipped:
        lines.append(f"{report.skipped} prompts were too long for the context and skipped.")
    lines += [f"{name} cannot run this: {message}" for name, message in report.refused]
    if report.exact is not None:
        lines.append(f"Text: {report.exact.in_words()}.")
    lines += _roofline_line(report)
    if report.cooling is not None and report.cooling.fall is not None:
        fall = f"{report.cooling.fall:.0%}"
        lines.append(f"The same short work was at most {fall} slower than at the beginning.")
    if report.peak_rss_bytes is not None:
        lines.append(f"The process had at most {report.peak_rss_bytes / _GIB:.1f} GiB of memory.")
    return lines


def tables(report: BenchReport) -> Iterator[ReportTable]:
    """Yield the tables of each temperature: over all categories, by category, along the draft."""
    speeds = _compares_speeds(report)
    rows = report.rows
    if _probe_is_refuted(report):
        rows = tuple(replace(r, bandwidth_share=None, pass_bandwidth_share=None) for r in rows)
    for temperature in dict.fromkeys(row.temperature for row in rows):
        words = "greedy" if temperature == 0.0 else f"temperature {temperature:g}"
        here = [row for row in rows if row.temperature == temperature]
        overall = [row for row in here if row.category == ALL]
        if speeds:
            yield _by_runner(f"Speed, {words}", _SPEED, overall)
        yield _by_runner(f"Acceptance, and where the time goes, {words}", _WHERE, overall)
        if speeds:
            yield _by_runner(f"Memory, {words}", _MEMORY, overall)
        for shown in batched(overall, _RUNNERS):
            yield _by_category(here, shown, words)
        if any(row.acceptance_by_position for row in overall):
            yield _by_position(overall, words)


def _compares_speeds(report: BenchReport) -> bool:
    """Whether plain decoding was measured too: without it only acceptance is known."""
    runners = report.options.get("runners") or ()
    alone = isinstance(runners, list | tuple) and any(str(each)[:5] == "none/" for each in runners)
    return report.options.get("baselines") is not False or alone


def _probe_is_refuted(report: BenchReport) -> bool:
    """Whether passes read more than the probe says that the memory can give."""
    overall = (row for row in report.rows if row.category == ALL)
    return any((row.pass_bandwidth_share or row.bandwidth_share or 0.0) > 1.0 for row in overall)


def _roofline_line(report: BenchReport) -> Iterator[str]:
    roofline = report.roofline
    if roofline is None or not _compares_speeds(report):
        return
    gives = (
        f"The memory gives {roofline.bandwidth.bytes_per_second / 1e9:.1f} GB/s "
        f"({roofline.bandwidth.probe}): at most {roofline.passes_per_second:.1f} passes a second."
    )
    if _probe_is_refuted(report):
        gives = "The probe of the memory was disturbed: passes read faster than it."
    yield (
        f"A pass reads {roofline.weight_bytes / 1e6:,.0f} MB of weights and, {roofline.depth} "
        f"tokens deep, {roofline.cache_bytes / 1e6:,.1f} MB of caches. {gives}"
    )


type _Columns = Sequence[tuple[str, Callable[[ResultRow], str]]]
_SPEED: _Columns = (
    ("tokens/s", lambda row: _shown("{:.1f}", row.tokens_per_second)),
    ("× plain", lambda row: _ratio(row.to_plain, of=row.prompts)),
    ("Σ", lambda row: _shown("{:.2f}", row.to_plain.total if row.to_plain else None)),
    ("× mlx-lm", lambda row: _ratio(row.to_mlx_lm, of=row.prompts)),
    ("Σ", lambda row: _shown("{:.2f}", row.to_mlx_lm.total if row.to_mlx_lm else None)),
    ("identical", lambda row: _same(row)),
)
_WHERE: _Columns = (
    ("accepted", lambda row: _shown("{:.0%}", row.acceptance_rate)),
    ("length", lambda row: _shown("{:.2f}", row.acceptance_length)),
    ("draft", lambda row: _shown("{:.0%}", row.draft_share)),
    ("verify", lambda row: _shown("{:.0%}", row.verify_share)),
    ("other", lambda row: _shown("{:.1%}", row.own_share)),
)
_MEMORY: _Columns = (
    ("passes/s", lambda row: _shown("{:.1f}", _passes_per_second(row))),
    ("bandwidth", lambda row: _shown("{:.0%}", row.bandwidth_share)),
    ("in passes", lambda row: _shown("{:.0%}", row.pass_bandwidth_share)),
    ("peak MiB", lambda row: _shown("{:,.0f}", row.peak_bytes and row.peak_bytes / 2**20)),
)


def _by_runner(title: str, columns: _Columns, rows: Sequence[ResultRow]) -> ReportTable:
    """A table with a line for each runner."""
    lines = ((row.runner, *(cell(row) for _, cell in columns)) for row in rows)
    return ReportTable(title, tuple(heading for heading, _ in columns), tuple(lines))


def _by_category(rows: list[ResultRow], overall: Sequence[ResultRow], words: str) -> ReportTable:
    """A table with a line for each category, and the lowest values of each row of `overall`."""
    prompts: dict[str, int] = {}
    for row in rows:
        prompts[row.category] = max(row.prompts, prompts.get(row.category, 0))
    cells = {(row.runner, row.category): _cell(row) for row in rows}
    lines = [
        (f"{category} ({count})", *(cells.get((row.runner, category), "–") for row in overall))
        for category, count in prompts.items()
    ]
    for name, figure, of in (
        ("lowest × plain", _to_plain, [row for row in overall if row.runner != PLAIN]),
        ("lowest length", _length, [row for row in overall if row.stats.proposed]),
    ):
        lowest = [_lowest(rows, each, figure) if each in of else "–" for each in overall]
        if {*lowest} != {"–"}:
            lines.append((name, *lowest))
    return ReportTable(
        f"× plain, accepted and length by category, {words}",
        tuple(row.runner.replace(" ", "\n") for row in overall),
        tuple(lines),
    )


def _lowest(
    rows: Sequence[ResultRow], whole: ResultRow, figure: Callable[[ResultRow], float | None]
) -> str:
    """Return the lowest value of a runner over several categories, and the category."""
    own = [row for row in rows if row.runner == whole.runner and row.category != ALL]
    known = [(value, row.category) for row in own if (value := figure(row)) is not None]
    if len(own) < 2 or not known:
        return "–"
    value, category = min(known, key=lambda each: each[0])
    return f"{value:.2f}\n{category}"


def _to_plain(row: ResultRow) -> float | None:
    return row.to_plain.prompts.median if row.to_plain else None


def _length(row: ResultRow) -> float | None:
    return row.acceptance_length


def _by_position(rows: list[ResultRow], words: str) -> ReportTable:
    longest = min(_POSITIONS, max(len(row.acceptance_by_position) for row in rows))
    lines = (
        (row.runner, *(f"{share:.0%}" for share in row.acceptance_by_position[:longest]))
        for row in rows
        if row.acceptance_by_position
    )
    return ReportTable(
        f"Accepted by position in the draft, {words}",
        tuple(str(i + 1) for i in range(longest)),
        tuple((*line, *[""] * (longest + 1 - len(line))) for line in lines),
    )


def _passes_per_second(row: ResultRow) -> float | None:
    return row.stats.rounds / row.stats.decode_seconds if row.stats.decode_seconds > 0 else None


def _cell(row: ResultRow) -> str:
    cell = _shown("{:.2f}×", _to_plain(row))
    if row.acceptance_rate is None:
        return cell
    return f"{cell} {row.acceptance_rate:.0%} {_shown('{:.2f}', row.acceptance_length)}"


def _ratio(ratio: Ratio | None, *, of: int) -> str:
    """A ratio's median and quartiles; the number of prompts, if not all of them are comparable."""
    if ratio is None:
        return "–"
    over = ratio.prompts
    some = f" ({over.count} of {of})" if over.count < of else ""
    return f"{over.median:.2f} {over.low:.2f}–{over.high:.2f}{some}"


def _same(row: ResultRow) -> str:
    if not row.compared:
        return "–"
    first = f" @{min(row.differs_at)}" if row.differs_at else ""
    near = f", {row.near_ties} near a tie" if row.near_ties else ""
    return f"{row.identical}/{row.compared}{near}{first}"


def _shown(form: str, value: float | None) -> str:
    return "–" if value is None else form.format(value)


def command(report: BenchReport) -> str:
    """The command of the measurements, with names in place of folders."""
    options = {"target": report.target, **report.options}
    words = ["slipstream bench"]
    for name, flag in _FLAGS.items():
        value = options.get(name)
        values = value if isinstance(value, list | tuple) else [value]
        words += [f"--{flag} {each}" for each in values if each is not None]
    words += ["--attach"] * bool(options.get("attach"))
    return " ".join(words + ["--no-baselines"] * (report.options.get("baselines") is False))


def show_on_console(report: BenchReport, console: Console) -> None:
    """Print the headline, the machine and the remarks, then the tables."""
    console.print(report.headline, style="bold", markup=False)
    for line in (_machine_line(report), *remarks(report)):
        console.print(line, markup=False)
    for table in tables(report):
        rich = Table(title=table.title, title_justify="left", box=None, padding=(0, 1, 0, 0))
        rich.add_column("", overflow="fold", min_width=_NAME_WIDTH)  # names fold, figures do not
        for heading in table.headings:
            rich.add_column(heading, justify="right", no_wrap=True)
        for row in table.rows:
            rich.add_row(*row)
        console.print(rich, markup=False)  # a folder may be called [old]
    console.print(LEGEND)


def markdown(report: BenchReport) -> str:
    """A report in GitHub's Markdown."""
    return "\n\n".join([*_blocks(report, report.headline, "#"), LEGEND]) + "\n"


def markdown_of_several(reports: Mapping[str, BenchReport]) -> str:
    """Several reports in GitHub's Markdown, each under its name."""
    blocks = [
        "# Benchmark results",
        "Written by `slipstream bench --from FOLDER --markdown FILE` from the reports in FOLDER; "
        "not edited by hand.",
        LEGEND,
    ]
    for name, report in reports.items():
        blocks += _blocks(report, f"{name}: {report.headline}", "##")
    return "\n\n".join(blocks) + "\n"


def _blocks(report: BenchReport, title: str, level: str) -> Iterator[str]:
    yield f"{level} {_escaped(title)}"
    yield f"{_escaped(_machine_line(report))}. {report.date}."
    yield f"`{command(report).replace('`', '')}`"
    lines = [f"- {_escaped(line)}" for line in remarks(report)]
    if lines:
        yield "\n".join(lines)
    for table in tables(report):
        yield f"{level}# {_escaped(table.title)}"
        yield _markdown_table(table)


def _markdown_table(table: ReportTable) -> str:
    alignment = ["---", *["---:"] * len(table.headings)]
    lines = [
        " | ".join(_escaped(cell).replace("\n", "<br>") for cell in cells)
        for cells in (("", *table.headings), alignment, *table.rows)
    ]
    return "\n".join(f"| {line} |" for line in lines)


def _escaped(text: str) -> str:
    """Escape a text for Markdown: names of folders and files may have any characters."""
    for letter in "\\`*_|<>[]#":
        text = text.replace(letter, f"\\{letter}")
    return text


def check_places(*files: Path | None) -> None:
    """Raise `Problem` if one of these cannot be written. Call it before the measuring."""
    for file in filter(None, files):
        if file.is_dir():
            raise Problem(f"{file} is a folder.", "Give a file's name.")
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=file.parent).close()


def show(report: BenchReport, console: Console, *, to: Path | None) -> None:
    """Print the report, and write it as Markdown to the file `to`, if given. Raises `Problem`."""
    show_on_console(report, console)
    if to is not None:
        _write(markdown(report), to)


def show_kept(place: Path, console: Console, *, to: Path | None) -> None:
    """Print the report in the file `place`, or all reports in the folder `place`.

    With `to`, writes them as Markdown to that file; of a folder it prints none then. Raises
    `Problem`.
    """
    if not place.is_dir():
        show(read_report(place), console, to=to)
        return
    reports = {path.stem: read_report(path) for path in sorted(place.glob("[!.]*.json"))}
    if not reports:
        raise Problem(f"{place} contains no reports.", "Make one: slipstream bench --out FILE.json")
    if to is not None:
        _write(markdown_of_several(reports), to)
        return
    for report in reports.values():
        show_on_console(report, console)


def _write(text: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
