"""`Slipstream --self-test`: whether this copy of Slipstream works here, as one JSON object.

Opens the real window in a process of its own, as a person's click would, and has the starter pair
answer a question in it (`app.self_test.window`); what a person has is not touched, as all of it
happens in a temporary home. Knows what has to be seen there; opens no window itself, so that one
that crashes or hangs is told of too.
"""

import importlib
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.display import has_display
from app.models.target_process import open_target
from models.errors import Problem

HOME_VARIABLE = "SLIPSTREAM_HOME"
_ANSWER = "Paris"  # the same on every device, up to rounding
_WINDOW_SECONDS = 240.0
_SPAWN_SECONDS = 60.0
_FOLDER = Path(__file__).parents[2]  # where `-m app` is found, and nobody else's

Seen = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is printed. `failures`, a line each, is empty where all is right; what was not seen is
    missing from the parts. `bundle` is empty where this is no bundle."""

    passed: bool
    failures: tuple[str, ...]
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    window: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    pair: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    multiprocessing: dict[str, Any] = field(default_factory=dict)
    bundle: dict[str, Any] = field(default_factory=dict)
    seconds: float


def main(picture: Path | None = None, *, command: Sequence[str] = ()) -> int:
    """Test, print the report, and each failure on standard error; 0 only where all is right.

    `picture` is where a PNG of the window goes. `command` stands in for the window's.
    """
    report = examine(picture, command=tuple(command) or window_command())
    print(json.dumps(asdict(report), indent=2), flush=True)
    for failure in report.failures:
        print(failure, file=sys.stderr)
    return 0 if report.passed else 1


def window_command() -> tuple[str, ...]:
    """What opens the window: in a bundle, the program that a person clicks on."""
    if bundle_of(Path(sys.executable)):
        return (str(Path(sys.executable).with_name("Slipstream")),)
    return (sys.executable, "-m", "app")


def bundle_of(program: Path) -> Path | None:
    """The .app that a program of this name is in."""
    macos = program.parent
    inside = macos.name == "MacOS" and macos.parent.name == "Contents"
    return macos.parents[1] if inside else None


def examine(
    picture: Path | None, *, command: Sequence[str], window_seconds: float = _WINDOW_SECONDS
) -> Report:
    """All that is tested, one after another: what is measured is measured alone."""
    began = time.monotonic()
    bundle = bundle_of(Path(sys.executable))
    before = state(bundle) if bundle else {}
    failures: list[str] = []
    seen: Seen = {}
    try:
        if not has_display():
            raise Problem("There is no display here.", "Set QT_QPA_PLATFORM=offscreen.")
        with TemporaryDirectory(prefix="slipstream-", ignore_cleanup_errors=True) as home:
            if bundle is None:
                lend_starter(Path(home))
            seen, ending = watch_window(command, Path(home), picture, seconds=window_seconds)
        failures += judge(seen)
        if ending and "failure" not in seen:
            failures.append(ending)
    except Problem as problem:
        failures.append(str(problem))
    spawned = spawn()
    failures += judge_spawned(spawned) + load_check()
    unchanged = not bundle or state(bundle) == before
    if not unchanged:
        failures.append("Something was written into the bundle.")
    window, engine = seen.get("window", {}), seen.get("engine", {})
    return Report(
        passed=not failures,
        failures=tuple(failures),
        versions={
            "slipstream": metadata.version("slipstream"),
            "python": platform.python_version(),
            **{name: told[name] for told in (window, engine) for name in _VERSIONS if name in told},
        },
        machine={"system": platform.platform(), "architecture": platform.machine()},
        window={name: window[name] for name in window if name not in _VERSIONS},
        engine={name: engine[name] for name in engine if name not in _VERSIONS},
        pair=seen.get("pair", {}),
        answer=seen.get("answer", {}),
        multiprocessing=spawned,
        bundle={"path": str(bundle), "unchanged": unchanged} if bundle else {},
        seconds=round(time.monotonic() - began, 3),
    )


_VERSIONS = ("pyside6", "qt", "mlx", "mlx_lm")


def lend_starter(home: Path) -> None:
    """The user's own copy of the starter model, fetched where it is missing, lent to `home`.

    Raises Problem.
    """
    folder = open_target("")
    (home / "models").mkdir()
    (home / "models" / folder.name).symlink_to(folder, target_is_directory=True)


def watch_window(
    command: Sequence[str], home: Path, picture: Path | None, *, seconds: float
) -> tuple[Seen, str]:
    """What the window's process says, and, where it does not end well, how it ends."""
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
        return read(late.stdout or b"", began), f"The window is not done in {seconds:.0f} seconds."
    except OSError as error:
        return {}, f"The window cannot be started: {error}."
    return read(done.stdout, began), _ending(done.returncode, done.stderr)


