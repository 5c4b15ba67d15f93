"""`slipstream serve`: the local server, as a command. Knows options and the terminal."""

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from engine.cli.folders import learning_folder, target_folder
from engine.cli.options import (
    DEFAULT_DRAFTER,
    WORDS,
    ModelOptions,
    examples,
    option,
    with_options,
)
from engine.process.protocol import Loaded, Macs
from engine.server.clients import client_setups
from models.errors import Problem

if TYPE_CHECKING:
    from engine.server.pool import Offers
    from engine.server.running import Place
    from models.model_folder import ModelFolder

DEFAULT_PORT = 8737
_SEVERAL = escape(
    "NAME: an installed MODEL, or all. Clients choose by name; a model is loaded when a client "
    "requests it, and others are unloaded if memory is short. OTHER=NAME gives it another name, "
    "such as claude-*."
)


def epilog() -> str:
    """Return the end of the command's help: the settings of other programs."""
    setups = client_setups(f"http://127.0.0.1:{DEFAULT_PORT}", "MODEL", key="KEY")
    blocks = [f"{setup.name}, {setup.where}:\n\b\n{escape(setup.lines)}" for setup in setups]
    lines = "slipstream serve --parallel 4", "slipstream serve --allow all --keep 10m"
    return "\n\n".join([_SEVERAL, examples(*lines, words=WORDS), *blocks])


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ModelOptions):
    """Also the address, who may connect, and which models are offered."""

    host: str = option("127.0.0.1", "The address to listen at.", "ADDRESS")
    port: int = option(DEFAULT_PORT, "The port; 0: any.", "N", min=0, max=65535)
    key_file: Path | None = option(None, "Require the API key in this file.", "FILE|default")
    allow_origin: list[str] | None = option(
        None, "Allow web pages of this origin; repeatable.", "URL"
    )
    allow_host: list[str] | None = option(
        None, "Another host name, as host.docker.internal; repeatable.", "NAME"
    )
    allow: list[str] | None = option(None, "Offer this model too; repeatable.", "NAME")
    keep: str | None = option(None, "Unload models that are idle this long (10m).", "TIME")
    parallel: int = option(8, "Answers at the same time.", "N", min=1, max=64)
    waiting: int = option(32, "Requests that may wait in the queue.", "N", min=0, max=1024)
    attached: bool = option(
        False, "Use the engine on the standard streams.", "", "--attached", hidden=True
    )


@with_options
def serve(options: ServeOptions) -> None:
    """Serve the APIs of OpenAI, Anthropic and Ollama to other programs."""
    from engine.server.keys import default_key_file, read_key
    from engine.server.running import Place, serve_attached
    from engine.server.running import serve as run

    path = default_key_file() if options.key_file == Path("default") else options.key_file
    key = None if path is None else read_key(path)
    origins = tuple(options.allow_origin or ())
    place = Place(
        host=options.host,
        port=options.port,
        key=key,
        origins=origins,
        names=tuple(options.allow_host or ()),
        most_waiting=options.waiting,
    )

    def report(line: str) -> None:
        print(f"slipstream: {line}", file=sys.stderr, flush=True)

    if options.attached:
        asyncio.run(serve_attached(place, _offers(options), report=report))
        return
    offers = _offers(options, target_folder(options.target))
    learning_folder(options.learn)

    def loaded(place: "Place", loaded: Loaded) -> None:
        print(f"Slipstream answers at {place.address} with {', '.join(offers.loads)}.", flush=True)
        if path is not None:
            print(f"Clients must send the API key in {path}.", flush=True)
        if loaded.remark:
            report(loaded.remark)

    asyncio.run(run(place, offers, loaded=loaded, report=report))


def _offers(options: ServeOptions, target: "ModelFolder | None" = None) -> "Offers":
    """Return the pairs to offer: the target's and the allowed ones. Raises `Problem`."""
    from engine.server.pool import Offers, keep_seconds
    from engine.server.target import name_of

    load = partial(options.load, id="serve", parallel=options.parallel)
    loads = {} if target is None else {name_of(str(target.path)): load(target)}
    offered, aliases = {load.target for load in loads.values()}, {}
    for word in options.allow or ():
        alias, _, named = word.rpartition("=")
        if alias:
            aliases[alias] = named
            continue
        for name, folder in _allowed(named):
            if str(folder.path) not in offered:  # --drafter and --hosts are for the target only
                offered.add(str(folder.path))
                loads[name] = replace(load(folder), drafter=DEFAULT_DRAFTER, macs=Macs())
    if not options.allow:
        aliases["*"] = ""  # clients invent names
    keep = inf if options.keep is None else keep_seconds(options.keep)
    return Offers(
        loads=loads,
        aliases=aliases,
        keep_seconds=keep,
        thinking=options.thinking or "",
        thinking_budget=options.thinking_budget,
    )


def _allowed(word: str) -> "Iterator[tuple[str, ModelFolder]]":
    """Yield the models that a word after --allow names, each after its name. Raises `Problem`."""
    from engine.server.target import name_of
    from models.installed.names import find
    from models.installed.resolve import is_path, resolve_target
    from models.installed.store import inventory
    from models.model_folder import ModelFolder

    if is_path(word):
        folder = resolve_target(word)
        yield name_of(str(folder.path)), folder
        return
    chat = [entry.record for entry in inventory() if entry.record.role == "chat"]
    if word == "all":
        found = [record for record in chat if not record.problem]
    else:
        found = [find(word, models=chat)]
    for record in found:
        if record.problem:
            raise Problem(record.problem, record.remedy)
        yield record.name, ModelFolder(Path(record.path))
