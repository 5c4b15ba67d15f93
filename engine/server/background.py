"""A server in the background, on the Macs of one file: started, told of and ended, by commands that
do not last as long as it.

Knows a process, a lock that it holds while it lives, and a file that it keeps up to date. No prompt
and no answer is in it.
"""

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from engine.cluster.states import RankState
from engine.server.link import EngineLink
from models.errors import Problem
from models.files import data_folder, read_json_object, write_json
from models.typed_json import WrongJson, decode

_ENDING_SECONDS = 15.0
_GLANCE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class BackgroundStatus:
    """The server. `address` is empty until it can be asked; `problem`: why it cannot answer."""

    pid: int
    hosts: str
    target: str
    address: str = ""
    problem: str = ""
    ranks: tuple[RankState, ...] = ()


class Told:
    """Keeps what is told of a server."""

    def __init__(self, link: EngineLink, status: BackgroundStatus, file: Path) -> None:
        self._link, self._status, self._file = link, status, file

    def listens(self, address: str) -> None:
        """It can be asked there from now on."""
        self._keep(address=address)

    def fails(self, problem: str) -> None:
        """Nothing can be asked, until the engine has loaded again."""
        self._keep(problem=problem)

    def changed(self) -> None:
        """The engine has loaded or ended, or a Mac is in another state."""
        self._keep(problem="" if self._link.loaded else self._status.problem)

    def _keep(self, **changes: Any) -> None:
        self._status = dataclasses.replace(self._status, ranks=self._link.ranks, **changes)
        write_json(self._file, dataclasses.asdict(self._status))


class Background:
    """The place of the one server in the background, for whoever is it, and for the others.

    Attribute: `log`, the file of what it prints.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or data_folder() / "cluster"
        self.log = self._folder / "log.txt"
        self._file = self._folder / "status.json"
        self._started: subprocess.Popen[bytes] | None = None

    @contextmanager
    def taken(self, link: EngineLink, *, hosts: str, target: str) -> Iterator["Told"]:
        """Be that server, with this engine; gives what is told of it. Raises `Problem` where there
        is one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._lock()
        try:
            lock.acquire(timeout=1.0)  # whoever looks holds it for a moment
        except Timeout:
            raise _running() from None
        told = Told(link, BackgroundStatus(os.getpid(), hosts, target), self._file)
        link.changed = link.ranks_changed = told.changed
        try:
            told.changed()
            yield told
        finally:
            self._file.unlink(missing_ok=True)
            lock.release()

    def status(self) -> BackgroundStatus | None:
        """What the server told last; None where there is none."""
        if not self._is_taken():
            return None
        with suppress(Problem, WrongJson):
            fields = read_json_object(self._file)
            return decode(BackgroundStatus, fields, place="status")
        return None

    def start(
        self, command: Sequence[str], *, changed: Callable[[BackgroundStatus], None]
    ) -> BackgroundStatus:
        """Start a server that takes this place, and wait until it can be asked; `changed` is told
        of what it says meanwhile. Raises `Problem` where it ends before; a Ctrl-C ends it."""
        if self._is_taken(seconds=1.0):  # one that ends holds the place a moment longer
            raise _running()
        if self._started is not None:
            self._started.wait()
        self._file.unlink(missing_ok=True)  # of one that was killed: its number may be another's
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.log.chmod(0o600)
            process = self._started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        told: BackgroundStatus | None = None
        try:
            while process.poll() is None:
                status = self.status()
                if status is not None and status.pid == process.pid and status != told:
                    told = status
                    changed(status)
                    if status.address:
                        return status
                time.sleep(_GLANCE_SECONDS)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        raise Problem(self._last_words(), f"All of it is in {self.log}.")

    def stop(self) -> bool:
        """End the server; returns whether there was one."""
        status = self.status()
        if status is None:
            return False
        until = time.monotonic() + _ENDING_SECONDS
        number = signal.SIGTERM
        while self._is_taken() and ((now := self.status()) is None or now.pid == status.pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(status.pid, number)
            if time.monotonic() > until:
                number = signal.SIGKILL
            time.sleep(_GLANCE_SECONDS)
        if self._started is not None:
            self._started.wait()
        return True

    def _lock(self) -> FileLock:
        return FileLock(self._folder / ".lock")

    def _is_taken(self, *, seconds: float = 0.0) -> bool:
        if not self._folder.is_dir():
            return False
        lock = self._lock()
        try:
            lock.acquire(timeout=seconds)
        except Timeout:
            return True
        lock.release()
        return False

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return said.removeprefix("slipstream: ") or "The server ended, and said nothing."


def _running() -> Problem:
    return Problem(
        "A server runs on several Macs already.",
        "slipstream cluster status says on which, slipstream cluster down ends it.",
    )
