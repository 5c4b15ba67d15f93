"""A report for the console, as tables."""

from rich.console import Console
from rich.table import Table

from engine.bench.findings import Findings
from engine.bench.sheets import LEGEND, Sheet, headline, machine_line, remarks, sheets

_NAME_WIDTH = 18


def render(findings: Findings, console: Console) -> None:
    """Print what was measured, and on what; then the tables."""
    console.print(headline(findings), style="bold", markup=False)
    console.print(machine_line(findings), markup=False)
    for line in remarks(findings):
        console.print(line, markup=False)
    for sheet in sheets(findings):
        console.print(_table(sheet))
    console.print(LEGEND)


def _table(sheet: Sheet) -> Table:
    """Names fold where the console is narrow, figures do not."""
    table = Table(title=sheet.title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold", min_width=_NAME_WIDTH)
    for heading in sheet.headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in sheet.rows:
        table.add_row(*row)
    return table
