"""`python -m tests.lab.clients`: each client's scenario against a server, and what fails."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.errors import Problem
from models.starter import ensure_starter
from tests.lab.clients.environments import CLIENTS, prepare
from tests.lab.clients.scenario import Served, play
from tests.lab.clients.servers import model_name, serving

ENVIRONMENTS = Path(".cache/clients")


def main(
    *,
    server: Annotated[
        str, typer.Option(help="slipstream, slipstream-plain, mlx-lm, or an address.")
    ] = "slipstream",
    only: Annotated[list[str] | None, typer.Option(help="A client's name.")] = None,
    environments: Annotated[Path, typer.Option(help="Where clients are installed.")] = ENVIRONMENTS,
) -> None:
    """What passes and what does not; exit code 1 where anything does not."""
    console = Console(highlight=False, soft_wrap=True)
    passed = failed = 0
    target = ensure_starter().path
    try:
        chosen = [client for client in CLIENTS if not only or client.name in only]
        if not chosen:
            raise Problem(f"There is no {only}.", f"Name one of {[each.name for each in CLIENTS]}.")
        for client in chosen:
            console.print(f"{client.name}: {' '.join(client.requirements)}", style="bold")
            environment = prepare(client, environments)
            with serving(server, target, environments / "servers") as address:
                served = Served(address, model_name(address), target)
                for outcome in play(client.scenario, environment, served):
                    passed += not outcome.why
                    failed += bool(outcome.why)
                    style = "red" if outcome.why else "green"
                    line = f"  {outcome.step}" + (f": {outcome.why}" if outcome.why else "")
                    console.print(line, style=style, markup=False)
    except Problem as problem:
        console.print(str(problem), style="red", markup=False)
        raise typer.Exit(2) from problem
    console.print(f"{passed} steps passed, {failed} did not")
    raise typer.Exit(int(failed > 0))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
