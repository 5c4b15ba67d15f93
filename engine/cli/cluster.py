"""`slipstream cluster`: says how several Macs are, and what to set up on them."""

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from engine.cli.pair_options import Target, target_folder
from engine.cli.several_macs import ModeOption, TrustNetwork, chosen_macs, leading
from engine.cluster.states import RankState, divided
from models.errors import Problem
from models.in_words import clean, size

app = typer.Typer(
    help="Several Macs that hold a target together. Never run over Thunderbolt yet.",
    no_args_is_help=True,
)

Named = Annotated[
    Path, typer.Option("--hosts", metavar="FILE", help="Their hostfile, as for mlx.launch.")
]
Json = Annotated[bool, typer.Option("--json", help="Print lines of JSON instead.")]


@app.command()
def check(
    *,
    hosts: Named,
    target: Target = None,
    trust_network: TrustNetwork = False,
    mode: ModeOption = "auto",
    json: Json = False,
) -> None:
    """Join the Macs, say how each of them is, and what to set up; load a target, where one is
    named. In JSON, a line of "ranks" whenever one changes, and a last one of a "problem"."""
    states: tuple[RankState, ...] = ()

    def note(ranks: tuple[RankState, ...]) -> None:
        nonlocal states
        states = ranks or states
        if json and ranks:
            print(dumps({"ranks": [asdict(rank) for rank in ranks]}), flush=True)

    def tell(problem: Problem) -> None:
        if json:
            print(dumps({"problem": [problem.message, problem.remedy]}), flush=True)

    try:
        folder = None if target is None else target_folder(target)
        macs = chosen_macs(hosts, trust_network, mode)
        with leading(macs, note, tell) as led:
            led.join(macs)
            if folder is not None:
                led.load(folder, macs)
    except Problem as problem:
        if not json:
            raise
        tell(problem)
        raise typer.Exit(2) from None
    finally:
        if not json:
            show_macs(Console(), states)


def show_macs(console: Console, ranks: tuple[RankState, ...]) -> None:
    """Print a line for each Mac, and how they hold a target."""
    if not ranks:
        return
    table = Table("Mac", "", "Chip", "Free", "Needs", "", box=None, pad_edge=False)
    for rank in ranks:
        bytes_of = [size(n) if n else "" for n in (rank.free_bytes, rank.needed_bytes)]
        table.add_row(clean(rank.host), rank.state, clean(rank.chip), *bytes_of, clean(rank.detail))
    console.print(table)
    if any(rank.needed_bytes for rank in ranks):
        console.print(divided(ranks), highlight=False, markup=False)
