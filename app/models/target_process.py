"""Prepares a target in a process of its own: `python -m app.models.target_process TARGET`.

The starter model may have to be downloaded and a GGUF file imported; both would block the window.
Knows `models` and a pipe; imports no Qt. Ends at once when its parent has ended.

It prints a line of JSON for each `Progressed`, then one for `Opened` or for `Refused`.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from models.answers import Progressed, Refused
from models.errors import Problem
from models.json_lines import Language
from models.typed_json import WrongJson

Progress = Callable[[int, int], None]
_FOLDER = Path(__file__).parents[2]  # so that `-m app.models` is this copy's


@dataclass(frozen=True, slots=True)
class Opened:
    """The model folder."""

    folder: str


Said = Progressed | Opened | Refused
_LINES = Language[Said]("target", {"progress": Progressed, "opened": Opened, "refused": Refused})


def open_target(
    target: str, progress: Progress | None = None, *, command: Sequence[str] = ()
) -> Path:
    """The model folder of `target`, or of the starter model where it is empty. Raises Problem.

    Waits for a child process that does the work, so call it in a thread. `command` replaces the
    child's.
    """
    command = command or (sys.executable, "-m", "app.models.target_process")
    with subprocess.Popen(
        [*command, target],
        cwd=_FOLDER,
        stdin=subprocess.PIPE,  # closes when this process ends
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        said: Said | None = None
        for line in child.stdout or ():
            with suppress(WrongJson):  # a library printed something
                said = _LINES.read(line)
                if progress is not None and isinstance(said, Progressed):
                    progress(said.done, said.total)
    if isinstance(said, Opened):
        return Path(said.folder)
    if isinstance(said, Refused):
        raise Problem(said.message, said.remedy)
    raise Problem(
        f"Preparing the model failed: its process ended with status {child.returncode}.",
        "Try again. If it fails again, free memory and disk space.",
    )


def main(target: str) -> None:
    """Run in the child process."""
    Thread(target=end_with_parent, daemon=True).start()
    from models.installed import resolve  # slow, and the window does not need it

    try:
        opened = resolve.open_target(
            target or None, progress=lambda done, total: _say(Progressed(done, total))
        )
        _say(Opened(str(opened.path)))
    except Problem as problem:
        _say(Refused(problem.message, problem.remedy))


def _say(message: Said) -> None:
    print(_LINES.to_json(message), flush=True)


def end_with_parent() -> None:
    """End this process when its standard input is closed."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
