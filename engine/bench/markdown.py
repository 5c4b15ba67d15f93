"""A report as a Markdown file, the tables as GitHub shows them."""

from collections.abc import Sequence

from engine.bench.findings import Findings
from engine.bench.sheets import LEGEND, Sheet, headline, machine_line, remarks, sheets


def markdown(findings: Findings) -> str:
    """The whole report."""
    blocks = [f"# {_escaped(headline(findings))}"]
    blocks += [f"{_escaped(machine_line(findings))}. {findings.date}."]
    blocks += ["\n".join(f"- {_escaped(line)}" for line in remarks(findings))]
    for sheet in sheets(findings):
        blocks += [f"## {_escaped(sheet.title)}", _table(sheet)]
    return "\n\n".join(block for block in [*blocks, LEGEND] if block) + "\n"


def _table(sheet: Sheet) -> str:
    alignment = ["---", *["---:"] * len(sheet.headings)]
    lines = [("", *sheet.headings), alignment, *sheet.rows]
    return "\n".join(_line(cells) for cells in lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell).replace("\n", "<br>") for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Names come from folders and files, which may be called anything."""
    for letter in "\\`*_|<>[]#":
        text = text.replace(letter, f"\\{letter}")
    return text
