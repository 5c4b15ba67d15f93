"""Prepares a target in a process of its own: `python -m app.models.target_process TARGET`.

The starter model may have to be downloaded and a GGUF file imported; both would block the window.
Knows `models` and a pipe; imports no Qt. Ends at once when its parent has ended.

It prints JSON lines: {"progress": [done, total]}..., then {"result": text} or
{"problem": [message, remedy]}.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

from models.errors import Problem

Progress = Callable[[int, int], None]
_FOLDER = Path(__file__).parents[2]  # so that `-m app.models` is this copy's


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
        text=True,
        encoding="utf-8",
    ) as child:
        answer: dict[str, Any] = {}
        for line in child.stdout or ():
            answer = _read(line)
            if progress is not None and "progress" in answer:
                progress(*answer["progress"])
    if "result" in answer:
        return Path(answer["result"])
    if "problem" in answer:
        message, remedy = answer["problem"]
        raise Problem(message, remedy)
    raise Problem(
        f"Preparing the model failed: its process ended with status {child.returncode}.",
        "Try again. If it fails again, free memory and disk space.",
    )


def _read(line: str) -> dict[str, Any]:
    """The object on a line; an empty one where a library printed something else."""
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def main(target: str) -> None:
    """Run in the child process."""
    Thread(target=end_with_parent, daemon=True).start()
    from models.installed import resolve  # slow, and the window does not need it

    try:
        _say({"result": str(resolve.open_target(target or None, progress=_tell).path)})
    except Problem as problem:
        _say({"problem": [problem.message, problem.remedy]})


def _tell(done: int, total: int) -> None:
    _say({"progress": [done, total]})


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def end_with_parent() -> None:
    """End this process when its standard input is closed."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
