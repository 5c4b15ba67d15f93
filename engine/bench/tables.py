"""A report for the console, as tables."""

from collections.abc import Sequence
from itertools import batched

from rich.console import Console
from rich.table import Table

from engine.bench.figures import Ratio
from engine.bench.report import ALL, Report, Row

_POSITIONS = 8  # of a draft; the JSON file has them all
_NAME_WIDTH = 18
_CATEGORIES = 4  # side by side


def render(report: Report, console: Console) -> None:
    """Print the report: all categories together, then by category, then along the draft."""
    machine = report.machine
    console.print(f"{report.target}: {report.label}", style="bold")
    for name, precision in report.drafters:
        console.print(f"drafter {name}: {precision}")
    console.print(
        f"{machine.processor}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{machine.matrix_library}, mlx {machine.mlx}, mlx-lm {machine.mlx_lm}"
    )
    if report.partial:
        console.print("Partial: stopped before all prompts were done.", style="bold")
    if report.skipped:
        console.print(f"{report.skipped} prompts were too long for the context and skipped.")
    for name, message in report.refused:
        console.print(f"{name} cannot run this: {message}")
    rows = report.rows()
    for temperature in dict.fromkeys(row.temperature for row in rows):
        here = [row for row in rows if row.temperature == temperature]
        how = "greedy" if temperature == 0.0 else f"temperature {temperature:g}"
        overall = [row for row in here if row.category == ALL]
        console.print(_speed(overall, how))
        console.print(_where(overall, how))
        categories = list(dict.fromkeys(row.category for row in here if row.category != ALL))
        for shown in batched(categories, _CATEGORIES):
            console.print(_by_category(here, shown, how))
        if any(row.acceptance_by_position for row in overall):
            console.print(_by_position(overall, how))
    console.print(
        "× is a speed over another's: the median over prompts, its quartiles, and Σ, all tokens "
        "by all seconds. Length: tokens per target pass. Draft, verify and own (the engine's) "
        "are shares of the decode time. Same: greedy answers with the tokens of slipstream plain, "
        "and @ where the first of the others differs."
    )


def _speed(rows: list[Row], how: str) -> Table:
    table = _table(f"Speed, {how}", "tokens/s", "× plain", "Σ", "× mlx-lm", "Σ", "same")
    for row in rows:
        table.add_row(
            row.contestant,
            _number(row.tokens_per_second, ".1f"),
            *_ratio(row.to_plain),
            *_ratio(row.to_mlx_lm),
            _same(row),
        )
    return table


def _where(rows: list[Row], how: str) -> Table:
    headings = ("accepted", "length", "draft", "verify", "own")
    table = _table(f"Acceptance, and where the time goes, {how}", *headings)
    for row in rows:
        table.add_row(
            row.contestant,
            _number(row.acceptance_rate, ".0%"),
            _number(row.acceptance_length, ".2f"),
            _number(row.draft_share, ".0%"),
            _number(row.verify_share, ".0%"),
            _number(row.own_share, ".1%"),
        )
    return table


def _by_category(rows: list[Row], categories: Sequence[str], how: str) -> Table:
    counts = {c: max(row.prompts for row in rows if row.category == c) for c in categories}
    headings = (f"{category}\n({counts[category]})" for category in categories)
    table = _table(f"× plain, accepted and length by category, {how}", *headings)
    for contestant in dict.fromkeys(row.contestant for row in rows):
        by_category = {row.category: row for row in rows if row.contestant == contestant}
        table.add_row(contestant, *(_cell(by_category.get(category)) for category in categories))
    return table


def _by_position(rows: list[Row], how: str) -> Table:
    longest = max(len(row.acceptance_by_position) for row in rows)
    positions = range(1, min(longest, _POSITIONS) + 1)
    table = _table(f"Accepted by position in the draft, {how}", *map(str, positions))
    for row in rows:
        if row.acceptance_by_position:
            shares = [_number(share, ".0%") for share in row.acceptance_by_position[:_POSITIONS]]
            table.add_row(row.contestant, *shares)
    return table


def _table(title: str, *headings: str) -> Table:
    """Names fold where the console is narrow, figures do not."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold", min_width=_NAME_WIDTH)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cell(row: Row | None) -> str:
    if row is None:
        return "–"
    speed = "–" if row.to_plain is None else f"{row.to_plain.prompts.median:.2f}×"
    if row.acceptance_rate is None:
        return speed
    return f"{speed}\n{row.acceptance_rate:.0%} {_number(row.acceptance_length, '.2f')}"


def _ratio(ratio: Ratio | None) -> tuple[str, str]:
    if ratio is None:
        return "–", "–"
    over = ratio.prompts
    return f"{over.median:.2f} {over.low:.2f}–{over.high:.2f}", f"{ratio.total:.2f}"


def _same(row: Row) -> str:
    if not row.compared:
        return "–"
    first = f" @{min(row.differs_at)}" if row.differs_at else ""
    return f"{row.identical}/{row.compared}{first}"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
