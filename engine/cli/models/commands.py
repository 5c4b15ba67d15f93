"""`slipstream models`: listing, pairing, fetching, converting and removing models.

Each command parses its options, calls a function of another module (imported only then), and prints
a table or, with --json, lines of `models.answers`.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.options import AS_JSON, ON_THE_MACS, argument, described, examples
from engine.cli.streams import new_console
from models.answers import (
    ANSWERS,
    Answer,
    Changed,
    Folders,
    Found,
    Freed,
    Made,
    Offered,
    Opened,
    Planned,
    Progressed,
    Rated,
    Refused,
)
from models.errors import Problem, problem_of

CONVERT_EXAMPLES = examples(
    "slipstream convert organization/model my-model --bits 4",
    "slipstream convert model.gguf my-model",
)

app = typer.Typer(
    help="Find, download, convert and remove models.",
    no_args_is_help=True,
    epilog=examples("slipstream models pair", "slipstream models pull organization/model"),
)

Hosts = Annotated[Path | None, described(*ON_THE_MACS)]
Json = Annotated[bool, described(*AS_JSON)]
Drafter = Annotated[str, described("The drafter, as for slipstream chat.", "DRAFTER")]
WithParent = Annotated[
    bool, typer.Option("--with-parent", hidden=True, help="End when standard input ends.")
]


@app.command("list", epilog=examples("slipstream models list"))
def list_models(*, json: Json = False) -> None:
    """List installed models, downloads and incomplete files."""
    from engine.cli.models.local import local_models
    from engine.cli.models.show import show_local

    with problems_as_lines(json):
        found = local_models()
        say(found) if json else show_local(new_console(), found)


@app.command(epilog=examples("slipstream models search qwen --limit 5"))
def search(
    *,
    text: Annotated[str, argument("A part of the name.", "TEXT")],
    limit: Annotated[int, described("Results, at most.", "N", min=1, max=100)] = 20,
    json: Json = False,
) -> None:
    """Search for models on the hub."""
    from engine.cli.models.show import show_found
    from models.hub.client import Hub

    with problems_as_lines(json):
        found = Hub().search(text, limit=limit)
        say(Found(tuple(found))) if json else show_found(new_console(), text, found)


@app.command(
    epilog=examples(
        "slipstream models pull organization/model",
        "slipstream models pull organization/model/file.gguf@revision",
    )
)
def pull(
    *,
    repositories: Annotated[
        list[str] | None, argument("Models to download; default: the rest of the queue.", "MODEL")
    ] = None,
    pause: Annotated[str, described("Pause this download.", "MODEL")] = "",
    cancel: Annotated[str, described("Cancel this download.", "MODEL")] = "",
    with_parent: WithParent = False,
    json: Json = False,
) -> None:
    """Download models from the hub. Ctrl-C pauses, the next pull resumes."""
    from models.hub.queue import Queue

    with problems_as_lines(json):
        if not pause and not cancel:
            _pull(repositories or [], with_parent=with_parent, as_json=json)
            return
        if pause:
            download = Queue().pause(pause)
            now = "is being paused" if download.request else f"is {download.status}"
            say(Changed(download)) if json else print(f"{download.repository} {now}.")
        if cancel:
            download = Queue().cancel(cancel)
            now = "is being cancelled" if download.request else "is cancelled"
            see = "To see incomplete files: slipstream models list"
            say(Changed(download)) if json else print(f"{download.repository} {now}. {see}")


def _pull(repositories: list[str], *, with_parent: bool, as_json: bool) -> None:
    from engine.cli.models.progress import DownloadView
    from engine.cli.models.pull import fetch_download, installed_by, paced, pull
    from engine.process.interrupts import stoppable
    from models.hub.queue import Queue

    console = new_console(errors=True)
    view = DownloadView(console)
    with stoppable(with_parent=with_parent) as interruption, closing(view):
        queue = Queue()
        report = paced(lambda download: say(Changed(download))) if as_json else view.show
        ends = pull(repositories, queue, fetch_download, report=report, stopped=interruption)
    if queue.notice:
        console.print(queue.notice, markup=False)
    if not ends and not as_json:
        console.print("The download queue is empty.")
    for done in (end for end in ends if end.status == "done"):
        model = installed_by(done)
        say(Made(model)) if as_json else print(model.name)
    failed = [end for end in ends if end.status == "failed"]
    if failed:
        raise Problem(failed[0].problem, failed[0].remedy)
    if interruption():
        console.print("Paused. To resume: slipstream models pull")
        raise typer.Exit(128 + interruption.signal)


@app.command(epilog=examples("slipstream models pair --target my-model"))
def pair(
    *,
    target: Annotated[str, described("Rate all drafters for this target.", "MODEL")] = "",
    hosts: Hosts = None,
    json: Json = False,
) -> None:
    """Recommend pairs for this machine, or drafters for a target."""
    from engine.cli.models.pairs import candidates_for, offers_here
    from engine.cli.models.show import show_candidates, show_offers

    with problems_as_lines(json):
        if target:
            name, found = candidates_for(target)
            rated = Rated(name, tuple(found))
            say(rated) if json else show_candidates(new_console(), name, found)
            return
        offers = offers_here(hosts)
        say(Offered(tuple(offers))) if json else show_offers(new_console(), offers)


@app.command(epilog=examples("slipstream models fit organization/model --context 16000"))
def fit(
    *,
    target: Annotated[str, argument("A folder, a GGUF file or a name.", "MODEL")],
    drafter: Drafter = "",
    context: Annotated[int, described("Tokens of a conversation.", "N", min=1)] = 4096,
    hosts: Hosts = None,
    json: Json = False,
) -> None:
    """Show how much memory a pair needs, and whether it fits."""
    from engine.cli.models.pairs import fit_of, plan_of
    from engine.cli.models.show import show_fit, show_plan

    with problems_as_lines(json):
        if hosts is not None:
            macs, made = plan_of(target, drafter, context=context, hosts=hosts)
            planned = Planned(macs, made.fits_all, made.mode, made.layers, made.fits)
            say(planned) if json else show_plan(new_console(), macs, made)
            return
        found = fit_of(target, drafter, context=context)
        say(found) if json else show_fit(new_console(), found)


@app.command("open", hidden=True)
def open_model(*, target: Annotated[str, typer.Argument()] = "") -> None:
    """For the window: print in JSON the folder of the target or the starter model, after
    downloading or importing it. Ends with standard input."""
    from engine.process.interrupts import end_with_parent
    from models.installed.resolve import open_target

    end_with_parent()
    with problems_as_lines(True):
        found = open_target(
            target or None, progress=lambda done, total: say(Progressed(done, total))
        )
        say(Opened(str(found.path)))


@app.command(epilog=CONVERT_EXAMPLES)
def convert(
    *,
    source: Annotated[
        str, argument("A float model or drafter: folder, name, GGUF file.", "MODEL")
    ] = "",
    folder: Annotated[
        Path | None, argument("The new folder; default: named after the model.", "FOLDER")
    ] = None,
    bits: Annotated[int | None, described("2, 3, 4, 5, 6 or 8; a drafter's: 4 or 8.", "N")] = None,
    group_size: Annotated[int, described("Weights that share a scale: 32, 64, 128.", "N")] = 64,
    recipe: Annotated[
        str, described("More bits for some layers: mixed_2_6, _3_4, _3_6, _4_6.", "NAME")
    ] = "",
    mtp: Annotated[bool, described("Only its MTP module, as a drafter.", "", "--mtp")] = False,
    adapter: Annotated[Path | None, described("A LoRA adapter to fuse into it.", "FOLDER")] = None,
    with_parent: WithParent = False,
    json: Json = False,
) -> None:
    """Quantize a float model or drafter, convert a GGUF file, or fuse an adapter."""
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
                say(Progressed(done, total))
            show(done, total)

        try:
            made = convert_source(
                source, folder, quantization, progress=progress, module_only=mtp, adapter=adapter
            )
        except Interrupted:
            print("Stopped; nothing was written.", file=sys.stderr)
            raise typer.Exit(128 + interruption.signal) from None
        say(Made(installed_at(made))) if json else print(made)


@app.command(epilog=examples("slipstream models remove organization/model"))
def remove(
    *,
    name: Annotated[str, argument("A name that slipstream models list shows.", "MODEL")],
    yes: Annotated[bool, described("Do not ask.", "", "--yes", "-y")] = False,
    incomplete: Annotated[
        bool, described("Delete its incomplete files, not the model.", "", "--incomplete")
    ] = False,
    json: Json = False,
) -> None:
    """Delete a model, or the incomplete files of a download."""
    from engine.cli.models.local import find_removable
    from models.in_words import size

    with problems_as_lines(json):
        removable = find_removable(name, incomplete=incomplete)
        if not yes:
            question = f"Delete {removable.name} ({size(removable.size_bytes)})?"
            if json or not sys.stdin.isatty():
                raise Problem(
                    f"Deleting {removable.name} ({size(removable.size_bytes)}) needs a "
                    "confirmation, and no terminal is attached.",
                    "Add --yes.",
                )
            if not typer.confirm(question):
                print("Nothing was deleted.")
                return
        freed = removable.remove()
        say(Freed(freed)) if json else print(f"Deleted; {size(freed)} freed.")


@app.command(epilog=examples("slipstream models folders --add /Volumes/Models"))
def folders(
    *,
    add: Annotated[Path | None, described("Search this folder, too.", "FOLDER")] = None,
    remove: Annotated[Path | None, described("Stop searching this folder.", "FOLDER")] = None,
    json: Json = False,
) -> None:
    """List, add or remove folders that are searched for models."""
    from models.installed.added_folders import add_folder, remove_folder
    from models.installed.added_folders import folders as added

    with problems_as_lines(json):
        if add is not None:
            add_folder(add)
        if remove is not None:
            remove_folder(remove)
        listed = list(map(str, added()))
        if json:
            say(Folders(tuple(listed)))
        elif listed:
            print("\n".join(listed))
        else:
            print("No added folders. To add one: slipstream models folders --add FOLDER")


def say(answer: Answer) -> None:
    """Print one line of JSON, now."""
    print(ANSWERS.to_json(answer), flush=True)


@contextmanager
def problems_as_lines(as_json: bool) -> Iterator[None]:
    """With `as_json`, a `Problem` becomes a line and exit code 2."""
    try:
        yield
    except Exception as error:
        if not as_json or (problem := problem_of(error)) is None:
            raise
        say(Refused(problem.message, problem.remedy))
        raise typer.Exit(2) from None
