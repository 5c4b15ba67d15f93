"""Work on model files, in a process of its own: `python -m app.pair.model_work WHICH`.

Such work imports numpy and reads large files, which would hold the window up. Knows `models` and
a pipe; imports no Qt. Ends at once when whoever started it is gone.

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
_FOLDER = Path(__file__).parents[2]  # where `-m app.pair.model_work` is found, and nobody else's


def run_model_work(
    words: Sequence[str], progress: Progress | None = None, *, command: Sequence[str] = ()
) -> str:
    """Have it done by a child; its result. Blocks, so it is for a thread. Raises Problem.

    `command` stands in for the child.
    """
    command = command or (sys.executable, "-m", "app.pair.model_work")
    with subprocess.Popen(
        [*command, *words],
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
        return str(answer["result"])
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


def main(words: Sequence[str]) -> None:
    """The child."""
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        _say({"result": _do(*words)})
    except Problem as problem:
        _say({"problem": [problem.message, problem.remedy]})


def _do(what: str, *where: str) -> str:
    match what:
        case "starter":
            from models.starter import ensure_starter

            return str(ensure_starter(progress=_tell).path)
        case "import":
            from models.folders import open_model

            return str(open_model(Path(where[0]), imports=Path(where[1]), progress=_tell).path)
        case _:
            raise ValueError(what)


def _tell(done: int, total: int) -> None:
    _say({"progress": [done, total]})


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
