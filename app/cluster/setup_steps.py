"""The steps after which several Macs hold a target. Values, no widget."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.cluster.states import RankState
from models.errors import Problem

Progress = Literal["done", "now", "later"]

_STEPS = (
    (
        "Name the Macs",
        "Choose a hostfile, or make one. It lists this Mac first, then the others, each with its "
        "address on the cable between them.",
    ),
    (
        "Let this Mac start Slipstream on the others",
        "On each other Mac, install Slipstream in the same folder as here, and switch on Remote "
        "Login (System Settings, General, Sharing). Then let this Mac in without a password: "
        "ssh-copy-id MAC in Terminal.",
    ),
    (
        "Join them",
        "A Thunderbolt cable between each Mac and the next, the same version of Slipstream on all, "
        "and the addresses in the hostfile set up on them. Never run over Thunderbolt yet.",
    ),
    (
        "Load the model on them",
        "The folder of the model is on the disk of each Mac, and the switch above is on.",
    ),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the setup. `finding` is the problem that was found there, if any."""

    title: str
    how: str
    progress: Progress
    finding: Problem | None = None


def steps_of(
    *, named: bool, ranks: Sequence[RankState], joined: bool, loaded: bool, finding: Problem | None
) -> tuple[Step, ...]:
    """Return all steps. The finding belongs to the first step that is not done."""
    reached = bool(ranks) and all(rank.chip for rank in ranks)
    done = [named or loaded, reached or joined or loaded, joined or loaded, loaded]
    now = done.index(False) if False in done else len(done)
    return tuple(
        Step(
            title,
            how,
            "done" if place < now else "now" if place == now else "later",
            finding if place == now else None,
        )
        for place, (title, how) in enumerate(_STEPS)
    )
