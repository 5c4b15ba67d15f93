"""Renders a report as titled tables of text, for the console and as Markdown.

Pure, except for `show` and `show_kept`, which write. Knows the content of a report; nothing of the
measuring.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import batched
from pathlib import Path

from rich.console import Console
from rich.table import Table

from engine.bench.report import (
    ALL,
    BenchReport,
    Ratio,
    ResultRow,
    read_report,
    temperature_words,
)
from engine.bench.runners import PLAIN
from models.errors import Problem

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
    "lengths": "draft-length",
    "runners": "runner",
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
class ReportTable:
    """A table; the first column holds names and has no heading. Cells may have several lines."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def headline(report: BenchReport) -> str:
    """The target and the precision that were measured."""
    return f"{report.target}: {report.label}"


def machine_line(report: BenchReport) -> str:
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
    lines += [f"Plain, {words}: {speed:.1f} tokens a second." for words, speed in report.buffers]
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
    for temperature in report.temperatures:
        words = temperature_words(temperature)
        here = [row for row in report.rows if row.temperature == temperature]
        overall = [row for row in here if row.category == ALL]
        if speeds:
            yield _by_runner(f"Speed, {words}", _SPEED, overall)
        yield _by_runner(f"Acceptance, and where the time goes, {words}", _WHERE, overall)
        if speeds:
            yield _by_runner(f"Memory, {words}", _MEMORY, _without_refuted(report, overall))
        for shown in batched(overall, _RUNNERS):
            yield _by_category(here, shown, words)
        if any(row.acceptance_by_position for row in overall):
            yield _by_position(overall, words)


def _compares_speeds(report: BenchReport) -> bool:
    """Whether plain decoding was measured too: without it only acceptance is known."""
    runners = report.options.get("runners") or ()
    alone = isinstance(runners, list | tuple) and any(str(each)[:5] == "none/" for each in runners)
    return report.options.get("baselines") is not False or alone


def _without_refuted(report: BenchReport, rows: Sequence[ResultRow]) -> Sequence[ResultRow]:
    """The rows without shares of the bandwidth, if the probe of the memory was wrong."""
    if not _probe_is_refuted(report):
        return rows
    return [replace(row, bandwidth_share=None, pass_bandwidth_share=None) for row in rows]


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
    ("tokens/s", lambda row: _number(row.tokens_per_second, ".1f")),
    ("× plain", lambda row: _ratio(row.to_plain, of=row.prompts)),
    ("Σ", lambda row: _total(row.to_plain)),
    ("× mlx-lm", lambda row: _ratio(row.to_mlx_lm, of=row.prompts)),
    ("Σ", lambda row: _total(row.to_mlx_lm)),
    ("identical", lambda row: _same(row)),
)
_WHERE: _Columns = (
    ("accepted", lambda row: _number(row.acceptance_rate, ".0%")),
    ("length", lambda row: _number(row.acceptance_length, ".2f")),
    ("draft", lambda row: _number(row.draft_share, ".0%")),
    ("verify", lambda row: _number(row.verify_share, ".0%")),
    ("other", lambda row: _number(row.own_share, ".1%")),
)
_MEMORY: _Columns = (
    ("passes/s", lambda row: _number(_passes_per_second(row), ".1f")),
    ("bandwidth", lambda row: _number(row.bandwidth_share, ".0%")),
    ("in passes", lambda row: _number(row.pass_bandwidth_share, ".0%")),
    ("peak MiB", lambda row: _number(row.peak_bytes and row.peak_bytes / 2**20, ",.0f")),
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
    drafting = {row.runner for row in overall if row.stats.proposed}

    def length(row: ResultRow) -> float | None:
        return row.acceptance_length if row.runner in drafting else None

    for name, figure in (("lowest × plain", _against_plain), ("lowest length", length)):
        lowest = [_lowest(rows, each, figure) for each in overall]
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


def _against_plain(row: ResultRow) -> float | None:
    return row.to_plain.prompts.median if row.to_plain and row.runner != PLAIN else None


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
    speed = "–" if row.to_plain is None else f"{row.to_plain.prompts.median:.2f}×"
    if row.acceptance_rate is None:
        return speed
    return f"{speed} {row.acceptance_rate:.0%} {_number(row.acceptance_length, '.2f')}"


def _ratio(ratio: Ratio | None, *, of: int) -> str:
    """A ratio's median and quartiles; the number of prompts, if not all of them are comparable."""
    if ratio is None:
        return "–"
    over = ratio.prompts
    some = f" ({over.count} of {of})" if over.count < of else ""
    return f"{over.median:.2f} {over.low:.2f}–{over.high:.2f}{some}"


def _total(ratio: Ratio | None) -> str:
    return "–" if ratio is None else f"{ratio.total:.2f}"


def _same(row: ResultRow) -> str:
    if not row.compared:
        return "–"
    first = f" @{min(row.differs_at)}" if row.differs_at else ""
    near = f", {row.near_ties} near a tie" if row.near_ties else ""
    return f"{row.identical}/{row.compared}{near}{first}"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


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
    console.print(headline(report), style="bold", markup=False)
    console.print(machine_line(report), markup=False)
    for line in remarks(report):
        console.print(line, markup=False)
    for table in tables(report):
        console.print(_rich_table(table))
    console.print(LEGEND)


def _rich_table(table: ReportTable) -> Table:
    """Lay a table out for the console; names fold if it is narrow, figures do not."""
    rich = Table(title=table.title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    rich.add_column("", overflow="fold", min_width=_NAME_WIDTH)
    for heading in table.headings:
        rich.add_column(heading, justify="right", no_wrap=True)
    for row in table.rows:
        rich.add_row(*row)
    return rich


def markdown(report: BenchReport) -> str:
    """A report in GitHub's Markdown."""
    return "\n\n".join([*_blocks(report, headline(report), "#"), LEGEND]) + "\n"


def markdown_of_several(reports: Mapping[str, BenchReport]) -> str:
    """Several reports in GitHub's Markdown, each under its name."""
    blocks = [
        "# Benchmark results",
        "Written by `slipstream bench --from FOLDER --markdown FILE` from the reports in FOLDER; "
        "not edited by hand.",
        LEGEND,
    ]
    for name, report in reports.items():
        blocks += _blocks(report, f"{name}: {headline(report)}", "##")
    return "\n\n".join(blocks) + "\n"


def _blocks(report: BenchReport, title: str, level: str) -> Iterator[str]:
    yield f"{level} {_escaped(title)}"
    yield f"{_escaped(machine_line(report))}. {report.date}."
    yield f"`{command(report).replace('`', '')}`"
    lines = [f"- {_escaped(line)}" for line in remarks(report)]
    if lines:
        yield "\n".join(lines)
    for table in tables(report):
        yield f"{level}# {_escaped(table.title)}"
        yield _markdown_table(table)


def _markdown_table(table: ReportTable) -> str:
    alignment = ["---", *["---:"] * len(table.headings)]
    lines = [("", *table.headings), alignment, *table.rows]
    return "\n".join(_markdown_line(cells) for cells in lines)


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell).replace("\n", "<br>") for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Escape a text for Markdown: names of folders and files may have any characters."""
    for letter in "\\`*_|<>[]#":
        text = text.replace(letter, f"\\{letter}")
    return text


def check_place(markdown: Path | None) -> None:
    """Raise `Problem` if the tables cannot be written there. Call it before the measuring."""
    if markdown is not None and markdown.is_dir():
        raise Problem(f"{markdown} is a folder.", "Give a file's name.")


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