def _ending(status: int, errors: bytes) -> str:
    """Nothing, where it ended well."""
    if status == 0:
        return ""
    how = f"with status {status}"
    if status < 0:
        how = f"by {signal.Signals(-status).name}"
    words = errors.decode("utf-8", "replace").strip().splitlines()
    return f"The window's process was ended {how}." + (f" It said: {words[-1]}" if words else "")


def read(output: bytes, began: float) -> Seen:
    """The lines of the window's process by their keys; other lines are of libraries."""
    seen: Seen = {}
    for line in output.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict):
            seen.update({key: value for key, value in told.items() if isinstance(value, dict)})
    if "painted" in seen.get("window", {}):  # the clock is the system's
        seen["window"]["first_paint_seconds"] = round(seen["window"].pop("painted") - began, 3)
    return seen


def judge(seen: Seen) -> list[str]:
    """What is wrong, in the order in which things happen; later things follow from earlier."""
    if "failure" in seen:
        return [str(seen["failure"].get("why"))]
    for part, missing in (
        ("window", "The window was not painted."),
        ("engine", "The engine did not answer."),
        ("pair", "The starter pair was not loaded."),
        ("answer", "The question was not answered."),
    ):
        if part not in seen:
            return [missing]
    window, engine, answer = seen["window"], seen["engine"], seen["answer"]
    checks = (
        (engine["pid"] not in (0, window["pid"]), "The engine is no process of its own."),
        (engine["python"] == platform.python_version(), "The engine runs another Python."),
        (answer["ending"] == "stop", f"The answer came to no end of its own: {answer['ending']}."),
        (_ANSWER in answer["text"], f"The answer is not that of the starter: {answer['text']!r}."),
        (answer["accepted"] > 0, "No drafted token was accepted."),
    )
    return [failure for right, failure in checks if not right]


def spawn() -> dict[str, Any]:
    """What a process of multiprocessing's says of itself; `failure` where it says nothing."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=introduce, args=(sender,))
    told: dict[str, Any] = {"failure": f"it says nothing for {_SPAWN_SECONDS:.0f} seconds"}
    try:
        process.start()
        sender.close()
        if receiver.poll(_SPAWN_SECONDS):
            told = receiver.recv()
    except (EOFError, OSError) as error:
        told = {"failure": f"it says nothing ({type(error).__name__})"}
    finally:
        receiver.close()
        if process.pid is not None:
            process.kill()
            process.join()
    return {"start_method": "spawn", **told}


def introduce(sender: Connection) -> None:
    """Tell who we are: run in that process."""
    sender.send({"pid": os.getpid(), "executable": sys.executable})


def judge_spawned(spawned: Mapping[str, Any]) -> list[str]:
    """What is wrong with it."""
    if "failure" in spawned:
        return [f"multiprocessing cannot start a process: {spawned['failure']}."]
    if spawned["executable"] != sys.executable or spawned["pid"] == os.getpid():
        return [f"multiprocessing starts another program: {spawned['executable']}."]
    return []


def load_check(module: str = "app.updates.check") -> list[str]:
    """What is wrong with the module that asks for updates, whose libraries nobody else loads."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        return [f"Updates cannot be looked for: {error}."]
    return []


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file's size and time, by which a change is told."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in (folder, *folder.rglob("*"))
    }
