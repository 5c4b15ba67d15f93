"""When work is to end: Ctrl-C, a request to end, or the end of whoever started it.

Knows signals and standard input; nothing of the work, which asks now and then.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from types import FrameType


class Ended(Exception):
    """The work was asked to end."""


class Ending:
    """Whether to end, and why. `signal` is the one that came, 0 where none did."""

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self) -> bool:
        return self.signal != 0

    def check(self) -> None:
        """Raises `Ended` where the work is to end."""
        if self():
            raise Ended


@contextmanager
def endable(*, with_parent: bool = False) -> Iterator[Ending]:
    """Turns SIGINT and SIGTERM into an `Ending`; a second one ends the process as ever.

    `with_parent`: the end of standard input counts as SIGTERM. For the main thread.
    """
    ending = Ending()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def note(number: int, frame: FrameType | None) -> None:
        ending.signal = number
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in numbers:
        signal.signal(number, note)
    if with_parent:
        Thread(target=_end_with_parent, daemon=True).start()
    try:
        yield ending
    finally:
        restore()


def _end_with_parent() -> None:
    while os.read(0, 1 << 12):  # not sys.stdin: its lock would be held when the process ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
