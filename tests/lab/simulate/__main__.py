"""`python -m tests.lab.simulate`: play draft lengths against recorded drafts, or record some.

Every failure that a person can act on ends here, as one line, with exit code 2.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from engine.cli.options import TARGET, described
from models.errors import Problem
from tests.lab.simulate.run import (
    SimulateOptions,
    draft_steps,
    recorded_traces,
    run_simulation,
)
from tests.lab.simulate.tables import render

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def play(
    *,
    traces: Annotated[
        list[Path] | None, typer.Option(help="A file made by record; repeatable.")
    ] = None,
    curve: Annotated[
        list[str] | None, typer.Option(help="A published cost curve; repeatable; else all.")
    ] = None,
    scenario: Annotated[
        str, typer.Option(help="A disturbance: steady, noisy, heat, load, steeper, deep or host.")
    ] = "steady",
    draft_step: Annotated[
        list[str] | None,
        typer.Option(metavar="[DRAFTER=]X", help="A drafted token's cost, in passes; repeatable."),
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="N|tree:N|auto", help="Who chooses the length.")
    ] = "auto",
    fresh: Annotated[bool, typer.Option("--fresh", help="Learn anew in each category.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Play drafters that others have trained instead.")
    ] = False,
    rejecting: Annotated[
        bool, typer.Option("--rejecting", help="Reject every drafted token.")
    ] = False,
    chains: Annotated[bool, typer.Option("--chains", help="Let no drafter propose trees.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write all figures to this JSON file.")] = None,
) -> None:
    """Play draft lengths against recorded drafts and published costs: simulated, not measured."""
    options = SimulateOptions(
        traces=tuple(traces or ()) if published else tuple(traces or recorded_traces()),
        published=published,
        curves=tuple(curve or ()),
        scenario=scenario,
        steps=draft_steps(draft_step or ()),
        policy=policy,
        fresh=fresh,
        rejecting=rejecting,
        chains=chains,
        seed=seed,
        out=out,
    )
    errors = Console(stderr=True)
    report = run_simulation(options, progress=lambda line: errors.print(line, style="dim"))
    render(report, Console())


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
    temperature: list[float] | None = None,
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
        temperatures=tuple(temperature or [0.0, 0.8]),
        max_tokens=max_tokens,
        longest=longest,
    )
    errors = Console(stderr=True)
    record(options, progress=lambda line: errors.print(line, style="dim", highlight=False))
    print(out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; after a `Problem` it exits with 2, and one line that names it."""
    try:
        app(arguments)
    except Problem as problem:
        print(f"simulate: {' '.join(str(problem).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
