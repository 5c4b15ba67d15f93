"""`Slipstream --self-test`: tests this copy of Slipstream on this machine, and prints a JSON
object.

Opens the real window in another process, as the user's click would, and has the starter pair answer
a question in it (`app.self_test.window`). Then the local server answers a question. All of it
happens in a temporary home, so that the user's data is not touched. Knows what must be observed;
opens no window itself, so that a crash or hang is reported too.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.display import has_display
from app.self_test.facts import Fact, Observed, read_facts
from app.self_test.served import ask_server
from engine.process.supervision import how_it_ended
from models.errors import Problem
from models.installed.resolve import open_target

HOME_VARIABLE = "SLIPSTREAM_HOME"
_ANSWER = "Paris"  # the same on every device, except for rounding
_MOST_DRAFTING = 0.5  # of a round; the starter's head takes a sixth
_WINDOW_SECONDS = 240.0
_FOLDER = Path(__file__).parents[2]  # so that `-m app` runs this copy


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRun:
    """A run of the window's process: its report, the time of its start by the system's clock, and
    its failure, if any."""

    observed: Observed
    began: float
    failure: str = ""


def main(picture: Path | None = None, *, command: Sequence[str] = ()) -> int:
    """Test, and print the report; print each failure to standard error. Returns 0 without failures.

    `picture` is the path for a PNG of the window. `command` replaces the window's.
    """
    report = examine(picture, command=tuple(command) or window_command())
    print(json.dumps(report, indent=2), flush=True)
    for failure in report["failures"]:
        print(failure, file=sys.stderr)
    return 0 if report["passed"] else 1


def window_command() -> tuple[str, ...]:
    """Return the command that opens the window; in a bundle, the program that the user clicks
    on."""
    if bundle_of(Path(sys.executable)):
        return (str(Path(sys.executable).with_name("Slipstream")),)
    return (sys.executable, "-m", "app")


def bundle_of(program: Path) -> Path | None:
    """Return the .app that contains a program, or None."""
    macos = program.parent
    inside = macos.name == "MacOS" and macos.parent.name == "Contents"
    return macos.parents[1] if inside else None


def examine(
    picture: Path | None, *, command: Sequence[str], window_seconds: float = _WINDOW_SECONDS
) -> dict[str, Any]:
    """Run all tests, one after another, as some measure times. Returns the report to be printed:
    `failures` has a line for each, and parts that were not observed are empty."""
    began = time.monotonic()
    bundle = bundle_of(Path(sys.executable))
    before = file_states(bundle) if bundle else {}
    failures: list[str] = []
    run = WindowRun(observed=Observed(), began=began)
    served = None
    try:
        if not has_display():
            raise Problem("This machine has no display.", "Set QT_QPA_PLATFORM=offscreen.")
        with TemporaryDirectory(prefix="slipstream-", ignore_cleanup_errors=True) as home:
            if bundle is None:
                lend_starter(Path(home))
            run = watch_window(command, Path(home), picture, seconds=window_seconds)
            served = ask_server({HOME_VARIABLE: home})
        failures += judge(run.observed)
        if run.failure and run.observed.failure is None:
            failures.append(run.failure)
        if served.failure:
            failures.append(served.failure)
    except Problem as problem:
        failures.append(str(problem))
    unchanged = not bundle or file_states(bundle) == before
    if not unchanged:
        failures.append("The test changed files in the bundle.")
    observed = run.observed
    window, engine = _part(observed.window), _part(observed.engine)
    if observed.window is not None:
        first_paint = window.pop("painted_at") - run.began  # both by the system's clock
        window["first_paint_seconds"] = round(first_paint, 3)
    versions = {"slipstream": metadata.version("slipstream"), "python": platform.python_version()}
    for part in (window, engine):
        versions |= {name: part.pop(name) for name in _VERSIONS if name in part}
    return {
        "passed": not failures,
        "failures": failures,
        "versions": versions,
        "machine": {"system": platform.platform(), "architecture": platform.machine()},
        "window": window,
        "engine": engine,
        "pair": _part(observed.pair),
        "answer": _part(observed.answer),
        "server": asdict(served) if served else None,
        "bundle": {"path": str(bundle), "unchanged": unchanged} if bundle else {},
        "seconds": round(time.monotonic() - began, 3),
    }


_VERSIONS = ("pyside6", "qt", "mlx", "mlx_lm")


def _part(fact: Fact | None) -> dict[str, Any]:
    return {} if fact is None else asdict(fact)


def lend_starter(home: Path) -> None:
    """Link the user's starter model into `home`, after a download if needed. Raises Problem."""
    folder = open_target(None).path
    (home / "models").mkdir()
    (home / "models" / folder.name).symlink_to(folder, target_is_directory=True)


def watch_window(
    command: Sequence[str], home: Path, picture: Path | None, *, seconds: float
) -> WindowRun:
    """Run the window's process until it ends. It is killed after `seconds`."""
    line = [*command, "--self-test-window", str(home)]
    if picture is not None:
        line += ["--self-test-picture", str(picture.absolute())]
    environment = {**os.environ, HOME_VARIABLE: str(home)}
    began = time.monotonic()
    try:
        done = subprocess.run(
            line,
            cwd=_FOLDER,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as late:
        return WindowRun(
            observed=read_facts(late.stdout or b""),
            began=began,
            failure=f"The window did not finish within {seconds:.0f} seconds.",
        )
    except OSError as error:
        return WindowRun(
            observed=Observed(), began=began, failure=f"The window could not be started: {error}."
        )
    failure = _exit_failure(done.returncode, done.stderr)
    return WindowRun(observed=read_facts(done.stdout), began=began, failure=failure)


def _exit_failure(status: int, errors: bytes) -> str:
    """Return how a process failed; empty if it exited with status 0."""
    if status == 0:
        return ""
    words = errors.decode("utf-8", "replace").strip().splitlines()
    last = f" Its last line: {words[-1]}" if words else ""
    return f"The window's process failed. {how_it_ended(status)}{last}"


def judge(observed: Observed) -> list[str]:
    """Return the failures in the order of events, as later failures follow from earlier ones."""
    if observed.failure is not None:
        return [observed.failure.why]
    window, engine, answer = observed.window, observed.engine, observed.answer
    if window is None:
        return ["The window was not painted."]
    if engine is None:
        return ["The engine did not answer."]
    if observed.pair is None:
        return ["The starter pair was not loaded."]
    if answer is None:
        return ["The question was not answered."]
    checks = (
        (engine.pid not in (0, window.pid), "The engine does not run in another process."),
        (
            engine.python == platform.python_version(),
            f"The engine runs another Python: {engine.python}.",
        ),
        (answer.ending == "stop", f"The answer was cut off: {answer.ending}."),
        (_ANSWER in answer.text, f"The answer is not the starter's: {answer.text!r}."),
        (answer.accepted > 0, "No drafted token was accepted."),
        (
            answer.drafting < _MOST_DRAFTING,
            f"Drafts took {answer.drafting:.0%} of their rounds: each may wait for a whole pass.",
        ),
        (
            engine.device.endswith("(GPU)") or not _apple_silicon(),
            f"The engine computes on {engine.device}, not on the GPU.",
        ),
    )
    return [failure for right, failure in checks if not right]


def _apple_silicon() -> bool:
    return (sys.platform, platform.machine()) == ("darwin", "arm64")


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return each file's size and time of change."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in (folder, *folder.rglob("*"))
    }
