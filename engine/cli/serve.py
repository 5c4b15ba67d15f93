"""`slipstream serve`: the local server, as a command. Knows options and the terminal."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from engine.cli.pair_options import (
    DEFAULT_DRAFTER,
    Drafter,
    DraftLengthOption,
    Learn,
    Target,
    learning_folder,
    target_folder,
)
from engine.cli.several_macs import HostsFile, ModeOption, TrustNetwork, chosen_macs
from engine.server.clients import client_setups

if TYPE_CHECKING:
    from engine.server.running import Place

DEFAULT_PORT = 8737


def epilog() -> str:
    """The end of the command's help: what to tell other programs."""
    setups = client_setups(f"http://127.0.0.1:{DEFAULT_PORT}", "MODEL", key="KEY")
    blocks = [f"{setup.name}, {setup.where}:\n\b\n{escape(setup.lines)}" for setup in setups]
    return "\n\n".join(blocks)


def serve(
    *,
    target: Target = None,
    drafter: Drafter = DEFAULT_DRAFTER,
    draft_length: DraftLengthOption = "auto",
    host: Annotated[
        str, typer.Option(help="Where to listen; what other machines can reach needs a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any.")] = DEFAULT_PORT,
    key_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|default",
            help="Clients must show the key in it; it is made where there is none. Without one any "
            "program on this machine may ask.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Web pages from here may ask, such as http://localhost:3000; repeatable."
        ),
    ] = None,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Answers at the same time.")] = 8,
    exact: Annotated[
        bool, typer.Option("--exact", help="Each answer has passes of the target to itself.")
    ] = False,
    context: Annotated[
        int,
        typer.Option(min=0, help="Tokens that memory is kept for; 0 is all that the model has."),
    ] = 0,
    learn: Learn = False,
    hosts: HostsFile = None,
    trust_network: TrustNetwork = False,
    mode: ModeOption = "auto",
    attached: Annotated[
        bool, typer.Option("--attached", hidden=True, help="To an engine on the standard streams.")
    ] = False,
) -> None:
    """Answer other programs on this machine: OpenAI's and Anthropic's APIs, over HTTP."""
    from engine.process.protocol import Load, Memory
    from engine.server.keys import default_key_file, read_key
    from engine.server.link import EngineLink
    from engine.server.running import Place, serve_attached
    from engine.server.running import serve as run

    path = None if key_file is None else Path(key_file).expanduser()
    if key_file == "default":
        path = default_key_file()
    key = None if path is None else read_key(path)
    place = Place(host=host, port=port, key=key, origins=tuple(allow_origin or ()))
    if attached:
        asyncio.run(serve_attached(place))
        return
    folder = str(target_folder(target).path)
    learning_folder(learn)
    load = Load(
        *("serve", folder, drafter, draft_length, Memory(context), parallel, exact, learn),
        macs=chosen_macs(hosts, trust_network, mode),
    )

    def report(line: str) -> None:
        print(f"slipstream: {line}", file=sys.stderr, flush=True)

    def loaded(place: "Place", link: "EngineLink") -> None:
        assert link.loaded is not None
        print(f"Slipstream answers at {place.address} with {Path(folder).name}.", flush=True)
        if path is not None:
            print(f"Clients must show the key in {path}.", flush=True)
        if link.loaded.remark:
            report(link.loaded.remark)

    print(f"Loading {Path(folder).name}", file=sys.stderr, flush=True)
    asyncio.run(run(place, load, link=EngineLink(), loaded=loaded, report=report))
