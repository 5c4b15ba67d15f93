"""Stopping work that runs in other threads: a flag that long work checks between blocks.

Work that may block in a request without end runs in a thread of its own, which can be abandoned.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future


class Stopped(Exception):
    """The work was stopped. Its results are kept, and the next attempt resumes."""


class Stop:
    """A request to stop, shared by any number of threads."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ask(self) -> None:
        self._event.set()

    def asked(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raises Stopped after `ask`."""
        if self.asked():
            raise Stopped

    def pause(self, seconds: float) -> None:
        """Wait. Raises Stopped at once after `ask`."""
        if self._event.wait(seconds):
            raise Stopped


def apart[T](work: Callable[[], T], *, name: str) -> Future[T]:
    """Start `work` in a daemon thread, which does not keep the process from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
