"""How large MLX's command buffers are: larger than its own on M1 to M4, for a target with experts.

MLX ends one after 40 or 50 operations, or as many millions of numbers, and a GPU loses some 20 us
between two (mlx issue 4521). A product with experts counts all of them, so nearly each ends one.
Others gained 5 to 8 % with these sizes (GLM-5.3-Flash, an M3 Ultra), and nothing on an M5 or with
dense models. MLX reads them once, so a process starts with them. Untested on a Mac.
"""

import os
from pathlib import Path

from models.errors import Problem

_LARGER = {"MLX_MAX_OPS_PER_BUFFER": "1000", "MLX_MAX_MB_PER_BUFFER": "400"}
_CHIPS = ("M1", "M2", "M3", "M4")


def larger_buffers(target: str | None) -> dict[str, str]:
    """Return the variables for a process that loads `target`, a folder or a name: none where MLX's
    own sizes are as good, and none if the user has set one."""
    if not target or buffers_in_force():
        return {}
    from models.installed.resolve import resolve_target  # imports that take long
    from models.memory.parameters import has_experts
    from models.model_folder import ModelFolder
    from models.speed import this_chip

    chip, folder = this_chip(), Path(target)
    if chip is None or chip.generation not in _CHIPS:
        return {}
    try:
        config = (ModelFolder(folder) if folder.exists() else resolve_target(target)).config
    except Problem:
        return {}
    return dict(_LARGER) if has_experts(config) else {}


def buffers_in_force() -> str:
    """Return the variables of this process in words; empty if MLX's own sizes are in force."""
    return " ".join(f"{name}={os.environ[name]}" for name in _LARGER if name in os.environ)


def with_buffers(command: tuple[str, ...], target: str) -> tuple[str, ...]:
    """Return `command` as it is run in a process that loads `target`."""
    settings = [f"{name}={value}" for name, value in larger_buffers(target).items()]
    return ("/usr/bin/env", *settings, *command) if settings else command
