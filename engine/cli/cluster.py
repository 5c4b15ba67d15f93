"""`slipstream cluster`: says how several Macs are, and what to set up on them."""

from dataclasses import dataclass

import typer
from rich.console import Console
from rich.table import Table

from engine.cli.folders import target_folder
from engine.cli.options import AS_JSON, MacsOptions, TargetOptions, examples, option, with_options
from engine.cli.several_macs import leading
from engine.cluster.states import RankState, divided
from engine.process.protocol import CHECKED, Ranks
from models.answers import Refused
from models.errors import Problem
from models.in_words import clean, size

_EXAMPLES = examples("slipstream cluster check --hosts macs.json", words=("HOSTFILE", "MODE"))

app = typer.Typer(
    help="Check several Macs that hold a target together.", no_args_is_help=True, epilog=_EXAMPLES
)


@dataclass(frozen=True, kw_only=True)
class CheckOptions(TargetOptions, MacsOptions):
    """The Macs to check, and the target to load on them, if any."""

    json: bool = option(False, *AS_JSON)


@app.command(epilog=_EXAMPLES)
@with_options
def check(options: CheckOptions) -> None:
    """Join the Macs, and say how each of them is and what to set up.

    With --json, a line of "ranks" whenever one changes, and a last line that is "refused", if so.
    """
    states: tuple[RankState, ...] = ()

    def note(ranks: tuple[RankState, ...]) -> None:
        nonlocal states
        states = ranks or states
        if options.json and ranks:
            print(CHECKED.to_json(Ranks(ranks)), flush=True)

    def tell(problem: Problem) -> None:
        if options.json:
            print(CHECKED.to_json(Refused(problem.message, problem.remedy)), flush=True)

    try:
        macs = options.macs
        if not macs.hosts:
            raise Problem("No Macs are named.", "Give their file with --hosts.")
        folder = None if options.target is None else target_folder(options.target)
        with leading(macs, note, tell) as led:
            led.join(macs)
            if folder is not None:
                led.load(folder, macs)
    except Problem as problem:
        if not options.json:
            raise
        tell(problem)
        raise typer.Exit(2) from None
    finally:
        if not options.json:
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
