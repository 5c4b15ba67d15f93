"""Watches the threads that fetch from the hub: tells how far they are, and stops them."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait

from models.hub.repository import Repository
from models.hub.stopping import Stop, Stopped
from models.records import Download

LOOK_SECONDS = 0.1
WINDOW_SECONDS = 10.0  # over which a rate is taken


def watch(
    workers: Sequence[Future[None]],
    repository: Repository,
    *,
    stop: Stop,
    bytes_of: Callable[[], tuple[int, int]],
    progress: Callable[[Download], None] | None,
    cancelled: Callable[[], bool] | None,
) -> None:
    """Wait until the `workers` have brought all of `repository`. The first failure stops them.

    They end soon after `stop`. `bytes_of()` returns the bytes that have come, and all bytes.
    `progress` and `cancelled` are called a few times a second, in this thread. Raises what a worker
    raised, and Stopped once `cancelled` returns true.
    """
    meter, waiting = Meter(), set(workers)
    try:
        while waiting:
            ended, waiting = wait(waiting, LOOK_SECONDS, FIRST_EXCEPTION)
            for worker in ended:
                worker.result()
            if progress is not None:
                progress(_report(repository, meter, *bytes_of()))
            if waiting and cancelled is not None and cancelled():
                raise Stopped
    finally:
        stop.ask()  # none is left where all went well
        wait(workers)


def _report(repository: Repository, meter: "Meter", done: int, total_bytes: int) -> Download:
    meter.tell(time.monotonic(), done)
    return Download(
        repository=repository.name,
        revision=repository.revision,
        status="running",
        done_bytes=done,
        total_bytes=total_bytes,
        bytes_per_second=meter.bytes_per_second,
        seconds_left=meter.seconds_left(total_bytes - done),
    )


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
