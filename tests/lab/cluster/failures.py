"""What becomes of an answer when one of the Macs that write it fails, or is not what it should be.

The real command, `slipstream generate --hosts`, leads on one Mac and starts its follower on the
other one, with an ssh of ours that knows the way there. Everything that runs on either Mac belongs
to the command, so that what it leaves behind is easily seen.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from time import monotonic, sleep

from engine.cluster.followers import Deadlines
from tests.lab.cluster.cable import Cable, Mac

_DEADLINES = Deadlines()
_LEADERLESS_SECONDS = 60.0  # that a follower waits for its leader
_PROMPT = "Once upon a time"
_MODEL = Path(__file__).parents[2] / "data" / "stories260K"
_NAME = "other-mac"
_LATENCY_SECONDS = 0.005  # so that an answer takes some seconds
_FAR_SECONDS = 0.2
_BEGUN = 20  # tokens of an answer in the midst of which something happens
_MOST_SECONDS = 300.0
_END_SECONDS = 5.0
# As with ssh, what runs there sees that the connection ends, and nothing else.
_SSH = """#!/bin/sh
for command; do :; done
cat | {there} env {variables} sh -c "exec $command"
"""


class Scene:
    """Two Macs with a model, and the command. Attributes: `cable`, `folder`."""

    def __init__(self, cable: Cable, folder: Path) -> None:
        self.cable, self.folder = cable, folder
        self._before = [_processes(mac) for mac in cable.ends]
        hosts = zip(("127.0.0.1", _NAME), cable.ends, strict=True)
        listed = [{"ssh": name, "ips": [mac.address]} for name, mac in hosts]
        (folder / "hosts.json").write_text(json.dumps(listed))
        shutil.copytree(_MODEL, folder / "model")
        self.reach()
        cable.delay(_LATENCY_SECONDS)

    def reach(self, *through: str, **variables: str) -> None:
        """Have the other Mac reached so from now on: its processes are started `through` a command,
        and with these variables."""
        there = " ".join(self.cable.ends[1].command(*through))
        given = " ".join(f"{name}={value}" for name, value in variables.items())
        ssh = self.folder / "ssh"
        ssh.write_text(_SSH.format(there=there, variables=given))
        ssh.chmod(0o755)

    @contextmanager
    def command(self) -> Iterator[subprocess.Popen[str]]:
        """An answer under way."""
        generate = ["-m", "engine", "generate", "--json", "--temperature", "0"]
        drafts = ["--drafter", "lookup", "--draft-length", "3"]
        model = ["--target", str(self.folder / "model"), "--max-tokens", "120"]
        macs = ["--hosts", str(self.folder / "hosts.json"), "--prompt", _PROMPT]
        with (self.folder / "errors").open("w") as errors:
            process = subprocess.Popen(
                self.cable.ends[0].command(sys.executable, *generate, *drafts, *model, *macs),
                env=os.environ
                | {
                    "PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}",
                    "SLIPSTREAM_HOME": str(self.folder / "home"),
                    "PYTHONFAULTHANDLER": "1",
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        with process:
            # One that hangs writes where.
            guard = threading.Timer(_MOST_SECONDS, process.send_signal, [signal.SIGABRT])
            guard.start()
            try:
                yield process
                process.wait()
            finally:
                guard.cancel()
                process.kill()

    def said(self) -> list[str]:
        """What the latest command wrote to standard error."""
        lines = (self.folder / "errors").read_text().splitlines()
        return [line for line in lines if line.strip()]

    def leader(self) -> int:
        """The process that leads."""
        (process,) = self._named(0, "generate")
        return process

    def follower(self) -> int:
        """The process that follows."""
        (process,) = self.followers()
        return process

    def followers(self) -> list[int]:
        """It, or none where it has ended."""
        return self._named(1, "follow")

    def left(self) -> list[str]:
        """What still runs on either Mac after a while."""
        until = monotonic() + _END_SECONDS
        while found := [
            _command_line(process)
            for mac, before in zip(self.cable.ends, self._before, strict=True)
            for process in _processes(mac) - before
        ]:
            if monotonic() > until:
                break
            sleep(0.05)
        return found

    def _named(self, rank: int, word: str) -> list[int]:
        processes = _processes(self.cable.ends[rank]) - self._before[rank]
        return [each for each in processes if f"engine {word}" in _command_line(each)]


@dataclass(frozen=True, slots=True)
class Failure:
    """What goes wrong: `around` a command, or once its answer has begun, and then it is undone. It
    is to be noticed within `deadline` seconds."""

    name: str
    deadline: float
    around: Callable[[Scene], AbstractContextManager[None]] = lambda scene: nullcontext()
    happens: Callable[[Scene], None] | None = None
    undo: Callable[[Scene], None] = lambda scene: None
    silent: bool = False  # who could say a line is gone


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended: how many seconds after the failure, or after its own start where that
    is `around` it; what it said, and how many lines of MLX's ring are not counted there; what it
    left running; `again`: whether the next one answered as if nothing had happened."""

    failure: Failure
    seconds: float
    status: int
    said: tuple[str, ...]
    ring: int
    left: tuple[str, ...]
    again: bool

    @property
    def good(self) -> bool:
        """Whether it was one line, an end and a new beginning."""
        ended = self.status != 0 and len(self.said) == (0 if self.failure.silent else 1)
        return ended and not self.left and self.again


