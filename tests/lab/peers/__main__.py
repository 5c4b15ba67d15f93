"""`python -m tests.lab.peers`: as `slipstream bench`, beside transformers' prompt lookup.

Every failure that a person can act on ends here, as one line, with exit code 2.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from engine.bench.options import BenchOptions
from engine.bench.render import check_place, show
from engine.bench.run import run_bench
from engine.cli.folders import target_folder
from engine.cli.options import TARGET, described
from models.errors import Problem
from tests.lab.peers.transformers_lookup import transformers_lookup

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def compare(
    *,
    target: Annotated[str | None, described(*TARGET)] = None,
    runner: Annotated[
        list[str] | None, typer.Option(metavar="DRAFTER/LENGTH", help="Of ours; repeatable.")
    ] = None,
    length: Annotated[int, typer.Option(min=1, max=16, help="Tokens it drafts a round.")] = 10,
    prompts: Path | None = None,
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    attach: Annotated[bool, typer.Option("--attach", help="Ask about documents.")] = False,
    per_category: int = 2,
    max_tokens: Annotated[int, typer.Option(min=2, help="The longest answer.")] = 100,
    temperature: list[float] | None = None,
    out: Annotated[Path | None, typer.Option(help="Write all figures to this JSON file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this file.")] = None,
) -> None:
    """Measure transformers' prompt lookup, in Slipstream's passes, beside drafters of ours."""
    console, errors = Console(), Console(stderr=True)
    check_place(markdown)
    options = BenchOptions(
        target=target_folder(target),
        drafters=(),
        lengths=(),
        runners=tuple(runner or ["lookup/auto"]),
        prompts=prompts,
        sets=tuple(set_ or ()),
        attach=attach,
        per_category=per_category,
        max_tokens=max_tokens,
        temperatures=tuple(temperature or [0.0]),
        out=out,
    )
    measured = run_bench(
        options,
        progress=lambda line: errors.print(line, style="dim", markup=False),
        peers=[transformers_lookup(length)],
    )
    show(measured.report(), console, to=markdown)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; after a `Problem` it exits with 2, and one line that names it."""
    try:
        app(arguments)
    except Problem as problem:
        print(f"peers: {' '.join(str(problem).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
