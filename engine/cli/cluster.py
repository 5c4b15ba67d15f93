"""`slipstream cluster`: checks several Macs, and says what to set up on them."""

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from engine.cli.folders import target_folder
from engine.cli.models.commands import problems_as_lines
from engine.cli.options import AS_JSON, MacsOptions, TargetOptions, examples, option, with_options
from engine.cli.streams import new_console
from engine.cluster.states import RankState, divided
from engine.process.protocol import CHECKED, Ranks
from models.errors import Problem
from models.in_words import clean, size

_EXAMPLES = examples("slipstream cluster check --hosts macs.json", words=("HOSTFILE", "MODE"))

app = typer.Typer(
    help="Check several Macs that share a target.", no_args_is_help=True, epilog=_EXAMPLES
)


@dataclass(frozen=True, kw_only=True)
class CheckOptions(TargetOptions, MacsOptions):
    """The Macs to check, and the target to split among them, if any."""

    json: bool = option(False, *AS_JSON)


@app.command(epilog=_EXAMPLES)
@with_options
def check(options: CheckOptions) -> None:
    """Connect the Macs, and print the state of each and what to set up.

    With --json: a line of "ranks", or a line that is "refused".
    """
    with problems_as_lines(options.json):
        ranks = _joined(options)
    if options.json:
        print(CHECKED.to_json(Ranks(ranks)), flush=True)
    else:
        _show(new_console(), ranks)


def _joined(options: CheckOptions) -> tuple[RankState, ...]:
    """Return the connected Macs, with their shares of the target. Raises `Problem`."""
    from engine.cluster.hosts import read_hosts
    from engine.process.launch import Launch
    from models.memory.fit import DEFAULT_CONTEXT
    from models.memory.shares import plan, require_plan

    if options.hosts is None:
        raise Problem("No Macs are named.", "Name their file with --hosts.")
    hosts = read_hosts(Path(options.hosts))
    folder = None if options.target is None else target_folder(options.target)
    with closing(Launch(hosts)) as launch:
        launch.meet()
    if folder is None:
        return launch.states
    mode = None if options.mode == "auto" else options.mode
    made = plan(folder, launch.machines, context=DEFAULT_CONTEXT, mode=mode)
    require_plan(made, [rank.host for rank in launch.states])
    layers = made.layers or (None,) * len(made.fits)
    return tuple(
        replace(rank, layers=own, needed_bytes=fit.needed_bytes)
        for rank, own, fit in zip(launch.states, layers, made.fits, strict=True)
    )


def _show(console: Console, ranks: tuple[RankState, ...]) -> None:
    """Print a line for each Mac, and how they split the target."""
    table = Table("Mac", "", "Chip", "Free", "Needs", box=None, pad_edge=False)
    for rank in ranks:
        bytes_of = [size(n) if n else "" for n in (rank.free_bytes, rank.needed_bytes)]
        table.add_row(clean(rank.host), rank.state, clean(rank.chip), *bytes_of)
    console.print(table)
    if any(rank.needed_bytes for rank in ranks):
        console.print(divided(ranks), highlight=False, markup=False)
