"""Being asked to stop, from another thread: a flag that long work looks at between blocks.

What sits in a request that nobody answers looks at nothing: such work is done apart, and left.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future


class Stopped(Exception):
    """The work was asked to stop. What it has done is kept, and the next attempt goes on there."""


class Stop:
    """Says when to stop, to any number of threads."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ask(self) -> None:
        self._event.set()

    def asked(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raises Stopped if that was asked for."""
        if self.asked():
            raise Stopped

    def pause(self, seconds: float) -> None:
        """Wait so long. Raises Stopped at once when that is asked for."""
        if self._event.wait(seconds):
            raise Stopped


def apart[T](work: Callable[[], T], *, name: str) -> Future[T]:
    """`work`, begun in a thread of its own. Whoever waits for it may leave, and the process end."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
