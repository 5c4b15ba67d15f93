"""The options that put a target on several Macs, and what a command does with them in its own
process."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.cluster.states import RankState
from models.errors import Problem
from models.in_words import clean

if TYPE_CHECKING:
    from engine.process.macs import LedMacs
    from engine.process.protocol import Macs

Mode = Literal["auto", "pipeline", "tensor"]

HostsFile = Annotated[
    Path | None,
    typer.Option(
        "--hosts",
        metavar="FILE",
        help="The Macs that hold the target together: a hostfile of mlx.launch, as "
        "mlx.distributed_config writes it. Never run over Thunderbolt yet.",
    ),
]
TrustNetwork = Annotated[
    bool,
    typer.Option(
        "--trust-network",
        help="The Macs need not be joined by cables alone: everybody on their network is trusted. "
        "What they send has neither a password nor encryption.",
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode",
        help="Each of several Macs has some layers (pipeline: exactly the text of one Mac), or a "
        "part of every layer (tensor: equal up to rounding); auto takes what fits.",
    ),
]


def chosen_macs(hosts: Path | None, trust_network: bool, mode: Mode) -> "Macs":
    """Where a person wants the target. Raises `Problem`."""
    from engine.process.protocol import Macs

    if hosts is None:
        if trust_network or mode != "auto":
            raise Problem("No Macs are named.", "Give their file with --hosts.")
        return Macs()
    return Macs(str(hosts.expanduser().absolute()), trust_network, mode)


@contextmanager
def leading(
    macs: "Macs",
    changed: Callable[[tuple[RankState, ...]], None] = lambda ranks: None,
    lost: Callable[[Problem], None] = lambda problem: None,
) -> Iterator["LedMacs"]:
    """What loads a target on these Macs, which are left at the end. Where one of them is lost the
    process ends, with the line that names it and status 1; `lost` is told before."""
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
    """What MLX's ring prints of a lost connection is not said: one line of ours tells who it is."""
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
    """In whatever thread: the one that reads may never come back."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    print(f"\nslipstream: {clean(' '.join(str(problem).split()))}", file=sys.stderr, flush=True)
    os._exit(1)
