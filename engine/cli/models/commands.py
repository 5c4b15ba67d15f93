"""`slipstream models`: listing, pairing, fetching, converting and removing models.

Each command parses its options, calls a function elsewhere (imported only then), and prints a table
or a line of JSON. With --json a failure is a line too: {"problem": [message, remedy]}.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from json import dumps
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from engine.cli.several_macs import HostsFile
from models.errors import Problem

app = typer.Typer(
    help="Find, fetch, convert and remove models; see what fits this machine.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
WithParent = Annotated[
    bool, typer.Option("--with-parent", hidden=True, help="End when standard input ends.")
]


@app.command("list")
def list_models(*, json: Json = False) -> None:
    """List installed models, downloads, and leftovers of interrupted work."""
    from engine.cli.models.local import local_models
    from engine.cli.models.show import show_local

    with problems_as_lines(json):
        found = local_models()
        if json:
            say(**asdict(found))
        else:
            show_local(Console(), found)


@app.command()
def search(
    *,
    text: Annotated[str, typer.Argument(help="A part of the name.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many at most.")] = 20,
    json: Json = False,
) -> None:
    """Look for models on the hub."""
    from engine.cli.models.show import show_found
    from models.hub.client import Hub

    with problems_as_lines(json):
        found = Hub().search(text, limit=limit)
        if json:
            say(found=found)
        else:
            show_found(Console(), text, found)


@app.command()
def pull(
    *,
    repositories: Annotated[
        list[str] | None,
        typer.Argument(help="organization/model[/file.gguf][@revision]; none: continue the queue."),
    ] = None,
    pause: Annotated[str, typer.Option(metavar="REPOSITORY", help="Pause this one.")] = "",
    cancel: Annotated[str, typer.Option(metavar="REPOSITORY", help="Forget this one.")] = "",
    with_parent: WithParent = False,
    json: Json = False,
) -> None:
    """Fetch models from the hub; Ctrl-C pauses, and the next pull continues."""
    from models.hub.queue import Queue

    with problems_as_lines(json):
        if not pause and not cancel:
            _pull(repositories or [], with_parent=with_parent, as_json=json)
            return
        if pause:
            download = Queue().pause(pause)
            now = "will be paused in a moment" if download.request else "is paused"
            say(download=download) if json else print(f"{download.repository} {now}.")
        if cancel:
            download = Queue().cancel(cancel)
            now = "will be cancelled in a moment" if download.request else "is cancelled"
            see = "To see what it left: slipstream models list"
            say(download=download) if json else print(f"{download.repository} {now}. {see}")


def _pull(repositories: list[str], *, with_parent: bool, as_json: bool) -> None:
    from engine.cli.models.progress import DownloadView
    from engine.cli.models.pull import fetch_download, installed_by, paced, pull
    from engine.process.interrupts import stoppable
    from models.hub.queue import Queue

    console = Console(stderr=True)
    with stoppable(with_parent=with_parent) as interruption, DownloadView(console) as view:
        queue = Queue()
        report = paced(lambda download: say(download=download)) if as_json else view.show
        ends = pull(repositories, queue, fetch_download, report=report, stopped=interruption)
    if queue.notice:
        console.print(queue.notice, markup=False)
    if not ends and not as_json:
        console.print("The download queue is empty.")
    for done in (end for end in ends if end.status == "done"):
        model = installed_by(done)
        if as_json:
            say(installed=model)
        else:
            print(model.name)
    failed = [end for end in ends if end.status == "failed"]
    if failed:
        raise Problem(failed[0].problem, failed[0].remedy)
    if interruption():
        console.print("Paused. To continue: slipstream models pull")
        raise typer.Exit(128 + interruption.signal)


@app.command()
def pair(
    *,
    target: Annotated[str, typer.Option(help="Rate every drafter for this target.")] = "",
    hosts: HostsFile = None,
    json: Json = False,
) -> None:
    """Recommend pairs for this machine, with --hosts for several; with --target, rate every drafter
    for that target."""
    from engine.cli.models.pairs import candidates_for, offers_here
    from engine.cli.models.show import show_candidates, show_offers

    with problems_as_lines(json):
        if target:
            name, candidates = candidates_for(target)
            if json:
                say(target=name, candidates=candidates)
            else:
                show_candidates(Console(), name, candidates)
            return
        offers = offers_here(hosts)
        if json:
            say(offers=offers)
        else:
            show_offers(Console(), offers)


@app.command()
def fit(
    *,
    target: Annotated[str, typer.Argument(help="A folder, a GGUF file, or a model's name.")],
    drafter: Annotated[str, typer.Option(help="As slipstream chat takes it.")] = "",
    context: Annotated[int, typer.Option(min=1, help="Tokens of a conversation.")] = 4096,
    hosts: HostsFile = None,
    json: Json = False,
) -> None:
    """Say whether a pair fits in this machine's memory, or in that of several Macs, and what it
    needs."""
    from engine.cli.models.pairs import fit_of, plan_of
    from engine.cli.models.show import show_fit, show_plan

    with problems_as_lines(json):
        if hosts is not None:
            macs, made = plan_of(target, drafter, context=context, hosts=hosts)
            if json:
                say(
                    macs=macs,
                    fits=made.fits_all,
                    mode=made.mode,
                    layers=made.layers,
                    ranks=made.fits,
                )
            else:
                show_plan(Console(), macs, made)
            return
        found = fit_of(target, drafter, context=context)
        if json:
            say(**asdict(found))
        else:
            show_fit(Console(), found)


@app.command()
def convert(
    *,
    source: Annotated[
        str, typer.Argument(help="A float model or drafter: folder, name, GGUF file.")
    ] = "",
    folder: Annotated[
        Path | None, typer.Argument(help="The folder to make; else one of Slipstream's own.")
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(help="2, 3, 4, 5, 6 or 8; 4 if not given. A drafter's: 8 or 4; 8."),
    ] = None,
    group_size: Annotated[int, typer.Option(help="Weights that share a scale: 32, 64, 128.")] = 64,
    recipe: Annotated[
        str,
        typer.Option(
            help="More bits where they matter: mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6."
        ),
    ] = "",
    mtp: Annotated[
        bool, typer.Option("--mtp", help="Only the model's MTP module, as a drafter of its own.")
    ] = False,
    adapter: Annotated[
        Path | None,
        typer.Option(help="A LoRA adapter of mlx-lm, fused into SOURCE, or the model it names."),
    ] = None,
    with_parent: WithParent = False,
    json: Json = False,
) -> None:
    """Make a quantized model or drafter of a float one, import a GGUF file, or fuse an adapter."""
    from engine.cli.models.convert import Quantization
    from engine.cli.models.convert_source import convert_source, installed_at
    from engine.cli.models.progress import bytes_bar
    from engine.process.interrupts import Interrupted, stoppable

    quantization = Quantization(bits, group_size, recipe)
    with (
        problems_as_lines(json),
        stoppable(with_parent=with_parent) as interruption,
        bytes_bar(f"Converting {source or adapter}", quiet=json) as show,
    ):

        def progress(done: int, total: int) -> None:
            interruption.check()
            if json:
                say(progress=[done, total])
            show(done, total)

        try:
            made = convert_source(
                source,
                folder,
                quantization,
                progress=progress,
                module_only=mtp,
                adapter=adapter,
            )
        except Interrupted:
            print("Stopped; nothing was kept.", file=sys.stderr)
            raise typer.Exit(128 + interruption.signal) from None
        if json:
            say(installed=installed_at(made))
        else:
            print(made)


@app.command()
def remove(
    *,
    name: Annotated[str, typer.Argument(help="As slipstream models list shows it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    incomplete: Annotated[
        bool,
        typer.Option("--incomplete", help="Delete the leftovers, not the model."),
    ] = False,
    json: Json = False,
) -> None:
    """Delete a model, or what an interrupted download left."""
    from engine.cli.models.local import find_removable
    from models.in_words import size

    with problems_as_lines(json):
        removable = find_removable(name, incomplete=incomplete)
        if not yes:
            question = f"Delete {removable.name} ({size(removable.size_bytes)})?"
            if json or not sys.stdin.isatty():
                raise Problem(
                    f"Deleting {removable.name} ({size(removable.size_bytes)}) must be confirmed, "
                    "and there is no terminal to ask in.",
                    "Add --yes.",
                )
            if not typer.confirm(question):
                print("Nothing was deleted.")
                return
        freed = removable.remove()
        if json:
            say(freed_bytes=freed)
        else:
            print(f"Deleted; {size(freed)} freed.")


@app.command()
def folders(
    *,
    add: Annotated[Path | None, typer.Option(help="Look for models here too.")] = None,
    remove: Annotated[Path | None, typer.Option(help="Stop looking here.")] = None,
    json: Json = False,
) -> None:
    """List, add or remove folders in which Slipstream looks for models."""
    from models.installed.added_folders import add_folder, remove_folder
    from models.installed.added_folders import folders as added

    with problems_as_lines(json):
        if add is not None:
            add_folder(add)
        if remove is not None:
            remove_folder(remove)
        listed = list(map(str, added()))
        if json:
            say(folders=listed)
        elif listed:
            print("\n".join(listed))
        else:
            print("No folder was added yet. To add one: slipstream models folders --add FOLDER")


def say(**answer: object) -> None:
    """Print one line of JSON, now; records become what `asdict` makes of them."""
    print(dumps(_plain(answer)), flush=True)


@contextmanager
def problems_as_lines(as_json: bool) -> Iterator[None]:
    """With `as_json`, a `Problem` becomes {"problem": [message, remedy]} and exit code 2."""
    try:
        yield
    except Problem as problem:
        if not as_json:
            raise
        say(problem=[problem.message, problem.remedy])
        raise typer.Exit(2) from None


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