def answer(scene: Scene) -> str | None:
    """An answer that nothing happens to. None where there is none all the same."""
    with scene.command() as command:
        assert command.stdout is not None
        text = "".join(_texts(command.stdout))
    return text if command.returncode == 0 else None


def suffer(scene: Scene, failure: Failure, expected: str) -> Outcome:
    """Let an answer meet with a failure, and ask again; `expected` is the answer without it."""
    with failure.around(scene), scene.command() as command:
        assert command.stdout is not None
        began = monotonic()
        if failure.happens is not None:
            texts = _texts(command.stdout)
            for _ in zip(range(_BEGUN), texts, strict=False):
                pass
            began = monotonic()
            failure.happens(scene)
        command.stdout.read()
        status = command.wait()
        seconds = monotonic() - began
    lines = scene.said()
    said = tuple(line for line in lines if not line.startswith("[ring]"))
    failure.undo(scene)
    left, ring = tuple(scene.left()), len(lines) - len(said)
    return Outcome(failure, seconds, status, said, ring, left, again=answer(scene) == expected)


def _texts(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        event = json.loads(line)
        if event["event"] == "text":
            yield event["delta"]


@contextmanager
def _other_weights(scene: Scene) -> Iterator[None]:
    other = scene.folder / "other"
    shutil.copytree(_MODEL, other)
    weights = other / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    mount = f"'mount --bind {other} {scene.folder / 'model'} && exec \"$@\"'"
    scene.reach("unshare", "--mount", "sh", "-c", mount, "sh")
    yield
    scene.reach()
    shutil.rmtree(other)


@contextmanager
def _other_version(scene: Scene) -> Iterator[None]:
    metadata = scene.folder / "elsewhere" / "slipstream-99.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: slipstream\nVersion: 99\n")
    path = f"{metadata.parents[1]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    scene.reach(PYTHONPATH=path, PYTHONSAFEPATH="1")  # else metadata in this folder comes first
    yield
    scene.reach()
    shutil.rmtree(metadata.parents[1])


@contextmanager
def _stranger(scene: Scene) -> Iterator[None]:
    """Whoever connects first has a rank's place in the ring: here who is nearer."""
    scene.cable.delay(_FAR_SECONDS)
    over = threading.Event()

    def intrude() -> None:
        scene.cable.ends[1].enter()
        while not over.is_set():
            for address in _listening():
                with socket() as place, suppress(OSError):
                    place.connect(address)
                    over.wait()
            sleep(0.001)

    thread = threading.Thread(target=intrude)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        scene.cable.delay(_LATENCY_SECONDS)


def _sleep(scene: Scene) -> None:
    """The leader's Mac sleeps for so long that its follower ends."""
    leader, until = scene.leader(), monotonic() + 2 * _LEADERLESS_SECONDS
    os.kill(leader, signal.SIGSTOP)
    while scene.followers() and monotonic() < until:
        sleep(0.1)
    os.kill(leader, signal.SIGCONT)


def _listening() -> Iterator[tuple[str, int]]:
    """Where somebody listens on this thread's Mac."""
    for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]:
        own, state = line.split()[1], line.split()[3]
        if state == "0A":
            number, port = own.split(":")
            yield ".".join(str(each) for each in bytes.fromhex(number)[::-1]), int(port, 16)


FAILURES = {
    each.name: each
    for each in (
        Failure(
            "rank 1 is killed",
            _DEADLINES.broken,
            happens=lambda scene: os.kill(scene.follower(), signal.SIGKILL),
        ),
        Failure(
            "rank 0 is killed",
            _DEADLINES.broken,
            happens=lambda scene: os.kill(scene.leader(), signal.SIGKILL),
            silent=True,
        ),
        Failure(
            "rank 1 is stopped",
            _DEADLINES.silence,
            happens=lambda scene: os.kill(scene.follower(), signal.SIGSTOP),
            undo=lambda scene: os.kill(scene.follower(), signal.SIGCONT),
        ),
        Failure("rank 0 sleeps until it is given up", _LEADERLESS_SECONDS, happens=_sleep),
        Failure(
            "the cable is cut",
            _DEADLINES.round,
            happens=lambda scene: scene.cable.cut(),
            undo=lambda scene: scene.cable.mend(),
        ),
        Failure("a stranger is first", _DEADLINES.join, around=_stranger),
        Failure("other weights", _DEADLINES.start, around=_other_weights),
        Failure("another version", _DEADLINES.start, around=_other_version),
    )
}


def _processes(mac: Mac) -> set[int]:
    """What runs on a Mac."""
    there = os.stat(mac.namespace).st_ino
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.stat(process / "ns" / "net").st_ino == there:
                found.add(int(process.name))
    return found


def _command_line(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ").strip()
    return ""
