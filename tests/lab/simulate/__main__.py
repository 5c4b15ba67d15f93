"""`python -m tests.lab.simulate`: play draft lengths against recorded drafts, or record some.

Every failure that the user can act on ends here, as one line, with exit code 2.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from engine.cli.options import TARGET, described
from models.errors import Problem
from tests.lab.simulate.conditions import SCENARIOS, Conditions
from tests.lab.simulate.curves import find_curves
from tests.lab.simulate.run import Episode, ResultRow, calibrated, total
from tests.lab.simulate.traces import load_trace, without_acceptance

_RECORDED = Path(__file__).parents[2] / "data" / "traces" / "starter.jsonl.gz"

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def play(
    *,
    traces: Annotated[Path, typer.Option(help="A file made by record.")] = _RECORDED,
    curve: Annotated[
        list[str] | None, typer.Option(help="A published cost curve; repeatable; else all.")
    ] = None,
    scenario: Annotated[
        str, typer.Option(help=f"A disturbance: {', '.join(SCENARIOS)}.")
    ] = "steady",
    rejecting: Annotated[
        bool, typer.Option("--rejecting", help="Reject every drafted token.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
) -> None:
    """Play draft lengths against recorded drafts and published costs: simulated, not measured."""
    console = Console()
    if scenario not in SCENARIOS:
        raise Problem(f"There is no scenario {scenario!r}.", f"Choose from {', '.join(SCENARIOS)}.")
    disturbance, changes = SCENARIOS[scenario]
    curves, answers = find_curves(curve or ()), load_trace(traces).answers
    if rejecting:
        answers = tuple(map(without_acceptance, answers))
    console.print(
        f"Simulated, not measured: {disturbance}"
        f"{', every drafted token rejected' * rejecting}. "
        "Costs are published curves, acceptance is recorded.",
        style="bold",
        highlight=False,
    )
    for temperature in sorted({answer.temperature for answer in answers}):
        episode = Episode([each for each in answers if each.temperature == temperature])
        for each in curves:
            machine = Conditions(curve=each, seed=seed, **changes)
            how = f"temperature {temperature:g}" if temperature else "greedy"
            title = f"Simulated: {each.name} ({each.source}), {how}"
            console.print(_table(episode.play(calibrated, machine), title))
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
    for row in [*rows, total(rows)]:
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


@app.command()
def record(
    *,
    out: Annotated[
        Path, typer.Option(help="The trace, .jsonl or .jsonl.gz; an existing one is continued.")
    ],
    target: Annotated[str | None, described(*TARGET)] = None,
    drafter: list[str] | None = None,
    prompts: Path | None = None,
    per_category: int = 4,
    max_tokens: Annotated[int, typer.Option(min=1, help="The longest answer.")] = 112,
    longest: Annotated[int, typer.Option(min=1, max=16, help="Tokens to draft a round.")] = 12,
) -> None:
    """Record what drafters propose at every place of answers, for play."""
    from models.installed.resolve import open_target
    from tests.lab.simulate.record import RecordOptions, record

    options = RecordOptions(
        target=open_target(target),
        out=out,
        drafters=tuple(drafter or ["lookup", "head"]),
        prompts=prompts,
        per_category=per_category,
        max_tokens=max_tokens,
        longest=longest,
    )
    errors = Console(stderr=True)
    record(options, progress=lambda line: errors.print(line, style="dim", highlight=False))
    print(out)


if __name__ == "__main__":
    try:
        app()
    except Problem as problem:
        print(f"simulate: {' '.join(str(problem).split())}", file=sys.stderr)
        sys.exit(2)
