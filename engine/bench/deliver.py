"""Where a report goes: the console, a Markdown file, a picture."""

from pathlib import Path

from rich.console import Console

from engine.bench.findings import Findings
from engine.bench.markdown import markdown as as_markdown
from engine.bench.plot import require_matplotlib, write_plot
from engine.bench.tables import render
from models.errors import Problem


def check_places(*, markdown: Path | None, plot: Path | None) -> None:
    """Raise `Problem` now, rather than after the measuring, where they cannot be written."""
    if plot is not None:
        require_matplotlib()
    for place in (markdown, plot):
        if place is not None and place.is_dir():
            raise Problem(f"{place} is a folder.", "Give a file's name.")


def deliver(
    findings: Findings, console: Console, *, markdown: Path | None, plot: Path | None
) -> None:
    """Show the report, and write what was asked for. Raises `Problem`."""
    render(findings, console)
    if markdown is not None:
        try:
            markdown.parent.mkdir(parents=True, exist_ok=True)
            markdown.write_text(as_markdown(findings), encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise Problem(f"{markdown} cannot be written: {reason}.", "Check the path.") from error
    if plot is not None:
        write_plot(findings, plot)
