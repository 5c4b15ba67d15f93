"""A command whose own process leads several Macs: one that measures or checks them.

An answer is asked of a child process instead, which can be started again: see
`engine.cli.sessions`.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from engine.cluster.states import RankState
from models.errors import Problem
from models.in_words import clean

if TYPE_CHECKING:
    from engine.process.macs import LedMacs
    from engine.process.protocol import Macs


class Lost(Problem):
    """The engine ended before the answer did, mostly because one of several Macs was lost."""


@contextmanager
def leading(
    macs: "Macs",
    changed: Callable[[tuple[RankState, ...]], None] = lambda ranks: None,
    lost: Callable[[Problem], None] = lambda problem: None,
) -> Iterator["LedMacs"]:
    """Yields the loader of a target on these Macs, and leaves them at the end. If one of them is
    lost, `lost` is called, and this process ends with the line that names it and status 1."""
    from engine.process.macs import LedMacs

    def end(problem: Problem) -> None:
        with suppress(OSError, ValueError):  # nobody may listen any more
            lost(problem)
        _end(problem)

    led = LedMacs(lost=end, changed=changed)
    with _hushed() if macs.hosts else nullcontext():
        try:
            yield led
        except RuntimeError as error:  # MLX's, of the connection
            if led.cluster is None:
                raise
            end(led.cluster.why(error))
        finally:
            led.leave()


@contextmanager
def _hushed() -> Iterator[None]:
    """Hides what MLX's ring prints of a lost connection: a line of ours names the Mac."""
    errors, kept = sys.stderr, os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    with open(kept, "w", errors="backslashreplace", buffering=1) as sys.stderr:
        try:
            yield
        finally:
            sys.stderr.flush()
            sys.stderr = errors
            os.dup2(kept, 2)


def _end(problem: Problem) -> None:
    """End the process, from any thread: the one that reads may never come back."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        print(file=sys.stderr)
    say_problem(problem)
    os._exit(1)


def say_problem(problem: Problem) -> None:
    """Print it in one line on standard error. Some of it may come from a model's files."""
    line = clean(" ".join(str(problem).split()))
    with suppress(OSError):  # which may be full, too
        print(f"slipstream: {line}", file=sys.stderr, flush=True)
