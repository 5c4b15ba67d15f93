"""`python -m tests.lab.clients`: each client's scenario against a server, and what fails."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.errors import Problem
from models.starter import ensure_starter
from tests.lab.clients.environments import CLIENTS, Outcome, Served, play, prepare
from tests.lab.clients.servers import model_name, serving
from tests.support.engine.seeing_folders import write_seeing

ENVIRONMENTS = Path(".cache/clients")


def main(
    *,
    server: Annotated[
        str,
        typer.Option(help="slipstream, slipstream-plain, slipstream-sees, mlx-lm, or an address."),
    ] = "slipstream",
    only: Annotated[list[str] | None, typer.Option(help="A client's name.")] = None,
    environments: Annotated[Path, typer.Option(help="Where clients are installed.")] = ENVIRONMENTS,
) -> None:
    """What passes and what does not; exit code 1 where anything does not."""
    console = Console(highlight=False, soft_wrap=True)
    there = [each for each in CLIENTS if each.sees or server != "slipstream-sees"]
    chosen = [client for client in there if not only or client.name in only]
    if not chosen:
        raise typer.BadParameter(f"The clients are {', '.join(each.name for each in there)}.")
    outcomes = []
    for client in chosen:
        console.print(f"{client.name}: {' '.join(client.requirements)}", style="bold")
        for outcome in _tried(client, server, environments):
            outcomes.append(outcome)
            style = "red" if outcome.why else "green"
            line = f"  {outcome.step}" + (f": {outcome.why}" if outcome.why else "")
            console.print(line, style=style, markup=False)
    failed = sum(bool(outcome.why) for outcome in outcomes)
    console.print(f"{len(outcomes) - failed} steps passed, {failed} did not")
    raise typer.Exit(int(failed > 0))


def _tried(client, server, environments):
    """Each client has a server of its own, so that none suffers from what another one did to it."""
    try:
        environment = prepare(client, environments)
        sees = server == "slipstream-sees"
        own = environments / "servers"
        target = write_seeing("lfm2-vl", own / "tiny-vl") if sees else ensure_starter().path
        with serving(server, target.absolute(), own) as address:
            served = Served(address, model_name(address), sees)
            yield from play(client.scenario, environment, served)
    except Problem as problem:
        yield Outcome("to begin", str(problem))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
