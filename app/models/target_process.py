"""A target made ready, in a process of its own: `python -m app.models.target_process TARGET`.

The starter model may have to be fetched and a GGUF file imported, which takes numpy and large files
and would hold the window up. Knows `models` and a pipe; imports no Qt. Ends at once when whoever
started it is gone.

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
_FOLDER = Path(__file__).parents[
    2
]  # where `-m app.models.target_process` is found, and nobody else's


def open_target(
    target: str, progress: Progress | None = None, *, command: Sequence[str] = ()
) -> Path:
    """The model folder of `target`, the starter's where that is empty. Raises Problem.

    A child does the work and this waits for it, so it is for a thread. `command` stands in for the
    child.
    """
    command = command or (sys.executable, "-m", "app.models.target_process")
    with subprocess.Popen(
        [*command, target],
        cwd=_FOLDER,
        stdin=subprocess.PIPE,  # its end tells the child that we are gone
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
        f"Work on the model\u2019s files ended with status {child.returncode}.",
        "Try again; if it fails again, make room in memory and on the disk.",
    )


def _read(line: str) -> dict[str, Any]:
    """What a line says; nothing where it is something else that was printed."""
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def main(target: str) -> None:
    """The child."""
    Thread(target=_end_with_parent, daemon=True).start()
    from models.installed import resolve  # which takes long, and the window has no use for it

    try:
        _say({"result": str(resolve.open_target(target or None, progress=_tell).path)})
    except Problem as problem:
        _say({"problem": [problem.message, problem.remedy]})


def _tell(done: int, total: int) -> None:
    _say({"progress": [done, total]})


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
