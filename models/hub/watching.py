"""Fetching from a repository of the hub in threads: how far they are, and how they are stopped."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.hub.client import Hub
from models.hub.repository import Repository, RepositoryFile
from models.hub.stopping import Stop, Stopped
from models.hub.transfer import transfer
from models.records import Download

LOOK_SECONDS = 0.1
WINDOW_SECONDS = 10.0  # over which a rate is taken


@dataclass
class Work:
    """A fetch from a repository, as its threads share it.

    `done`: the bytes that have come of each partial file; `total_bytes`: of all, once it is known.
    `progress` and `cancelled` are called a few times a second, in the thread that watches.
    """

    repository: Repository
    hub: Hub
    progress: Callable[[Download], None] | None = None
    cancelled: Callable[[], bool] | None = None
    wait_seconds: float = 1.0  # the first pause after a failure
    stop: Stop = field(default_factory=Stop)
    done: dict[str, int] = field(default_factory=dict)
    total_bytes: int = 0

    def bring(self, file: RepositoryFile, partial: Path, *, part: range | None = None) -> None:
        """Complete a partial file as `transfer` does. Raises Problem, Stopped, OSError."""
        transfer(
            self.hub.source(self.repository, file),
            partial,
            stop=self.stop,
            came=lambda size_bytes: self.done.update({partial.name: size_bytes}),
            wait_seconds=self.wait_seconds,
            part=part,
        )
        self.done[partial.name] = partial.stat().st_size

    def watch(self, *workers: Future[Any]) -> None:
        """Wait until the workers have ended; the first failure stops the others soon. Raises what a
        worker raised, and Stopped once `cancelled` returns true."""
        meter, waiting = Meter(), set(workers)
        try:
            while waiting:
                ended, waiting = wait(waiting, LOOK_SECONDS, FIRST_EXCEPTION)
                for worker in ended:
                    worker.result()
                done = sum(self.done.values())
                if self.total_bytes:  # else bytes received before are not counted yet
                    meter.tell(time.monotonic(), done)
                if self.progress is not None:
                    left = meter.seconds_left(self.total_bytes - done)
                    rate = meter.bytes_per_second
                    name, revision = self.repository.name, self.repository.revision
                    self.progress(
                        Download(name, revision, "running", done, self.total_bytes, rate, left)
                    )
                if waiting and self.cancelled is not None and self.cancelled():
                    raise Stopped
        finally:
            self.stop.ask()  # none is left where all went well
            wait(workers)


class Meter:
    """The rate of a download over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def tell(self, now_seconds: float, done_bytes: int) -> None:
        """Report `done_bytes` at `now_seconds`. If they are fewer than before, counting starts
        again."""
        if self._seen and done_bytes < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now_seconds, done_bytes))
        while len(self._seen) > 2 and self._seen[1][0] <= now_seconds - WINDOW_SECONDS:
            self._seen.popleft()

    @property
    def bytes_per_second(self) -> float:
        """The rate; 0 until there were two reports."""
        if len(self._seen) < 2:
            return 0.0
        (first_seconds, first), (last_seconds, last) = self._seen[0], self._seen[-1]
        passed = last_seconds - first_seconds
        return (last - first) / passed if passed > 0 else 0.0

    def seconds_left(self, remaining_bytes: int) -> float | None:
        """Return the seconds for `remaining_bytes` at this rate; None while nothing is received."""
        rate = self.bytes_per_second
        return remaining_bytes / rate if rate > 0 else None
