"""`slipstream serve`: the local server, as a command. Knows options and the terminal."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from engine.cli.folders import learning_folder, target_folder
from engine.cli.options import WORDS, ModelOptions, examples, option, with_options
from engine.server.clients import client_setups

if TYPE_CHECKING:
    from engine.server.running import Place

DEFAULT_PORT = 8737


def epilog() -> str:
    """The end of the command's help: what to tell other programs."""
    setups = client_setups(f"http://127.0.0.1:{DEFAULT_PORT}", "MODEL", key="KEY")
    blocks = [f"{setup.name}, {setup.where}:\n\b\n{escape(setup.lines)}" for setup in setups]
    return "\n\n".join([examples("slipstream serve --parallel 4", words=WORDS), *blocks])


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ModelOptions):
    """Also where clients ask, and which may."""

    host: str = option("127.0.0.1", "The address to listen at.", "ADDRESS")
    port: int = option(DEFAULT_PORT, "The port; 0: any.", "N", min=0, max=65535)
    key_file: str | None = option(None, "Ask for the key in it; default: our own.", "FILE|default")
    allow_origin: list[str] | None = option(None, "Let web pages from here ask; repeatable.", "URL")
    parallel: int = option(8, "Answers at the same time.", "N", min=1, max=64)
    exact: bool = option(False, "Give each answer passes of its own.", "", "--exact")
    attached: bool = option(
        False, "To an engine on the standard streams.", "", "--attached", hidden=True
    )


@with_options
def serve(options: ServeOptions) -> None:
    """Answer other programs, by OpenAI's and Anthropic's APIs."""
    from engine.server.keys import default_key_file, read_key
    from engine.server.link import EngineLink
    from engine.server.running import Place, serve_attached
    from engine.server.running import serve as run

    path = None if options.key_file is None else Path(options.key_file).expanduser()
    if options.key_file == "default":
        path = default_key_file()
    key = None if path is None else read_key(path)
    origins = tuple(options.allow_origin or ())
    place = Place(host=options.host, port=options.port, key=key, origins=origins)
    if options.attached:
        asyncio.run(serve_attached(place))
        return
    folder = target_folder(options.target)
    learning_folder(options.learn)
    load = options.load(folder, id="serve", parallel=options.parallel, exact=options.exact)

    def report(line: str) -> None:
        print(f"slipstream: {line}", file=sys.stderr, flush=True)

    def loaded(place: "Place", link: "EngineLink") -> None:
        assert link.loaded is not None
        print(f"Slipstream answers at {place.address} with {folder.name}.", flush=True)
        if path is not None:
            print(f"Clients must show the key in {path}.", flush=True)
        if link.loaded.remark:
            report(link.loaded.remark)

    link = EngineLink(thinking=options.thinking or "", thinking_budget=options.thinking_budget)
    print(f"Loading {folder.name}", file=sys.stderr, flush=True)
    asyncio.run(run(place, load, link=link, loaded=loaded, report=report))
