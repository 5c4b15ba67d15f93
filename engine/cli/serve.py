"""`slipstream serve`: the local server, as a command. Knows options and the terminal."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from engine.cli.folders import learning_folder, target_folder
from engine.cli.options import ModelOptions, examples, option
from engine.server.clients import client_setups

if TYPE_CHECKING:
    from engine.server.running import Place

DEFAULT_PORT = 8737


def epilog() -> str:
    """The end of the command's help: what to tell other programs."""
    setups = client_setups(f"http://127.0.0.1:{DEFAULT_PORT}", "MODEL", key="KEY")
    blocks = [f"{setup.name}, {setup.where}:\n\b\n{escape(setup.lines)}" for setup in setups]
    return "\n\n".join([examples("slipstream serve --parallel 4", words=True), *blocks])


def serve(
    options: ModelOptions,
    *,
    host: Annotated[str, option("The address to listen at.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, option("The port; 0: any.", metavar="N", min=0, max=65535)] = DEFAULT_PORT,
    key_file: Annotated[
        str | None,
        option("Ask for the key in this file, or in the default.", metavar="FILE|default"),
    ] = None,
    allow_origin: Annotated[
        list[str] | None, option("Let web pages from here ask; repeatable.", metavar="URL")
    ] = None,
    parallel: Annotated[int, option("Answers at the same time.", metavar="N", min=1, max=64)] = 8,
    exact: Annotated[bool, option("Give each answer passes of its own.", "--exact")] = False,
    attached: Annotated[
        bool, typer.Option("--attached", hidden=True, help="To an engine on the standard streams.")
    ] = False,
) -> None:
    """Answer other programs, by OpenAI's and Anthropic's APIs."""
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
    folder = target_folder(options.target)
    learning_folder(options.learn)
    load = options.load(folder, id="serve", parallel=parallel, exact=exact)

    def report(line: str) -> None:
        print(f"slipstream: {line}", file=sys.stderr, flush=True)

    def loaded(place: "Place", link: "EngineLink") -> None:
        assert link.loaded is not None
        print(f"Slipstream answers at {place.address} with {folder.name}.", flush=True)
        if path is not None:
            print(f"Clients must show the key in {path}.", flush=True)
        if link.loaded.remark:
            report(link.loaded.remark)

    print(f"Loading {folder.name}", file=sys.stderr, flush=True)
    asyncio.run(run(place, load, link=EngineLink(), loaded=loaded, report=report))
