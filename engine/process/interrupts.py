"""Ctrl-C and other requests to end, noted while work goes on until it can stop.

Knows signals and standard input; nothing of the work, which asks now and then. Handlers are set for
a block of work in the main thread. The host (`engine.process.host`) and the window
(`app.housekeeping`) set theirs once, for the life of their process.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from types import FrameType


class Interrupted(Exception):
    """The work was asked to end."""


class Interruption:
    """Whether the work is asked to end. `signal`: the number of the signal that came, or 0."""

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self) -> bool:
        return self.signal != 0

    def check(self) -> None:
        """Raise `Interrupted` if the work is asked to end."""
        if self():
            raise Interrupted


@contextmanager
def noting(*signals: int, once: bool = False) -> Iterator[Interruption]:
    """Note these signals inside the block, in place of their usual effect.

    With `once` only the first signal is noted; the next has its usual effect. For the main thread.
    """
    interruption = Interruption()
    before = {number: signal.getsignal(number) for number in signals}

    def note(number: int, frame: FrameType | None) -> None:
        interruption.signal = number
        if once:
            restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in signals:
        signal.signal(number, note)
    try:
        yield interruption
    finally:
        restore()


@contextmanager
def stoppable(*, with_parent: bool = False) -> Iterator[Interruption]:
    """Note the first SIGINT or SIGTERM inside the block; a second one ends the process as usual.

    `with_parent`: the end of standard input counts as SIGTERM. For the main thread.
    """
    with noting(signal.SIGINT, signal.SIGTERM, once=True) as interruption:
        if with_parent:
            end_with_parent()
        yield interruption


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A Ctrl-C (SIGINT) during the block becomes a KeyboardInterrupt at its end."""
    if current_thread() is not main_thread():  # which alone is interrupted
        yield
        return
    with noting(signal.SIGINT) as interruption:
        yield
    if interruption():
        raise KeyboardInterrupt


def end_with_parent() -> None:
    """From now on, the end of standard input counts as SIGTERM: a killed parent ends it, too."""

    def wait() -> None:
        while os.read(0, 1 << 12):  # not sys.stdin: its lock would be held when the process ends
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, daemon=True).start()
