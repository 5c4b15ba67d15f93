"""Being asked to stop, from another thread: a flag that long work looks at between blocks."""

import threading


class Stopped(Exception):
    """The work was asked to stop. What it has done is kept, and the next attempt goes on there."""


class Stop:
    """Says when to stop, to any number of threads."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ask(self) -> None:
        self._event.set()

    def check(self) -> None:
        """Raises Stopped if that was asked for."""
        if self._event.is_set():
            raise Stopped

    def pause(self, seconds: float) -> None:
        """Wait so long. Raises Stopped at once when that is asked for."""
        if self._event.wait(seconds):
            raise Stopped
