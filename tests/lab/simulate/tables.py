"""A report for the console, as tables; each says that it is simulated."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.lab.simulate.report import ResultRow, SimulationReport, total


def render(report: SimulationReport, console: Console) -> None:
    """Print the report, curve by curve."""
    console.print(
        f"Simulated, not measured: draft length {report.policy}; {report.conditions}. "
        f"Costs are published curves, {report.acceptance}.",
        style="bold",
        highlight=False,
    )
    for curve, source in report.sources:
        console.print(f"{curve}: {source}", highlight=False)
        rows = [row for row in report.rows if row.curve == curve]
        for temperature in dict.fromkeys(row.temperature for row in rows):
            here = [row for row in rows if row.temperature == temperature]
            how = "greedy" if temperature == 0.0 else f"temperature {temperature:g}"
            console.print(_table(here, f"Simulated: {curve}, {how}"))
    console.print(
        "Of so many tokens; length: tokens per target pass; ×: speed over plain decoding's. "
        "Best fixed: of all lengths and drafters, known in hindsight. Oracle: chooses before every "
        "round and knows all chances and costs. Missing: the share of their speed (regret).",
        highlight=False,
    )


def _table(rows: Sequence[ResultRow], title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold", min_width=14)
    headings = ("", "length", "×", "best fixed\nin hindsight", "\n×", "oracle\n×")
    for heading in (*headings, "missing\nto fixed", "missing\nto oracle"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in [*rows, *([total(rows, "all")] if len(rows) > 1 else [])]:
        table.add_row(
            row.category,
            str(row.tokens),
            f"{row.length:.2f}",
            f"{row.to_plain:.2f}",
            row.fixed,
            f"{row.plain_seconds / row.fixed_seconds:.2f}",
            f"{row.plain_seconds / row.oracle_seconds:.2f}",
            f"{row.fixed_regret:.1%}",
            f"{row.oracle_regret:.1%}",
        )
    return table
