"""`slipstream cluster`: what several Macs lack, and a server on them in the background."""

import sys
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import engine
from engine.cli.pair_options import Target, target_folder
from engine.cli.several_macs import ModeOption, TrustNetwork, chosen_macs, leading
from engine.cluster.states import RankState, divided
from engine.server.background import Background, BackgroundStatus
from models.errors import Problem
from models.in_words import clean, size

_FOLDER = str(Path(engine.__file__).parents[1])
_HERE_TOO = (  # runs this copy of us in the folder that paths on the command line are meant from
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from engine.cli.main import main; main()"
)

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


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="All other options are those of slipstream serve.",
)
def up(*, context: typer.Context, hosts: Named) -> None:
    """Start a server on the Macs, which stays when this ends."""
    start = (sys.executable, "-c", _HERE_TOO, _FOLDER)
    command = (*start, "serve", "--background", "--hosts", str(hosts))
    console = Console(stderr=True)
    with console.status("Joining the Macs") as shown:

        def note(status: BackgroundStatus) -> None:
            shown.update(", ".join(f"{each.host}: {each.state}" for each in status.ranks))

        status = Background().start([*command, *context.args], changed=note)
    show_macs(Console(), status.ranks)
    print(f"Slipstream answers at {status.address} with {Path(status.target).name}.")


@app.command()
def status(*, json: Json = False) -> None:
    """Say how the server in the background is, and each of its Macs."""
    found = Background().status()
    if json:
        print(dumps(None if found is None else asdict(found)))
        return
    if found is None:
        print("No server runs on several Macs. slipstream cluster up starts one.")
        raise typer.Exit(1)
    show_macs(Console(), found.ranks)
    if found.problem or not found.address:
        print(clean(found.problem) or "It is being loaded.")
    else:
        print(f"Slipstream answers at {found.address} with {Path(found.target).name}.")


@app.command()
def down() -> None:
    """End the server in the background, and with it what runs on the other Macs."""
    print("The server has ended." if Background().stop() else "No server runs on several Macs.")


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
